/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/docker/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"

/* A container costs the host a shim of the engine's and a keeper of ours: some 15 MB. */
enum { SPARES_EACH = 2, SPARES_ALL = 8, CLASSES_MAX = 8 };

#define IDLE_NS  (300 * NS_PER_SEC) /* a shape that nobody asked for is not kept longer */
#define RETRY_NS (10 * NS_PER_SEC)  /* where the engine can't make one */

/* A shape that is asked for. */
struct pool_class {
    struct shape shape;
    int64_t used_ns; /* 0: the slot is free */
    int64_t retry_ns;
};

struct spare {
    struct spare *next;
    struct shape shape;
    pid_t pid;
    int fd;
    bool is_ready;
};

struct pool {
    const struct backend_host *host;
    int epoll_fd;
    int wake_fd; /* an eventfd: somebody has taken one, or found none */
    uint32_t each, all;
    struct pool_class classes[CLASSES_MAX];
    struct spare *spares;
    struct spare *zombies; /* their keepers remove their containers, and have to be reaped */
};

static bool has_same_limits(const struct shape *a, const struct shape *b)
{
    return memcmp(&a->limits, &b->limits, sizeof a->limits) == 0;
}

/* Limits can be changed as a rule, the rest can't. */
static bool is_same(const struct shape *a, const struct shape *b)
{
    return strcmp(a->image, b->image) == 0 && strcmp(a->runtime, b->runtime) == 0 &&
           a->disk_bytes == b->disk_bytes && a->inodes == b->inodes &&
           a->has_workspace == b->has_workspace && (!shape_is_fixed(a) || has_same_limits(a, b));
}

static struct pool *make(const struct backend_host *host, const struct pool_options *options)
{
    if (options->spares == 0)
        return NULL;
    struct pool *pool = mem_alloc(sizeof *pool);
    pool->host = host;
    pool->each = MIN(options->spares, SPARES_EACH);
    pool->all = MIN(options->spares_max, SPARES_ALL);
    pool->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    pool->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = { .events = EPOLLIN };
    epoll_ctl(pool->epoll_fd, EPOLL_CTL_ADD, pool->wake_fd, &event);
    return pool;
}

static int fd_of(const struct pool *pool)
{
    return pool->epoll_fd;
}

/* Its keeper sees the end of its socket and removes the container. */
static void drop(struct pool *pool, struct spare **link)
{
    struct spare *spare = *link;

    *link = spare->next;
    close_fd(&spare->fd);
    spare->next = pool->zombies;
    pool->zombies = spare;
}

static void reap(struct pool *pool, int flags)
{
    for (struct spare **link = &pool->zombies; *link;) {
        struct spare *spare = *link;
        if (waitpid(spare->pid, NULL, flags) == 0) {
            link = &spare->next;
            continue;
        }
        *link = spare->next;
        free(spare);
    }
}

/* Nothing is left when the server has ended. */
static void free_pool(struct pool *pool)
{
    while (pool->spares)
        drop(pool, &pool->spares);
    reap(pool, 0);
    close_fd(&pool->wake_fd);
    close_fd(&pool->epoll_fd);
    free(pool);
}

/* ---- what is asked for ----------------------------------------------------------------------
 */

static struct pool_class *note_class(struct pool *pool, const struct shape *shape)
{
    struct pool_class *oldest = &pool->classes[0];

    for (struct pool_class *class = pool->classes; class < pool->classes + CLASSES_MAX; class ++) {
        if (class->used_ns && is_same(&class->shape, shape)) {
            class->used_ns = clock_now_ns();
            class->shape = *shape; /* the limits of the last one are the likeliest of the next */
            return class;
        }
        if (class->used_ns < oldest->used_ns)
            oldest = class;
    }
    *oldest = (struct pool_class){ .shape = *shape, .used_ns = clock_now_ns() };
    return oldest;
}

static bool is_fit(const struct spare *spare, const struct shape *shape)
{
    return spare->is_ready && is_same(&spare->shape, shape);
}

/* One that needs no change of its limits, else any. */
static struct spare **find(struct pool *pool, const struct shape *shape)
{
    struct spare **any = NULL;

    for (struct spare **link = &pool->spares; *link; link = &(*link)->next) {
        if (!is_fit(*link, shape))
            continue;
        if (has_same_limits(&(*link)->shape, shape))
            return link;
        any = link;
    }
    return any;
}

static bool has_folders(const struct sandbox_spec *spec)
{
    for (int i = 1; i < SANDBOX_FOLDERS; i++)
        if (spec->folder_fds[i] >= 0)
            return true;
    return false;
}

int docker_pool_take(struct pool *pool, const struct shape *shape, const struct sandbox_spec *spec,
                     pid_t *ret_pid)
{
    /* Folders need places of their own in the container; a fresh start asks for a fresh one. */
    if (!pool || has_folders(spec) || spec->start == START_COLD)
        return -1;
    note_class(pool, shape);
    eventfd_write(pool->wake_fd, 1);
    struct spare **link = find(pool, shape);
    if (!link)
        return -1;
    struct spare *spare = *link;
    epoll_ctl(pool->epoll_fd, EPOLL_CTL_DEL, spare->fd, NULL);
    int fd = take_fd(&spare->fd);
    *ret_pid = spare->pid;
    *link = spare->next;
    free(spare);
    return fd;
}

/* ---- making them ------------------------------------------------------------------------------
 */

static struct pool_class *class_of(struct pool *pool, const struct shape *shape)
{
    for (struct pool_class *class = pool->classes; class < pool->classes + CLASSES_MAX; class ++)
        if (class->used_ns && is_same(&class->shape, shape))
            return class;
    return NULL;
}

/* What a spare says: it is ready, or could not be made, or is gone. */
static void take_report(struct pool *pool, struct spare **link)
{
    struct spare *spare = *link;
    struct report report;
    int rc = backend_recv(spare->fd, &report, sizeof report);

    if (rc == 0)
        return;
    if (rc > 0 && report.kind == REPORT_OPENED) {
        spare->is_ready = true;
        return;
    }
    struct pool_class *class = class_of(pool, &spare->shape);
    if (class)
        class->retry_ns = clock_now_ns() + RETRY_NS;
    drop(pool, link);
}

static void take_reports(struct pool *pool)
{
    struct epoll_event events[16];
    int n = epoll_wait(pool->epoll_fd, events, ARRAY_LEN(events), 0);

    for (int i = 0; i < n; i++)
        for (struct spare **link = &pool->spares; *link; link = &(*link)->next)
            if (*link == events[i].data.ptr) {
                take_report(pool, link);
                break;
            }
}

static void make_one(struct pool *pool, struct pool_class *class)
{
    struct cay_error err;
    struct spare *spare = mem_alloc(sizeof *spare);

    spare->shape = class->shape;
    spare->fd = docker_fork_keeper(pool->host, &class->shape, NULL, &spare->pid, &err);
    if (spare->fd < 0) {
        class->retry_ns = clock_now_ns() + RETRY_NS;
        free(spare);
        return;
    }
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = spare };
    epoll_ctl(pool->epoll_fd, EPOLL_CTL_ADD, spare->fd, &event);
    spare->next = pool->spares;
    pool->spares = spare;
}

static unsigned count(const struct pool *pool, const struct shape *shape, unsigned *ret_making)
{
    unsigned n = 0;

    for (const struct spare *spare = pool->spares; spare; spare = spare->next) {
        *ret_making += !spare->is_ready;
        n += !shape || is_same(&spare->shape, shape);
    }
    return n;
}

/* Those of shapes that nobody asked for any more. */
static void drop_idle(struct pool *pool, int64_t now)
{
    for (struct pool_class *class = pool->classes; class < pool->classes + CLASSES_MAX; class ++)
        if (class->used_ns && now - class->used_ns > IDLE_NS)
            class->used_ns = 0;
    for (struct spare **link = &pool->spares; *link;)
        if (!class_of(pool, &(*link)->shape))
            drop(pool, link);
        else
            link = &(*link)->next;
}

static bool has_classes(const struct pool *pool)
{
    for (const struct pool_class *class = pool->classes; class < pool->classes + CLASSES_MAX;
         class ++)
        if (class->used_ns)
            return true;
    return false;
}

/* One at a time: making them takes the engine's time from those who wait for it. */
static int64_t serve(struct pool *pool)
{
    int64_t now = clock_now_ns(), next = INT64_MAX;
    unsigned making = 0;
    eventfd_t ignored_wakes;

    eventfd_read(pool->wake_fd, &ignored_wakes);
    if (!has_classes(pool) && !pool->spares && !pool->zombies)
        return INT64_MAX;
    take_reports(pool);
    drop_idle(pool, now);
    reap(pool, WNOHANG);
    if (pool->zombies)
        next = now + NS_PER_SEC;
    unsigned all = count(pool, NULL, &making);
    for (struct pool_class *class = pool->classes; class < pool->classes + CLASSES_MAX; class ++) {
        unsigned ignored = 0;
        if (!class->used_ns)
            continue;
        next = MIN(next, class->used_ns + IDLE_NS + NS_PER_SEC);
        if (making > 0 || all >= pool->all || count(pool, &class->shape, &ignored) >= pool->each)
            continue;
        if (class->retry_ns > now) {
            next = MIN(next, class->retry_ns);
            continue;
        }
        make_one(pool, class);
        making++;
        all++;
    }
    return next;
}

static void stats(const struct pool *pool, struct pool_stats *ret)
{
    unsigned making = 0, all = count(pool, NULL, &making);

    *ret = (struct pool_stats){ 0 };
    ret->classes[POOL_LANGUAGES].ready = (uint16_t)(all - making);
    ret->classes[POOL_LANGUAGES].making = (uint16_t)making;
}

const struct backend_pool docker_pool = { make, fd_of, serve, stats, free_pool };

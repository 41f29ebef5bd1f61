/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/prewarm/pool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/native/prewarm/pool-files.h"
#include "backends/native/prewarm/pool-state.h"
#include "backends/native/prewarm/spare-fit.h"
#include "backends/native/prewarm/zygote-host.h"
#include "base/auto.h"
#include "base/clock.h"
#include "core/language.h"
#include "core/layer.h"
#include "sys/heap.h"
#include "sys/rlimit.h"

/* A class that nobody asked for in this time keeps no more than what is wanted at least. */
#define SHRINK_NS    (5 * NS_PER_SEC)
#define QUIET_NS     (3 * NS_PER_MSEC)
#define RENEW_NS     (600 * NS_PER_SEC)
#define BACKOFF_NS   (NS_PER_SEC / 2)
#define BACKOFF_MOST 7 /* doublings */

/* A spare that is not ready by then never will be: its runtime hangs. */
#define MAKE_NS (30 * NS_PER_SEC)

enum { RENEW_AFTER = 1000, FAILURES_MAX = 4 };

/* ---- lists ---- */

static void push(struct native **list, struct native *native)
{
    native->next = *list;
    *list = native;
}

static void unlink_from(struct native **list, const struct native *native)
{
    while (*list != native)
        list = &(*list)->next;
    *list = native->next;
}

/* What woke us up: a spare, or with the lowest bit set the zygote of a class. */
static void watch(const struct pool *pool, int fd, uint64_t who)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = who };
    epoll_ctl(pool->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void unwatch(const struct pool *pool, int fd)
{
    if (fd >= 0)
        epoll_ctl(pool->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static struct pool_class *class_of(struct pool *pool, int32_t language)
{
    if (language >= POOL_LANGUAGES)
        return NULL;
    return &pool->classes[language < 0 ? COMMANDS : language];
}

/* ---- the end of spares ---- */

static void drop_spare(struct pool *pool, struct pool_class *class, struct native *native)
{
    unlink_from(&class->spares, native);
    class->n[native->state]--;
    pool->memory_bytes -= native->spare_bytes;
    unwatch(pool, native->base.fds[FD_CTL]);
    backend_native.close(&native->base);
    push(&pool->zombies, native);
    pool->n_zombies++;
}

static void reap_spare(struct pool *pool, struct native *native)
{
    if (!native_reap(native, WNOHANG))
        return;
    unlink_from(&pool->zombies, native);
    pool->n_zombies--;
    unwatch(pool, native->base.fds[FD_PID]);
    backend_native.release(&native->base);
}

static void fail_class(struct pool_class *class)
{
    class->failures++;
    class->failed++;
    /* A runtime that does not come up ahead is started with its run, as it would be alone. */
    if (class->kind == SPARE_WARM && class->failures > FAILURES_MAX)
        class->kind = SPARE_EXEC;
    class->not_before_ns =
        clock_now_ns() + (BACKOFF_NS << MIN(class->failures, (unsigned)BACKOFF_MOST));
}

/* ---- zygotes ---- */

static uint64_t zygote_mark(const struct pool *pool, const struct pool_class *class)
{
    return ((uint64_t)(class - pool->classes) << 1) | 1;
}

static struct zygote *start_zygote(struct pool *pool, struct pool_class *class)
{
    const struct language *language;
    struct cay_error err;
    struct zygote *zygote = NULL;

    if (language_at(&pool->arena, class->language, &language, &err) == 0)
        zygote = zygote_start(pool->options, language, class->language);
    if (zygote)
        watch(pool, zygote->fd, zygote_mark(pool, class));
    return zygote;
}

static void end_zygote(struct pool *pool, struct zygote **zygote)
{
    if (!*zygote)
        return;
    unwatch(pool, (*zygote)->fd);
    zygote_end(*zygote);
    *zygote = NULL;
}

/* The runs of one zygote share where things lie in memory, and the seed of hashes: from time to
 * time there is a new one, which is made ready beside the old. */
static void renew_zygote(struct pool *pool, struct pool_class *class, int64_t now)
{
    struct zygote *old = class->zygote;

    if (!old || !old->is_up)
        return;
    if (class->replacement && class->replacement->is_up && old->n_orders == 0) {
        end_zygote(pool, &class->zygote);
        class->zygote = class->replacement;
        class->replacement = NULL;
    } else if (!class->replacement &&
               (old->n_made >= RENEW_AFTER || now >= old->started_ns + RENEW_NS)) {
        class->replacement = start_zygote(pool, class);
        if (!class->replacement)
            old->started_ns = now; /* tried again after as long */
    }
}

/* Without one, what is made ahead is all but the interpreter. */
static void lose_zygote(struct pool *pool, struct pool_class *class)
{
    end_zygote(pool, &class->zygote);
    fail_class(class);
    if (class->failures > FAILURES_MAX)
        class->kind = SPARE_EXEC;
    for (struct native *native = class->spares, *next; native; native = next) {
        next = native->next;
        if (native->state == SPARE_STATE_MAKING)
            drop_spare(pool, class, native);
    }
}

static void have_zygote(struct pool *pool, struct pool_class *class)
{
    if (class->zygote || class->kind != SPARE_FORK)
        return;
    class->zygote = start_zygote(pool, class);
    if (!class->zygote)
        fail_class(class);
}

static void on_zygote(struct pool *pool, struct pool_class *class)
{
    if (class->zygote && zygote_listen(class->zygote) < 0)
        lose_zygote(pool, class);
    if (class->replacement && zygote_listen(class->replacement) < 0) {
        end_zygote(pool, &class->replacement);
        if (class->zygote) {
            class->zygote->started_ns = clock_now_ns(); /* tried again after as long */
            class->zygote->n_made = 0;
        }
    }
}

/* ---- making ---- */

static void begin_class(struct pool *pool, struct pool_class *class, int32_t language)
{
    const struct language *found;
    struct cay_error err;

    if (class->is_used)
        return;
    class->is_used = true;
    pool->n_used++;
    class->language = language;
    class->target = pool_bound_target(pool, pool->options->spares);
    class->kind = SPARE_EXEC;
    if (language < 0 || language_at(&pool->arena, language, &found, &err) < 0)
        return;
    if (zygote_is_there(pool->options, found))
        class->kind = SPARE_FORK;
    else if (warm_is_there(pool->options, found))
        class->kind = SPARE_WARM;
}

/* The first half is the pool's, so that a sweeper who has found one of many alive need not look at
 * the others. */
static void make_name(const struct pool *pool, char name[33])
{
    uint64_t random = 0;

    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        random = (uint64_t)clock_now_ns();
    snprintf(name, 33, "%016" PRIx64 "%016" PRIx64, pool->number, random);
}

/* What pid 1 and its program-to-be need. *ret_fd: for whoever makes that; else -1. */
static int make_ends(struct pool *pool, const struct pool_class *class,
                     const struct cay_limits *limits, struct arena *arena,
                     struct spare_child *spare, int *ret_fd)
{
    const struct language *language;
    struct cay_error err;
    int pair[2];

    *ret_fd = -1;
    spare->heap = pool->heap;
    if (class->kind == SPARE_WARM)
        return language_at(arena, class->language, &language, &err) < 0
                   ? -1
                   : warm_make(arena, pool->options, language, limits, &spare->warm, &err);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    spare->program_fd = pair[0];
    *(class->kind == SPARE_EXEC ? &spare->exec_fd : ret_fd) = pair[1];
    return 0;
}

/* Without an exec, but with limits. */
static struct native *make_empty(struct pool *pool, struct pool_class *class,
                                 const struct cay_limits *limits, uint32_t require)
{
    struct sandbox_spec spec = {
        .language = class->language,
        .require = require,
        .limits = *limits,
        .payload_fd = -1,
    };
    struct arena arena = { 0 };
    struct spare_child spare;
    struct native *native = NULL;
    struct cay_error err;
    int zygotes_fd;

    make_name(pool, spec.id);
    for (int i = 0; i < SANDBOX_FOLDERS; i++)
        spec.folder_fds[i] = -1;
    spare_child_init(&spare, class->kind);
    if (make_ends(pool, class, limits, &arena, &spare, &zygotes_fd) == 0)
        native = native_make(pool->host, &spec, &spare.base, &err);
    if (native) {
        native->spare = class->kind;
        native->program_fd = take_fd(&zygotes_fd);
        native->class = (unsigned)(class - pool->classes);
    }
    close_fd(&zygotes_fd);
    for (int i = 0; i < CHILD_AHEAD_FDS; i++)
        close_fd(spare.base.fds[i]); /* pid 1 has them */
    arena_done(&arena);
    return native;
}

static void make_spare(struct pool *pool, struct pool_class *class)
{
    struct native *native = make_empty(pool, class, pool->options->limits, 0);

    if (!native) {
        fail_class(class);
        return;
    }
    native->late_ns = clock_now_ns() + MAKE_NS;
    push(&class->spares, native);
    class->n[SPARE_STATE_MAKING]++;
    watch(pool, native->base.fds[FD_CTL], (uint64_t)(uintptr_t)native);
    watch(pool, native->base.fds[FD_PID], (uint64_t)(uintptr_t)native);
}

static void on_ready(struct pool *pool, struct pool_class *class, struct native *native,
                     const struct child_report *from)
{
    class->n[native->state]--;
    native->state = SPARE_STATE_READY;
    class->n[SPARE_STATE_READY]++;
    native->layers |= from->layers;
    class->failures = 0;
    native->spare_bytes = cgroup_memory(&native->cgroup);
    pool->memory_bytes += native->spare_bytes;
}

/* A run that has just begun is not to wait for what is made for the next: not while there is more,
 * and for the moment that it takes when the last one was taken. */
static int64_t quiet_until(const struct pool *pool, const struct pool_class *class)
{
    return (class->n[SPARE_STATE_READY] == 0 ? class->emptied_ns : pool->taken_ns) + QUIET_NS;
}

int pool_order(struct pool *pool, struct native *native)
{
    struct zygote *zygote = pool->classes[native->class].zygote;

    return zygote ? zygote_order_one(zygote, native) : -ESRCH;
}

/* The sandbox stands, and a program is to be forked into it. */
static void on_made(struct pool *pool, struct pool_class *class, struct native *native)
{
    if (pool_order(pool, native) < 0)
        drop_spare(pool, class, native);
}

static void on_spare(struct pool *pool, struct native *native)
{
    struct pool_class *class = &pool->classes[native->class];
    struct child_report from;
    ssize_t n = native->is_killed ? 0 : native_recv(native, &from);

    if (native->is_killed) {
        reap_spare(pool, native);
        return;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == (ssize_t)sizeof from && from.kind == CHILD_READY && from.value) {
        on_ready(pool, class, native, &from);
        return;
    }
    if (n == (ssize_t)sizeof from && from.kind == CHILD_MADE) {
        on_made(pool, class, native);
        return;
    }
    fail_class(class);
    drop_spare(pool, class, native);
}

static void drop_late(struct pool *pool, struct pool_class *class, int64_t now)
{
    for (struct native *native = class->spares, *next; native; native = next) {
        next = native->next;
        if (native->state != SPARE_STATE_MAKING || now < native->late_ns)
            continue;
        fail_class(class);
        drop_spare(pool, class, native);
    }
}

/* Doubled when one was missed, a little less each time that half would have done. */
static void look_at_target(struct pool *pool, struct pool_class *class, int64_t now)
{
    if (now < class->look_ns)
        return;
    if (class->taken_lately < class->target / 2)
        class->target = MAX(class->target - MAX(class->target / 4, 1U), pool->options->spares);
    class->target = pool_bound_target(pool, class->target);
    class->taken_lately = 0;
    class->look_ns = now + SHRINK_NS;
    drop_late(pool, class, now);
    for (struct native *native = class->spares, *next;
         native && class->n[SPARE_STATE_READY] > class->target; native = next) {
        next = native->next;
        if (native->state == SPARE_STATE_READY)
            drop_spare(pool, class, native);
    }
}

/* Returns when it has something to do. */
static int64_t serve_class(struct pool *pool, struct pool_class *class, int64_t now, bool *made)
{
    if (!class->is_used)
        return INT64_MAX;
    look_at_target(pool, class, now);
    if (now < class->not_before_ns)
        return MIN(class->not_before_ns, class->look_ns);
    have_zygote(pool, class);
    renew_zygote(pool, class, now);
    if (class->kind == SPARE_FORK && (!class->zygote || !class->zygote->is_up))
        return class->look_ns; /* it says when it is */
    int64_t quiet_ns = quiet_until(pool, class);
    if (now < quiet_ns)
        return quiet_ns;
    if (class->n[SPARE_STATE_READY] + class->n[SPARE_STATE_MAKING] >= class->target ||
        !pool_has_room(pool))
        return class->look_ns;
    if (*made)
        return now;
    make_spare(pool, class);
    *made = true;
    return now;
}

static void take_in(struct pool *pool)
{
    struct epoll_event list[32];
    int n = epoll_wait(pool->epoll_fd, list, ARRAY_LEN(list), 0);

    for (int i = 0; i < n; i++) {
        uint64_t who = list[i].data.u64;
        if (who & 1) {
            on_zygote(pool, &pool->classes[who >> 1]);
        } else {
            on_spare(pool, (struct native *)(uintptr_t)who);
            return; /* it may be gone, and be in the list twice */
        }
    }
}

int64_t pool_serve(struct pool *pool)
{
    int64_t now = clock_now_ns(), next = INT64_MAX;
    bool made = false;

    take_in(pool);
    for (unsigned i = 0; i < POOL_CLASSES; i++) {
        struct pool_class *class = &pool->classes[(pool->next + i) % POOL_CLASSES];
        next = MIN(next, serve_class(pool, class, now, &made));
    }
    pool->next = (pool->next + 1) % POOL_CLASSES;
    return next;
}

/* ---- taking ---- */

static struct native *find(const struct pool_class *class, const struct sandbox_spec *spec)
{
    for (struct native *native = class->spares; native; native = native->next)
        if (native->state == SPARE_STATE_READY && spare_fits(native, spec))
            return native;
    return NULL;
}

/* Starting an interpreter takes far longer than a sandbox for one that is there: where none is ready,
 * one is made now, and its first exec waits in pid 1's socket meanwhile. */
static struct native *make_now(struct pool *pool, struct pool_class *class,
                               const struct sandbox_spec *spec)
{
    if (class->kind != SPARE_FORK || !class->zygote || !class->zygote->is_up ||
        spec->start < START_WARM)
        return NULL;
    struct native *native = make_empty(pool, class, &spec->limits, spec->require);
    if (!native)
        return NULL;
    native->start_kind = START_FORK;
    class->taken++;
    return native;
}

struct native *pool_take(struct pool *pool, const struct sandbox_spec *spec)
{
    struct pool_class *class = class_of(pool, spec->language);

    if (!class || !spare_may_serve(spec))
        return NULL;
    begin_class(pool, class, spec->language);
    class->taken_lately++;
    struct native *native = find(class, spec);
    if (!native) {
        class->missed++;
        class->target = pool_bound_target(pool, class->target * 2);
        return make_now(pool, class, spec);
    }
    native->start_kind = native->spare == SPARE_EXEC ? START_SPARE : START_WARM;
    unlink_from(&class->spares, native);
    class->n[native->state]--;
    class->taken++;
    pool->taken_ns = clock_now_ns();
    if (class->n[SPARE_STATE_READY] == 0)
        class->emptied_ns = pool->taken_ns;
    pool->memory_bytes -= native->spare_bytes;
    unwatch(pool, native->base.fds[FD_CTL]);
    unwatch(pool, native->base.fds[FD_PID]);
    return native;
}

/* ---- the pool ---- */

struct pool *pool_new(const struct backend_host *host, const struct pool_options *options)
{
    struct pool *pool = mem_alloc(sizeof *pool);

    pool->host = host;
    pool->options = options;
    pool->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    /* The warden raises its limit as far as it may. */
    struct rlimit files = { 0 };
    getrlimit(RLIMIT_NOFILE, &files);
    pool->files_max = pool_files_max(files.rlim_max);
    pool->uids = identity_count();
    /* Where no cgroup bounds a sandbox, none is made before it is known what for. */
    if (pool->epoll_fd < 0 || host->cgroups->version == 0) {
        pool_free(pool);
        return NULL;
    }
    pool->heap = heap_begin();
    if (getrandom(&pool->number, sizeof pool->number, 0) != (ssize_t)sizeof pool->number)
        pool->number = (uint64_t)clock_now_ns();
    rlimit_raise_sums(); /* the zygotes' user is one for all tenants */
    for (const int32_t *language = options->warm; language && *language >= -1; language++) {
        struct pool_class *class = class_of(pool, *language);
        if (class)
            begin_class(pool, class, *language);
    }
    return pool;
}

int pool_fd(const struct pool *pool)
{
    return pool->epoll_fd;
}

/* Each is ended and waited for; the warden is leaving. */
void pool_free(struct pool *pool)
{
    for (unsigned i = 0; i < POOL_CLASSES; i++) {
        struct pool_class *class = &pool->classes[i];
        while (class->spares)
            drop_spare(pool, class, class->spares);
        end_zygote(pool, &class->zygote);
        end_zygote(pool, &class->replacement);
    }
    while (pool->zombies) {
        struct native *native = pool->zombies;
        pool->zombies = native->next;
        native_reap(native, 0);
        backend_native.release(&native->base);
    }
    arena_done(&pool->arena);
    close_fd(&pool->epoll_fd);
    free(pool);
}

void pool_stats(const struct pool *pool, struct pool_stats *ret)
{
    *ret = (struct pool_stats){ .memory_bytes = pool->memory_bytes };
    for (unsigned i = 0; i < POOL_CLASSES; i++) {
        const struct pool_class *class = &pool->classes[i];
        ret->classes[i].ready = (uint16_t) class->n[SPARE_STATE_READY];
        ret->classes[i].making = (uint16_t) class->n[SPARE_STATE_MAKING];
        ret->classes[i].target = (uint16_t) class->target;
        ret->classes[i].has_zygote = class->zygote && class->zygote->is_up;
        ret->classes[i].taken = class->taken;
        ret->classes[i].missed = class->missed;
        ret->classes[i].failed = class->failed;
        ret->zygotes_starting += class->zygote && !class->zygote->is_up;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Every backend that makes sandboxes ahead of their jobs has its pool opened, served and freed by
 * the warden, however many they are: as many as it takes, made up here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "sandbox/backend.h"
#include "warden/warden.h"

enum { POOLS = 4 };

/* What is seen of it on this side. */
struct seen {
    unsigned made, served, freed;
};

static struct seen *seen;

struct pool {
    int wake_fd;
};

static struct pool *make(const struct backend_host *host, const struct pool_options *options)
{
    struct pool *pool = mem_alloc(sizeof *pool);

    (void)host;
    (void)options;
    pool->wake_fd = eventfd(1, EFD_CLOEXEC); /* there is work from the start */
    seen->made++;
    return pool;
}

static int fd_of(const struct pool *pool)
{
    return pool->wake_fd;
}

static int64_t serve(struct pool *pool)
{
    eventfd_t value;

    eventfd_read(pool->wake_fd, &value);
    eventfd_write(pool->wake_fd, 1);
    seen->served++;
    return INT64_MAX;
}

static void free_pool(struct pool *pool)
{
    seen->freed++;
    close(pool->wake_fd);
    free(pool);
}

static const struct backend_pool fake_pool = { make, fd_of, serve, NULL, free_pool };
static const struct backend fake = { .kind = { .name = "fake", .tier = TIER_KERNEL },
                                     .pool = &fake_pool };

const struct backend *const backends[] = { &fake, &fake, &fake, &fake, NULL };
const struct backend_kind *const backend_kinds[] = { &fake.kind, NULL };

/* A round serves all that there are, so this many calls are a few rounds. */
static void test_every_pool_is_served(void **state)
{
    const struct pool_options options = { 0 };
    int front[2];

    (void)state;
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(seen, MAP_FAILED);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, front), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(front[0]);
        const struct warden_options warden = {
            .front_fd = front[1], .listen_fd = -1, .state_fd = -1, .pool = &options
        };
        _exit(warden_main(&warden));
    }
    close(front[1]);
    while (__atomic_load_n(&seen->served, __ATOMIC_RELAXED) < 3 * POOLS &&
           waitpid(pid, NULL, WNOHANG) == 0)
        usleep(1000);
    close(front[0]);
    waitpid(pid, NULL, 0);
    assert_int_equal(seen->made, POOLS);
    assert_int_equal(seen->freed, POOLS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pool_is_served),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-zygote-javascript.node: what waits within a Node that was started ahead (warm.h), and gives
 * it its job. Loaded by javascript.js, for which it has two functions:
 *
 *     take()   waits for the job, puts its streams and variables in place, and returns its argv
 *     exec()   starts that argv afresh, where this Node was not started with the same options
 *
 * Node's stable interface for C is declared here as far as it is used: Debian has no package of its
 * headers that is the same for every Node.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/native/child.h"
#include "backends/native/warm.h"
#include "backends/native/zygote.h"
#include "base/auto.h"
#include "core/payload.h"
#include "sys/fdpass.h"
#include "sys/spawn.h"

struct napi_env_of;
struct napi_value_of;
struct napi_info_of;
typedef struct napi_value_of *napi_callback_fn(struct napi_env_of *env, struct napi_info_of *info);

int napi_create_function(struct napi_env_of *env, const char *name, size_t len,
                         napi_callback_fn *function, void *data, struct napi_value_of **ret);
int napi_set_named_property(struct napi_env_of *env, struct napi_value_of *object, const char *name,
                            struct napi_value_of *value);
int napi_create_array_with_length(struct napi_env_of *env, size_t len, struct napi_value_of **ret);
int napi_create_string_utf8(struct napi_env_of *env, const char *text, size_t len,
                            struct napi_value_of **ret);
int napi_set_element(struct napi_env_of *env, struct napi_value_of *array, uint32_t at,
                     struct napi_value_of *value);
__attribute__((visibility("default"))) struct napi_value_of *
napi_register_module_v1(struct napi_env_of *env, struct napi_value_of *exports);

/* The job's; it lives as long as the process does. */
static struct {
    struct job job;
    struct payload payload;
    char **argv, **env;
} own;

static char **vector(uint32_t n)
{
    char **list = calloc(n + 1, sizeof *list);
    if (!list)
        _exit(1);
    return list;
}

static void put_streams(void)
{
    for (int i = 0; i < 3; i++) {
        if (own.job.std_fds[i] < 0)
            own.job.std_fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (dup2(own.job.std_fds[i], i) < 0)
            _exit(1);
        close_fd(&own.job.std_fds[i]);
    }
    close_fd(&own.job.harvest_fd);
    close_fd(&own.job.payload_fd);
    close(WARM_FD);
}

/* Node's loop keeps /dev/null open, and opened it while that was something else. */
static void put_null(void)
{
    enum { MOST = 64 };
    struct stat st;

    for (int fd = 3; fd < MOST; fd++) {
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
            continue;
        auto_close int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (null < 0 || dup3(null, fd, O_CLOEXEC) < 0)
            _exit(1);
    }
}

static void wait_for_job(void)
{
    extern char **environ;
    const struct zygote_hello hello = { .pid = getpid(), .failed_step = STEP_N };
    enum child_job_kind kind;

    if (fdpass_send(WARM_FD, &hello, sizeof hello, NULL, 0) < 0 ||
        child_recv_job(WARM_FD, &own.job, &kind) < 0 || payload_map(own.job.payload_fd, &own.payload) < 0)
        _exit(1);
    own.argv = vector(own.payload.argc[0]);
    payload_argv(&own.payload, 0, own.argv);
    own.env = vector(own.payload.envc);
    payload_env(&own.payload, own.env);
    environ = own.env;
    put_streams();
    put_null();
}

static struct napi_value_of *take(struct napi_env_of *env, struct napi_info_of *info)
{
    struct napi_value_of *list, *word;

    (void)info;
    wait_for_job();
    if (napi_create_array_with_length(env, own.payload.argc[0], &list) != 0)
        _exit(1);
    for (uint32_t i = 0; i < own.payload.argc[0]; i++)
        if (napi_create_string_utf8(env, own.argv[i], SIZE_MAX, &word) != 0 ||
            napi_set_element(env, list, i, word) != 0)
            _exit(1);
    return list;
}

static struct napi_value_of *start_afresh(struct napi_env_of *env, struct napi_info_of *info)
{
    (void)env;
    (void)info;
    spawn_exec(own.argv, own.env);
    _exit(127);
}

struct napi_value_of *napi_register_module_v1(struct napi_env_of *env,
                                              struct napi_value_of *exports)
{
    static const struct {
        const char *name;
        napi_callback_fn *function;
    } rows[] = { { "take", take }, { "exec", start_afresh } };
    struct napi_value_of *function;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (napi_create_function(env, rows[i].name, SIZE_MAX, rows[i].function, NULL, &function) ||
            napi_set_named_property(env, exports, rows[i].name, function))
            _exit(1);
    return exports;
}

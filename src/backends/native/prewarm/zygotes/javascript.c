/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-zygote-javascript.node: what waits within a Node that was started ahead (warm.h), and gives
 * it its job. Loaded by javascript.js, for which it has three functions:
 *
 *     take()   waits for the job, puts its streams and variables in place, and returns its argv
 *     exec()   starts that argv afresh, where this Node was not started with the same options
 *     watch(process, emitter)   an emit() for it, with which a program that ends well ends at once
 *
 * Node's stable interface for C is declared here as far as it is used: Debian has no package of its
 * headers that is the same for every Node.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/native/child.h"
#include "backends/native/prewarm/warm.h"
#include "backends/native/prewarm/zygote.h"
#include "base/auto.h"
#include "core/payload.h"
#include "sys/fdpass.h"
#include "sys/spawn.h"

struct napi_env_of;
struct napi_value_of;
struct napi_info_of;
struct napi_ref_of;
typedef struct napi_value_of *napi_callback_fn(struct napi_env_of *env, struct napi_info_of *info);

int napi_create_function(struct napi_env_of *env, const char *name, size_t len,
                         napi_callback_fn *function, void *data, struct napi_value_of **ret);
int napi_set_named_property(struct napi_env_of *env, struct napi_value_of *object, const char *name,
                            struct napi_value_of *value);
int napi_create_array_with_length(struct napi_env_of *env, size_t len, struct napi_value_of **ret);
int napi_create_string_utf8(struct napi_env_of *env, const char *text, size_t len,
                            struct napi_value_of **ret);
int napi_get_named_property(struct napi_env_of *env, struct napi_value_of *object, const char *name,
                            struct napi_value_of **ret);
int napi_get_cb_info(struct napi_env_of *env, struct napi_info_of *info, size_t *argc,
                     struct napi_value_of **argv, struct napi_value_of **ret_this, void **ret_data);
int napi_call_function(struct napi_env_of *env, struct napi_value_of *on,
                       struct napi_value_of *function, size_t argc,
                       struct napi_value_of *const *argv, struct napi_value_of **ret);
int napi_create_reference(struct napi_env_of *env, struct napi_value_of *value, uint32_t count,
                          struct napi_ref_of **ret);
int napi_get_reference_value(struct napi_env_of *env, struct napi_ref_of *ref,
                             struct napi_value_of **ret);
int napi_strict_equals(struct napi_env_of *env, struct napi_value_of *one,
                       struct napi_value_of *other, bool *ret);
int napi_get_value_string_utf8(struct napi_env_of *env, struct napi_value_of *value, char *buf,
                               size_t size, size_t *ret_len);
int napi_get_value_double(struct napi_env_of *env, struct napi_value_of *value, double *ret);
int napi_get_value_bool(struct napi_env_of *env, struct napi_value_of *value, bool *ret);
int napi_typeof(struct napi_env_of *env, struct napi_value_of *value, int *ret);
int napi_set_element(struct napi_env_of *env, struct napi_value_of *array, uint32_t at,
                     struct napi_value_of *value);
__attribute__((visibility("default"))) struct napi_value_of *
napi_register_module_v1(struct napi_env_of *env, struct napi_value_of *exports);

/* The exec's; it lives as long as the process does. */
static struct {
    struct child_request request;
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
        if (own.request.exec.std_fds[i] < 0)
            own.request.exec.std_fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (dup2(own.request.exec.std_fds[i], i) < 0)
            _exit(1);
        close_fd(&own.request.exec.std_fds[i]);
    }
    close_fd(&own.request.exec.harvest_fd);
    close_fd(&own.request.exec.payload_fd);
    close(WARM_FD);
}

static void wait_for_job(void)
{
    extern char **environ;
    const struct zygote_hello hello = { .pid = getpid(), .failed_step = STEP_N };

    if (fdpass_send(WARM_FD, &hello, sizeof hello, NULL, 0) < 0 ||
        child_recv_request(WARM_FD, &own.request) < 0 ||
        payload_map(own.request.exec.payload_fd, PAYLOAD_EXEC, &own.payload) < 0)
        _exit(1);
    own.argv = vector(own.payload.argc);
    payload_argv(&own.payload, own.argv);
    own.env = vector(own.payload.envc);
    payload_env(&own.payload, own.env);
    environ = own.env;
    put_streams();
}

static struct napi_value_of *take(struct napi_env_of *env, struct napi_info_of *info)
{
    struct napi_value_of *list, *word;

    (void)info;
    wait_for_job();
    if (napi_create_array_with_length(env, own.payload.argc, &list) != 0)
        _exit(1);
    for (uint32_t i = 0; i < own.payload.argc; i++)
        if (napi_create_string_utf8(env, own.argv[i], SIZE_MAX, &word) != 0 ||
            napi_set_element(env, list, i, word) != 0)
            _exit(1);
    return list;
}

static struct napi_value_of *start_afresh(struct napi_env_of *env, struct napi_info_of *info)
{
    (void)env;
    (void)info;
    spawn_exec(own.argv, own.env, SPAWN_SYSTEM_PATH);
    _exit(127);
}

/* ---- the end ---- */

/* After a program's last word Node takes its heap apart, which takes longer than most programs. One
 * that ends well ends right there: process.emit is this one, which does what Node's own does, and
 * goes on to the end where that was the event "exit". Where a program has put something in its
 * place, or in that of what Node calls next, everything goes its way. So does what fails: Node has
 * its message yet to write. */
static struct {
    struct napi_ref_of *emitter; /* that process has its emit from */
    struct napi_ref_of *emit, *own_emit, *really_exit;
} end;

enum { NAPI_UNDEFINED = 0, EMIT_ARGS = 16 };

static bool is_same(struct napi_env_of *env, struct napi_value_of *object, const char *name,
                    struct napi_ref_of *ref)
{
    struct napi_value_of *now, *then;
    bool is = false;

    return napi_get_named_property(env, object, name, &now) == 0 &&
           napi_get_reference_value(env, ref, &then) == 0 &&
           napi_strict_equals(env, now, then, &is) == 0 && is;
}

static bool is_zero(struct napi_env_of *env, struct napi_value_of *value)
{
    double number;

    return napi_get_value_double(env, value, &number) == 0 && number == 0;
}

/* Node says so before it emits "exit"; a program that emits one by itself goes on. */
static bool is_exiting(struct napi_env_of *env, struct napi_value_of *process)
{
    struct napi_value_of *value;
    bool is = false;

    return napi_get_named_property(env, process, "_exiting", &value) == 0 &&
           napi_get_value_bool(env, value, &is) == 0 && is;
}

static bool ends_well(struct napi_env_of *env, struct napi_value_of *process, size_t argc,
                      struct napi_value_of **argv)
{
    struct napi_value_of *code;
    char event[8];
    size_t len;
    int type;

    if (argc != 2 || napi_get_value_string_utf8(env, argv[0], event, sizeof event, &len) != 0 ||
        strcmp(event, "exit") != 0 || !is_zero(env, argv[1]))
        return false;
    return is_exiting(env, process) && is_same(env, process, "emit", end.own_emit) &&
           is_same(env, process, "reallyExit", end.really_exit) &&
           napi_get_named_property(env, process, "exitCode", &code) == 0 &&
           napi_typeof(env, code, &type) == 0 && (type == NAPI_UNDEFINED || is_zero(env, code));
}

static struct napi_value_of *emit(struct napi_env_of *env, struct napi_info_of *info)
{
    struct napi_value_of *few[EMIT_ARGS], **argv = few, *on, *emitter, *real, *result = NULL;
    size_t argc = EMIT_ARGS;

    if (napi_get_cb_info(env, info, &argc, few, &on, NULL) != 0)
        return NULL;
    if (argc > EMIT_ARGS) {
        argv = calloc(argc, sizeof(void *));
        if (!argv || napi_get_cb_info(env, info, &argc, argv, &on, NULL) != 0)
            _exit(1);
    }
    bool is_done = napi_get_reference_value(env, end.emitter, &emitter) == 0 &&
                   napi_get_named_property(env, emitter, "emit", &real) == 0 &&
                   napi_call_function(env, on, real, argc, argv, &result) == 0;
    if (is_done && ends_well(env, on, argc, argv) && is_same(env, emitter, "emit", end.emit))
        spawn_leave(0);
    if (argv != few)
        free(argv);
    return result; /* or with what was thrown */
}

/* watch(process, emitter): the function that is to be process.emit, which is the emitter's. */
static struct napi_value_of *watch(struct napi_env_of *env, struct napi_info_of *info)
{
    struct napi_value_of *argv[2], *process, *real, *really_exit, *own_emit;
    size_t argc = ARRAY_LEN(argv);

    if (napi_get_cb_info(env, info, &argc, argv, NULL, NULL) != 0 || argc != ARRAY_LEN(argv))
        _exit(1);
    process = argv[0];
    if (napi_create_reference(env, argv[1], 1, &end.emitter) != 0 ||
        napi_get_named_property(env, process, "emit", &real) != 0 ||
        napi_create_reference(env, real, 1, &end.emit) != 0 ||
        napi_get_named_property(env, process, "reallyExit", &really_exit) != 0 ||
        napi_create_reference(env, really_exit, 1, &end.really_exit) != 0 ||
        napi_create_function(env, "emit", SIZE_MAX, emit, NULL, &own_emit) != 0 ||
        napi_create_reference(env, own_emit, 1, &end.own_emit) != 0)
        _exit(1);
    return own_emit;
}

struct napi_value_of *napi_register_module_v1(struct napi_env_of *env,
                                              struct napi_value_of *exports)
{
    static const struct {
        const char *name;
        napi_callback_fn *function;
    } rows[] = { { "take", take }, { "exec", start_afresh }, { "watch", watch } };
    struct napi_value_of *function;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (napi_create_function(env, rows[i].name, SIZE_MAX, rows[i].function, NULL, &function) ||
            napi_set_named_property(env, exports, rows[i].name, function))
            _exit(1);
    return exports;
}

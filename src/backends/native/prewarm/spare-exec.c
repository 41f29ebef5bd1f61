/* SPDX-License-Identifier: Apache-2.0 */
/* The program-to-be of a spare: behind all layers it waits for its exec, and is executed. It shares
 * pid 1's memory until then. Async-signal-safe. */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backends/native/prewarm/spare.h"
#include "backends/native/program.h"
#include "core/payload.h"
#include "sys/fdpass.h"

static char **vector(uint32_t n)
{
    void *map = mmap(NULL, (n + 1) * sizeof(char *), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

/* Its words, whose files pid 1 wrote; the step that failed, or STEP_N. */
static uint32_t take_exec(struct program *program, int *ret_errnum)
{
    struct payload payload;

    int rc = child_recv_request(program->exec_fd, &program->own);
    if (rc < 0) { /* nobody is told where pid 1 is gone */
        *ret_errnum = -rc;
        return STEP_STREAMS;
    }
    program->exec = &program->own.exec;
    rc = payload_map(program->exec->payload_fd, PAYLOAD_EXEC, &payload);
    program->argv = rc < 0 ? NULL : vector(payload.argc);
    program->env = rc < 0 ? NULL : vector(payload.envc);
    if (rc == 0 && (!program->argv || !program->env))
        rc = -ENOMEM;
    if (rc < 0) {
        *ret_errnum = -rc;
        return STEP_FILES;
    }
    payload_argv(&payload, program->argv);
    payload_env(&payload, program->env);
    return STEP_N;
}

/* Until pid 1 has filled in the rest. */
static void wait_for_word(struct program *program)
{
    while (program->go == 1)
        syscall(SYS_futex, &program->go, FUTEX_WAIT, 1, NULL, NULL, 0);
}

/* Pid 1's fds are shared until then: the notice's is made here, and the streams of what is started
 * ahead come from there. They are parted without closing any. */
static uint32_t part_fds(int *ret_errnum)
{
    if (close_range(~0U, ~0U, CLOSE_RANGE_UNSHARE) == 0)
        return STEP_N;
    *ret_errnum = errno;
    return STEP_STREAMS;
}

int spare_program_main(void *arg)
{
    struct program *program = arg;
    int errnum = 0;
    bool takes_exec = program->exec_fd >= 0;

    program->layers = 0;
    uint32_t failed = program_prepare_early(program, &errnum);
    if (failed == STEP_N && takes_exec)
        failed = part_fds(&errnum);
    if (failed == STEP_N) {
        program->go = 1;
        syscall(SYS_futex, &program->go, FUTEX_WAKE, 1, NULL, NULL, 0);
        if (takes_exec) {
            failed = take_exec(program, &errnum);
        } else {
            wait_for_word(program);
            failed = part_fds(&errnum);
        }
    }
    if (failed == STEP_N)
        failed = program_begin(program, &errnum);
    int rc = program_finish(program, failed, errnum);
    syscall(SYS_futex, &program->go, FUTEX_WAKE, 1, NULL, NULL, 0);
    return rc;
}

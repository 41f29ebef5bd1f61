/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/init.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/file.h"

void init_send(uint16_t kind, uint16_t exec, const void *data, size_t len)
{
    const struct wire_head head = { kind, exec, (uint32_t)len };
    char frame[sizeof head + WIRE_PIECE];

    memcpy(frame, &head, sizeof head);
    if (len > 0)
        memcpy(frame + sizeof head, data, len);
    if (write_all(STDOUT_FILENO, frame, sizeof head + len) < 0)
        _exit(1);
}

void init_fail(uint32_t step, int errnum)
{
    const struct wire_failed failed = { step, errnum };

    init_send(WIRE_FAILED, WIRE_NO_EXEC, &failed, sizeof failed);
    /* Whoever is outside ends us: what is in the stream has to arrive first. */
    for (char byte; read(STDIN_FILENO, &byte, 1) > 0;)
        continue;
    _exit(1);
}

uint16_t init_number(const struct init *init, const struct exec *exec)
{
    return (uint16_t)(exec - init->execs);
}

/* ---- opening ----------------------------------------------------------------------------------
 */

static void must_split(const struct init *init, int (*side)(void))
{
    int rc = init->open.is_split ? side() : 0;

    if (rc < 0)
        init_fail(WIRE_STEP_CAPS, -rc);
}

/* Its strings point into data, which stays. */
static void take_open(struct init *init, const char *data, size_t len)
{
    const char *at = data + sizeof init->open, *end = data + len;

    if (init->is_open || len < sizeof init->open)
        init_fail(WIRE_STEP_BEGIN, EPROTO);
    memcpy(&init->open, data, sizeof init->open);
    if (init->open.n_folders > SANDBOX_FOLDERS)
        init_fail(WIRE_STEP_BEGIN, EPROTO);
    init->folders = mem_alloc((init->open.n_folders + (size_t)1) * sizeof *init->folders);
    for (uint32_t i = 0; i < init->open.n_folders; i++) {
        const char *stop = memchr(at, '\0', (size_t)(end - at));
        if (!stop)
            init_fail(WIRE_STEP_BEGIN, EPROTO);
        init->folders[i] = (char *)(uintptr_t)at;
        at = stop + 1;
    }
    init->missing = check_engine(init->open.require);
}

static void finish_open(struct init *init)
{
    const struct wire_layers on = { .missing = init->missing };

    must_split(init, split_lower);
    files_done(init);
    must_split(init, split_raise);
    init->is_open = true;
    init_send(WIRE_OPENED, WIRE_NO_EXEC, &on, sizeof on);
}

/* What fails for an exec is its own affair, what fails for the sandbox that of all. */
static void take_file(struct init *init, const struct wire_head *head, const char *data)
{
    struct exec *exec = head->exec == WIRE_NO_EXEC ? NULL : &init->execs[head->exec];
    uint32_t step = WIRE_STEP_BEGIN;

    if (exec && exec->state == EXEC_BROKEN)
        return;
    if (exec ? exec->state != EXEC_FILLING : init->is_open)
        init_fail(WIRE_STEP_BEGIN, EPROTO);
    must_split(init, split_lower);
    int rc = head->kind == WIRE_ENTRY ? files_entry(init, head->exec, data, head->len, &step)
                                      : files_data(init, head->exec, data, head->len, &step);
    must_split(init, split_raise);
    if (rc < 0 && !exec)
        init_fail(step, -rc);
    if (rc < 0) {
        close_fd(&init->file_fd);
        exec_failed(init, exec, step, -rc);
    }
}

/* ---- from outside -----------------------------------------------------------------------------
 */

/* The end of the stream is the end of everything: the kernel ends the rest with pid 1. */
static void receive(void *data, size_t len)
{
    char *at = data;

    while (len > 0) {
        ssize_t n = read(STDIN_FILENO, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            _exit(0);
        at += n;
        len -= (size_t)n;
    }
}

static void take_input(struct exec *exec, const char *data, size_t len)
{
    if (exec->fds[WIRE_STREAM_IN] < 0)
        return; /* it has ended, or reads no more */
    if (len > WIRE_WINDOW_IN - exec->input_len)
        init_fail(WIRE_STEP_BEGIN, EPROTO);
    memcpy(exec->input + exec->input_len, data, len);
    exec->input_len += len;
}

static void take_credit(struct exec *exec, const char *data, size_t len)
{
    struct wire_taken taken;

    if (len != sizeof taken)
        init_fail(WIRE_STEP_BEGIN, EPROTO);
    memcpy(&taken, data, sizeof taken);
    if (taken.stream == WIRE_STREAM_IN || taken.stream >= WIRE_STREAM_N ||
        taken.n > WIRE_WINDOW - exec->credit[taken.stream])
        init_fail(WIRE_STEP_BEGIN, EPROTO);
    exec->credit[taken.stream] += taken.n;
}

static void send_usage(struct init *init, struct exec *exec)
{
    int64_t cpu_ns = exec->state == EXEC_RUNNING ? exec_cpu(init, exec) : 0;

    if (exec->state == EXEC_RUNNING)
        init_send(WIRE_USED, init_number(init, exec), &cpu_ns, sizeof cpu_ns);
}

/* Frames of one exec that is there. */
static void take_exec_frame(struct init *init, struct exec *exec, const struct wire_head *head,
                            const char *data)
{
    int32_t number = 0;

    switch ((enum wire_kind)head->kind) {
    case WIRE_START:
        if (exec->state != EXEC_FILLING && exec->state != EXEC_BROKEN)
            init_fail(WIRE_STEP_BEGIN, EPROTO);
        if (init->file_fd >= 0)
            init_fail(WIRE_STEP_BEGIN, EPROTO);
        exec_start(init, exec);
        break;
    case WIRE_STDIN:
        take_input(exec, data, head->len);
        break;
    case WIRE_STDIN_END:
        exec->has_input_end = true;
        break;
    case WIRE_SIGNAL:
        memcpy(&number, data, MIN(head->len, sizeof number));
        exec_signal(init, exec, number);
        break;
    case WIRE_USAGE:
        send_usage(init, exec);
        break;
    case WIRE_TAKEN:
        if (exec->state >= EXEC_RUNNING)
            take_credit(exec, data, head->len);
        break;
    case WIRE_OPEN:
    case WIRE_OPEN_END:
    case WIRE_EXEC:
    case WIRE_ENTRY:
    case WIRE_DATA:
    case WIRE_READY:
    case WIRE_OPENED:
    case WIRE_FAILED:
    case WIRE_RUNTIME:
    case WIRE_STARTED:
    case WIRE_EXEC_FAILED:
    case WIRE_STDOUT:
    case WIRE_STDERR:
    case WIRE_HARVEST:
    case WIRE_USED:
    case WIRE_ENDED:
    case WIRE_KIND_N:
        init_fail(WIRE_STEP_BEGIN, EPROTO);
    }
}

static void take_frame(struct init *init)
{
    struct wire_head head;

    receive(&head, sizeof head);
    bool is_head = head.kind == WIRE_OPEN || head.kind == WIRE_EXEC;
    bool is_of_sandbox = head.kind == WIRE_OPEN || head.kind == WIRE_OPEN_END;
    bool is_of_either = head.kind == WIRE_ENTRY || head.kind == WIRE_DATA;
    if (head.len > (is_head ? WIRE_HEAD_MAX : 2 * WIRE_PIECE) ||
        (head.exec >= WIRE_EXECS &&
         (head.exec != WIRE_NO_EXEC || !(is_of_sandbox || is_of_either))))
        init_fail(WIRE_STEP_BEGIN, EPROTO);
    auto_free char *data = mem_alloc(head.len + (size_t)1);
    receive(data, head.len);
    if (head.kind == WIRE_OPEN) {
        take_open(init, take_ptr(&data), head.len);
    } else if (head.kind == WIRE_OPEN_END && !init->is_open && init->folders) {
        finish_open(init);
    } else if (is_of_either) {
        take_file(init, &head, data);
    } else if (head.kind == WIRE_EXEC) {
        struct exec *exec = &init->execs[head.exec];
        if (!init->is_open || exec->state != EXEC_FREE ||
            !exec_take(exec, take_ptr(&data), head.len))
            init_fail(WIRE_STEP_BEGIN, EPROTO);
    } else if (is_of_sandbox || head.kind >= WIRE_KIND_N) {
        init_fail(WIRE_STEP_BEGIN, EPROTO);
    } else if (init->execs[head.exec].state != EXEC_FREE) { /* else it has just ended */
        take_exec_frame(init, &init->execs[head.exec], &head, data);
    }
}

/* ---- its life ---------------------------------------------------------------------------------
 */

static void on_signal(int number)
{
    (void)number;
}

static void begin(void)
{
    struct sigaction wake = { .sa_handler = on_signal };
    const uint32_t version = WIRE_VERSION;
    sigset_t all;

    umask(022);
    signal(SIGPIPE, SIG_IGN);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigaction(SIGCHLD, &wake, NULL);
    /* Nobody in here may open our streams in /proc, or read our memory. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        _exit(1);
    init_send(WIRE_READY, WIRE_NO_EXEC, &version, sizeof version);
}

/* What of its streams can be served now. */
static unsigned list_streams(const struct init *init, struct pollfd *list)
{
    unsigned n = 0;

    for (const struct exec *exec = init->execs; exec < init->execs + WIRE_EXECS; exec++)
        for (int i = 0; i < WIRE_STREAM_N; i++) {
            bool is_input = i == WIRE_STREAM_IN;
            bool has_work =
                is_input ? exec->input_len > 0 || exec->has_input_end : exec->credit[i] > 0;
            bool is_on = exec->state >= EXEC_RUNNING && has_work;
            list[n++] = (struct pollfd){ .fd = is_on ? exec->fds[i] : -1,
                                         .events = is_input ? POLLOUT : POLLIN };
        }
    return n;
}

static void serve_streams(struct init *init, const struct pollfd *list)
{
    for (struct exec *exec = init->execs; exec < init->execs + WIRE_EXECS; exec++)
        for (int i = 0; i < WIRE_STREAM_N; i++, list++) {
            if (list->fd < 0 || !list->revents)
                continue;
            if (i == WIRE_STREAM_IN)
                exec_push_input(init, exec);
            else
                exec_pull(init, exec, (enum wire_stream)i);
        }
}

int main(void)
{
    struct init *init = mem_alloc(sizeof *init);
    struct pollfd list[1 + WIRE_EXECS * WIRE_STREAM_N];
    sigset_t mask;

    init->file_fd = -1;
    begin();
    sigfillset(&mask);
    sigdelset(&mask, SIGCHLD);
    for (;;) {
        list[0] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
        unsigned n = 1 + list_streams(init, list + 1);
        int ready = ppoll(list, n, NULL, &mask);
        if (ready > 0) {
            serve_streams(init, list + 1);
            if (list[0].revents)
                take_frame(init);
        }
        exec_reap_all(init);
        exec_advance_all(init);
    }
}

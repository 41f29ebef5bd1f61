/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A keeper while its sandbox is open. What comes out of the container goes to the front's pipes; of
 * each stream that is not read so much is kept as its window holds, and more does not come: so a
 * slow reader holds its own program back, and no other, and the report of an end comes behind all
 * of its output.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/docker/keeper.h"
#include "base/auto.h"
#include "base/clock.h"

static int *fd_of(struct keeper_exec *exec, enum wire_stream stream)
{
    return stream == WIRE_STREAM_HARVEST ? &exec->spec.harvest_fd : &exec->spec.std_fds[stream];
}

void relay_free_exec(struct keeper_exec *exec)
{
    for (int i = 0; i < WIRE_STREAM_N; i++) {
        close_fd(fd_of(exec, (enum wire_stream)i));
        free(exec->out[i].data);
    }
    close_fd(&exec->spec.payload_fd);
    *exec = (struct keeper_exec){ .look_ns = INT64_MAX };
}

/* ---- out --------------------------------------------------------------------------------------
 */

static void send_taken(struct keeper *keeper, const struct keeper_exec *exec,
                       enum wire_stream stream, size_t n)
{
    const struct wire_taken taken = { stream, (uint32_t)n };

    attach_send(&keeper->attach, WIRE_TAKEN, keeper_exec_slot(keeper, exec), &taken, sizeof taken);
}

/* A reader that is gone wants nothing, and the program need not know. */
static void flush_outbox(struct keeper *keeper, struct keeper_exec *exec, enum wire_stream stream)
{
    struct outbox *out = &exec->out[stream];
    int *fd = fd_of(exec, stream);
    ssize_t n = *fd < 0 ? (ssize_t)out->len : write(*fd, out->data, out->len);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        n = (ssize_t)out->len;
        if (stream != WIRE_STREAM_HARVEST) /* of that, an fd says that there is one */
            close_fd(fd);
    }
    out->len -= (size_t)n;
    memmove(out->data, out->data + n, out->len);
    send_taken(keeper, exec, stream, (size_t)n);
}

/* false: more than there may be, so it is none of the init's. */
static bool take_output(struct keeper *keeper, struct keeper_exec *exec, enum wire_stream stream,
                        const char *data, size_t len)
{
    struct outbox *out = &exec->out[stream];
    bool is_due = stream == WIRE_STREAM_HARVEST ? !exec->has_harvest_end : !exec->has_ended;

    if (!exec->is_used || !exec->started_ns || !is_due)
        return true;
    if (stream == WIRE_STREAM_HARVEST && len == 0) {
        exec->has_harvest_end = true;
        if (exec->spec.harvest == HARVEST_PRODUCTS && out->len == 0)
            close_fd(&exec->spec.harvest_fd);
        report_end_when_flushed(keeper, exec);
        return true;
    }
    if (len > WIRE_WINDOW - out->len)
        return false;
    if (!out->data)
        out->data = mem_alloc(WIRE_WINDOW);
    memcpy(out->data + out->len, data, len);
    out->len += len;
    flush_outbox(keeper, exec, stream);
    return true;
}

/* ---- in ---------------------------------------------------------------------------------------
 */

static void push_input(struct keeper *keeper, struct keeper_exec *exec)
{
    uint16_t slot = keeper_exec_slot(keeper, exec);
    char data[WIRE_PIECE];
    ssize_t n = read(exec->spec.std_fds[0], data, MIN(exec->credit, sizeof data));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        exec->credit -= (uint32_t)n;
        attach_send(&keeper->attach, WIRE_STDIN, slot, data, (size_t)n);
        return;
    }
    attach_send(&keeper->attach, WIRE_STDIN_END, slot, NULL, 0);
    close_fd(&exec->spec.std_fds[0]);
}

static bool take_credit(struct keeper_exec *exec, const char *data, size_t len)
{
    struct wire_taken taken;

    if (len != sizeof taken)
        return false;
    memcpy(&taken, data, sizeof taken);
    if (!exec->is_used || !exec->started_ns)
        return true;
    if (taken.stream != WIRE_STREAM_IN || taken.n > WIRE_WINDOW_IN - exec->credit)
        return false;
    exec->credit += taken.n;
    if (taken.n == 0)
        close_fd(&exec->spec.std_fds[0]);
    return true;
}

/* ---- frames -----------------------------------------------------------------------------------
 */

/* false: that is no init of ours any more. */
static bool take_frame(struct keeper *keeper, const struct wire_head *head, const char *data)
{
    struct keeper_exec *exec = head->exec < WIRE_EXECS ? &keeper->execs[head->exec] : NULL;

    if (head->kind == WIRE_STDOUT && exec)
        return take_output(keeper, exec, WIRE_STREAM_OUT, data, head->len);
    if (head->kind == WIRE_STDERR && exec)
        return take_output(keeper, exec, WIRE_STREAM_ERR, data, head->len);
    if (head->kind == WIRE_HARVEST && exec)
        return take_output(keeper, exec, WIRE_STREAM_HARVEST, data, head->len);
    if (head->kind == WIRE_TAKEN && exec)
        return take_credit(exec, data, head->len);
    report_frame(keeper, head, data);
    return true;
}

void relay_take_frames(struct keeper *keeper)
{
    struct wire_head head;
    const char *data;
    int rc = 0;

    while (!keeper->is_done && (rc = attach_next(&keeper->attach, &head, &data)) > 0)
        if (!take_frame(keeper, &head, data)) {
            rc = -EPROTO;
            break;
        }
    if (rc < 0 && !keeper->is_done)
        report_vanished(keeper);
}

/* ---- the loop ---------------------------------------------------------------------------------
 */

static int until_look_ms(const struct keeper *keeper)
{
    int64_t look_ns = INT64_MAX;

    for (const struct keeper_exec *exec = keeper->execs; exec < keeper->execs + WIRE_EXECS; exec++)
        if (exec->is_used)
            look_ns = MIN(look_ns, exec->look_ns);
    if (look_ns == INT64_MAX)
        return -1;
    return (int)MAX(0, (look_ns - clock_now_ns()) / NS_PER_MSEC + 1);
}

static void list_streams(struct keeper *keeper, struct pollfd *list)
{
    for (struct keeper_exec *exec = keeper->execs; exec < keeper->execs + WIRE_EXECS; exec++)
        for (int i = 0; i < WIRE_STREAM_N; i++, list++) {
            bool is_input = i == WIRE_STREAM_IN;
            bool has_work = is_input ? exec->started_ns && exec->credit > 0 : exec->out[i].len > 0;
            *list = (struct pollfd){
                .fd = exec->is_used && has_work ? *fd_of(exec, (enum wire_stream)i) : -1,
                .events = is_input ? POLLIN : POLLOUT,
            };
        }
}

static void serve_streams(struct keeper *keeper, const struct pollfd *list)
{
    for (struct keeper_exec *exec = keeper->execs; exec < keeper->execs + WIRE_EXECS; exec++)
        for (int i = 0; i < WIRE_STREAM_N; i++, list++) {
            /* What was served before may have ended it. */
            if (list->fd < 0 || !list->revents || !exec->is_used ||
                *fd_of(exec, (enum wire_stream)i) != list->fd)
                continue;
            if (i == WIRE_STREAM_IN)
                push_input(keeper, exec);
            else
                flush_outbox(keeper, exec, (enum wire_stream)i);
            if (exec->has_harvest_end && exec->spec.harvest == HARVEST_PRODUCTS &&
                exec->out[WIRE_STREAM_HARVEST].len == 0)
                close_fd(&exec->spec.harvest_fd);
            report_end_when_flushed(keeper, exec);
        }
}

void relay_run(struct keeper *keeper)
{
    struct pollfd list[2 + WIRE_EXECS * WIRE_STREAM_N];

    for (;;) {
        relay_take_frames(keeper);
        if (keeper->is_done || keeper->is_killed)
            return;
        list[0] = (struct pollfd){ .fd = keeper->ctl_fd, .events = POLLIN };
        list[1] = (struct pollfd){ .fd = keeper->attach.fd, .events = POLLIN };
        list_streams(keeper, list + 2);
        if (poll(list, ARRAY_LEN(list), until_look_ms(keeper)) < 0)
            continue;
        if (list[0].revents)
            keeper_take_message(keeper);
        serve_streams(keeper, list + 2);
        if (list[1].revents && attach_read(&keeper->attach) <= 0) {
            relay_take_frames(keeper);
            if (!keeper->is_done)
                report_vanished(keeper);
        }
        report_look(keeper, clock_now_ns());
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what an init says that was taken over, to a keeper with three execs: it reports of
 * none but them, and of each one start and one end at most, an end only of what has started; it
 * hands on no more than came; and no more than the windows is kept.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/docker/keeper.h"
#include "base/auto.h"
#include "base/strbuf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FIRST = 7, EXECS = 3 };

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void add_exec(struct keeper *keeper, unsigned i)
{
    int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    keeper->execs[i] = (struct keeper_exec){
        .is_used = true,
        .spec = {
            .number = FIRST + i,
            .owns_sandbox = i == 0,
            .harvest = i == 0 ? HARVEST_ALL : HARVEST_NOTHING,
            .std_fds = { -1, null_fd, -1 },
            .payload_fd = -1,
            .harvest_fd = i == 0 ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1,
        },
        .look_ns = INT64_MAX,
    };
}

static void check_reports(int fd)
{
    unsigned started[EXECS] = { 0 }, ended[EXECS] = { 0 };
    struct report report;

    while (recv(fd, &report, sizeof report, MSG_DONTWAIT) == (ssize_t)sizeof report) {
        unsigned i = report.exec - FIRST;
        if (report.kind == REPORT_OPENED || report.kind == REPORT_FAILED)
            continue;
        must(i < EXECS);
        started[i] += report.kind == REPORT_EXEC_STARTED;
        ended[i] += report.kind == REPORT_EXEC_ENDED || report.kind == REPORT_EXEC_FAILED;
        must(started[i] <= 1 && ended[i] <= 1);
        must(report.kind != REPORT_EXEC_ENDED || started[i] == 1);
        must(report.kind != REPORT_EXEC_ENDED || report.end.full_place <= DISK_N);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_strbuf struct strbuf bytes = { 0 };
    struct keeper *keeper = mem_alloc(sizeof *keeper);
    int ctl[2], room = 1 << 20;

    if (size > 60000)
        size = 60000;
    for (size_t at = 0; at < size;) { /* in frames of the engine's, so that all of it gets here */
        size_t n = MIN(size - at, (size_t)4000);
        const char wrap[8] = { 1, 0, 0, 0, 0, 0, (char)(n >> 8), (char)n };
        strbuf_add(&bytes, wrap, sizeof wrap);
        strbuf_add(&bytes, (const char *)data + at, n);
        at += n;
    }
    signal(SIGPIPE, SIG_IGN);
    must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ctl) == 0);
    setsockopt(ctl[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    keeper->ctl_fd = ctl[0];
    keeper->api.fd = -1;
    for (unsigned i = 0; i < EXECS; i++)
        add_exec(keeper, i);
    attach_init(&keeper->attach, -1, &bytes);
    relay_take_frames(keeper);
    for (int i = 0; i < WIRE_EXECS; i++)
        for (int k = 0; k < WIRE_STREAM_N; k++)
            must(keeper->execs[i].out[k].len <= WIRE_WINDOW);
    check_reports(ctl[1]);
    for (int i = 0; i < WIRE_EXECS; i++)
        if (keeper->execs[i].is_used)
            relay_free_exec(&keeper->execs[i]);
    attach_done(&keeper->attach);
    arena_done(&keeper->arena);
    close(ctl[0]);
    close(ctl[1]);
    free(keeper);
    return 0;
}

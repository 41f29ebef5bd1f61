/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The short way of a run that was made ahead:
 *
 *     warden ──job──▶ program ──exit_group: held, and told by the kernel──▶ warden
 *
 * A program that was forked from a zygote runs when it has its job. One that is still to be
 * executed closes its socket by that, or says why it can't be.
 *
 * What pid 1 would check, the warden can see from outside: that the one who exits is the program
 * (its number, which the cgroup listed before any code of the job was there), and that nothing else
 * lives (the cgroup has two tasks, one of which is pid 1). Where it is not so, pid 1 gets the
 * notice fd to itself and does what it does for every other run: a program that makes many notices
 * is not to keep the warden busy.
 */
#include <poll.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "backends/native/native.h"
#include "base/auto.h"
#include "base/clock.h"
#include "sys/netstat.h"
#include "sys/seccomp.h"

/* So little that there is room for it in any sandbox: nobody is told if it can't be written. A file
 * takes a page and 18 bytes of the payload at least, a folder two: a letter and a slash. */
enum { SMALL_BYTES = 64 * 1024, FILE_BYTES = 18, FOLDER_BYTES = 2, PAGE_BYTES = 4096 };

static bool is_small(const struct job *job)
{
    const struct cay_limits *limits = &job->limits[0];
    struct stat st = { .st_size = job->inline_len };

    if (st.st_size == 0 && fstat(job->payload_fd, &st) < 0)
        return false;
    if (st.st_size > SMALL_BYTES)
        return false;
    uint64_t bytes = (uint64_t)st.st_size;
    return limits->disk_bytes >= SMALL_BYTES + bytes + bytes / FILE_BYTES * PAGE_BYTES &&
           limits->inodes >= 64 + bytes / FOLDER_BYTES;
}

/* Of a program that is yet to be forked, all this comes with it. */
static bool can_be_heard(const struct native *native)
{
    return native->start_kind == START_FORK ||
           (native->program_pid > 0 && native->root_fd >= 0 && native->base.fds[FD_NOTICE] >= 0);
}

bool direct_can_have(const struct native *native, const struct job *job)
{
    return native->to_program_fd >= 0 && can_be_heard(native) && native->shared &&
           job->n_stages == 1 && job->harvest_fd < 0 && is_small(job);
}

int direct_hand_over(struct native *native, const struct job *job)
{
    native->shared->is_running = 1; /* first: the program may be gone before the next line */
    native->handed_ns = clock_now_ns();
    int rc = child_send_job(native->to_program_fd, job, CHILD_JOB_WHOLE);
    if (native->spare == SPARE_EXEC)
        native->base.fds[FD_PROGRAM] = take_fd(&native->to_program_fd);
    else if (native->start_kind != START_FORK)
        native->base.has_word = rc == 0;
    close_fd(&native->to_program_fd);
    return rc;
}

void direct_leave_to_init(struct native *native)
{
    struct job job = native->job;

    for (int i = 0; i < 3; i++)
        job.std_fds[i] = -1;
    job.payload_fd = job.harvest_fd = -1;
    native_prefer_init(native);
    child_send_job(native->base.fds[FD_CTL], &job, CHILD_JOB_RUNNING);
}

static void read_disk(const struct native *native, struct child_report *ret)
{
    struct statfs fs;

    if (fstatfs(native->root_fd, &fs) < 0)
        return;
    ret->disk_size = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
    ret->disk_free = (uint64_t)fs.f_bfree * (uint64_t)fs.f_bsize;
    ret->inodes_size = fs.f_files;
    ret->inodes_free = fs.f_ffree;
}

bool direct_has_ended(struct native *native, struct child_report *ret)
{
    struct pollfd own = { .fd = native->base.fds[FD_NOTICE], .events = POLLIN };
    struct seccomp_event notice;

    if (own.fd < 0 || poll(&own, 1, 0) <= 0)
        return false;
    if (!(own.revents & POLLIN)) { /* nobody has the filter any more: pid 1 tells how it ended */
        close_fd(&native->base.fds[FD_NOTICE]);
        return false;
    }
    if (seccomp_notif_recv(own.fd, &notice) < 0)
        return false;
    if (!notice.is_exit || notice.pid != native->program_pid ||
        cgroup_tasks(&native->cgroup) != 2) {
        direct_leave_to_init(native);
        seccomp_notif_continue(own.fd, &notice);
        close_fd(&native->base.fds[FD_NOTICE]);
        return false;
    }
    int64_t now = clock_now_ns();
    bool has_time = now - native->handed_ns >= NETSTAT_WORTH_NS;
    *ret = (struct child_report){
        .kind = CHILD_ENDED,
        .value = notice.status,
        .is_held = 1,
        .at_ns = now,
        .max_rss = UINT64_MAX,
        .unreachable = notice.status || has_time ? netstat_unreachable(native->pid) : 0,
    };
    read_disk(native, ret);
    close_fd(&native->base.fds[FD_NOTICE]);
    return true;
}

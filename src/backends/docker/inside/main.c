/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/docker/inside/inside.h"
#include "base/auto.h"
#include "base/clock.h"
#include "core/layer.h"
#include "sys/file.h"
#include "sys/netstat.h"

void inside_send(uint32_t kind, const void *data, size_t len)
{
    const struct wire_head head = { kind, (uint32_t)len };
    char frame[sizeof head + WIRE_PIECE];

    memcpy(frame, &head, sizeof head);
    if (len > 0)
        memcpy(frame + sizeof head, data, len);
    if (write_all(STDOUT_FILENO, frame, sizeof head + len) < 0)
        _exit(1);
}

void inside_fail(uint32_t step, int errnum)
{
    const struct wire_failed failed = { step, errnum };

    inside_send(WIRE_FAILED, &failed, sizeof failed);
    /* The keeper ends us: what is in the stream has to arrive first. */
    for (char byte; read(STDIN_FILENO, &byte, 1) > 0;)
        continue;
    _exit(1);
}

/* ---- from the keeper --------------------------------------------------------------------------
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

static char **take_strings(const char **at, const char *end, uint32_t n)
{
    char **list = mem_alloc((n + (size_t)1) * sizeof *list);

    for (uint32_t i = 0; i < n; i++) {
        const char *stop = memchr(*at, '\0', (size_t)(end - *at));
        if (!stop)
            inside_fail(WIRE_STEP_BEGIN, EPROTO);
        list[i] = (char *)(uintptr_t)*at;
        *at = stop + 1;
    }
    return list;
}

/* Its strings point into data, which stays. */
static void take_job(struct inside *inside, const char *data, size_t len)
{
    struct wire_job *job = &inside->job;
    const char *at = data + sizeof *job, *end = data + len;

    if (len < sizeof *job)
        inside_fail(WIRE_STEP_BEGIN, EPROTO);
    memcpy(job, data, sizeof *job);
    if (job->n_stages < 1 || job->n_stages > JOB_STAGES)
        inside_fail(WIRE_STEP_BEGIN, EPROTO);
    for (uint32_t i = 0; i < job->n_stages; i++)
        inside->argv[i] = take_strings(&at, end, job->argc[i]);
    inside->env = take_strings(&at, end, job->envc);
    inside->globs = take_strings(&at, end, job->n_globs);
    inside->folders = take_strings(&at, end, job->n_folders);
    inside->version_argv = take_strings(&at, end, job->version_argc);
}

static void begin_stage(struct inside *inside)
{
    struct wire_stage stage = { 0 };

    stage.missing = inside->missing;
    start_program(inside, &stage.layers);
    if (getpid() == 1)
        stage.layers |= LAYER_BIT(PID_NS);
    inside->started_ns = clock_now_ns();
    inside_send(WIRE_STARTED, &stage, sizeof stage);
}

static int64_t reaped_cpu_ns(uint64_t *ret_max_rss)
{
    struct rusage usage = { 0 };

    getrusage(RUSAGE_CHILDREN, &usage);
    *ret_max_rss = (uint64_t)usage.ru_maxrss * 1024;
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * NS_PER_SEC +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

/* Its time is not the program's. */
static void tell_version(struct inside *inside)
{
    char answer[1024];
    uint64_t ignored;
    size_t len = start_ask(inside, inside->version_argv, answer, sizeof answer);

    inside->reaped_cpu_ns = reaped_cpu_ns(&ignored);
    inside_send(WIRE_RUNTIME, answer, len);
}

static void take_input(struct inside *inside, const char *data, size_t len)
{
    if (inside->in_fd < 0)
        return;
    if (len > sizeof inside->input - inside->input_len)
        inside_fail(WIRE_STEP_BEGIN, EPROTO);
    memcpy(inside->input + inside->input_len, data, len);
    inside->input_len += len;
}

static void take_side(int rc)
{
    if (rc < 0)
        inside_fail(WIRE_STEP_CAPS, -rc);
}

static void hear(struct inside *inside)
{
    struct wire_head head;

    receive(&head, sizeof head);
    if (head.kind >= WIRE_KIND_N ||
        head.len > (head.kind == WIRE_JOB ? WIRE_JOB_MAX : 2 * WIRE_PIECE))
        inside_fail(WIRE_STEP_BEGIN, EPROTO);
    auto_free char *data = mem_alloc(head.len + (size_t)1);
    receive(data, head.len);
    switch ((enum wire_kind)head.kind) {
    case WIRE_JOB:
        take_job(inside, take_ptr(&data), head.len);
        inside->missing = check_engine(inside->job.require);
        if (inside->job.is_split)
            take_side(split_lower());
        break;
    case WIRE_ENTRY:
        files_entry(inside, data, head.len);
        break;
    case WIRE_DATA:
        files_data(inside, data, head.len);
        break;
    case WIRE_BEGIN:
        files_done(inside);
        if (inside->job.is_split)
            take_side(split_raise());
        if (inside->job.version_argc > 0)
            tell_version(inside);
        begin_stage(inside);
        break;
    case WIRE_NEXT:
        begin_stage(inside);
        break;
    case WIRE_INPUT:
        take_input(inside, data, head.len);
        break;
    case WIRE_INPUT_END:
        inside->has_input_end = true;
        break;
    case WIRE_READY:
    case WIRE_RUNTIME:
    case WIRE_STARTED:
    case WIRE_FAILED:
    case WIRE_STDOUT:
    case WIRE_STDERR:
    case WIRE_TAKEN:
    case WIRE_ENDED:
    case WIRE_HARVEST:
    case WIRE_KIND_N:
        inside_fail(WIRE_STEP_BEGIN, EPROTO);
    }
}

/* ---- the program's streams --------------------------------------------------------------------
 */

/* Returns whether there may be more. */
static bool pass_output(int *fd, uint32_t kind)
{
    char data[WIRE_PIECE];

    if (*fd < 0)
        return false;
    ssize_t n = read(*fd, data, sizeof data);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    if (n <= 0) {
        close_fd(fd);
        return false;
    }
    inside_send(kind, data, (size_t)n);
    return true;
}

static void pass_input(struct inside *inside)
{
    if (inside->in_fd < 0)
        return;
    ssize_t n = inside->input_len == 0 ? 0 : write(inside->in_fd, inside->input, inside->input_len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        const uint32_t none = 0;
        inside_send(WIRE_TAKEN, &none, sizeof none);
        inside->input_len = 0;
        close_fd(&inside->in_fd);
        return;
    }
    if (n > 0) {
        const uint32_t taken = (uint32_t)n;
        inside->input_len -= (size_t)n;
        memmove(inside->input, inside->input + n, inside->input_len);
        inside_send(WIRE_TAKEN, &taken, sizeof taken);
    }
    if (inside->input_len == 0 && inside->has_input_end)
        close_fd(&inside->in_fd);
}

/* ---- the end of a stage -----------------------------------------------------------------------
 */

static void add_place(const char *path, enum disk_place place, struct wire_stage *stage)
{
    struct statfs fs;

    if (statfs(path, &fs) < 0)
        return;
    uint64_t size = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
    stage->disk_size += size;
    stage->disk_used += size - (uint64_t)fs.f_bfree * (uint64_t)fs.f_bsize;
    stage->inodes_size += fs.f_files;
    stage->inodes_used += fs.f_files - fs.f_ffree;
    /* A tmpfs counts by pages and in batches, so "full" is: no room for a small file. */
    bool is_full =
        size > 0 && (uint64_t)fs.f_bfree * (uint64_t)fs.f_bsize < MIN(size / 16, UINT64_C(65536));
    bool has_no_inodes = fs.f_files > 0 && fs.f_ffree == 0;
    if (!stage->disk_full && (is_full || (has_no_inodes && !stage->inodes_full))) {
        stage->full_place = place;
        stage->full_size = is_full ? size : fs.f_files;
    }
    stage->disk_full |= is_full;
    stage->inodes_full |= has_no_inodes;
}

/* kill(-1) spares the caller, who is pid 1; that there is no child left to wait for is the kernel's
 * word that nothing else lives. */
void inside_end_all(void)
{
    kill(-1, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        continue;
}

/* By a process of its own, so that what it blocks on is ours to read. */
static void tell_harvest(const struct inside *inside, void (*tell)(const struct harvester *))
{
    int ends[2];

    if (!inside->job.has_harvest)
        return;
    if (pipe2(ends, O_CLOEXEC) < 0)
        inside_fail(WIRE_STEP_STREAMS, errno);
    pid_t pid = fork();
    if (pid < 0)
        inside_fail(WIRE_STEP_STREAMS, errno);
    if (pid == 0) {
        if (inside->job.is_split && split_become_user() < 0)
            _exit(1);
        struct harvester harvest = {
            .to_fd = ends[1],
            .workspace = WORKSPACE_INIT,
            .globs = inside->globs,
            .data_max = inside->job.limits[inside->job.n_stages - 1].disk_bytes,
        };
        if (inside->job.has_workspace) {
            chmod("/workspace", 0755);
            harvest.workspace.upper_fd = open("/workspace", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            harvest.workspace.carried = inside->carried;
            harvest.workspace.carried_len = inside->carried_len;
            harvest.workspace.copied_ns = inside->copied_ns;
        }
        tell(&harvest);
        _exit(0);
    }
    close_fd(&ends[1]);
    while (ends[0] >= 0)
        pass_output(&ends[0], WIRE_HARVEST);
    waitpid(pid, NULL, 0);
}

static void end_stage(struct inside *inside, int status)
{
    static const char *const places[] = {
#define DISK_PATH(name, path) [DISK_##name] = (path),
        DISK_PLACES(DISK_PATH)
#undef DISK_PATH
    };
    struct wire_stage stage = { .wait_status = status };
    bool is_last = inside->stage + 1 == inside->job.n_stages;

    stage.wall_ns = clock_now_ns() - inside->started_ns;
    inside_end_all();
    while (pass_output(&inside->out_fd, WIRE_STDOUT))
        continue;
    while (pass_output(&inside->err_fd, WIRE_STDERR))
        continue;
    close_fd(&inside->in_fd);
    close_fd(&inside->out_fd);
    close_fd(&inside->err_fd);
    stage.cpu_ns = reaped_cpu_ns(&stage.max_rss) - inside->reaped_cpu_ns;
    inside->reaped_cpu_ns += stage.cpu_ns;
    for (unsigned i = DISK_NONE + 1; i < DISK_N; i++)
        if (i != DISK_WORKSPACE || inside->job.has_workspace)
            add_place(places[i], (enum disk_place)i, &stage);
    uint64_t unreachable = netstat_unreachable(0);
    stage.unreachable = unreachable - MIN(inside->unreachable, unreachable);
    inside->unreachable = unreachable;
    if (!is_last)
        tell_harvest(inside, harvester_tell_products);
    inside_send(WIRE_ENDED, &stage, sizeof stage);
    if (is_last && inside->job.has_harvest) {
        tell_harvest(inside, harvester_tell);
        inside_send(WIRE_HARVEST, NULL, 0);
    }
    inside->program = -1;
    inside->stage++;
}

static void reap(struct inside *inside)
{
    int status, end = 0;
    bool has_ended = false;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == inside->program) {
            has_ended = true;
            end = status;
        }
    if (has_ended)
        end_stage(inside, end);
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
    inside_send(WIRE_READY, &version, sizeof version);
}

int main(void)
{
    struct inside *inside = mem_alloc(sizeof *inside);
    sigset_t mask;

    inside->program = inside->in_fd = inside->out_fd = inside->err_fd = inside->file_fd = -1;
    begin();
    sigfillset(&mask);
    sigdelset(&mask, SIGCHLD);
    for (;;) {
        bool has_work = inside->input_len > 0 || inside->has_input_end;
        struct pollfd list[] = {
            { .fd = STDIN_FILENO, .events = POLLIN },
            { .fd = inside->out_fd, .events = POLLIN },
            { .fd = inside->err_fd, .events = POLLIN },
            { .fd = has_work ? inside->in_fd : -1, .events = POLLOUT },
        };
        ppoll(list, ARRAY_LEN(list), NULL, &mask);
        if (list[1].revents)
            pass_output(&inside->out_fd, WIRE_STDOUT);
        if (list[2].revents)
            pass_output(&inside->err_fd, WIRE_STDERR);
        if (list[3].revents)
            pass_input(inside);
        if (list[0].revents)
            hear(inside);
        reap(inside);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an exec: started, followed, reaped, and reported. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "core/layer.h"
#include "guest/init.h"
#include "sys/netstat.h"

/* ---- its beginning ----------------------------------------------------------------------------
 */

static char **take_strings(const char **at, const char *end, uint32_t n)
{
    if (!*at || n > (size_t)(end - *at)) {
        *at = NULL;
        return NULL;
    }
    char **list = mem_alloc((n + (size_t)1) * sizeof *list);
    for (uint32_t i = 0; i < n; i++) {
        const char *stop = memchr(*at, '\0', (size_t)(end - *at));
        if (!stop) {
            *at = NULL;
            break;
        }
        list[i] = (char *)(uintptr_t)*at;
        *at = stop + 1;
    }
    return list;
}

bool exec_take(struct exec *exec, char *data, size_t len)
{
    const char *at = data + sizeof exec->spec, *end = data + len;

    *exec = (struct exec){ .state = EXEC_FILLING, .data = data, .fds = { -1, -1, -1, -1 } };
    if (len < sizeof exec->spec)
        return false;
    memcpy(&exec->spec, data, sizeof exec->spec);
    exec->argv = take_strings(&at, end, exec->spec.argc);
    exec->env = take_strings(&at, end, exec->spec.envc);
    exec->globs = take_strings(&at, end, exec->spec.n_globs);
    exec->version_argv = take_strings(&at, end, exec->spec.version_argc);
    return at && exec->spec.argc > 0 && exec->spec.harvest <= HARVEST_ALL &&
           (exec->spec.owns_sandbox || exec->spec.harvest == HARVEST_NOTHING);
}

static void free_exec(struct exec *exec)
{
    for (int i = 0; i < WIRE_STREAM_N; i++)
        close_fd(&exec->fds[i]);
    free(exec->argv);
    free(exec->env);
    free(exec->globs);
    free(exec->version_argv);
    free(exec->data);
    free(exec->input);
    *exec = (struct exec){ .state = EXEC_FREE };
}

void exec_failed(struct init *init, struct exec *exec, uint32_t step, int errnum)
{
    const struct wire_failed failed = { step, errnum };

    init_send(WIRE_EXEC_FAILED, init_number(init, exec), &failed, sizeof failed);
    if (exec->state == EXEC_FILLING)
        exec->state = EXEC_BROKEN;
    else
        free_exec(exec);
}

/* Its time is not the program's. */
static void send_version(struct init *init, struct exec *exec)
{
    char answer[1024];
    size_t len = start_ask(init, exec, answer, sizeof answer);

    exec_end_everybody(init);
    init_send(WIRE_RUNTIME, init_number(init, exec), answer, len);
}

static bool is_harvesting(const struct init *init)
{
    for (const struct exec *exec = init->execs; exec < init->execs + WIRE_EXECS; exec++)
        if (exec->state >= EXEC_DRAINING && exec->spec.owns_sandbox)
            return true;
    return false;
}

static void begin_program(struct init *init, struct exec *exec)
{
    struct wire_layers on = { .missing = init->missing };
    struct wire_failed failed;

    if (exec->spec.version_argc > 0 && !init->has_run)
        send_version(init, exec);
    init->has_run = true;
    exec->unreachable = netstat_unreachable(0);
    if (!start_program(init, exec, &on.layers, &failed)) {
        exec_failed(init, exec, failed.step, failed.errnum);
        return;
    }
    if (getpid() == 1)
        on.layers |= LAYER_BIT(PID_NS);
    exec->state = EXEC_RUNNING;
    exec->started_ns = clock_now_ns();
    if (exec->spec.has_input)
        exec->input = mem_alloc(WIRE_WINDOW_IN);
    for (int i = 0; i < WIRE_STREAM_N; i++)
        exec->credit[i] = WIRE_WINDOW;
    init_send(WIRE_STARTED, init_number(init, exec), &on, sizeof on);
}

void exec_start(struct init *init, struct exec *exec)
{
    if (exec->state == EXEC_BROKEN) {
        free_exec(exec);
        return;
    }
    exec->state = EXEC_WAITING;
    if (!is_harvesting(init))
        begin_program(init, exec);
}

/* ---- while it runs ----------------------------------------------------------------------------
 */

void exec_signal(struct init *init, struct exec *exec, int signal)
{
    if (exec->state != EXEC_RUNNING || signal < 1 || signal > 64)
        return;
    if (signal == SIGKILL && exec->spec.owns_sandbox)
        exec_end_everybody(init);
    else
        kill(-exec->pid, signal);
}

/* Of those of its session that live. */
static int64_t living_cpu(struct init *init, const struct exec *exec)
{
    if (!init->tree)
        init->tree = mem_alloc(sizeof *init->tree);
    return proc_session_cpu(init->tree, getpid(), exec->pid);
}

int64_t exec_cpu(struct init *init, struct exec *exec)
{
    return exec->cpu_ns + living_cpu(init, exec);
}

void exec_push_input(struct init *init, struct exec *exec)
{
    int *fd = &exec->fds[WIRE_STREAM_IN];
    ssize_t n = exec->input_len == 0 ? 0 : write(*fd, exec->input, exec->input_len);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n != 0) {
        const struct wire_taken taken = { WIRE_STREAM_IN, n < 0 ? 0 : (uint32_t)n };
        init_send(WIRE_TAKEN, init_number(init, exec), &taken, sizeof taken);
    }
    if (n < 0) { /* it reads no more */
        exec->input_len = 0;
        close_fd(fd);
        return;
    }
    exec->input_len -= (size_t)n;
    memmove(exec->input, exec->input + n, exec->input_len);
    if (exec->input_len == 0 && exec->has_input_end)
        close_fd(fd);
}

void exec_pull(struct init *init, struct exec *exec, enum wire_stream stream)
{
    static const uint16_t kinds[WIRE_STREAM_N] = {
        [WIRE_STREAM_OUT] = WIRE_STDOUT,
        [WIRE_STREAM_ERR] = WIRE_STDERR,
        [WIRE_STREAM_HARVEST] = WIRE_HARVEST,
    };
    char data[WIRE_PIECE];
    size_t room = MIN(sizeof data, exec->credit[stream]);

    if (exec->has_rest && stream != WIRE_STREAM_HARVEST)
        room = MIN(room, exec->rest[stream]);
    if (exec->fds[stream] < 0 || room == 0)
        return;
    ssize_t n = read(exec->fds[stream], data, room);
    if (n < 0 &&
        (errno == EINTR || (errno == EAGAIN && (!exec->has_rest || stream == WIRE_STREAM_HARVEST))))
        return;
    if (n <= 0) {
        close_fd(&exec->fds[stream]);
        return;
    }
    exec->credit[stream] -= (uint32_t)n;
    if (exec->has_rest && stream != WIRE_STREAM_HARVEST)
        exec->rest[stream] -= (uint32_t)n;
    init_send(kinds[stream], init_number(init, exec), data, (size_t)n);
}

/* ---- its end ----------------------------------------------------------------------------------
 */

/* The one that is alone has all that dies; else it is known by its session. */
static struct exec *exec_of(struct init *init, pid_t pid)
{
    pid_t session = getsid(pid);

    for (struct exec *exec = init->execs; exec < init->execs + WIRE_EXECS; exec++)
        if (exec->state == EXEC_RUNNING &&
            (exec->spec.owns_sandbox || exec->pid == pid || exec->pid == session))
            return exec;
    return NULL;
}

static int64_t time_ns(const struct timeval *time)
{
    return time->tv_sec * NS_PER_SEC + time->tv_usec * 1000;
}

/* What is of its group goes down while the dead one still holds the number. */
static void end_program(struct init *init, struct exec *exec)
{
    exec->state = EXEC_DRAINING;
    exec->ended_ns = clock_now_ns();
    if (!exec->spec.owns_sandbox) /* with its own, and of those that go down with it */
        exec->cpu_ns += living_cpu(init, exec);
    kill(-exec->pid, SIGKILL);
}

/* Reaps one; false: there is none, or with WNOHANG none that is dead. */
static bool reap_one(struct init *init, int flags)
{
    siginfo_t info = { 0 };
    struct rusage usage;
    int status;

    if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT | flags) < 0)
        return errno == EINTR;
    if (info.si_pid == 0)
        return false;
    struct exec *exec = exec_of(init, info.si_pid);
    bool is_its_end = exec && exec->pid == info.si_pid;
    if (is_its_end)
        end_program(init, exec);
    if (wait4(info.si_pid, &status, 0, &usage) <= 0)
        return errno == EINTR;
    if (is_its_end)
        exec->status = status;
    if (exec)
        exec->max_rss = MAX(exec->max_rss, (uint64_t)usage.ru_maxrss * 1024);
    if (exec && (exec->spec.owns_sandbox || !is_its_end))
        exec->cpu_ns += time_ns(&usage.ru_utime) + time_ns(&usage.ru_stime);
    return true;
}

/* kill(-1) spares the caller, who is pid 1; that there is no child left to wait for is the kernel's
 * word that nothing else lives. */
void exec_end_everybody(struct init *init)
{
    kill(-1, SIGKILL);
    while (reap_one(init, 0))
        continue;
}

static void add_place(const char *path, enum disk_place place, struct wire_end *end)
{
    struct statfs fs;

    if (statfs(path, &fs) < 0)
        return;
    uint64_t size = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
    end->disk_used += size - (uint64_t)fs.f_bfree * (uint64_t)fs.f_bsize;
    end->inodes_used += fs.f_files - fs.f_ffree;
    /* A tmpfs counts by pages and in batches, so "full" is: no room for a small file. */
    bool is_full =
        size > 0 && (uint64_t)fs.f_bfree * (uint64_t)fs.f_bsize < MIN(size / 16, UINT64_C(65536));
    bool has_no_inodes = fs.f_files > 0 && fs.f_ffree == 0;
    if (!end->disk_full && (is_full || (has_no_inodes && !end->inodes_full))) {
        end->full_place = place;
        end->full_size = is_full ? size : fs.f_files;
    }
    end->disk_full |= is_full;
    end->inodes_full |= has_no_inodes;
}

static void send_end(struct init *init, const struct exec *exec)
{
    static const char *const places[] = {
#define DISK_PATH(name, path) [DISK_##name] = (path),
        DISK_PLACES(DISK_PATH)
#undef DISK_PATH
    };
    struct wire_end end = {
        .wait_status = exec->status,
        .wall_ns = exec->ended_ns - exec->started_ns,
        .cpu_ns = exec->cpu_ns,
        .max_rss = exec->max_rss,
    };

    for (unsigned i = DISK_NONE + 1; i < DISK_N; i++)
        if (i != DISK_WORKSPACE || init->open.has_workspace)
            add_place(places[i], (enum disk_place)i, &end);
    uint64_t unreachable = netstat_unreachable(0);
    end.unreachable = unreachable - MIN(exec->unreachable, unreachable);
    init_send(WIRE_ENDED, init_number(init, exec), &end, sizeof end);
}

static void write_harvest(const struct init *init, const struct exec *exec, int to_fd)
{
    struct harvester harvest = {
        .to_fd = to_fd,
        .workspace = WORKSPACE_INIT,
        .globs = exec->globs,
        .data_max = exec->spec.harvest_max,
    };

    if (init->open.has_workspace) {
        chmod("/workspace", 0755);
        harvest.workspace.upper_fd = open("/workspace", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        harvest.workspace.carried = init->carried;
        harvest.workspace.carried_len = init->carried_len;
        harvest.workspace.copied_ns = init->copied_ns;
    }
    if (exec->spec.harvest == HARVEST_PRODUCTS)
        harvester_tell_products(&harvest);
    else
        harvester_tell(&harvest);
}

/* By a process of its own, so that what it blocks on is ours to read. */
static void begin_harvest(struct init *init, struct exec *exec)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        init_fail(WIRE_STEP_STREAMS, errno);
    pid_t pid = fork();
    if (pid < 0)
        init_fail(WIRE_STEP_STREAMS, errno);
    if (pid == 0) {
        if (init->open.is_split && split_become_user() < 0)
            _exit(1);
        write_harvest(init, exec, ends[1]);
        _exit(0);
    }
    close_fd(&ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    exec->fds[WIRE_STREAM_HARVEST] = ends[0];
}

/* What was written before the end is sent; who still holds the pipe of one that is not alone may go
 * on writing, and to nobody. */
static void count_rest(struct exec *exec)
{
    for (int i = WIRE_STREAM_OUT; i <= WIRE_STREAM_ERR; i++) {
        int n = 0;
        if (exec->fds[i] < 0 || ioctl(exec->fds[i], FIONREAD, &n) < 0)
            n = 0;
        exec->rest[i] = (uint32_t)MAX(n, 0);
    }
    exec->has_rest = true;
}

static bool is_drained(struct init *init, struct exec *exec, enum wire_stream stream)
{
    while (exec->fds[stream] >= 0 && exec->credit[stream] > 0 && exec->rest[stream] > 0)
        exec_pull(init, exec, stream);
    return exec->fds[stream] < 0 || exec->rest[stream] == 0;
}

static void advance(struct init *init, struct exec *exec)
{
    uint16_t number = init_number(init, exec);

    if (exec->state == EXEC_DRAINING) {
        if (exec->spec.owns_sandbox && !exec->has_rest)
            exec_end_everybody(init);
        if (!exec->has_rest)
            count_rest(exec);
        bool is_out = is_drained(init, exec, WIRE_STREAM_OUT);
        if (!is_drained(init, exec, WIRE_STREAM_ERR) || !is_out)
            return;
        for (int i = 0; i < WIRE_STREAM_HARVEST; i++)
            close_fd(&exec->fds[i]);
        exec->state = exec->spec.harvest == HARVEST_PRODUCTS ? EXEC_PRODUCTS : EXEC_HARVEST;
        if (exec->state == EXEC_HARVEST)
            send_end(init, exec);
        if (exec->spec.harvest != HARVEST_NOTHING)
            begin_harvest(init, exec);
    }
    if (exec->state < EXEC_PRODUCTS || exec->fds[WIRE_STREAM_HARVEST] >= 0)
        return;
    if (exec->spec.harvest != HARVEST_NOTHING)
        init_send(WIRE_HARVEST, number, NULL, 0);
    if (exec->state == EXEC_PRODUCTS)
        send_end(init, exec);
    free_exec(exec);
}

void exec_reap_all(struct init *init)
{
    while (reap_one(init, WNOHANG))
        continue;
}

void exec_advance_all(struct init *init)
{
    for (struct exec *exec = init->execs; exec < init->execs + WIRE_EXECS; exec++)
        if (exec->state >= EXEC_DRAINING)
            advance(init, exec);
    for (struct exec *exec = init->execs; exec < init->execs + WIRE_EXECS; exec++)
        if (exec->state == EXEC_WAITING && !is_harvesting(init))
            begin_program(init, exec);
}

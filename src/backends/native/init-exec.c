/* SPDX-License-Identifier: Apache-2.0 */
/* Starting programs in a sandbox that stands, and reporting their ends. Async-signal-safe. What is
 * in a payload is trusted with nothing: it is checked, and the files that it brings are written
 * with no more rights than a program has. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/native/init.h"
#include "base/auto.h"
#include "base/clock.h"
#include "core/layer.h"
#include "sys/file.h"
#include "sys/netstat.h"

/* Until the first look at sockets. */
#define SOCKETS_FIRST_NS (4 * NS_PER_MSEC)

#ifdef __SANITIZE_ADDRESS__
void __asan_unpoison_memory_region(void const volatile *at, size_t size);
#else
static void __asan_unpoison_memory_region(void const volatile *at, size_t size)
{
    (void)at;
    (void)size;
}
#endif

/* ---- the table ---- */

struct init_exec *init_find_exec(struct state *state, pid_t pid)
{
    for (struct init_exec *exec = state->execs; exec < state->execs + SANDBOX_EXECS; exec++)
        if (pid > 0 && exec->pid == pid)
            return exec;
    return NULL;
}

static struct init_exec *find_free(struct state *state)
{
    for (struct init_exec *exec = state->execs; exec < state->execs + SANDBOX_EXECS; exec++)
        if (!exec->pid)
            return exec;
    return NULL;
}

/* ---- vectors: argv, variables, globs ---- */

static size_t vector_bytes(uint32_t n)
{
    return (n + (size_t)1) * sizeof(char *);
}

static char **vector_map(uint32_t n)
{
    void *map =
        mmap(NULL, vector_bytes(n), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

static void vector_unmap(char **vector, uint32_t n)
{
    if (vector)
        munmap(vector, vector_bytes(n));
}

/* What is of no use without a harvest, or after it. */
static void forget_payload(struct init_exec *exec)
{
    vector_unmap(exec->globs, exec->payload.n_globs);
    payload_unmap(&exec->payload);
    close_fd(&exec->spec.harvest_fd);
    exec->globs = NULL;
}

/* ---- starting ---- */

/* Memory of its own: sanitizers take a frame within this one's for a broken stack. The frames of
 * the last that was on it never returned, and a sanitizer still knows them. */
char *init_stack(struct state *state)
{
    if (!state->stack) {
        void *stack =
            mmap(NULL, INIT_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        state->stack = stack == MAP_FAILED ? NULL : stack;
    }
    if (state->stack)
        __asan_unpoison_memory_region(state->stack, INIT_STACK);
    return state->stack;
}

/* Prefers the program over pid 1 when the group runs out of memory: the one forked in between
 * inherits the score. */
void init_oom_score(const struct state *state, const char *score)
{
    if (state->oom_fd >= 0 && pwrite(state->oom_fd, score, strlen(score), 0) < 0)
        return;
}

void init_describe_program(struct state *state, const struct exec_spec *exec)
{
    const struct child *child = state->child;

    state->program = (struct program){
        .spec = child->spec,
        .exec = exec,
        .has_cgroup = child->has_cgroup,
        .is_of_init = true,
        .nice = child->nice,
        .has_workspace = workspace_is_there(&state->workspace),
        .wanted = child->wanted,
        .seccomp = child->seccomp,
        .cpus = child->cpus,
        .exec_fd = -1,
        .notice_fd = -1,
        .failed_step = STEP_N,
    };
}

/* What pid 1 starts has its filters too. Where the kernel can't do it, nobody counts locks. */
static void listen_for_locks(struct state *state)
{
    if (state->has_lock_filter || !(state->child->wanted & LAYER_BIT(SECCOMP)))
        return;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        state->lock_fd = seccomp_load_flock_notif();
    state->has_lock_filter = true;
}

/* It has let go of our memory: it is executed, has failed, or is dying. Whoever dies on the way to
 * the exec is not the program yet: a filter around us killed it, or a fault of ours. A SIGKILL may
 * be for want of memory, which the group counts. */
bool init_is_executed(const struct state *state, pid_t pid, struct init_failure *ret)
{
    siginfo_t info = { 0 };

    *ret = (struct init_failure){ state->program.failed_step, state->program.failed_errno };
    if (ret->step != STEP_N)
        return false;
    /* It is dying, and waited for: at once, its state is not known yet. */
    if (state->program.executed_ns == 0 &&
        waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0 && info.si_code != CLD_EXITED &&
        info.si_status != SIGKILL)
        *ret = (struct init_failure){ STEP_EXEC, -info.si_status };
    return ret->step == STEP_N;
}

/* A folder that an exec has shut behind it is left alone where it is the one that we are in. */
static int enter_folder(struct state *state, bool is_workspace)
{
    if (state->is_workspace == is_workspace)
        return 0;
    if (chdir(is_workspace ? "/workspace" : "/sandbox") < 0)
        return -errno;
    state->is_workspace = is_workspace;
    return 0;
}

/* Writes the files, which are in /sandbox whatever the program's own folder is. */
static int take_payload(struct state *state, struct init_exec *exec)
{
    int rc = payload_map(exec->spec.payload_fd, PAYLOAD_EXEC, &exec->payload);

    if (rc == 0)
        rc = enter_folder(state, false);
    if (rc == 0)
        rc = payload_write_files(&exec->payload, AT_FDCWD);
    if (rc < 0 || exec->spec.harvest == HARVEST_NOTHING)
        return rc;
    exec->globs = vector_map(exec->payload.n_globs);
    if (!exec->globs)
        return -ENOMEM;
    payload_globs(&exec->payload, exec->globs);
    return 0;
}

static pid_t clone_program(struct state *state, struct init_failure *ret)
{
    char *stack = init_stack(state);

    *ret = (struct init_failure){ STEP_EXEC, ENOMEM };
    if (!stack)
        return -1;
    init_oom_score(state, "1000");
    pid_t pid =
        clone(program_main, stack + INIT_STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, &state->program);
    ret->errnum = errno;
    init_oom_score(state, "0");
    return pid < 0 || !init_is_executed(state, pid, ret) ? -1 : pid;
}

static pid_t start_program(struct state *state, struct init_exec *exec, struct init_failure *ret)
{
    const struct payload *payload = &exec->payload;
    pid_t pid = -1;
    bool wants_workspace = exec->spec.in_workspace && workspace_is_there(&state->workspace);

    int rc = enter_folder(state, wants_workspace);
    if (rc < 0) {
        *ret = (struct init_failure){ STEP_WORKDIR, -rc };
        return -1;
    }
    listen_for_locks(state);
    init_describe_program(state, &exec->spec);
    char **argv = vector_map(payload->argc), **env = vector_map(payload->envc);
    *ret = (struct init_failure){ STEP_FILES, ENOMEM };
    if (argv && env) {
        payload_argv(payload, argv);
        payload_env(payload, env);
        state->program.argv = argv;
        state->program.env = env;
        pid = clone_program(state, ret);
    }
    vector_unmap(argv, payload->argc);
    vector_unmap(env, payload->envc);
    exec->started_ns = state->program.executed_ns;
    if (pid > 0 && exec->started_ns == 0) /* killed on its way to the exec: that is its end, too */
        exec->started_ns = clock_now_ns();
    return pid;
}

/* By which all that runs is watched: those of one that is alone, or the sandbox's. */
static void begin_watching(struct state *state, const struct init_exec *exec)
{
    const struct cay_limits *own = &exec->spec.limits;
    bool is_first = state->n_execs == 0;

    if (exec->spec.owns_sandbox) {
        state->limits = *own;
    } else {
        uint32_t files = is_first ? 0 : state->limits.open_files;
        state->limits = state->child->spec->limits;
        state->limits.open_files = MAX(files, own->open_files);
        state->limits.cpu_time_ns = 0; /* each has its own (init.c) */
        state->next_cpu_ns = 0;
    }
    if (!is_first)
        return;
    state->opens_nothing = state->has_cut_files = false; /* that was another */
    state->takes_no_notice = false;
    if (state->child->has_cgroup) {
        state->idle_ns = SOCKETS_FIRST_NS;
        state->next_look_ns = clock_now_ns() + state->idle_ns;
    } else {
        watcher_begin(&state->watcher, &state->limits);
        state->next_look_ns = 0;
    }
}

static void report_started(struct state *state, struct init_exec *exec)
{
    struct child_report started = {
        .kind = CHILD_EXEC_STARTED,
        .exec = exec->spec.number,
        .layers = state->child->layers,
        .at_ns = exec->started_ns,
    };
    siginfo_t info = { 0 };

    /* One that is soon over is reported once: we may have waited for its CPU all along. */
    bool has_ended = waitid(P_PID, (id_t)exec->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                     info.si_pid == exec->pid;
    if (!has_ended)
        init_report(state, &started);
    exec->is_reported = !has_ended;
}

static void report_failed(const struct state *state, uint32_t number,
                          const struct init_failure *failure)
{
    struct child_report failed = {
        .kind = CHILD_EXEC_FAILED,
        .exec = number,
        .step = failure->step,
        .value = failure->errnum,
    };
    init_report(state, &failed);
}

/* Returns whether it runs. */
static bool start_exec(struct state *state, struct init_exec *exec, struct child_request *request,
                       struct init_failure *ret)
{
    bool is_ready = state->waiting > 0 && request->is_for_waiting;

    if (state->waiting > 0 && !is_ready)
        state->child->ahead->drop(state);
    /* Nothing of those before it lives on beside one that has the sandbox for itself. */
    if (state->has_held || (exec->spec.owns_sandbox && !is_ready))
        init_end_the_rest(state);
    begin_watching(state, exec);
    state->has_run = true;
    if (exec->spec.owns_sandbox)
        exec->zero_cpu_ns = init_reaped_cpu_ns();
    int rc = take_payload(state, exec);
    if (rc < 0) {
        *ret = (struct init_failure){ STEP_FILES, -rc };
        return false;
    }
    if (is_ready) {
        exec->started_ns = clock_now_ns(); /* it may have done its work before we are back */
        exec->pid = state->child->ahead->hand_over(state, request, ret);
    } else {
        exec->pid = start_program(state, exec, ret);
    }
    if (exec->pid > 0)
        state->child->layers |= state->program.layers;
    return exec->pid > 0;
}

void init_start_exec(struct state *state, struct child_request *request)
{
    struct init_exec *exec = find_free(state);
    struct init_failure failure = { STEP_EXEC, EAGAIN };

    if (exec) {
        *exec = (struct init_exec){ .spec = request->exec };
        if (start_exec(state, exec, request, &failure)) {
            state->n_execs++;
            report_started(state, exec);
        } else {
            exec->pid = 0;
            forget_payload(exec);
            report_failed(state, request->exec.number, &failure);
        }
        if (exec->pid && exec->spec.harvest == HARVEST_NOTHING)
            forget_payload(exec);
    } else {
        close_fd(&request->exec.harvest_fd);
        report_failed(state, request->exec.number, &failure);
    }
    for (int i = 0; i < 3; i++)
        close_fd(&request->exec.std_fds[i]);
    close_fd(&request->exec.payload_fd);
}

/* ---- signals ---- */

/* A number is its own as long as nobody has reaped it, and that is us. */
void init_signal_exec(struct state *state, uint32_t number, int signal)
{
    for (struct init_exec *exec = state->execs; exec < state->execs + SANDBOX_EXECS; exec++) {
        if (!exec->pid || exec->spec.number != number)
            continue;
        if (exec->spec.owns_sandbox && signal == SIGKILL)
            kill(-1, SIGKILL);
        else if (kill(-exec->pid, signal) < 0 || getpgid(exec->pid) != exec->pid)
            kill(exec->pid, signal);
        return;
    }
}

/* ---- their ends ---- */

int64_t init_reaped_cpu_ns(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_CHILDREN, &usage) < 0)
        return 0;
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * NS_PER_SEC +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

/* Field N of /proc/PID/stat (proc(5)), counted behind the name, which may hold anything. */
enum { STAT_GROUP = 5, STAT_SESSION = 6, STAT_UTIME = 14, STAT_CSTIME = 17 };

static int64_t cpu_ticks_of(int proc_fd, const char *name, pid_t program)
{
    char path[32] = "", text[1024], *end = path;
    int64_t ticks = 0;
    bool is_its_own = false;

    while (*name && end < path + sizeof path - sizeof "/stat")
        *end++ = *name++;
    memcpy(end, "/stat", sizeof "/stat");
    if (file_read_at(proc_fd, path, text, sizeof text) <= 0)
        return 0;
    char *pos = strrchr(text, ')');
    if (!pos || strlen(pos) < 4)
        return 0;
    pos += 3; /* its state is behind the bracket and a space */
    for (int field = 4; field <= STAT_CSTIME; field++) {
        int64_t value = strtol(pos, &pos, 10);
        if ((field == STAT_GROUP || field == STAT_SESSION) && value == program)
            is_its_own = true;
        if (field >= STAT_UTIME)
            ticks += value;
    }
    return is_its_own ? ticks : 0;
}

int64_t init_living_cpu_ns(struct state *state, pid_t program)
{
    char buf[4096];
    int64_t ticks = 0;

    int fd = init_proc(state);
    if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return 0;
    for (ssize_t len; (len = getdents64(fd, (void *)buf, sizeof buf)) > 0;)
        for (ssize_t at = 0; at < len;) {
            const struct dirent64 *entry = (const void *)(buf + at);
            at += entry->d_reclen;
            if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
                ticks += cpu_ticks_of(fd, entry->d_name, program);
        }
    return ticks * (NS_PER_SEC / sysconf(_SC_CLK_TCK));
}

/* Since somebody asked last: the kernel counts on. */
static uint64_t count_unreachable(struct state *state)
{
    uint64_t before = state->unreachable;

    state->unreachable = netstat_unreachable(0);
    return state->unreachable - MIN(before, state->unreachable);
}

static void report_harvest(struct state *state, struct init_exec *exec,
                           void (*report)(const struct harvester *))
{
    const struct harvester harvest = {
        .to_fd = exec->spec.harvest_fd,
        .workspace = state->workspace,
        .globs = exec->globs,
        .data_max = exec->spec.limits.disk_bytes,
    };

    if (harvest.to_fd < 0)
        return;
    init_end_the_rest(state);
    report(&harvest);
    close_fd(&exec->spec.harvest_fd);
}

static void read_disk(struct child_report *ret)
{
    struct statfs fs;

    if (statfs("/sandbox", &fs) < 0)
        return;
    ret->disk_free = (uint64_t)fs.f_bfree * (uint64_t)fs.f_bsize;
    ret->inodes_free = fs.f_ffree;
}

void init_end_exec(struct state *state, struct init_exec *exec, int status, bool is_held)
{
    bool is_owner = exec->spec.owns_sandbox;
    enum harvest_what harvest = exec->spec.harvest;
    struct child_report ended = {
        .kind = CHILD_EXEC_ENDED,
        .exec = exec->spec.number,
        .value = status,
        .layers = state->child->layers,
        .cpu_ns = is_owner ? init_reaped_cpu_ns() - exec->zero_cpu_ns : exec->cpu_ns,
        .max_rss = exec->max_rss,
        .files_cut = state->has_cut_files,
        .at_ns = clock_now_ns(),
        .started_ns = exec->is_reported ? 0 : exec->started_ns,
    };

    state->n_execs--;
    exec->pid = 0;
    state->has_held = is_held;
    if (is_owner && !is_held)
        kill(-1, SIGKILL);
    /* What it left is reported after its end. */
    ended.is_held = is_held || (is_owner && harvest != HARVEST_ALL && init_is_childless());
    if (status != 0 || ended.at_ns - exec->started_ns >= NETSTAT_WORTH_NS)
        ended.unreachable = count_unreachable(state);
    read_disk(&ended);
    if (harvest == HARVEST_PRODUCTS && status == 0)
        report_harvest(state, exec,
                       harvester_tell_products); /* before the front hears of its end */
    init_report(state, &ended);
    if (harvest == HARVEST_ALL)
        report_harvest(state, exec, harvester_tell);
    forget_payload(exec);
}

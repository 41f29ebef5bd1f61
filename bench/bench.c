/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cay-bench measures whole commands: from the spawn of a command until it is reaped, its output
 * thrown away; and requests to a server or an engine (request.h). What is compared forms a group,
 * and the rows of a group take turns in an order shuffled anew for each round, so that a busy
 * neighbour, and what the kernel still clears away of the command before (a net namespace takes
 * milliseconds), hit all rows alike. Each group is measured twice: back to back, and sparse, with a
 * rest before each command, for a tight loop hides costs that a lone call has to pay. A row that
 * fails once has no time at all, for the time of a failure says nothing.
 */

#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/clock.h"
#include "request.h"

static const char *const mode_name[MODES] = { "back to back", "sparse" };

/* How a command is started; made once, so that nothing but the command is in the measured time. */
struct starter {
    int null_fd, err_fd;
    int cwd_fd, host_ns_fd, cgroup2_ns_fd; /* the latter -1 for who is not root */
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    char *env[8];
    struct requests requests;
};

static void on_alarm(int sig)
{
    (void)sig; /* being interrupted is what wait4 needs of it */
}

/*
 * The environment is a fixed one: a PYTHONPATH or NODE_OPTIONS of the caller's would be measured
 * too, and a PATH of the caller's could lead to other programs.
 */
static void starter_env(struct bench *b, char **env)
{
    static const char *const kept[] = { "HOME", "USER", "XDG_RUNTIME_DIR", "XDG_STATE_HOME" };
    size_t n = 0;
    env[n++] = arena_str(&b->arena, "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
    env[n++] = arena_str(&b->arena, "LANG=C.UTF-8");
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        const char *value = getenv(kept[i]);
        if (value)
            env[n++] = arena_printf(&b->arena, "%s=%s", kept[i], value);
    }
    env[n] = NULL;
}

/*
 * A mount namespace in which /sys/fs/cgroup is cgroup v2: crun refuses to run where it finds
 * controllers of both kinds. It is kept by its fd alone, so nothing has to be cleaned up.
 */
static int make_cgroup2_ns(void)
{
    char path[64], byte = 0;
    int to_us[2], to_it[2];

    if (pipe2(to_us, O_CLOEXEC) < 0 || pipe2(to_it, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        close(to_it[1]);
        if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
            mount("tmpfs", "/sys/fs/cgroup", "tmpfs", 0, NULL) == 0 &&
            mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, NULL) == 0 &&
            write(to_us[1], &byte, 1) == 1)
            while (read(to_it[0], &byte, 1) < 0 && errno == EINTR)
                continue;
        _exit(0);
    }
    close(to_us[1]);
    close(to_it[0]);
    int fd = -1;
    snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
    if (pid > 0 && read(to_us[0], &byte, 1) == 1)
        fd = open(path, O_RDONLY | O_CLOEXEC);
    close(to_us[0]);
    close(to_it[1]);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return fd;
}

static int starter_init(struct starter *s, struct bench *b, struct cay_error *err)
{
    s->cwd_fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    s->host_ns_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    s->cgroup2_ns_fd = geteuid() == 0 ? make_cgroup2_ns() : -1;
    if (s->cwd_fd < 0 || s->host_ns_fd < 0)
        return cay_fail_errno(err, errno, "open the own folder and mount namespace");
    s->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (s->null_fd < 0)
        return cay_fail_errno(err, errno, "open /dev/null");
    /* Not a pipe: a stray child could hold it open, and nobody would read it during the run. */
    s->err_fd = memfd_create("stderr", MFD_CLOEXEC);
    if (s->err_fd < 0)
        return cay_fail_errno(err, errno, "make a file for stderr");

    int rc = posix_spawn_file_actions_init(&s->actions);
    for (int fd = 0; rc == 0 && fd < 3; fd++)
        rc = posix_spawn_file_actions_adddup2(&s->actions, fd == 2 ? s->err_fd : s->null_fd, fd);
    if (rc == 0)
        rc = posix_spawnattr_init(&s->attr);
    /* A process group of its own lets a hung command be ended with its children. */
    if (rc == 0)
        rc = posix_spawnattr_setflags(&s->attr, POSIX_SPAWN_SETPGROUP);
    if (rc != 0)
        return cay_fail_errno(err, rc, "prepare the spawn");

    const struct sigaction alarm_action = { .sa_handler = on_alarm }; /* no SA_RESTART */
    if (sigaction(SIGALRM, &alarm_action, NULL) < 0)
        return cay_fail_errno(err, errno, "handle SIGALRM");
    starter_env(b, s->env);
    return 0;
}

/* The first line with text in it that the command wrote to stderr, made harmless for a terminal. */
static void first_error_line(const struct starter *s, char *out, size_t size)
{
    char text[1024];
    ssize_t got = pread(s->err_fd, text, sizeof(text) - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    const char *line = text + strspn(text, " \t\r\n");
    size_t len = MIN(strcspn(line, "\r\n"), size - 1);
    for (size_t i = 0; i < len; i++)
        out[i] = line[i] >= ' ' && line[i] <= '~' ? line[i] : '?';
    out[len] = '\0';
}

/* Marks a row as failed: what happened, then what the command said about it. */
__attribute__((format(printf, 3, 4))) static void row_fail(struct row *row, const struct starter *s,
                                                           const char *fmt, ...)
{
    char what[64], line[96];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    first_error_line(s, line, sizeof(line));
    row->state = FAILED;
    snprintf(row->message, sizeof(row->message), "%s%s%s", what, line[0] != '\0' ? ": " : "", line);
}

/* Ends what has not ended in time; the alarm repeats, so none is lost before wait4 is entered. */
static int reap(pid_t pid, int *ret_status, bool *ret_late)
{
    struct rusage usage;
    bool late = false;
    while (wait4(pid, ret_status, 0, &usage) < 0) {
        if (errno != EINTR)
            return -errno;
        late = true;
        kill(-pid, SIGKILL);
    }
    *ret_late = late;
    return 0;
}

/* Into the namespace of such a row, and back; neither is part of the measured time. */
static int enter(const struct starter *s, const struct row *row)
{
    return row->on_cgroup2 ? setns(s->cgroup2_ns_fd, CLONE_NEWNS) : 0;
}

static int leave(const struct starter *s, const struct row *row)
{
    if (!row->on_cgroup2)
        return 0;
    return setns(s->host_ns_fd, CLONE_NEWNS) < 0 || fchdir(s->cwd_fd) < 0 ? -1 : 0;
}

/* Runs a row once; the time is valid if the row is still MEASURED afterwards. */
static int64_t run_once(struct bench *b, struct starter *s, struct row *row)
{
    if (row->driver != COMMAND)
        return request_once(b, &s->requests, row);
    if (ftruncate(s->err_fd, 0) < 0 || lseek(s->err_fd, 0, SEEK_SET) < 0) {
        row_fail(row, s, "empty the file for stderr: %s", strerror(errno));
        return 0;
    }
    if (enter(s, row) < 0) {
        row_fail(row, s, "enter a mount namespace with cgroup v2: %s", strerror(errno));
        return 0;
    }
    const struct itimerval on = { { 0, 100000 }, { b->timeout_s, 0 } };
    const struct itimerval off = { { 0, 0 }, { 0, 0 } };
    setitimer(ITIMER_REAL, &on, NULL);

    pid_t pid = -1;
    int status = 0;
    bool late = false;
    int64_t start_ns = clock_now_ns();
    int rc = posix_spawn(&pid, row->argv[0], &s->actions, &s->attr, row->argv, s->env);
    int reaped = rc == 0 ? reap(pid, &status, &late) : 0;
    int64_t end_ns = clock_now_ns();
    setitimer(ITIMER_REAL, &off, NULL);
    if (leave(s, row) < 0) {
        row_fail(row, s, "come back from its mount namespace: %s", strerror(errno));
        return 0;
    }

    if (rc == ENOENT || rc == ENOTDIR) {
        row->state = NOT_INSTALLED;
    } else if (rc != 0) {
        row->state = FAILED;
        snprintf(row->message, sizeof(row->message), "%s: %s", row->argv[0], strerror(rc));
    } else if (reaped < 0) {
        row_fail(row, s, "wait4: %s", strerror(-reaped));
    } else if (late) {
        row_fail(row, s, "not ended after %d s", b->timeout_s);
    } else if (WIFSIGNALED(status)) {
        row_fail(row, s, "signal %d", WTERMSIG(status));
    } else if (WEXITSTATUS(status) != 0) {
        row_fail(row, s, "exit %d", WEXITSTATUS(status));
    }
    return end_ns - start_ns;
}

static void rest(int ms)
{
    struct timespec ts = { ms / 1000, (long)(ms % 1000) * NS_PER_MSEC };
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
        ;
}

/* xorshift: the same order in every measurement, but no row always after the same neighbour. */
static void shuffle(uint32_t *seed, int *order, int count)
{
    for (int i = count - 1; i > 0; i--) {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 17;
        *seed ^= *seed << 5;
        int j = (int)(*seed % (uint32_t)(i + 1));
        int held = order[i];
        order[i] = order[j];
        order[j] = held;
    }
}

static void show_progress(const struct group *g, enum mode mode, int round, int rounds)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%s, %s: round %d of %d", g->name, mode_name[mode], round, rounds);
}

static void clear_progress(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The value below which a share q of the samples lies, interpolated; they are sorted. */
static int64_t quantile(const struct timing *t, double q)
{
    double place = q * (double)(t->count - 1);
    int low = (int)place;
    int high = MIN(low + 1, t->count - 1);
    double part = place - (double)low;
    return t->samples_ns[low] +
           (int64_t)(part * (double)(t->samples_ns[high] - t->samples_ns[low]));
}

static void summarise(struct timing *t)
{
    if (t->count == 0)
        return;
    qsort(t->samples_ns, (size_t)t->count, sizeof(*t->samples_ns), compare_ns);
    t->min_ns = t->samples_ns[0];
    t->p50_ns = quantile(t, 0.5);
    t->p90_ns = quantile(t, 0.9);
}

static void measure_mode(struct bench *b, struct starter *s, struct group *g, enum mode mode)
{
    int order[MAX_ROWS] = { 0 };
    for (int i = 0; i < g->row_count; i++)
        order[i] = i;

    for (int round = 0; round < b->warmup + b->rounds; round++) {
        show_progress(g, mode, round + 1, b->warmup + b->rounds);
        shuffle(&b->seed, order, g->row_count);
        for (int i = 0; i < g->row_count; i++) {
            struct row *row = &g->rows[order[i]];
            if (row->state != MEASURED)
                continue;
            if (mode == SPARSE)
                rest(b->rest_ms);
            row->mode = round >= b->warmup ? (int)mode : -1;
            int64_t ns = run_once(b, s, row);
            if (row->state == MEASURED && round >= b->warmup)
                row->timing[mode].samples_ns[row->timing[mode].count++] = ns;
        }
    }
    for (int i = 0; i < g->row_count; i++)
        summarise(&g->rows[i].timing[mode]);
}

static void measure_group(struct bench *b, struct starter *s, struct group *g)
{
    for (int i = 0; i < g->row_count; i++) {
        struct row *row = &g->rows[i];
        row->mode = -1;
        for (int m = 0; m < MODES; m++)
            row->timing[m].samples_ns =
                arena_alloc(&b->arena, (size_t)b->rounds * sizeof(*row->timing[m].samples_ns));
        if (row->root_only && geteuid() != 0)
            row->state = NEEDS_ROOT;
        else
            run_once(b, s, row); /* tells at once what is there, and is no part of the times */
        /* Without the program itself there is nothing to run in a sandbox either. */
        if (i > 0 && g->rows[0].state == NOT_INSTALLED)
            row->state = NOT_INSTALLED;
    }
    for (int m = 0; m < MODES; m++)
        measure_mode(b, s, g, (enum mode)m);
}

static const char usage[] =
    "usage: cay-bench --rows FILE [options]\n"
    "  --rows FILE       what to measure\n"
    "  --set NAME=VALUE  what {NAME} stands for in it\n"
    "  --only TEXT       only the groups whose name has TEXT in it\n"
    "  --rounds N        rounds of each mode (default: 60)\n"
    "  --warmup N        rounds dropped before them (default: 3)\n"
    "  --rest MS         rest before each sparse command (default: 25)\n"
    "  --timeout S       a command that takes longer has failed (default: 20)\n"
    "  --json FILE       also write the figures to FILE\n"
    "  --server A:P      where requests go; the token is in $CAY_BENCH_TOKEN\n"
    "  --cay PATH        the command that an engine's warden is made from\n";

static int parse_count(const char *option, const char *text, int min, int max, int *ret,
                       struct cay_error *err)
{
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < min || value > max)
        return cay_fail(err, CAY_E_USAGE, "--%s: %s is not a number from %d to %d", option, text,
                        min, max);
    *ret = (int)value;
    return 0;
}

static int measure(struct bench *b, const char *rows, const char *json, struct cay_error *err)
{
    struct starter s = { 0 };
    requests_init(&s.requests);
    if (rows_read(b, rows, err) < 0 || starter_init(&s, b, err) < 0)
        return -1;
    if (getloadavg(&b->load, 1) != 1)
        b->load = 0;
    int chosen = 0;
    for (int i = 0; i < b->group_count; i++) {
        if (!is_chosen(b, &b->groups[i]))
            continue;
        measure_group(b, &s, &b->groups[i]);
        chosen++;
    }
    clear_progress();
    requests_done(&s.requests);
    posix_spawnattr_destroy(&s.attr);
    posix_spawn_file_actions_destroy(&s.actions);
    close_fd(&s.err_fd);
    close_fd(&s.null_fd);
    close_fd(&s.cgroup2_ns_fd);
    close_fd(&s.host_ns_fd);
    close_fd(&s.cwd_fd);
    if (chosen == 0)
        return cay_fail(err, CAY_E_NOTFOUND, "%s: no group to measure", rows);

    report_print(b);
    return json ? report_write_json(b, json, err) : 0;
}

int main(int argc, char **argv)
{
    enum { ROWS = 'r', SET = 's', ONLY = 'o', ROUNDS = 'n', WARMUP = 'w', REST = 'R' };
    enum { TIMEOUT = 't', JSON = 'j', HELP = 'h', SERVER = 'S', CAY = 'c' };
    static const struct option options[] = {
        { "rows", required_argument, NULL, ROWS },
        { "set", required_argument, NULL, SET },
        { "only", required_argument, NULL, ONLY },
        { "rounds", required_argument, NULL, ROUNDS },
        { "warmup", required_argument, NULL, WARMUP },
        { "rest", required_argument, NULL, REST },
        { "timeout", required_argument, NULL, TIMEOUT },
        { "json", required_argument, NULL, JSON },
        { "server", required_argument, NULL, SERVER },
        { "cay", required_argument, NULL, CAY },
        { "help", no_argument, NULL, HELP },
        { 0 },
    };
    struct bench *b = mem_alloc(sizeof(*b));
    *b = (struct bench){ .rounds = 60, .warmup = 3, .rest_ms = 25, .timeout_s = 20 };
    b->seed = 0x9e3779b9; /* any but 0 */
    b->token = getenv("CAY_BENCH_TOKEN");
    struct cay_error err = { 0 };
    const char *rows = NULL, *json = NULL;
    int rc = 0, option = 0;
    bool help = false;
    while (rc == 0 && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case ROWS:
            rows = optarg;
            break;
        case SET:
            rc = rows_set(b, optarg, &err);
            break;
        case ONLY:
            b->only = optarg;
            break;
        case ROUNDS:
            rc = parse_count("rounds", optarg, 1, 100000, &b->rounds, &err);
            break;
        case WARMUP:
            rc = parse_count("warmup", optarg, 0, 1000, &b->warmup, &err);
            break;
        case REST:
            rc = parse_count("rest", optarg, 0, 60000, &b->rest_ms, &err);
            break;
        case TIMEOUT:
            rc = parse_count("timeout", optarg, 1, 3600, &b->timeout_s, &err);
            break;
        case JSON:
            json = optarg;
            break;
        case SERVER:
            b->server = optarg;
            break;
        case CAY:
            b->cay = optarg;
            break;
        case HELP:
            help = true;
            break;
        default: /* getopt has said what is wrong */
            rc = cay_fail(&err, CAY_E_USAGE, "see cay-bench --help");
        }
    }
    if (rc == 0 && help)
        fputs(usage, stdout);
    else if (rc == 0 && (!rows || optind != argc))
        rc = cay_fail(&err, CAY_E_USAGE, "--rows FILE is needed, and options only");
    else if (rc == 0)
        rc = measure(b, rows, json, &err);
    arena_done(&b->arena);
    free(b);
    if (rc == 0)
        return 0;
    fprintf(stderr, "cay-bench: %s\n", err.msg);
    return cay_error_exit_status(err.kind);
}

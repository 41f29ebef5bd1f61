/* SPDX-License-Identifier: Apache-2.0 */
#include "images/build.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cay/image.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/scan.h"
#include "base/strbuf.h"
#include "images/archive.h"

#define PROGRAM       "mmdebstrap"
#define SUITE_DEFAULT "bookworm"

enum { TICK_MS = 250, END_MS = 30000, WAIT_MS = 50, ARGS_MAX = 128, FILE_MAX = 64 * 1024 };

/* ---- what this machine's apt has ---- */

static char *read_file(const char *path)
{
    char *text = mem_alloc(FILE_MAX);
    FILE *file = fopen(path, "re");

    if (file) {
        size_t n = fread(text, 1, FILE_MAX - 1, file);
        text[n] = '\0';
        fclose(file);
    }
    return text;
}

static const char *host_suite(struct arena *arena)
{
    auto_free char *text = read_file("/etc/os-release");
    const char *at = strstr(text, "VERSION_CODENAME=");

    if (!at || !scan_has_word(text, "ID=debian"))
        return SUITE_DEFAULT;
    at += strlen("VERSION_CODENAME=");
    return arena_dup(arena, at, strcspn(at, "\"\n"));
}

/* A file of sources that has this suite: others are somebody else's packages. */
static bool is_source_of(const char *path, const char *suite)
{
    auto_free char *text = read_file(path);
    return scan_has_word(text, suite) && strstr(text, "debian");
}

static bool has_suffix(const char *name, const char *suffix)
{
    size_t len = strlen(name), n = strlen(suffix);
    return len > n && strcmp(name + len - n, suffix) == 0;
}

/* ---- its command line ---- */

struct args {
    struct arena *arena;
    const char *list[ARGS_MAX + 1];
    size_t n;
};

static void add(struct args *args, const char *word)
{
    if (args->n < ARGS_MAX)
        args->list[args->n++] = word;
}

static void add_sources(struct args *args, const char *suite)
{
    static const char folder[] = "/etc/apt/sources.list.d";
    DIR *dir = opendir(folder);
    const struct dirent *entry;

    if (is_source_of("/etc/apt/sources.list", suite))
        add(args, "/etc/apt/sources.list");
    while (dir && (entry = readdir(dir))) {
        const char *path = arena_printf(args->arena, "%s/%s", folder, entry->d_name);
        if ((has_suffix(path, ".list") || has_suffix(path, ".sources")) &&
            is_source_of(path, suite))
            add(args, path);
    }
    if (dir)
        closedir(dir);
}

static const char *join(struct arena *arena, const char *before, const char *const *words)
{
    auto_strbuf struct strbuf out = { 0 };

    strbuf_puts(&out, before);
    for (size_t i = 0; words[i]; i++)
        strbuf_printf(&out, "%s%s", i ? "," : "", words[i]);
    return arena_str(arena, strbuf_str(&out));
}

/* Nobody reads manuals in a sandbox; licences stay. */
static void add_all(struct args *args, const struct image_build *build, const char *suite)
{
    static const char *const usual[] = {
        "--format=tar",
        "--variant=essential",
        "--skip=output/dev",
        "--aptopt=APT::Install-Recommends \"false\"",
        "--aptopt=Acquire::Languages \"none\"",
        "--aptopt=Acquire::Retries \"3\"",
        "--dpkgopt=path-exclude=/usr/share/man/*/*", /* what is installed may link into man1 */
        "--dpkgopt=path-exclude=/usr/share/info/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        "--dpkgopt=path-exclude=/usr/share/lintian/*",
    };
    const struct cay_image_definition *definition = build->definition;

    add(args, PROGRAM);
    add(args, geteuid() == 0 ? "--mode=root" : "--mode=auto");
    for (size_t i = 0; i < ARRAY_LEN(usual); i++)
        add(args, usual[i]);
    for (const char *const *glob = definition->exclude; *glob; glob++)
        add(args, arena_printf(args->arena, "--dpkgopt=path-exclude=%s", *glob));
    add(args, join(args->arena, "--include=", definition->packages));
    add(args, suite);
    add(args, "-");
    if (build->mirror)
        add(args, build->mirror);
    else
        add_sources(args, suite);
}

/* ---- the processes ---- */

struct job {
    const struct image_watch *watch;
    struct archive_in in;
    pid_t pid;                 /* of mmdebstrap, or -1 */
    int log_fd;                /* what it says, or -1 */
    char line[1024], why[400]; /* of what it says: the line that comes in, the first error */
    size_t len;
};

static void __attribute__((noreturn))
be_builder(const struct args *args, int out_fd, int log_fd, const char *scratch, pid_t parent)
{
    sigset_t none;
    int null_fd = open("/dev/null", O_RDONLY);

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0); /* Ctrl-C is ours to pass on */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent || dup2(null_fd, 0) < 0 ||
        dup2(out_fd, 1) < 0 || dup2(log_fd, 2) < 0)
        _exit(126);
    /* As root it mounts the host's /sys and /dev into what it makes: those go with it, however it
     * ends, and nobody else ever sees them. */
    if (geteuid() == 0 &&
        (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0))
        _exit(126);
    setenv("LC_ALL", "C.UTF-8", 1);
    setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
    if (*scratch)
        setenv("TMPDIR", scratch, 1);
    execvp(args->list[0], (char *const *)(uintptr_t)args->list);
    _exit(127);
}

static int start_builder(struct job *job, const struct args *args, const char *scratch, int out_fd,
                         struct cay_error *err)
{
    pid_t parent = getpid();
    int log[2];

    if (pipe2(log, O_CLOEXEC) < 0)
        return cay_fail_errno(err, errno, "image: make a pipe");
    job->pid = fork();
    if (job->pid == 0)
        be_builder(args, out_fd, log[1], scratch, parent);
    close(log[1]);
    job->log_fd = log[0];
    if (job->pid < 0)
        return cay_fail_errno(err, errno, "image: start " PROGRAM);
    return 0;
}

/* A line of mmdebstrap's, or of what it starts. The first that reports an error says why it
 * failed: the others follow from it. */
static void take_line(struct job *job)
{
    static const char *const errors[] = { "E: ", "dpkg: error ", "update-alternatives: error: " };
    const char *text = job->line;

    job->line[job->len] = '\0';
    job->len = 0;
    bool is_error = false, is_note = strncmp(text, "I: ", 3) == 0;
    for (size_t i = 0; i < ARRAY_LEN(errors); i++)
        is_error |= strncmp(text, errors[i], strlen(errors[i])) == 0;
    text += is_note || strncmp(text, "E: ", 3) == 0 ? 3 : 0;
    if (is_error && !*job->why)
        snprintf(job->why, sizeof job->why, "%s", text);
    if (job->watch->on_line && (is_note || is_error))
        job->watch->on_line(job->watch->arg, text);
}

static void import_log(struct job *job)
{
    char buf[4096];
    ssize_t n = read(job->log_fd, buf, sizeof buf);

    if (n <= 0 && !(n < 0 && errno == EINTR)) {
        close_fd(&job->log_fd);
        return;
    }
    for (ssize_t i = 0; i < n; i++)
        if (buf[i] == '\n' || buf[i] == '\r')
            take_line(job);
        else if (job->len < sizeof job->line - 1)
            job->line[job->len++] = buf[i];
}

/* Until the archive was read to its end, or somebody wants to stop. Returns whether it was. */
static bool watch_it(struct job *job)
{
    for (;;) {
        struct pollfd list[] = {
            { job->in.result_fd, POLLIN, 0 },
            { job->log_fd, POLLIN, 0 },
            { job->watch->cancel_fd, POLLIN, 0 },
        };
        if (poll(list, ARRAY_LEN(list), TICK_MS) < 0 && errno != EINTR)
            return false;
        if (list[2].revents)
            return false;
        if (list[1].revents)
            import_log(job);
        else if (list[0].revents)
            return true;
        if (job->watch->on_tick)
            job->watch->on_tick(job->watch->arg);
    }
}

static void drain_log(struct job *job, int wait_ms)
{
    struct pollfd log = { job->log_fd, POLLIN, 0 };

    while (poll(&log, 1, wait_ms) > 0 && job->log_fd >= 0) {
        import_log(job);
        log.fd = job->log_fd;
        wait_ms = 0;
    }
}

/* What it had started and left to us still writes where all is to be removed. */
static void await_orphans(void)
{
    for (int waited = 0; waited < END_MS;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == ECHILD)
            return;
        if (pid == 0) {
            poll(NULL, 0, WAIT_MS);
            waited += WAIT_MS;
        }
    }
}

/* It takes down what it has mounted and removes its folder, if it is given the time. */
static int end_builder(struct job *job, bool is_stopped)
{
    int status = 0;

    if (job->pid <= 0)
        return 0;
    if (is_stopped)
        kill(job->pid, SIGTERM);
    for (int waited = 0; waitpid(job->pid, &status, WNOHANG) == 0; waited += WAIT_MS) {
        if (waited >= END_MS)
            kill(-job->pid, SIGKILL);
        drain_log(job, WAIT_MS); /* or it would wait for us */
    }
    kill(-job->pid, SIGKILL); /* whatever of it is left */
    drain_log(job, 0);
    await_orphans();
    return status;
}

static int fail_stopped(struct cay_error *err)
{
    return cay_fail_errno(err, EINTR, "image: stopped");
}

static int fail_build(const struct job *job, int status, struct cay_error *err)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
        cay_fail(err, CAY_E_NOTFOUND, "image: " PROGRAM " is not installed");
        return cay_hint(err, "apt-get install " PROGRAM);
    }
    cay_fail(err, CAY_E_SYSTEM, "image: " PROGRAM " failed: %.300s",
             *job->why ? job->why : "it gave no reason");
    if (geteuid() != 0)
        return cay_hint(err,
                        "`sudo cay image build` needs no user namespaces, and serves every user");
    return cay_hint(err, "--mirror URL and --suite NAME say where packages come from");
}

int image_import(int fd, const char *from, const struct image_watch *watch,
                 struct cay_image_maker *maker, uint64_t *ret_left_out, struct cay_error *err)
{
    struct job job = { .watch = watch, .pid = -1, .log_fd = -1 };

    if (archive_in_begin(fd, maker, from, &job.in, err) < 0)
        return -1;
    if (watch_it(&job))
        return archive_in_end(&job.in, ret_left_out, err);
    archive_in_kill(&job.in);
    return fail_stopped(err);
}

static int run_build(struct job *job, const struct args *args, const char *scratch,
                     struct cay_image_maker *maker, const char *from, uint64_t *ret_left_out,
                     struct cay_error *err)
{
    struct cay_error reading;
    int pair[2];

    if (pipe2(pair, O_CLOEXEC) < 0)
        return cay_fail_errno(err, errno, "image: make a pipe");
    auto_close int in_fd = pair[0], out_fd = pair[1];
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* see await_orphans */
    if (start_builder(job, args, scratch, out_fd, err) < 0)
        return -1;
    close_fd(&out_fd);
    if (archive_in_begin(in_fd, maker, from, &job->in, err) < 0) {
        end_builder(job, true);
        return -1;
    }
    close_fd(&in_fd); /* when the reader is gone, the writer gets EPIPE */
    bool is_over = watch_it(job);
    int rc = 0;
    if (is_over)
        rc = archive_in_end(&job->in, ret_left_out, &reading);
    else
        archive_in_kill(&job->in);
    int status = end_builder(job, !is_over);
    if (!is_over)
        return fail_stopped(err);
    bool is_refused =
        rc < 0 && reading.kind != CAY_E_USAGE; /* not just an end that came too soon */
    if (status != 0 && !is_refused)
        return fail_build(job, status, err);
    if (rc < 0)
        *err = reading;
    return rc;
}

int image_build(const struct image_build *build, struct cay_image_maker *maker,
                uint64_t *ret_left_out, struct cay_error *err)
{
    struct arena arena = { 0 };
    struct args args = { .arena = &arena };
    struct job job = { .watch = &build->watch, .pid = -1, .log_fd = -1 };
    const char *suite = build->suite               ? build->suite
                        : build->definition->suite ? build->definition->suite
                                                   : host_suite(&arena);
    char scratch[4096] = "";

    int rc = geteuid() == 0 ? cay_image_scratch(maker, scratch, sizeof scratch, err) : 0;
    if (rc == 0) {
        const char *from = arena_printf(&arena, "debian %s: %s", suite, build->definition->name);
        add_all(&args, build, suite);
        rc = run_build(&job, &args, scratch, maker, from, ret_left_out, err);
    }
    close_fd(&job.log_fd);
    arena_done(&arena);
    return rc;
}

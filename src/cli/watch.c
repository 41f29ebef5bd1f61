/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/print.h"

/* An editor takes several steps to save a file: a change counts once nothing more has come for so
 * long. A run that was asked to stop has as long before it gets a second signal. */
enum { QUIET_MS = 100, STOP_MS = 1000 };

#define CHANGES (IN_CLOSE_WRITE | IN_MODIFY | IN_CREATE | IN_MOVED_TO)

/* A file by its name in a watched folder. A link is watched in its own folder and its target's. */
struct place {
    int wd;
    char name[NAME_MAX + 1];
    const char *path; /* as it was given */
};

struct watcher {
    int inotify_fd;
    int cancel_fd;
    struct place places[2 * WATCH_FILES_MAX];
    size_t n;
    const struct watch *watch;
};

static int add_place(struct watcher *watcher, const char *where, const char *path,
                     struct cay_error *err)
{
    auto_free char *for_dir = str_dup(where), *for_name = str_dup(where);
    struct place *place = &watcher->places[watcher->n];
    const char *name = basename(for_name);

    if (strlen(name) >= sizeof place->name)
        return cay_fail(err, CAY_E_USAGE, "watch: %s: the name is too long", path);
    place->wd = inotify_add_watch(watcher->inotify_fd, dirname(for_dir), CHANGES);
    if (place->wd < 0)
        return cay_fail_errno(err, errno, "watch %s", path);
    memcpy(place->name, name, strlen(name) + 1);
    place->path = path;
    watcher->n++;
    return 0;
}

static int open_watcher(struct watcher *watcher, struct cay_error *err)
{
    watcher->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (watcher->inotify_fd < 0)
        return cay_fail_errno(err, errno, "watch files");
    for (size_t i = 0; i < watcher->watch->n; i++) {
        const char *path = watcher->watch->paths[i];
        auto_free char *target = realpath(path, NULL);
        if (!target)
            return cay_fail(err, CAY_E_USAGE, "watch: %s: %s", path, strerror(errno));
        if (add_place(watcher, path, path, err) < 0 || add_place(watcher, target, path, err) < 0)
            return -1;
    }
    return 0;
}

/* Reads what has happened. Returns the path of one that changed, or NULL. */
static const char *read_changes(struct watcher *watcher)
{
    _Alignas(struct inotify_event) char buf[16 * 1024];
    const char *changed = NULL;
    ssize_t len;

    while ((len = read(watcher->inotify_fd, buf, sizeof buf)) > 0)
        for (const char *pos = buf; pos < buf + len;) {
            const struct inotify_event *event = (const struct inotify_event *)(const void *)pos;
            for (size_t i = 0; i < watcher->n && event->len > 0; i++)
                if (watcher->places[i].wd == event->wd &&
                    strcmp(watcher->places[i].name, event->name) == 0)
                    changed = watcher->places[i].path;
            pos += sizeof *event + event->len;
        }
    return changed;
}

/* Waits for a change, a word to stop, or a process's end; returns what there is. */
enum { CHANGED = 1, CANCELLED = 2, ENDED = 4 };

static int wait_for(struct watcher *watcher, int pidfd, int timeout_ms, const char **ret_path)
{
    struct pollfd list[] = { { watcher->inotify_fd, POLLIN, 0 },
                             { watcher->cancel_fd, POLLIN, 0 },
                             { pidfd, POLLIN, 0 } };
    int found = 0;

    if (poll(list, ARRAY_LEN(list), timeout_ms) <= 0)
        return 0;
    const char *path = list[0].revents ? read_changes(watcher) : NULL;
    if (path) {
        *ret_path = path;
        found |= CHANGED;
    }
    if (list[1].revents)
        found |= CANCELLED;
    return found | (list[2].revents ? ENDED : 0);
}

static bool all_are_there(const struct watch *watch)
{
    for (size_t i = 0; i < watch->n; i++)
        if (access(watch->paths[i], R_OK) < 0)
            return false;
    return true;
}

/* From the first sign of a change until nothing more happens and every file is there. Returns
 * false when it is to stop instead. */
static bool wait_until_quiet(struct watcher *watcher, const char **path)
{
    for (;;) {
        int64_t until = clock_now_ns() + QUIET_MS * NS_PER_MSEC;
        int found = 0;
        for (int64_t left; (left = until - clock_now_ns()) > 0 && !found;)
            found = wait_for(watcher, -1, (int)(left / NS_PER_MSEC) + 1, path);
        if (found & CANCELLED)
            return false;
        if (!found && all_are_there(watcher->watch))
            return true;
    }
}

/* ---- runs ---- */

struct running {
    pid_t pid;
    int pidfd;
    int note_fd;
};

static int start_run(struct running *running, const struct watcher *watcher,
                     int (*run)(void *arg, int note_fd), void *arg, struct cay_error *err)
{
    int pair[2];

    if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
        return cay_fail_errno(err, errno, "make a pipe");
    pid_t parent = getpid();
    running->pid = fork();
    if (running->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            _exit(0);
        close(watcher->inotify_fd);
        close(watcher->cancel_fd);
        exit(run(arg, pair[1]));
    }
    int errnum = errno;
    close(pair[1]);
    running->note_fd = pair[0];
    running->pidfd = running->pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, running->pid, 0);
    if (running->pidfd >= 0)
        return 0;
    errnum = running->pid < 0 ? errnum : errno;
    close_fd(&running->note_fd);
    return cay_fail_errno(err, errnum, "start a run");
}

static int reap(struct running *running)
{
    int status = 0;

    while (waitpid(running->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    close_fd(&running->pidfd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A Ctrl-C at the terminal has reached it too; a second signal would not let it end in order. */
static void stop_run(struct running *running, bool was_asked)
{
    struct pollfd end = { running->pidfd, POLLIN, 0 };

    if (!was_asked)
        kill(running->pid, SIGTERM);
    for (int tries = 0; poll(&end, 1, STOP_MS) <= 0 && tries < 10; tries++)
        kill(running->pid, SIGTERM);
}

static void print_begin(unsigned number, const char *path)
{
    char clock[16] = "";
    struct tm tm;
    time_t now = time(NULL);

    if (localtime_r(&now, &tm))
        strftime(clock, sizeof clock, "%H:%M:%S", &tm);
    if (path)
        print_message("---- run %u at %s: %s has changed", number, clock, path);
    else
        print_message("---- run %u at %s", number, clock);
}

static void print_end(unsigned number, struct running *running, int status)
{
    struct watch_note note;
    bool has_note = read(running->note_fd, &note, sizeof note) == (ssize_t)sizeof note;

    close_fd(&running->note_fd);
    if (has_note)
        print_message(
            "---- run %u: %.*s, exit status %d, %.3f s; waiting for a change (Ctrl-C ends)", number,
            (int)sizeof note.cause, note.cause, note.exit_code, clock_seconds(note.time_ns));
    else
        print_message("---- run %u: exit status %d; waiting for a change (Ctrl-C ends)", number,
                      status);
}

static int cancel_status(int cancel_fd)
{
    unsigned char number = SIGINT;

    if (read(cancel_fd, &number, 1) != 1)
        number = SIGINT;
    return 128 + number;
}

int watch_loop(const struct watch *watch, int cancel_fd, int (*run)(void *arg, int note_fd),
               void *arg)
{
    struct watcher watcher = { .inotify_fd = -1, .cancel_fd = cancel_fd, .watch = watch };
    const char *path = NULL;
    struct cay_error err;

    if (open_watcher(&watcher, &err) < 0)
        return print_error(&err);
    for (unsigned number = 1;; number++) {
        struct running running = { .pid = -1, .pidfd = -1, .note_fd = -1 };
        int found = 0;

        print_begin(number, path);
        if (start_run(&running, &watcher, run, arg, &err) < 0)
            return print_error(&err);
        while (!(found & (CHANGED | CANCELLED | ENDED)))
            found = wait_for(&watcher, running.pidfd, -1, &path);
        if (!(found & ENDED))
            stop_run(&running, found & CANCELLED);
        int status = reap(&running);
        if (found & CANCELLED)
            return cancel_status(cancel_fd);
        if (found & CHANGED && !(found & ENDED)) {
            close_fd(&running.note_fd);
            print_message("---- run %u: stopped", number);
        } else {
            print_end(number, &running, status);
        }
        while (!(found & (CHANGED | CANCELLED)))
            found = wait_for(&watcher, -1, -1, &path);
        if (found & CANCELLED || !wait_until_quiet(&watcher, &path))
            return cancel_status(cancel_fd);
    }
}

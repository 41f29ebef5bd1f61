/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeping house: what belongs to nobody any more goes. Whoever lives holds a lock on what is his
 * (the groups' folders, runs/ID, a journal's log, a socket that answers), so each thing is tried,
 * and none is taken by its age alone. uid slots are locks and nothing else: they are gone with
 * their holders.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cay/record.h>

#include "base/auto.h"
#include "base/error.h"
#include "core/image.h"
#include "core/state.h"
#include "engine/engine.h"
#include "engine/warden-socket.h"
#include "images/image-store.h"
#include "sandbox/backend.h"
#include "store/artifact.h"
#include "store/journal.h"
#include "store/record.h"
#include "sys/cgroup.h"
#include "sys/dir.h"
#include "sys/rmtree.h"

struct cleaner {
    const struct cay_cleanup *options;
    struct cay *cay;
    int state_fd;
};

static void told(void *arg, const char *what, const char *name)
{
    const struct cleaner *c = arg;
    if (c->options->on_removed)
        c->options->on_removed(c->options->arg, what, name);
}

/* ---- groups ---- */

static void clean_cgroups(struct cleaner *c)
{
    struct cgroup_host host;
    char count[32];

    cgroup_host_open(&host, geteuid());
    int n = 0;
    if (host.version != 0)
        n = c->options->dry_run ? cgroup_count_left(&host) : cgroup_sweep(&host);
    cgroup_host_close(&host);
    snprintf(count, sizeof count, "%d", n);
    if (n > 0)
        told(c, n == 1 ? "cgroup" : "cgroups", count);
}

/* ---- what a backend has elsewhere: containers of an engine ---- */

static void clean_backends(struct cleaner *c)
{
    const struct backend_host host = {
        .state_fd = -1,
        .docker_host = c->cay->config.settings[FIELD_DOCKER_HOST].value.text,
    };
    char count[64];

    for (const struct backend *const *backend = backends; *backend; backend++) {
        int n = (*backend)->sweep ? (*backend)->sweep(&host, c->options->dry_run) : 0;
        snprintf(count, sizeof count, "%d of %s", n, (*backend)->kind.name);
        if (n > 0)
            told(c, n == 1 ? "container" : "containers", count);
    }
}

/* ---- folders of the process backend ---- */

static void clean_runs(struct cleaner *c)
{
    DIR *dir = dir_open_at(c->state_fd, "runs");
    const struct dirent *entry;

    if (!dir)
        return;
    int fd = dirfd(dir);
    while ((entry = readdir(dir))) {
        if (!record_is_name(entry->d_name, ""))
            continue;
        auto_close int run_fd = rmtree_open(fd, entry->d_name);
        if (run_fd < 0 || flock(run_fd, LOCK_EX | LOCK_NB) < 0)
            continue;
        if (c->options->dry_run || rmtree_at(fd, entry->d_name, INT64_MAX) == 0)
            told(c, "work folder", entry->d_name);
    }
    closedir(dir);
}

/* ---- images whose maker was killed ---- */

static void clean_images(struct cleaner *c)
{
    auto_close int store_fd = image_open_store(c->state_fd, geteuid());

    if (store_fd >= 0)
        image_store_sweep(store_fd, c->options->dry_run, told, c);
}

/* ---- journals ---- */

/* Whether nobody writes it any more. */
static bool is_left(int top_fd, const char *name)
{
    auto_close int fd = openat(top_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    return fd >= 0 && !journal_is_live(fd);
}

enum { MAKING_AGE_S = 3600 };

static void look_at_journal(struct cleaner *c, int top_fd, const char *name)
{
    struct stat st;

    if (record_is_name(name, "")) {
        if (is_left(top_fd, name))
            told(c, "journal", name);
    } else if (name[0] == '.' && record_is_name(name + 1, "")) {
        /* Its maker was killed before it had a name; it takes less than a second. */
        if (fstatat(top_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            st.st_mtime + MAKING_AGE_S < time(NULL) &&
            (c->options->dry_run || rmtree_at(top_fd, name, INT64_MAX) == 0))
            told(c, "journal", name);
    }
}

static int clean_journals(struct cleaner *c, struct cay_error *err)
{
    int top_fd = journal_open_folder(c->state_fd, false);
    DIR *dir = top_fd < 0 ? NULL : fdopendir(top_fd);
    const struct dirent *entry;

    if (!dir) {
        close_fd(&top_fd);
        return 0;
    }
    while ((entry = readdir(dir)))
        look_at_journal(c, top_fd, entry->d_name);
    closedir(dir);
    return c->options->dry_run ? 0 : cay_journal_import(c->cay, NULL, err);
}

/* What was set aside of them, once nobody has looked at it for as long as records are kept. */
static void clean_aside(struct cleaner *c, int64_t age_s, int64_t now)
{
    DIR *dir = dir_open_at(c->state_fd, JOURNAL_ASIDE);
    const struct dirent *entry;
    struct stat st;

    while (dir && (entry = readdir(dir)))
        if (age_s > 0 && record_is_name(entry->d_name, "") &&
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            st.st_mtime + age_s < now &&
            (c->options->dry_run || unlinkat(dirfd(dir), entry->d_name, 0) == 0))
            told(c, "lines set aside", entry->d_name);
    if (dir)
        closedir(dir);
}

int cay_cleanup(struct cay *cay, const struct cay_cleanup *options, struct cay_error *err)
{
    struct cleaner c = { .options = options, .cay = cay };
    auto_close int state_fd = c.state_fd = state_open();
    int64_t now = (int64_t)time(NULL);
    struct record_keep keep;

    clean_cgroups(&c);
    clean_backends(&c);
    warden_sweep(options->dry_run, told, &c);
    if (state_fd < 0)
        return cay_fail_errno(err, -state_fd, "open the state folder");
    clean_runs(&c);
    clean_images(&c);
    int rc = clean_journals(&c, err);
    record_keep_of(&cay->config, &keep);
    clean_aside(&c, keep.age_s, now);
    auto_close int executions_fd = record_open_executions_at(state_fd, false);
    if (executions_fd >= 0)
        record_prune_report(executions_fd, &keep, now, options->dry_run, NULL, told, &c);
    artifact_prune(state_fd, &keep, now, options->dry_run, told, &c);
    return rc;
}

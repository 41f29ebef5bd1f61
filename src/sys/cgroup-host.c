/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where groups can be made on this host, by whom; delegation; and the sweep.
 *
 * Root works at the top of each hierarchy that it can see (inside a container that is the
 * container's own), so that a sweep finds what a killed neighbour left wherever it was started
 * from. An ordinary user works in the folder "cay-user-UID" that `cay setup` made; on v2 the kernel
 * lets that user move only what is inside that folder already, or inside any other folder that was
 * delegated to the user, such as a systemd scope with Delegate=yes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/scan.h"
#include "sys/cgroup.h"
#include "sys/file.h"
#include "sys/userns.h"

#define CGROUP_TOP "/sys/fs/cgroup"

static const char *const controller_names[CGROUP_N] = {
    [CGROUP_MEMORY] = "memory",
    [CGROUP_PIDS] = "pids",
    [CGROUP_CPU] = "cpu",
    [CGROUP_CPUACCT] = "cpuacct",
};

static int open_dir_at(int dir_fd, const char *path)
{
    return openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool is_fs(int fd, long magic)
{
    struct statfs st;
    return fd >= 0 && fstatfs(fd, &st) == 0 && st.f_type == magic;
}

static void user_dir_name(char out[static 64], uid_t uid)
{
    snprintf(out, 64, "cay-user-%u", uid);
}

/* ---- version 2 ---- */

/* Turns the controllers on for the children of dir, as far as that is possible. */
static void enable_v2(int dir, bool has[static CGROUP_N])
{
    static const char *const words[] = { "+memory", "+pids", "+cpu" };
    char on[256] = "";

    file_read_at(dir, "cgroup.subtree_control", on, sizeof on);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (!scan_has_word(on, words[i] + 1))
            file_write_at(dir, "cgroup.subtree_control", words[i], strlen(words[i]));
    if (file_read_at(dir, "cgroup.subtree_control", on, sizeof on) < 0)
        on[0] = '\0';
    for (int i = 0; i < CGROUP_CPUACCT; i++)
        has[i] = scan_has_word(on, controller_names[i]);
}

/* The calling process' own group, "" for the top. */
static int own_group_v2(char *path, size_t size)
{
    char text[4096];
    ssize_t len = file_read_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text);
    if (len < 0)
        return (int)len;
    char *line = strstr(text, "0::/");
    if (!line || (line != text && line[-1] != '\n'))
        return -ENOENT;
    line += strlen("0::/");
    line[strcspn(line, "\n")] = '\0';
    if (strstr(line, "..")) /* outside of what this cgroup namespace shows */
        return -ENOENT;
    return snprintf(path, size, "%s", line) < (int)size ? 0 : -ENAMETOOLONG;
}

/* A group with processes of its own cannot hand controllers to its children, so a delegated group
 * that cay finds itself in is emptied into a leaf first. */
static void empty_into_leaf(int dir)
{
    char pids[8192];

    if (mkdirat(dir, "cay-leaf", 0755) < 0 && errno != EEXIST)
        return;
    auto_close int leaf = open_dir_at(dir, "cay-leaf");
    if (leaf < 0 || file_read_at(dir, "cgroup.procs", pids, sizeof pids) < 0)
        return;
    char *save = NULL;
    for (char *pid = strtok_r(pids, "\n", &save); pid; pid = strtok_r(NULL, "\n", &save))
        file_write_at(leaf, "cgroup.procs", pid, strlen(pid));
}

/* The highest delegated group at or above the calling process. */
static int delegated_v2(int top)
{
    char path[4096];
    if (own_group_v2(path, sizeof path) < 0)
        return -1;

    auto_close int best = -1;
    while (path[0] != '\0') {
        int dir = open_dir_at(top, path);
        bool mine = dir >= 0 && faccessat(dir, "cgroup.procs", W_OK, AT_EACCESS) == 0 &&
                    faccessat(dir, "cgroup.subtree_control", W_OK, AT_EACCESS) == 0;
        if (!mine) {
            close_fd(&dir);
            break;
        }
        close_fd(&best);
        best = dir;
        char *slash = strrchr(path, '/');
        *(slash ? slash : path) = '\0';
    }
    if (best >= 0) {
        bool has[CGROUP_N] = { false };
        enable_v2(best, has);
        if (!has[CGROUP_MEMORY])
            empty_into_leaf(best);
    }
    return take_fd(&best);
}

static void open_v2(struct cgroup_host *host, int top, uid_t uid)
{
    auto_close int parent = uid == 0 ? dup(top) : delegated_v2(top);
    if (parent < 0)
        return;
    enable_v2(parent, host->has);
    if (!host->has[CGROUP_MEMORY] || !host->has[CGROUP_PIDS])
        return;
    host->version = 2;
    host->parent[CGROUP_MEMORY] = take_fd(&parent);
}

/* ---- version 1 ---- */

/* cpu and cpuacct are often mounted together, as "cpu,cpuacct" with links for each name. */
static int hierarchy_v1(enum cgroup_controller which)
{
    char path[64];
    snprintf(path, sizeof path, CGROUP_TOP "/%s", controller_names[which]);
    auto_close int fd = open_dir_at(AT_FDCWD, path);
    return is_fs(fd, CGROUP_SUPER_MAGIC) ? take_fd(&fd) : -1;
}

static bool same_dir(int a, int b)
{
    struct stat sa, sb;
    return a >= 0 && b >= 0 && fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino;
}

static void open_v1(struct cgroup_host *host, uid_t uid)
{
    char name[64];
    user_dir_name(name, uid);

    for (int i = 0; i < CGROUP_N; i++) {
        auto_close int top = hierarchy_v1((enum cgroup_controller)i);
        if (top < 0)
            continue;
        host->parent[i] = uid == 0 ? take_fd(&top) : open_dir_at(top, name);
        if (host->parent[i] >= 0 && faccessat(host->parent[i], "tasks", W_OK, AT_EACCESS) < 0)
            close_fd(&host->parent[i]);
        host->has[i] = host->parent[i] >= 0;
    }
    if (host->has[CGROUP_CPU] && same_dir(host->parent[CGROUP_CPU], host->parent[CGROUP_CPUACCT]))
        close_fd(&host->parent[CGROUP_CPUACCT]);
    if (host->has[CGROUP_MEMORY] && host->has[CGROUP_PIDS])
        host->version = 1;
}

/* ---- either ---- */

void cgroup_host_open(struct cgroup_host *host, uid_t uid)
{
    *host = (struct cgroup_host){ 0 };
    for (int i = 0; i < CGROUP_N; i++)
        host->parent[i] = -1;

    auto_close int top = open_dir_at(AT_FDCWD, CGROUP_TOP);
    if (is_fs(top, CGROUP2_SUPER_MAGIC))
        open_v2(host, top, uid);
    else if (top >= 0)
        open_v1(host, uid);
    if (host->version == 0)
        cgroup_host_close(host);
}

void cgroup_host_close(struct cgroup_host *host)
{
    for (int i = 0; i < CGROUP_N; i++) {
        close_fd(&host->parent[i]);
        host->has[i] = false;
    }
    host->version = 0;
}

/* ---- sweep ---- */

enum sweep {
    SWEEP_COUNT, /* only look */
    SWEEP_EMPTY, /* a group with running processes is left alone */
    SWEEP_ALL,
};

enum { PIDS_SIZE = 8192 };

/* The pids of a group, a line each; one that was cut off is another's number, and left out. */
static int read_pids(int dir, char out[static PIDS_SIZE])
{
    ssize_t len = file_read_at(dir, "cgroup.procs", out, PIDS_SIZE);

    if (len < 0)
        return (int)len;
    while (len > 0 && out[len - 1] != '\n')
        len--;
    out[len] = '\0';
    return 0;
}

static bool is_member(int dir, long number)
{
    char pids[PIDS_SIZE];

    if (read_pids(dir, pids) < 0)
        return false;
    for (const char *line = pids; *line; line = strchr(line, '\n') + 1)
        if (strtol(line, NULL, 10) == number)
            return true;
    return false;
}

/* Between reading a number and killing, its process can end and the number become anybody's. So it
 * is held by a pidfd first: if the group has the number then, that is its member, or one that has
 * died since and takes no signal. */
static void kill_member(int dir, long number)
{
    auto_close int fd = (int)syscall(SYS_pidfd_open, (pid_t)number, 0);

    if (fd >= 0 && is_member(dir, number))
        syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
}

/* The sandbox's pid 1 ends by itself when its warden dies; this is for one that could not. */
static void kill_members(int dir)
{
    char pids[PIDS_SIZE];

    if (file_write_at(dir, "cgroup.kill", "1", 1) == 0)
        return;
    if (read_pids(dir, pids) < 0)
        return;
    for (const char *line = pids; *line; line = strchr(line, '\n') + 1) {
        long number = strtol(line, NULL, 10);
        if (number > 1)
            kill_member(dir, number);
    }
}

/* "cay-", 32 hexadecimal digits, "-", a digit: what a run's group is called, and nobody else's. */
static bool is_run_name(const char *name)
{
    return strncmp(name, "cay-", 4) == 0 && strspn(name + 4, "0123456789abcdef") == 32 &&
           name[36] == '-' && name[37] >= '0' && name[37] <= '9' && name[38] == '\0';
}

static bool remove_leftover(int parent, const char *name, enum sweep how)
{
    auto_close int dir = open_dir_at(parent, name);

    if (dir < 0)
        return true;
    for (int tries = 0; tries < 20; tries++) { /* what is stuck is for the next sweep */
        if (how == SWEEP_ALL)
            kill_members(dir);
        if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return true;
        if (errno != EBUSY)
            return false;
        usleep(2000);
    }
    return false;
}

/* Makers that were found alive. A process that makes many groups begins their names with digits of
 * its own (CGROUP_MAKER_DIGITS), so that one look at each maker is enough. */
struct makers {
    char digits[8][CGROUP_MAKER_DIGITS];
    unsigned next;
};

static bool is_known(const struct makers *makers, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(makers->digits); i++)
        if (memcmp(makers->digits[i], name + strlen("cay-"), CGROUP_MAKER_DIGITS) == 0)
            return true;
    return false;
}

static void remember(struct makers *makers, const char *name)
{
    memcpy(makers->digits[makers->next], name + strlen("cay-"), CGROUP_MAKER_DIGITS);
    makers->next = (makers->next + 1) % ARRAY_LEN(makers->digits);
}

/* The first hierarchy goes last, as when a group is removed by its maker: as long as anything is
 * left of a group, it is to be found there. */
static bool sweep_one(const struct cgroup_host *host, const char *name, struct makers *alive,
                      enum sweep how)
{
    if (is_known(alive, name))
        return false;
    auto_close int dir = open_dir_at(host->parent[CGROUP_MEMORY], name);
    if (dir < 0)
        return false;
    if (flock(dir, LOCK_EX | LOCK_NB) < 0) {
        if (errno == EWOULDBLOCK)
            remember(alive, name);
        return false;
    }
    if (how == SWEEP_COUNT)
        return true;
    for (int i = CGROUP_N - 1; i >= 0; i--)
        if (host->parent[i] >= 0 && !remove_leftover(host->parent[i], name, how))
            return false;
    return true;
}

static int sweep(const struct cgroup_host *host, enum sweep how)
{
    char buf[4096] __attribute__((aligned(16)));
    struct makers alive = { 0 };
    int swept = 0;

    auto_close int dir = open_dir_at(host->parent[CGROUP_MEMORY], ".");
    if (dir < 0)
        return 0;
    /* Not readdir: this is on every run's way, and has nothing to do on nearly all of them. */
    for (long n; (n = syscall(SYS_getdents64, dir, buf, sizeof buf)) > 0;)
        for (long pos = 0; pos < n;) {
            const struct dirent64 *entry = (const struct dirent64 *)(buf + pos);
            if (is_run_name(entry->d_name) && sweep_one(host, entry->d_name, &alive, how))
                swept++;
            pos += entry->d_reclen;
        }
    return swept;
}

int cgroup_sweep(const struct cgroup_host *host)
{
    return sweep(host, SWEEP_ALL);
}

int cgroup_count_left(const struct cgroup_host *host)
{
    return sweep(host, SWEEP_COUNT);
}

/* ---- delegation ---- */

static int make_owned(int top, const char *name, uid_t uid, gid_t gid, const char *const *files)
{
    if (mkdirat(top, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    auto_close int dir = open_dir_at(top, name);
    if (dir < 0 || fchown(dir, uid, gid) < 0)
        return -errno;
    for (; *files; files++)
        if (fchownat(dir, *files, uid, gid, AT_SYMLINK_NOFOLLOW) < 0 && errno != ENOENT)
            return -errno;
    return 0;
}

static int delegate_v2(int top, const char *name, uid_t uid, gid_t gid)
{
    static const char *const files[] = { "cgroup.procs", "cgroup.threads", "cgroup.subtree_control",
                                         NULL };
    bool has[CGROUP_N] = { false };

    enable_v2(top, has);
    if (!has[CGROUP_MEMORY] || !has[CGROUP_PIDS])
        return -ENOTSUP;
    int rc = make_owned(top, name, uid, gid, files);
    if (rc < 0)
        return rc;
    auto_close int dir = open_dir_at(top, name);
    if (dir < 0)
        return -errno;
    enable_v2(dir, has);
    return make_owned(dir, "cay-leaf", uid, gid, files);
}

int cgroup_delegate(uid_t uid, gid_t gid)
{
    static const char *const files[] = { "tasks", "cgroup.procs", NULL };
    char name[64];
    user_dir_name(name, uid);

    auto_close int top = open_dir_at(AT_FDCWD, CGROUP_TOP);
    if (is_fs(top, CGROUP2_SUPER_MAGIC))
        return delegate_v2(top, name, uid, gid);

    int found = 0;
    for (int i = 0; i < CGROUP_N; i++) {
        auto_close int hierarchy = hierarchy_v1((enum cgroup_controller)i);
        if (hierarchy < 0)
            continue;
        int rc = make_owned(hierarchy, name, uid, gid, files);
        if (rc < 0)
            return rc;
        found++;
    }
    return found > 0 ? 0 : -ENOTSUP;
}

/* What a killed warden left, and no other has swept since. Empty groups only: who still runs there
 * is the user's to end. */
static void sweep_delegated_v1(uid_t uid)
{
    struct cgroup_host host;

    cgroup_host_open(&host, uid);
    sweep(&host, SWEEP_EMPTY);
    cgroup_host_close(&host);
}

static int undelegate_v2(int top, const char *name)
{
    struct cgroup_host host;
    auto_close int dir = open_dir_at(top, name);

    if (dir < 0)
        return -errno;
    for (int i = 0; i < CGROUP_N; i++)
        host.parent[i] = i == CGROUP_MEMORY ? dir : -1;
    sweep(&host, SWEEP_EMPTY);
    if (unlinkat(dir, "cay-leaf", AT_REMOVEDIR) < 0 && errno != ENOENT)
        return -errno;
    return unlinkat(top, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int cgroup_undelegate(uid_t uid)
{
    char name[64];
    user_dir_name(name, uid);

    auto_close int top = open_dir_at(AT_FDCWD, CGROUP_TOP);
    if (is_fs(top, CGROUP2_SUPER_MAGIC))
        return undelegate_v2(top, name);
    sweep_delegated_v1(uid);
    int result = -ENOENT;
    for (int i = 0; i < CGROUP_N; i++) {
        auto_close int hierarchy = hierarchy_v1((enum cgroup_controller)i);
        if (hierarchy < 0 || faccessat(hierarchy, name, F_OK, 0) < 0)
            continue;
        if (unlinkat(hierarchy, name, AT_REMOVEDIR) < 0)
            return -errno;
        result = 0;
    }
    return result;
}

int cgroup_enter_delegated(uid_t uid)
{
    char path[128];
    auto_close int top = open_dir_at(AT_FDCWD, CGROUP_TOP);
    if (!is_fs(top, CGROUP2_SUPER_MAGIC))
        return 0; /* v1 asks only for the right to write the file */
    snprintf(path, sizeof path, "cay-user-%u/cay-leaf/cgroup.procs", uid);
    return file_write_at(top, path, "0", 1);
}

void cgroup_setup_command(uid_t uid, char *out, size_t size)
{
    auto_close int top = open_dir_at(AT_FDCWD, CGROUP_TOP);
    char name[64];

    if (!user_name(uid, name, sizeof name))
        snprintf(out, size, "sudo cay setup %u", uid); /* who has no entry can't log in either */
    else if (is_fs(top, CGROUP2_SUPER_MAGIC))
        snprintf(out, size, "sudo cay setup %s -- su - %s", name, name);
    else
        snprintf(out, size, "sudo cay setup %s", name);
}

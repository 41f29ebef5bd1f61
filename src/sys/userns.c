/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "sys/file.h"

/* 0x70000000 … is in no distribution's, container manager's or directory service's range
 * (systemd's UIDS-GIDS.md lists them). */
enum { ROOT_SLOT_BASE = 0x70000000, ROOT_SLOTS = 65536 };

#define NEWUIDMAP "/usr/bin/newuidmap"
#define NEWGIDMAP "/usr/bin/newgidmap"

/* The range of uid in /etc/subuid or /etc/subgid, whose lines are "NAME-OR-UID:START:COUNT". */
static bool subid_range(const char *path, uid_t uid, const char *name, uint32_t *start,
                        uint32_t *count)
{
    FILE *file = fopen(path, "re");
    char line[256], number[24];
    bool found = false;

    if (!file)
        return false;
    snprintf(number, sizeof number, "%u", uid);
    while (!found && fgets(line, sizeof line, file)) {
        char *save = NULL;
        const char *who = strtok_r(line, ":", &save);
        const char *from = strtok_r(NULL, ":", &save);
        const char *n = strtok_r(NULL, ":\n", &save);
        if (!who || !from || !n || (strcmp(who, number) != 0 && (!name || strcmp(who, name) != 0)))
            continue;
        *start = (uint32_t)strtoul(from, NULL, 10);
        *count = (uint32_t)strtoul(n, NULL, 10);
        found = *start > 0 && *count > 0;
    }
    fclose(file);
    return found;
}

/* From /etc/passwd alone: no name service is asked, for it may be slow or remote. */
static bool passwd_text(uid_t uid, bool is_home, char *out, size_t size)
{
    FILE *file = fopen("/etc/passwd", "re");
    bool found = false;

    if (!file)
        return false;
    for (struct passwd *pw; !found && (pw = fgetpwent(file));)
        if (pw->pw_uid == uid)
            found = snprintf(out, size, "%s", is_home ? pw->pw_dir : pw->pw_name) < (int)size;
    fclose(file);
    return found;
}

bool user_name(uid_t uid, char *out, size_t size)
{
    return passwd_text(uid, false, out, size);
}

/* The byte of a slot in a slot file. The lock belongs to the open file, so it is gone when the
 * last process that has it is. */
static int set_lock(int fd, short type, uint32_t slot)
{
    struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1 };

    if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return 0;
    return errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
}

/* ---- an ordinary user's ---- */

/* A user can choose the state folder (HOME, XDG_STATE_HOME), or have none: a file there would not
 * know of runs that use another one. So the file is in a folder that belongs to the user whatever
 * the environment says: the one that logind makes, or one like that of the sockets
 * (engine/warden-socket.c). */
static int open_private(const char *path, uid_t uid, int flags)
{
    struct stat st;
    auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    return st.st_uid == uid && !(st.st_mode & 0022) ? take_fd(&fd) : -EPERM;
}

/* Used where somebody else has made the folder of that name in /tmp: the home folder in
 * /etc/passwd. */
static int open_home(uid_t uid)
{
    char path[PATH_MAX];

    return passwd_text(uid, true, path, sizeof path) ? open_private(path, uid, 0) : -ENOENT;
}

static int open_own_lock(uid_t uid)
{
    const char *name = "cay-uids";
    char path[32];

    snprintf(path, sizeof path, "/run/user/%u", uid);
    auto_close int dir_fd = open_private(path, uid, O_NOFOLLOW);
    if (dir_fd < 0) {
        snprintf(path, sizeof path, "/tmp/cay-%u", uid);
        mkdir(path, 0700);
        dir_fd = open_private(path, uid, O_NOFOLLOW);
    }
    if (dir_fd < 0) {
        dir_fd = open_home(uid);
        name = ".cay-uids";
    }
    if (dir_fd < 0)
        return dir_fd;
    int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? -errno : fd;
}

/* Not everybody sees that folder (a mount namespace), and it may be made while somebody runs: so
 * the uid is a name of the network namespace as well, which is gone with its socket. Nobody
 * listens, so nothing can be sent there. */
static int bind_name(uid_t uid)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int len = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "cay-uid-%u", uid);
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
    if (bind(fd, (const struct sockaddr *)&name, size) < 0)
        return -errno;
    return take_fd(&fd);
}

/* ---- slots ---- */

/* -EBUSY: somebody has it; -EADDRINUSE: its name alone. */
static int take_slot(struct identity *who, uint32_t slot, bool with_name)
{
    int rc = who->lock_fd < 0 ? 0 : set_lock(who->lock_fd, F_WRLCK, slot);

    if (rc < 0 || !with_name)
        return rc;
    int fd = bind_name(who->uid + slot);
    if (fd < 0) {
        if (who->lock_fd >= 0)
            set_lock(who->lock_fd, F_UNLCK, slot);
        return fd;
    }
    who->name_fd = fd;
    return 0;
}

/* Anybody can take names. Who finds so many of free slots taken does without: the lock is what
 * counts, where there is one. */
enum { NAMES_TRIED = 64 };

/* Finds a free slot for an identity that has the first one's ids. Where to begin is as good as any:
 * from the first on, each of many runs would try all those before it. */
static int find_slot(int state_fd, uint32_t slots, struct identity *who)
{
    const bool is_users = who->kind == IDENTITY_SUBUID;
    const uint32_t first = slots ? (uint32_t)((uint64_t)clock_now_ns() >> 10) % slots : 0;
    uint32_t taken_names = 0;
    int rc = -EBUSY;

    who->lock_fd = is_users
                       ? open_own_lock(geteuid())
                       : openat(state_fd, "slots", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (who->lock_fd < 0 && !is_users)
        return -errno;
    /* Once more without names, if it is these. */
    for (uint64_t i = 0; i < 2 * (uint64_t)slots && rc == -EBUSY; i++) {
        bool with_name = is_users && (who->lock_fd < 0 || (i < slots && taken_names < NAMES_TRIED));
        if (i >= slots && (with_name || taken_names == 0))
            break;
        uint32_t slot = (uint32_t)((first + i) % slots);
        rc = take_slot(who, slot, with_name);
        if (rc == 0) {
            who->uid += slot;
            who->gid += slot;
        } else if (rc == -EADDRINUSE) {
            taken_names++;
            rc = -EBUSY;
        }
    }
    if (rc < 0)
        identity_release(who);
    return rc;
}

static bool has_subids(uid_t uid, uint32_t *uid_start, uint32_t *gid_start, uint32_t *count)
{
    char name[64];
    uint32_t uid_count, gid_count;

    /* They are setuid, which no_new_privs takes away: within a service that has it on, for example.
     */
    if (access(NEWUIDMAP, X_OK) < 0 || access(NEWGIDMAP, X_OK) < 0 ||
        prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        return false;
    bool named = user_name(uid, name, sizeof name);
    if (!subid_range("/etc/subuid", uid, named ? name : NULL, uid_start, &uid_count) ||
        !subid_range("/etc/subgid", uid, named ? name : NULL, gid_start, &gid_count))
        return false;
    *count = MIN(uid_count, gid_count);
    return true;
}

void subids_count(uid_t uid, uint32_t *ret_uids, uint32_t *ret_gids)
{
    char name[64];
    uint32_t start;
    bool named = user_name(uid, name, sizeof name);

    if (!subid_range("/etc/subuid", uid, named ? name : NULL, &start, ret_uids))
        *ret_uids = 0;
    if (!subid_range("/etc/subgid", uid, named ? name : NULL, &start, ret_gids))
        *ret_gids = 0;
}

int identity_take(int state_fd, bool own, struct identity *ret)
{
    uid_t me = geteuid();
    uint32_t uid_start = ROOT_SLOT_BASE, gid_start = ROOT_SLOT_BASE, count = ROOT_SLOTS;

    if (me != 0 && (own || !has_subids(me, &uid_start, &gid_start, &count))) {
        *ret = (struct identity){ IDENTITY_OWN, me, getegid(), -1, -1 };
        return 0;
    }
    struct identity who = { me == 0 ? IDENTITY_ROOT_SLOT : IDENTITY_SUBUID, uid_start, gid_start,
                            -1, -1 };
    int rc = find_slot(state_fd, count, &who);
    if (rc == 0)
        *ret = who;
    return rc;
}

uint32_t identity_count(void)
{
    uint32_t uid_start, gid_start, count;

    if (geteuid() == 0)
        return ROOT_SLOTS;
    return has_subids(geteuid(), &uid_start, &gid_start, &count) ? count : 0;
}

void identity_release(struct identity *who)
{
    close_fd(&who->lock_fd);
    close_fd(&who->name_fd);
}

int userns_write_map(pid_t pid, const char *file, unsigned inside, unsigned outside)
{
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    int len = snprintf(text, sizeof text, "%u %u 1\n", inside, outside);
    return file_write_at(AT_FDCWD, path, text, (size_t)len);
}

/* The namespace's root, who nobody is and nothing belongs to but what the kernel shows of its
 * network (netns.c). */
static int map_with_root(pid_t pid, const char *file, unsigned inside, unsigned outside)
{
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    int len = snprintf(text, sizeof text, "%u %u 1\n0 %u 1\n", inside, outside, USERNS_ROOT_UID);
    return file_write_at(AT_FDCWD, path, text, (size_t)len);
}

static int spawn_map_tool(const char *tool, pid_t pid, unsigned inside, unsigned outside,
                          pid_t *ret)
{
    char text[3][24], *const env[] = { NULL };
    snprintf(text[0], sizeof text[0], "%d", pid);
    snprintf(text[1], sizeof text[1], "%u", inside);
    snprintf(text[2], sizeof text[2], "%u", outside);
    char *argv[] = { (char *)(uintptr_t)tool, text[0], text[1], text[2], (char[]){ "1" }, NULL };
    return -posix_spawn(ret, tool, NULL, NULL, argv, env);
}

static int reap_map_tool(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

/* Setuid helpers of the uidmap package, both at once: each costs an exec. */
static int map_by_tools(pid_t pid, const struct identity *who)
{
    pid_t uid_tool, gid_tool;

    int rc = spawn_map_tool(NEWUIDMAP, pid, SANDBOX_UID, who->uid, &uid_tool);
    if (rc < 0)
        return rc;
    int rc_gid = spawn_map_tool(NEWGIDMAP, pid, SANDBOX_GID, who->gid, &gid_tool);
    rc = reap_map_tool(uid_tool);
    if (rc_gid == 0)
        rc_gid = reap_map_tool(gid_tool);
    return rc < 0 ? rc : rc_gid;
}

int userns_map(pid_t pid, const struct identity *who)
{
    if (who->kind == IDENTITY_SUBUID)
        return map_by_tools(pid, who);
    if (who->kind == IDENTITY_OWN) {
        /* The kernel lets an ordinary user map a group only when setgroups is given up. */
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/setgroups", pid);
        int rc = file_write_at(AT_FDCWD, path, "deny", 4);
        if (rc < 0)
            return rc;
    }
    if (who->kind == IDENTITY_ROOT_SLOT) {
        int rc = map_with_root(pid, "uid_map", SANDBOX_UID, who->uid);
        return rc < 0 ? rc : map_with_root(pid, "gid_map", SANDBOX_GID, who->gid);
    }
    int rc = userns_write_map(pid, "uid_map", SANDBOX_UID, who->uid);
    return rc < 0 ? rc : userns_write_map(pid, "gid_map", SANDBOX_GID, who->gid);
}

void userns_bound_own(enum userns_owner owner)
{
    /* The host's own limit for a user is 128, as it comes: of a few each, some runs of one tenant
     * would leave the others without. */
    static const char *const instances[] = {
        [OWNER_OF_ONE] = "16", [OWNER_OF_OWN] = "4", [OWNER_OF_ALL] = "0"
    };
    const char *own = instances[owner];

    file_write_at(AT_FDCWD, "/proc/sys/user/max_inotify_instances", own, strlen(own));
    file_write_at(AT_FDCWD, "/proc/sys/user/max_inotify_watches", "8192", 4);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/cgroup-boot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/strbuf.h"
#include "sys/file.h"

enum { PATH_ROOM = 128 };

static const char tree[] = "sys/fs/cgroup";

static void unit_path(char out[static PATH_ROOM], uid_t uid)
{
    snprintf(out, PATH_ROOM, "/etc/systemd/system/cay-user-%u.service", uid);
}

/* By it the unit is enabled, as `systemctl enable` would. */
static void link_path(char out[static PATH_ROOM], uid_t uid)
{
    snprintf(out, PATH_ROOM, "/etc/systemd/system/multi-user.target.wants/cay-user-%u.service",
             uid);
}

static void drop_in_path(char out[static PATH_ROOM], uid_t uid)
{
    snprintf(out, PATH_ROOM, "/etc/systemd/system/user@%u.service.d/cay.conf", uid);
}

static bool is_there(int root_fd, const char *path)
{
    return faccessat(root_fd, path, F_OK, 0) == 0;
}

/* "cpu" is a link where it is mounted together with another: what it leads to is named. */
static void put_hierarchy(struct strbuf *out, int root_fd, const char *name, uid_t uid, gid_t gid)
{
    char path[PATH_ROOM], target[64] = "", dir[PATH_ROOM];

    snprintf(path, sizeof path, "%s/%s", tree, name);
    if (!is_there(root_fd, path))
        return;
    ssize_t len = readlinkat(root_fd, path, target, sizeof target - 1);
    if (len > 0 && !strchr(target, '/'))
        name = target;
    snprintf(dir, sizeof dir, "/%s/%s/cay-user-%u", tree, name, uid);
    if (strstr(strbuf_str(out), dir))
        return;
    strbuf_printf(out,
                  "ExecStart=/bin/mkdir -p %s\n"
                  "ExecStart=/bin/chown %u:%u %s %s/tasks %s/cgroup.procs\n",
                  dir, uid, gid, dir, dir, dir);
}

/* No cay is needed for it: the one that runs now may be in a folder that others can write. Nor is
 * tmpfiles.d of use, which changes no file of root's in a folder that is not root's any more. */
static void put_unit(struct strbuf *out, int root_fd, uid_t uid, gid_t gid)
{
    static const char *const names[] = { "memory", "pids", "cpu", "cpuacct" };

    strbuf_printf(out,
                  "# Written by `cay setup %u`; `cay setup --remove %u` removes it.\n"
                  "[Unit]\nDescription=cgroups of uid %u for cay\n\n"
                  "[Service]\nType=oneshot\nRemainAfterExit=yes\n",
                  uid, uid, uid);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        put_hierarchy(out, root_fd, names[i], uid, gid);
    strbuf_puts(out, "\n[Install]\nWantedBy=multi-user.target\n");
}

static void put_drop_in(struct strbuf *out, uid_t uid)
{
    strbuf_printf(out,
                  "# Written by `cay setup %u`; `cay setup --remove %u` removes it.\n"
                  "[Service]\nDelegate=cpu memory pids\n",
                  uid, uid);
}

/* Whole or not at all; a link in its place is replaced, not followed. */
static int replace_file(int root_fd, const char *path, const struct strbuf *text)
{
    char temp[PATH_ROOM + 8];

    snprintf(temp, sizeof temp, "%s.new", path);
    int rc = file_make_parents_at(root_fd, path);
    if (rc < 0)
        return rc;
    unlinkat(root_fd, temp, 0);
    auto_close int fd =
        openat(root_fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return -errno;
    rc = write_all(fd, text->data, text->len);
    if (rc == 0 && (fchmod(fd, 0644) < 0 || fsync(fd) < 0))
        rc = -errno;
    if (rc == 0 && renameat(root_fd, temp, root_fd, path) < 0)
        rc = -errno;
    if (rc < 0)
        unlinkat(root_fd, temp, 0);
    return rc;
}

static int enable(int root_fd, uid_t uid)
{
    char path[PATH_ROOM], target[64];

    link_path(path, uid);
    snprintf(target, sizeof target, "../cay-user-%u.service", uid);
    int rc = file_make_parents_at(root_fd, path + 1);
    if (rc < 0)
        return rc;
    return symlinkat(target, root_fd, path + 1) < 0 && errno != EEXIST ? -errno : 0;
}

int cgroup_boot_keep(int root_fd, uid_t uid, gid_t gid, char ret_path[static PATH_ROOM])
{
    auto_strbuf struct strbuf text = { 0 };
    char path[PATH_ROOM];
    bool has_v2 = is_there(root_fd, "sys/fs/cgroup/cgroup.controllers");

    if (!is_there(root_fd, "run/systemd/system")) /* as sd_booted(3) finds out */
        return 0;
    if (has_v2) {
        drop_in_path(path, uid);
        put_drop_in(&text, uid);
    } else {
        unit_path(path, uid);
        put_unit(&text, root_fd, uid, gid);
    }
    int rc = replace_file(root_fd, path + 1, &text);
    if (rc == 0 && !has_v2)
        rc = enable(root_fd, uid);
    if (rc < 0)
        return rc;
    memcpy(ret_path, path, sizeof path);
    return 1;
}

int cgroup_boot_forget(int root_fd, uid_t uid)
{
    char paths[3][PATH_ROOM];
    int removed = 0;

    link_path(paths[0], uid);
    unit_path(paths[1], uid);
    drop_in_path(paths[2], uid);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        if (unlinkat(root_fd, paths[i] + 1, 0) == 0)
            removed += i > 0;
        else if (errno != ENOENT && errno != ENOTDIR)
            return -errno;
    }
    *strrchr(paths[2], '/') = '\0';
    unlinkat(root_fd, paths[2] + 1, AT_REMOVEDIR); /* where nothing else is there */
    return removed;
}

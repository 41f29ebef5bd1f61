/* SPDX-License-Identifier: Apache-2.0 */
/* What memory there is for runs: the host's, or less where we are in a cgroup with a limit. The
 * files are opened once, while the server may still open any. */
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/parse.h"
#include "service/admit.h"

enum { FILE_MAX = 16384 };

/* Both kinds of hierarchy: where it is mounted, and the names of its files. */
static const struct hierarchy {
    const char *controller; /* in /proc/self/cgroup: "" is v2 */
    const char *mount;
    const char *limit, *usage, *reclaimable;
} hierarchies[] = {
    { "", "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file " },
    { "memory", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
      "total_inactive_file " },
};

/* One group, with a limit or without one so far. */
struct group {
    const struct hierarchy *hierarchy;
    int limit_fd, usage_fd, stat_fd;
    bool is_top;
};

enum { GROUPS_MAX = 32 };

struct admit_files {
    int meminfo_fd;
    struct group groups[GROUPS_MAX];
    size_t n_groups;
};

static int open_file(const char *folder, const char *name)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return -1;
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static bool read_text(int fd, char out[static FILE_MAX])
{
    size_t len = 0;
    ssize_t n = fd < 0 ? -1 : 1;

    while (n > 0 && len < FILE_MAX - 1 &&
           (n = pread(fd, out + len, FILE_MAX - 1 - len, (off_t)len)) > 0)
        len += (size_t)n;
    out[len] = '\0';
    return fd >= 0 && n >= 0;
}

/* The number behind a key at the start of a line, or at the start of the text where key is "". */
static bool read_number(const char *text, const char *key, uint64_t *ret)
{
    size_t len = strlen(key);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) != 0)
            continue;
        char digits[24];
        line += len + strspn(line + len, " \t");
        size_t n = strspn(line, "0123456789");
        if (n == 0 || n >= sizeof digits)
            return false;
        memcpy(digits, line, n);
        digits[n] = '\0';
        return parse_uint(digits, UINT64_MAX, ret) == 0;
    }
    return false;
}

static void read_host(int meminfo_fd, struct admit_host *ret)
{
    char text[FILE_MAX];
    uint64_t kib;

    if (!read_text(meminfo_fd, text))
        return;
    if (read_number(text, "MemTotal:", &kib))
        ret->total_bytes = kib * 1024;
    if (read_number(text, "MemAvailable:", &kib))
        ret->free_bytes = kib * 1024;
}

/* One group: the page cache in it that the kernel would drop first counts as free. */
static void read_group(const struct group *group, struct admit_host *ret)
{
    char text[FILE_MAX];
    uint64_t limit, usage, cache = 0;

    if (!read_text(group->limit_fd, text) || !read_number(text, "", &limit))
        return; /* "max" */
    if (limit >= ret->total_bytes)
        return;
    ret->total_bytes = limit;
    ret->is_service = !group->is_top; /* at the top, as in a container, runs are below it */
    if (!read_text(group->usage_fd, text) || !read_number(text, "", &usage))
        return;
    if (read_text(group->stat_fd, text))
        (void)read_number(text, group->hierarchy->reclaimable, &cache);
    usage -= MIN(usage, cache);
    ret->free_bytes = MIN(ret->free_bytes, limit - MIN(limit, usage));
}

static void open_group(struct admit_files *files, const struct hierarchy *h, const char *folder,
                       bool is_top)
{
    int limit_fd = open_file(folder, h->limit);

    if (limit_fd < 0 || files->n_groups == GROUPS_MAX) {
        close_fd(&limit_fd); /* the root of v2 has no such file */
        return;
    }
    files->groups[files->n_groups++] = (struct group){ h, limit_fd, open_file(folder, h->usage),
                                                       open_file(folder, "memory.stat"), is_top };
}

/* The group of that path and each above it. In a container, the path may be one outside of what is
 * mounted: those folders are not there, and the mount itself is our group. */
static void open_groups(struct admit_files *files, const struct hierarchy *h, const char *root,
                        const char *group)
{
    char path[PATH_MAX];
    size_t base = strlen(root) + 1 + strlen(h->mount);

    if (snprintf(path, sizeof path, "%s/%s%s", root, h->mount, group) >= (int)sizeof path)
        return;
    for (;;) {
        open_group(files, h, path, strlen(path) <= base + 1); /* "/" may be at its end */
        char *slash = strrchr(path, '/');
        if (!slash || (size_t)(slash - path) < base)
            return;
        *slash = '\0';
    }
}

static bool has_controller(const char *list, size_t len, const char *name)
{
    size_t n = strlen(name);

    for (const char *pos = list; pos <= list + len;) {
        size_t word = strcspn(pos, ",:");
        if (word == n && memcmp(pos, name, n) == 0)
            return true;
        pos += word + 1;
    }
    return false;
}

static void open_own_groups(struct admit_files *files, const char *root)
{
    char text[FILE_MAX];
    auto_close int fd = open_file(root, "proc/self/cgroup");

    if (!read_text(fd, text))
        return;
    /* "4:memory:/a/b", "0::/a/b" */
    for (char *rest = NULL, *line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        char *list = strchr(line, ':');
        char *group = list ? strchr(++list, ':') : NULL;
        if (!group || group[1] != '/')
            continue;
        for (size_t i = 0; i < ARRAY_LEN(hierarchies); i++)
            if (has_controller(list, (size_t)(group - list), hierarchies[i].controller))
                open_groups(files, &hierarchies[i], root, group + 1);
    }
}

struct admit_files *admit_files_open(const char *root)
{
    struct admit_files *files = mem_alloc(sizeof *files);

    files->meminfo_fd = open_file(root, "proc/meminfo");
    open_own_groups(files, root);
    return files;
}

void admit_files_close(struct admit_files *files)
{
    if (!files)
        return;
    close_fd(&files->meminfo_fd);
    for (size_t i = 0; i < files->n_groups; i++) {
        close_fd(&files->groups[i].limit_fd);
        close_fd(&files->groups[i].usage_fd);
        close_fd(&files->groups[i].stat_fd);
    }
    free(files);
}

void admit_host_read(const struct admit_files *files, struct admit_host *ret)
{
    cpu_set_t set;

    *ret = (struct admit_host){ UINT64_MAX, UINT64_MAX, 1, false };
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        ret->cores = (unsigned)CPU_COUNT(&set);
    read_host(files->meminfo_fd, ret);
    for (size_t i = 0; i < files->n_groups; i++)
        read_group(&files->groups[i], ret);
}

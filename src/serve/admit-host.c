/* SPDX-License-Identifier: Apache-2.0 */
/* What memory there is for runs: the host's, or less where we are in a cgroup with a limit. */
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/parse.h"
#include "serve/admit.h"

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

static bool read_text(const char *folder, const char *name, char out[static FILE_MAX])
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return false;
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t len = 0;
    ssize_t n = fd < 0 ? -1 : 1;
    while (n > 0 && len < FILE_MAX - 1 && (n = read(fd, out + len, FILE_MAX - 1 - len)) > 0)
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

static void read_host(const char *root, struct admit_host *ret)
{
    char text[FILE_MAX];
    uint64_t kib;

    if (!read_text(root, "proc/meminfo", text))
        return;
    if (read_number(text, "MemTotal:", &kib))
        ret->total_bytes = kib * 1024;
    if (read_number(text, "MemAvailable:", &kib))
        ret->free_bytes = kib * 1024;
}

/* One group: the page cache in it that the kernel would drop first counts as free. */
static void read_group(const struct hierarchy *h, const char *folder, bool is_top,
                       struct admit_host *ret)
{
    char text[FILE_MAX];
    uint64_t limit, usage, cache = 0;

    if (!read_text(folder, h->limit, text) || !read_number(text, "", &limit))
        return; /* "max", or the root of v2, which has no such file */
    if (limit >= ret->total_bytes)
        return;
    ret->total_bytes = limit;
    ret->is_service = !is_top; /* at the top, as in a container, runs are below it */
    if (!read_text(folder, h->usage, text) || !read_number(text, "", &usage))
        return;
    if (read_text(folder, "memory.stat", text))
        (void)read_number(text, h->reclaimable, &cache);
    usage -= MIN(usage, cache);
    ret->free_bytes = MIN(ret->free_bytes, limit - MIN(limit, usage));
}

/* The group of that path and each above it. In a container, the path may be one outside of what is
 * mounted: those folders are not there, and the mount itself is our group. */
static void read_groups(const struct hierarchy *h, const char *root, const char *group,
                        struct admit_host *ret)
{
    char path[PATH_MAX];
    size_t base = strlen(root) + 1 + strlen(h->mount);

    if (snprintf(path, sizeof path, "%s/%s%s", root, h->mount, group) >= (int)sizeof path)
        return;
    for (;;) {
        read_group(h, path, strlen(path) <= base + 1, ret); /* "/" may be at its end */
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

void admit_host_read(const char *root, struct admit_host *ret)
{
    char text[FILE_MAX];
    cpu_set_t set;

    *ret = (struct admit_host){ UINT64_MAX, UINT64_MAX, 1, false };
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        ret->cores = (unsigned)CPU_COUNT(&set);
    read_host(root, ret);
    if (!read_text(root, "proc/self/cgroup", text))
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
                read_groups(&hierarchies[i], root, group + 1, ret);
    }
}

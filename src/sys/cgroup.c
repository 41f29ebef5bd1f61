/* SPDX-License-Identifier: Apache-2.0 */
/* Making, limiting, reading and removing groups. Where they may be made is found out in
 * cgroup-host.c; what differs between the versions is in the tables here. */
#include "sys/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/file.h"

enum { CPU_PERIOD_US = 100000 };

/* What the kernel gives a new group: cpu.shares of v1; v2 calls the same 100. */
enum { CPU_WEIGHT = 100 }; /* of CGROUP_CPU_SHARES */

/* The hierarchies of this host, in the order of making; removal goes the other way. On v2 there is
 * one, under CGROUP_MEMORY. The first one carries the lock: a group that is there in another
 * hierarchy but not in the first is a leftover. */
static int hierarchies(const struct cgroup_host *host)
{
    return host->version == 2 ? 1 : CGROUP_N;
}

static int lock_dir(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
}

static int make_one(const struct cgroup_host *host, int which, const char *name,
                    struct cgroup *group)
{
    int parent = host->parent[which];

    /* Only for its owner: another user who can open it could hold a lock on it, and hide it from
     * the sweep. */
    if (mkdirat(parent, name, 0700) < 0)
        return -errno;
    /* A sweeper may take the newborn for a leftover until it is locked: then it is made again. */
    group->dir[which] = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (group->dir[which] < 0) {
        int errnum = errno;
        unlinkat(parent, name, AT_REMOVEDIR);
        return errnum == ENOENT ? -EAGAIN : -errnum;
    }
    if (which == CGROUP_MEMORY && lock_dir(group->dir[which]) < 0)
        return -EAGAIN;
    if (which == CGROUP_MEMORY && faccessat(parent, name, F_OK, 0) < 0)
        return -EAGAIN;
    if (host->version == 1) {
        group->join[which] = openat(group->dir[which], "tasks", O_WRONLY | O_CLOEXEC);
        if (group->join[which] < 0)
            return -errno;
    }
    return 0;
}

int cgroup_make(const struct cgroup_host *host, const char *name, struct cgroup *ret)
{
    struct cgroup group = { .host = host, .cpu_shares = CGROUP_CPU_SHARES };

    snprintf(group.name, sizeof group.name, "%s", name);
    for (int i = 0; i < CGROUP_N; i++)
        group.dir[i] = group.join[i] = -1;
    for (int i = 0; i < CGROUP_COUNTERS; i++)
        group.counters[i] = -1;
    for (int i = 0; i < hierarchies(host); i++) {
        if (host->parent[i] < 0)
            continue;
        int rc = make_one(host, i, name, &group);
        if (rc < 0) {
            cgroup_remove(&group);
            return rc;
        }
    }
    *ret = group;
    return 0;
}

/* What sockets of the internet's protocols hold has a count of its own on v1, and none at all (UDP)
 * unless it has a limit: a part of the sum that is small beside it. A sender that comes to it
 * waits, or what it sent is lost. */
enum { SOCKETS_PART = 10 };

static int set_sockets_v1(int dir, const struct cgroup_limits *limits)
{
    int rc = file_write_uint_at(dir, "memory.kmem.tcp.limit_in_bytes",
                                limits->memory_bytes / SOCKETS_PART);
    /* A kernel that can't; or there is more already, of what ran before in this sandbox, and what
     * was set for that holds on. */
    return rc == -ENOENT || rc == -EOPNOTSUPP || rc == -EBUSY ? 0 : rc;
}

static int set_memory_v1(int dir, const struct cgroup_limits *limits)
{
    uint64_t sum = limits->memory_bytes + limits->swap_bytes;

    /* memsw may not be below memory at any moment, so the order depends on the direction. */
    int rc = file_write_uint_at(dir, "memory.limit_in_bytes", limits->memory_bytes);
    int rc_sum = file_write_uint_at(dir, "memory.memsw.limit_in_bytes", sum);
    if (rc == -EINVAL && rc_sum == 0)
        rc = file_write_uint_at(dir, "memory.limit_in_bytes", limits->memory_bytes);
    if (rc_sum == -ENOENT) /* no swap accounting: keep out of swap as far as one can */
        rc_sum = file_write_uint_at(dir, "memory.swappiness", 0);
    int rc_sockets = set_sockets_v1(dir, limits);
    return rc < 0 ? rc : rc_sum < 0 ? rc_sum : rc_sockets;
}

static int set_memory_v2(int dir, const struct cgroup_limits *limits)
{
    int rc = file_write_uint_at(dir, "memory.max", limits->memory_bytes);
    int rc_swap = file_write_uint_at(dir, "memory.swap.max", limits->swap_bytes);
    if (rc_swap == -ENOENT) /* a kernel without swap */
        rc_swap = 0;
    return rc < 0 ? rc : rc_swap;
}

static int set_cpu_v1(int dir, const struct cgroup_limits *limits)
{
    return file_write_uint_at(dir, "cpu.cfs_quota_us",
                              (uint64_t)limits->cpus_milli * CPU_PERIOD_US / 1000);
}

static int set_cpu_v2(int dir, const struct cgroup_limits *limits)
{
    char text[64];
    int len = snprintf(text, sizeof text, "%u %d", limits->cpus_milli * (CPU_PERIOD_US / 1000),
                       CPU_PERIOD_US);
    return file_write_at(dir, "cpu.max", text, (size_t)len);
}

static int dir_of(const struct cgroup *group, enum cgroup_controller which)
{
    return group->dir[group->host->version == 2 ? CGROUP_MEMORY : which];
}

/* Skipped where it is unchanged: that saves a write for nearly every run. */
static int set_shares(struct cgroup *group, const struct cgroup_limits *limits)
{
    uint32_t shares = limits->cpu_shares;
    int dir = dir_of(group, CGROUP_CPU);

    if (shares == 0 || shares == group->cpu_shares)
        return 0;
    int rc = group->host->version == 1
                 ? file_write_uint_at(dir, "cpu.shares", shares)
                 : file_write_uint_at(dir, "cpu.weight",
                                      MAX((uint64_t)shares * CPU_WEIGHT / CGROUP_CPU_SHARES, 1));
    if (rc == 0)
        group->cpu_shares = shares;
    return rc;
}

static int set_pids(int dir, const struct cgroup_limits *limits)
{
    return file_write_uint_at(dir, "pids.max", limits->pids);
}

int cgroup_set_limits(struct cgroup *group, const struct cgroup_limits *limits,
                      enum cgroup_controller *ret_which)
{
    static int (*const setters[3][CGROUP_N])(int, const struct cgroup_limits *) = {
        [1] = { [CGROUP_MEMORY] = set_memory_v1,
                [CGROUP_PIDS] = set_pids,
                [CGROUP_CPU] = set_cpu_v1 },
        [2] = { [CGROUP_MEMORY] = set_memory_v2,
                [CGROUP_PIDS] = set_pids,
                [CGROUP_CPU] = set_cpu_v2 },
    };

    for (int i = 0; i < CGROUP_N; i++) {
        if (!group->host->has[i] || !setters[group->host->version][i])
            continue;
        int rc = setters[group->host->version][i](dir_of(group, (enum cgroup_controller)i), limits);
        if (rc == 0 && i == CGROUP_CPU)
            rc = set_shares(group, limits);
        if (rc < 0) {
            *ret_which = (enum cgroup_controller)i;
            return rc;
        }
    }
    return 0;
}

int cgroup_clone_fd(const struct cgroup *group)
{
    return group->host->version == 2 ? group->dir[CGROUP_MEMORY] : -1;
}

static int join_one(int *fd)
{
    int rc = *fd >= 0 && write(*fd, "0", 1) != 1 ? -errno : 0;
    close_fd(fd);
    return rc;
}

int cgroup_join_all_but_cpu(int join[CGROUP_N])
{
    for (int i = 0; i < CGROUP_N; i++) {
        int rc = i == CGROUP_CPU ? 0 : join_one(&join[i]);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int cgroup_join_cpu(int join[CGROUP_N])
{
    return join_one(&join[CGROUP_CPU]);
}

/* Where each counter is: the controller's folder, the file, and the key in it. */
static const struct {
    enum cgroup_controller which;
    const char *file, *key;
} counter_rows[3][CGROUP_COUNTERS] = {
    [1] = {
        [CGROUP_MEMORY_PEAK] = { CGROUP_MEMORY, "memory.max_usage_in_bytes", "" },
        [CGROUP_OOM_KILLS] = { CGROUP_MEMORY, "memory.oom_control", "oom_kill" },
        [CGROUP_PIDS_PEAK] = { CGROUP_PIDS, "pids.peak", "" }, /* from Linux 6.11 */
        [CGROUP_PIDS_DENIED] = { CGROUP_PIDS, "pids.events", "max" },
        [CGROUP_CPU_TIME] = { CGROUP_CPUACCT, "cpuacct.usage", "" },
        [CGROUP_MEMORY_NOW] = { CGROUP_MEMORY, "memory.usage_in_bytes", "" },
        [CGROUP_PIDS_NOW] = { CGROUP_PIDS, "pids.current", "" },
    },
    [2] = {
        [CGROUP_MEMORY_PEAK] = { CGROUP_MEMORY, "memory.peak", "" }, /* from Linux 5.19 */
        [CGROUP_OOM_KILLS] = { CGROUP_MEMORY, "memory.events", "oom_kill" },
        [CGROUP_PIDS_PEAK] = { CGROUP_PIDS, "pids.peak", "" },
        [CGROUP_PIDS_DENIED] = { CGROUP_PIDS, "pids.events", "max" },
        [CGROUP_CPU_TIME] = { CGROUP_CPU, "cpu.stat", "usage_usec" },
        [CGROUP_MEMORY_NOW] = { CGROUP_MEMORY, "memory.current", "" },
        [CGROUP_PIDS_NOW] = { CGROUP_PIDS, "pids.current", "" },
    },
};

/* The file stays open for the next time. */
static int open_counter(struct cgroup *group, enum cgroup_counter counter)
{
    int version = group->host->version, *fd = &group->counters[counter];

    if (*fd < 0)
        *fd = openat(dir_of(group, counter_rows[version][counter].which),
                     counter_rows[version][counter].file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return *fd;
}

static uint64_t read_counter(struct cgroup *group, enum cgroup_counter counter)
{
    char text[1024];
    uint64_t value;
    int version = group->host->version, fd = open_counter(group, counter);

    ssize_t len = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
    if (len < 0)
        return UINT64_MAX;
    text[len] = '\0';
    return file_find_key(text, counter_rows[version][counter].key, &value) < 0 ? UINT64_MAX : value;
}

int cgroup_open_join(const struct cgroup *group)
{
    int fd = openat(group->dir[CGROUP_MEMORY], "cgroup.procs", O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

uint64_t cgroup_memory(struct cgroup *group)
{
    uint64_t bytes = read_counter(group, CGROUP_MEMORY_NOW);
    return bytes == UINT64_MAX ? 0 : bytes;
}

uint64_t cgroup_unreclaimable_memory(struct cgroup *group, uint64_t *ret_sockets)
{
    static const char *const keys[3][2] = {
        [1] = { "total_inactive_file", "total_active_file" },
        [2] = { "inactive_file", "active_file" },
    };
    char text[8192];
    uint64_t held = cgroup_memory(group), sockets = 0;

    *ret_sockets = 0;
    if (file_read_at(group->dir[CGROUP_MEMORY], "memory.stat", text, sizeof text) <= 0)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(keys[0]); i++) {
        uint64_t bytes = 0;
        file_find_key(text, keys[group->host->version][i], &bytes);
        held -= MIN(held, bytes);
    }
    if (group->host->version == 2 && file_find_key(text, "sock", &sockets) == 0)
        *ret_sockets = sockets;
    return held - MIN(held, *ret_sockets);
}

uint64_t cgroup_tasks(struct cgroup *group)
{
    return read_counter(group, CGROUP_PIDS_NOW);
}

pid_t cgroup_other_process(const struct cgroup *group, pid_t first)
{
    char text[64];
    pid_t other = -1;
    ssize_t len = file_read_at(dir_of(group, CGROUP_PIDS), "cgroup.procs", text, sizeof text);

    if (len <= 0 || len == (ssize_t)sizeof text - 1)
        return -1;
    for (char *pos = text; *pos; pos += strspn(pos, "\n")) {
        pid_t pid = (pid_t)strtol(pos, &pos, 10);
        if (pid <= 0 || (pid != first && other > 0))
            return -1;
        if (pid != first)
            other = pid;
    }
    return other;
}

void cgroup_open_counters(struct cgroup *group)
{
    for (enum cgroup_counter i = 0; i <= CGROUP_CPU_TIME; i++)
        open_counter(group, i);
}

void cgroup_read(struct cgroup *group, struct cgroup_counters *ret)
{
    uint64_t cpu = read_counter(group, CGROUP_CPU_TIME);

    *ret = (struct cgroup_counters){
        .memory_peak = read_counter(group, CGROUP_MEMORY_PEAK),
        .oom_kills = read_counter(group, CGROUP_OOM_KILLS),
        .pids_peak = read_counter(group, CGROUP_PIDS_PEAK),
        .pids_denied = read_counter(group, CGROUP_PIDS_DENIED),
        .cpu_ns = cpu == UINT64_MAX || group->host->version == 1 ? cpu : cpu * 1000,
    };
}

void cgroup_reset_peaks(const struct cgroup *group)
{
    int memory = dir_of(group, CGROUP_MEMORY);

    if (group->host->version == 1)
        file_write_uint_at(memory, "memory.max_usage_in_bytes", 0);
}

void cgroup_raise_cpu(struct cgroup *group)
{
    const struct cgroup_limits one = { .cpus_milli = 1000, .cpu_shares = CGROUP_CPU_SHARES };
    int dir = group->host->has[CGROUP_CPU] ? dir_of(group, CGROUP_CPU) : -1;

    if (dir < 0)
        return;
    (group->host->version == 1 ? set_cpu_v1 : set_cpu_v2)(dir, &one);
    set_shares(group, &one);
}

void cgroup_kill(const struct cgroup *group)
{
    if (group->host->version == 2)
        file_write_at(group->dir[CGROUP_MEMORY], "cgroup.kill", "1", 1);
}

/* A group is busy for a moment after its last task was reaped. */
static void remove_dir(int parent, const char *name)
{
    for (int tries = 0; tries < 200; tries++) {
        if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno != EBUSY)
            return;
        usleep(tries < 20 ? 100 : 5000);
    }
}

void cgroup_remove(struct cgroup *group)
{
    for (int i = 0; i < CGROUP_COUNTERS; i++)
        close_fd(&group->counters[i]);
    for (int i = CGROUP_N - 1; i >= 0; i--) {
        if (group->dir[i] >= 0)
            remove_dir(group->host->parent[i], group->name);
        close_fd(&group->join[i]);
        close_fd(&group->dir[i]);
    }
}

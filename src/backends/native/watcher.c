/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/watcher.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "sys/file.h"

#define INTERVAL_MIN_NS NS_PER_MSEC
#define INTERVAL_MAX_NS (20 * NS_PER_MSEC)

/* What may come to be used in a microsecond at the most, by pages or by buffers of sockets, with
 * some CPUs at it. The next look is due before a quarter of the limit could be. */
enum { BYTES_PER_US = 8000 };

/* Past the bound that a user has for pipes (64 MiB), each still gets two pages; a process with few
 * files can't hold many. */
enum { FEW_FILES = 256, PIPE_BYTES_PER_FD = 4096 };

/* What the kernel has for a thread: its stack, mostly. */
enum { TASK_BYTES = 24 * 1024 };

/* What a mapping takes, though nothing be in it; and what it may take besides for each process that
 * it came down from by fork. Of so many a look asks for the exact number; to tell of each takes the
 * kernel half a microsecond. */
enum { MAPPING_BYTES = 256, MAPPING_BYTES_PER_FORK = 64, MAPPINGS_LISTED = 65536 };
enum { PAGE_KB = 4, USUAL_MAPS_MAX = 65530 };

/* Buffers of sockets grow faster than any other memory: with this many, every look is soon. */
enum { MANY_SOCKETS = 32 };

/* What the processes use, added up. */
struct sum {
    struct mm_use memory; /* in the first, quick look shared pages count for each address space */
    uint64_t n_listed;    /* mappings that were asked for in this look */
    uint64_t pipes;       /* what many open files may hold as such */
    uint64_t tasks;
    int64_t reaped_cpu_ns; /* of children, by those that live */
};

int watcher_open(struct watcher *watcher)
{
    watcher->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (watcher->proc_fd < 0)
        return -errno;
    if (file_read_uint_at(watcher->proc_fd, "sys/vm/max_map_count", &watcher->maps_max) < 0)
        watcher->maps_max = USUAL_MAPS_MAX;
    sockmem_prepare(&watcher->sockets, watcher->proc_fd);
    sockmem_open(&watcher->sockets, watcher->proc_fd);
    int rc = mm_set_init(&watcher->spaces);
    return rc < 0 ? rc : cpu_ledger_init(&watcher->cpu);
}

static int64_t reaped_cpu_ns(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_CHILDREN, &usage) < 0)
        return 0;
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * NS_PER_SEC +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

void watcher_begin(struct watcher *watcher, const struct cay_limits *limits)
{
    watcher->limits = limits;
    watcher->interval_ns = INTERVAL_MIN_NS;
    watcher->reaped_cpu_ns = reaped_cpu_ns();
    cpu_ledger_clear(&watcher->cpu);
    *watcher->seen = (struct watched){ 0 };
}

/* The number behind "KEY:" at the start of a line; 0: not there. Nowhere else: the first line of
 * status is the process' name, which is the program's to choose, but for newlines. */
static uint64_t number_of(const char *text, const char *key)
{
    size_t len = strlen(key);
    const char *pos = text;
    uint64_t value = 0;

    while (strncmp(pos, key, len) != 0) {
        pos = strchr(pos, '\n');
        if (!pos)
            return 0;
        pos++;
    }
    pos += len;
    pos += strspn(pos, " \t");
    for (; *pos >= '0' && *pos <= '9'; pos++)
        value = value * 10 + (uint64_t)(*pos - '0');
    return value;
}

static void add_path(char path[static 64], const char *pid, const char *file)
{
    size_t len = strnlen(pid, 20);

    memcpy(path, pid, len);
    path[len] = '/';
    memcpy(path + len + 1, file, strlen(file) + 1);
}

/* Fields 16 and 17 of stat, counted behind the name, which may hold anything: the time in user and
 * kernel mode of the children it has reaped. */
static int64_t reaped_by(int proc_fd, const char *pid)
{
    enum { STATE = 3, CUTIME = 16, CSTIME = 17 };
    char path[64], text[1024];
    int64_t ticks = 0;

    add_path(path, pid, "stat");
    if (file_read_at(proc_fd, path, text, sizeof text) <= 0)
        return 0;
    const char *pos = strrchr(text, ')');
    for (int field = STATE; pos && field <= CSTIME; field++) {
        pos = strchr(pos + 1, ' ');
        int64_t value = 0;
        for (const char *c = pos ? pos + 1 : ""; *c >= '0' && *c <= '9'; c++)
            value = value * 10 + (*c - '0');
        ticks += field >= CUTIME ? value : 0;
    }
    return ticks * (NS_PER_SEC / 100); /* USER_HZ is 100 on every Linux */
}

/* A process whose first thread has ended has no memory of its own to show, but its other threads
 * have: the status of the first that lives is taken. */
static bool read_status(int proc_fd, const char *pid, char *text, size_t size)
{
    char path[64], buf[2048] __attribute__((aligned(16)));

    add_path(path, pid, "status");
    if (file_read_at(proc_fd, path, text, size) <= 0)
        return false;
    if (strstr(text, "\nVmRSS:"))
        return true;
    add_path(path, pid, "task");
    auto_close int tasks = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (long n; tasks >= 0 && (n = syscall(SYS_getdents64, tasks, buf, sizeof buf)) > 0;)
        for (long pos = 0; pos < n;) {
            const struct dirent64 *entry = (const struct dirent64 *)(buf + pos);
            pos += entry->d_reclen;
            if (entry->d_name[0] == '.')
                continue;
            add_path(path, entry->d_name, "status");
            if (file_read_at(tasks, path, text, size) > 0 && strstr(text, "\nVmRSS:"))
                return true;
        }
    return true; /* a zombie, or in its last moments */
}

static void add_status(struct watcher *watcher, const char *pid, struct sum *sum)
{
    char text[4096];

    if (!read_status(watcher->proc_fd, pid, text, sizeof text))
        return;
    uint64_t slots = number_of(text, "FDSize:");
    struct mm_use use = {
        .anon = number_of(text, "RssAnon:") * 1024,
        .shmem = number_of(text, "RssShmem:") * 1024,
        .tables = (number_of(text, "VmPTE:") + number_of(text, "VmPMD:")) * 1024,
    };
    uint64_t size = number_of(text, "VmSize:");
    use.n_maps = MIN(size / PAGE_KB, watcher->maps_max); /* at the most */
    if (size > 0) /* else a zombie: it has none, as have all others */
        mm_set_add(&watcher->spaces, (pid_t)number_of(text, "Pid:"), size, &use);
    sum->pipes += slots > FEW_FILES ? slots * PIPE_BYTES_PER_FD : 0;
    sum->tasks += number_of(text, "Threads:");
}

static void add_quick(struct watcher *watcher, const char *pid, struct sum *sum)
{
    add_status(watcher, pid, sum);
    sum->reaped_cpu_ns += reaped_by(watcher->proc_fd, pid);
    cpu_ledger_add(&watcher->cpu, (pid_t)strtol(pid, NULL, 10));
}

/* Each page divided by the number of processes that share it. Where the kernel does not tell, as of
 * a program that may be executed but not read, the quick figures stand. */
static void add_exact(struct watcher *watcher, const char *pid, struct sum *sum)
{
    char path[64], text[4096];

    add_path(path, pid, "smaps_rollup");
    if (file_read_at(watcher->proc_fd, path, text, sizeof text) <= 0) {
        add_status(watcher, pid, sum);
        return;
    }
    const struct mm_use use = {
        .anon = number_of(text, "Pss_Anon:") * 1024,
        .shmem = number_of(text, "Pss_Shmem:") * 1024,
    };
    mm_set_add(&watcher->spaces, (pid_t)strtol(pid, NULL, 10), 0, &use);
}

/* A line for each. Where there are many already, as many as there can be stand. */
static void add_mappings(struct watcher *watcher, const char *pid, struct sum *sum)
{
    char path[64], buf[8192];
    struct mm_use use = { 0 };

    add_path(path, pid, "maps");
    auto_close int fd = openat(watcher->proc_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : 1;
    while (n > 0 && sum->n_listed < MAPPINGS_LISTED && (n = read(fd, buf, sizeof buf)) > 0)
        for (const char *pos = buf; (pos = memchr(pos, '\n', (size_t)(buf + n - pos))); pos++) {
            use.n_maps++;
            sum->n_listed++;
        }
    if (n != 0 || use.n_maps == 0) /* none: the first thread is gone, and others may live */
        add_status(watcher, pid, sum);
    else
        mm_set_add(&watcher->spaces, (pid_t)strtol(pid, NULL, 10), 0, &use);
}

static void add_all(struct watcher *watcher, struct sum *sum,
                    void (*add)(struct watcher *, const char *, struct sum *))
{
    char buf[8192] __attribute__((aligned(16)));

    mm_set_begin(&watcher->spaces, add == add_quick);
    lseek(watcher->proc_fd, 0, SEEK_SET);
    for (long n; (n = syscall(SYS_getdents64, watcher->proc_fd, buf, sizeof buf)) > 0;)
        for (long pos = 0; pos < n;) {
            const struct dirent64 *entry = (const struct dirent64 *)(buf + pos);
            bool is_process = entry->d_name[0] >= '1' && entry->d_name[0] <= '9';
            if (is_process && strcmp(entry->d_name, "1") != 0)
                add(watcher, entry->d_name, sum);
            pos += entry->d_reclen;
        }
    sum->memory = watcher->spaces.sum;
}

static uint64_t tmpfs_bytes(void)
{
    struct statfs fs;
    return statfs("/sandbox", &fs) < 0
               ? 0
               : (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
}

/* Of what may be in sockets that nobody tells of, a part of the limit goes unpunished: a program
 * that leaves a few messages unread or keeps a few sockets unused has most likely nothing in them.
 */
static uint64_t past_doubt(uint64_t unseen, uint64_t limit)
{
    return unseen - MIN(unseen, limit / 4);
}

static uint64_t bytes_of(const struct mm_set *spaces, uint64_t limit)
{
    uint64_t n = spaces->sum.n_maps;

    return n * MAPPING_BYTES + past_doubt(n * spaces->n * MAPPING_BYTES_PER_FORK, limit);
}

/* What mappings take, of which nobody tells the number but by naming each: that is done only where
 * as many as there can be would be too many. Of what they take for forks most is never there. */
static uint64_t mapping_bytes(struct watcher *watcher, uint64_t room, uint64_t limit)
{
    uint64_t bytes = bytes_of(&watcher->spaces, limit);

    if (bytes <= room)
        return bytes;
    struct sum listed = { 0 };
    add_all(watcher, &listed, add_mappings);
    return bytes_of(&watcher->spaces, limit);
}

/* Whether processes or threads were made since the last look: the last field of loadavg is the
 * newest number. */
static bool has_new_pids(struct watcher *watcher)
{
    char text[128];
    uint64_t last = 0;

    if (file_read_at(watcher->proc_fd, "loadavg", text, sizeof text) <= 0)
        return false;
    const char *space = strrchr(text, ' ');
    if (!space || file_find_key(space + 1, "", &last) < 0 || last == watcher->last_pid)
        return false;
    watcher->last_pid = last;
    return true;
}

/* Who is gone is counted by whoever has reaped him or, if nobody has, as he was last seen. */
static int64_t used_cpu_ns(const struct watcher *watcher, const struct sum *sum)
{
    int64_t reaped = sum->reaped_cpu_ns + reaped_cpu_ns() - watcher->reaped_cpu_ns;

    return watcher->cpu.living_ns + MAX(reaped, watcher->cpu.gone_ns);
}

enum tick_result watcher_look(struct watcher *watcher)
{
    const struct cay_limits *limits = watcher->limits;
    const uint64_t limit = limits->memory_bytes;
    struct sum sum = { 0 };

    cpu_ledger_begin(&watcher->cpu);
    add_all(watcher, &sum, add_quick);
    cpu_ledger_end(&watcher->cpu);
    uint64_t files = tmpfs_bytes();
    uint64_t kernel = sum.memory.tables + sum.pipes + sum.tasks * TASK_BYTES;
    uint64_t used = sum.memory.anon + sum.memory.shmem + kernel + files;
    struct sockmem_use sockets;
    sockmem_look(&watcher->sockets, limit / 8, &sockets);
    sockets.bytes += sockets.bytes / 4; /* they grow faster than one can look */
    uint64_t doubtful = past_doubt(sockets.unseen, limit);
    used += sockets.bytes;
    uint64_t sure = used + doubtful;
    doubtful += mapping_bytes(watcher, limit - MIN(limit, sure), limit);
    if (used + doubtful > limit) {
        struct sum exact = { 0 };
        add_all(watcher, &exact, add_exact);
        /* A file on tmpfs that is mapped is one of both, not both. */
        used = exact.memory.anon + MAX(exact.memory.shmem, files) + kernel + sockets.bytes;
    }
    struct watched *seen = watcher->seen;
    seen->memory = used;
    seen->tasks = sum.tasks;
    seen->memory_peak = MAX(seen->memory_peak, used);
    seen->pids_peak = MAX(seen->pids_peak, sum.tasks);
    seen->cpu_ns = MAX(seen->cpu_ns, used_cpu_ns(watcher, &sum));
    if (used + doubtful > limit) {
        seen->memory_peak = MAX(seen->memory_peak, limit); /* the rest of it is a guess */
        return TICK_MEMORY;
    }
    if (limits->cpu_time_ns > 0 && seen->cpu_ns >= limits->cpu_time_ns)
        return TICK_CPU_TIME;
    uint64_t room_left = MIN(limit - used - doubtful, limit / 4);
    int64_t safe_ns = (int64_t)(room_left / BYTES_PER_US) * 1000;
    bool is_hasty = sockets.n > MANY_SOCKETS || (limits->cpu_time_ns > 0 && has_new_pids(watcher));
    int64_t next = is_hasty ? 0 : MIN(watcher->interval_ns * 2, INTERVAL_MAX_NS);
    watcher->interval_ns = MAX(MIN(next, safe_ns), INTERVAL_MIN_NS);
    return TICK_FINE;
}

void watcher_count_tasks(struct watcher *watcher, unsigned more)
{
    struct sum sum = { 0 };

    add_all(watcher, &sum, add_status);
    watcher->seen->pids_peak = MAX(watcher->seen->pids_peak, sum.tasks + more);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/open-files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/file.h"

/* "PID/FILE", or "TID/FILE" in the folder of a process's threads. */
static void join(char path[static 48], const char *number, const char *file)
{
    size_t len = strnlen(number, 24);

    memcpy(path, number, len);
    path[len] = '/';
    memcpy(path + len + 1, file, strlen(file) + 1);
}

static int open_folder(int dir_fd, const char *number, const char *name)
{
    char path[48];

    join(path, number, name);
    return openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Calls visit for each entry that is a number, until that says no. */
static void for_numbers(int fd, bool (*visit)(int fd, const char *name, void *arg), void *arg)
{
    char buf[4096] __attribute__((aligned(16)));

    lseek(fd, 0, SEEK_SET);
    for (long n; (n = syscall(SYS_getdents64, fd, buf, sizeof buf)) > 0;)
        for (long pos = 0; pos < n;) {
            const struct dirent64 *entry = (const struct dirent64 *)(buf + pos);
            pos += entry->d_reclen;
            if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
                continue;
            if (!visit(fd, entry->d_name, arg))
                return;
        }
}

/* ---- tables ---- */

/* One look at all tables. A task is named by its number in dir_fd, a folder of /proc. */
struct look {
    bool (*visit)(struct look *look, int dir_fd, const char *task);
    bool is_exact; /* tables that threads share are visited once */
    bool is_over;
    pid_t first, last; /* of this process: its first task, and the last whose table was new */
    uint64_t sum;
    uint64_t max; /* of locks, or of mappings */
    unsigned n_seen;
};

static bool shares_table(pid_t task, pid_t other)
{
    return other > 0 && syscall(SYS_kcmp, task, other, KCMP_FILES, 0, 0) == 0;
}

static bool visit_task(int tasks_fd, const char *number, void *arg)
{
    struct look *look = arg;
    pid_t task = (pid_t)strtol(number, NULL, 10);

    if (look->is_exact && (shares_table(task, look->first) || shares_table(task, look->last)))
        return true;
    if (!look->first)
        look->first = task;
    look->last = task;
    look->is_over = !look->visit(look, tasks_fd, number);
    return !look->is_over;
}

static bool visit_process(int proc_fd, const char *number, void *arg)
{
    enum { ALONE = 3 }; /* links of a folder with one in it */
    struct look *look = arg;
    struct stat st;
    char path[48];

    if (strcmp(number, "1") == 0)
        return true;
    join(path, number, "task");
    if (fstatat(proc_fd, path, &st, 0) < 0)
        return true;
    if (st.st_nlink == ALONE) {
        look->is_over = !look->visit(look, proc_fd, number);
        return !look->is_over;
    }
    auto_close int tasks = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    look->first = look->last = 0;
    if (tasks >= 0)
        for_numbers(tasks, visit_task, look);
    return !look->is_over;
}

/* ---- files ---- */

static bool count_entry(int fd, const char *name, void *arg)
{
    (void)fd;
    (void)name;
    ++*(uint64_t *)arg;
    return true;
}

/* As many as there were at once at some time, rounded up: where nobody may look, this is shown. */
static uint64_t count_slots(int dir_fd, const char *task)
{
    char path[48], text[4096];

    join(path, task, "status");
    if (file_read_at(dir_fd, path, text, sizeof text) <= 0)
        return 0;
    const char *line = strstr(text, "\nFDSize:");
    return line ? strtoul(line + strlen("\nFDSize:"), NULL, 10) : 0;
}

/* For kernels before Linux 6.2, which gives the number as the folder's size. */
static uint64_t count_entries(int dir_fd, const char *task)
{
    auto_close int fd = open_folder(dir_fd, task, "fd");
    uint64_t n = 0;

    if (fd < 0)
        return count_slots(dir_fd, task);
    for_numbers(fd, count_entry, &n);
    return n;
}

static bool add_files(struct look *look, int dir_fd, const char *task)
{
    struct stat st;
    char path[48];

    join(path, task, "fd");
    if (fstatat(dir_fd, path, &st, 0) < 0)
        return true;
    look->sum += st.st_size > 0 ? (uint64_t)st.st_size : count_entries(dir_fd, task);
    return true;
}

uint64_t open_files_count(int proc_fd, uint64_t plenty)
{
    struct look quick = { .visit = add_files };
    struct look exact = { .visit = add_files, .is_exact = true };

    for_numbers(proc_fd, visit_process, &quick);
    if (quick.sum <= plenty)
        return quick.sum;
    for_numbers(proc_fd, visit_process, &exact);
    return exact.sum;
}

/* Where mappings outnumber those of files this many times, the scan stops early: it would block the
 * caller for too long. */
enum { LINES_PER_MAPPING = 16 };

/* A line for each; only those of files have a path, in which a newline is written otherwise.
 * Returns whether the next thread is to be asked: this one has none, for it has ended. */
static bool add_mappings(int dir_fd, const char *task, void *arg)
{
    struct look *look = arg;
    char path[48], buf[8192];
    bool has_path = false, has_any = false;

    join(path, task, "maps");
    auto_close int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == EACCES)
        look->sum = look->max;
    for (ssize_t n; fd >= 0 && look->sum < look->max && (n = read(fd, buf, sizeof buf)) > 0;) {
        for (const char *pos = buf; pos < buf + n; pos++) {
            has_any = true;
            has_path = has_path || *pos == '/';
            look->sum += has_path && *pos == '\n';
            look->n_seen += *pos == '\n';
            has_path = has_path && *pos != '\n';
        }
        if (look->n_seen / LINES_PER_MAPPING >= look->max)
            look->sum = look->max;
    }
    return !has_any && look->sum < look->max;
}

static bool add_mapped(int proc_fd, const char *number, void *arg)
{
    struct look *look = arg;

    if (strcmp(number, "1") == 0 || !add_mappings(proc_fd, number, look))
        return look->sum < look->max;
    auto_close int tasks = open_folder(proc_fd, number, "task");
    if (tasks >= 0)
        for_numbers(tasks, add_mappings, look);
    return look->sum < look->max;
}

uint64_t open_files_mapped(int proc_fd, uint64_t max)
{
    struct look look = { .max = max };

    for_numbers(proc_fd, add_mapped, &look);
    return look.sum;
}

uint64_t open_files_host(int proc_fd)
{
    uint64_t n = 0;

    return file_read_uint_at(proc_fd, "sys/fs/file-nr", &n) < 0 ? 0 : n;
}

static bool lower(int proc_fd, const char *number, void *arg)
{
    pid_t pid = (pid_t)strtol(number, NULL, 10);

    (void)proc_fd;
    if (pid > 1) /* of one that has less this changes nothing: it can't be raised */
        prlimit(pid, RLIMIT_NOFILE, arg, NULL);
    return true;
}

void open_files_lower(int proc_fd, uint64_t limit)
{
    struct rlimit both = { limit, limit };

    for_numbers(proc_fd, lower, &both);
}

/* ---- locks ---- */

/* More files than this are not looked at. */
enum { SEEN_MAX = 4096 };

/* The lines show those that were set through this open file, and of fcntl's the table's own: each
 * number that stands for it, and each process that has it by fork, may show the same one again. */
static void add_lines(struct look *look, int fd)
{
    char buf[4096];
    size_t have = 0;

    for (ssize_t n; (n = read(fd, buf + have, sizeof buf - 1 - have)) > 0;) {
        have += (size_t)n;
        buf[have] = '\0';
        char *line = buf;
        for (char *end; (end = strchr(line, '\n')); line = end + 1) {
            *end = '\0';
            look->sum += strncmp(line, "lock:", strlen("lock:")) == 0;
            if (look->sum >= look->max)
                return;
        }
        have -= (size_t)(line - buf);
        memmove(buf, line, have);
        if (have == sizeof buf - 1) /* no line is that long */
            return;
    }
}

static bool add_file(int infos_fd, const char *name, void *arg)
{
    struct look *look = arg;
    auto_close int fd = openat(infos_fd, name, O_RDONLY | O_CLOEXEC);

    if (fd >= 0)
        add_lines(look, fd);
    if (++look->n_seen >= SEEN_MAX || (fd < 0 && errno == EACCES))
        look->sum = look->max;
    return look->sum < look->max;
}

static bool add_locks(struct look *look, int dir_fd, const char *task)
{
    auto_close int infos = open_folder(dir_fd, task, "fdinfo");

    if (infos >= 0)
        for_numbers(infos, add_file, look);
    else if (faccessat(dir_fd, task, F_OK, 0) == 0) /* else it is gone */
        look->sum = look->max;
    return look->sum < look->max;
}

uint64_t open_files_locks(int proc_fd, uint64_t max)
{
    struct look look = { .visit = add_locks, .is_exact = true, .max = max };

    for_numbers(proc_fd, visit_process, &look);
    return look.sum;
}

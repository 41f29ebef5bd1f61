/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/proc-tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "sys/file.h"

/* What is needed of /proc/PID/stat (proc(5)). */
struct proc {
    int dir_fd;
    pid_t pid, parent, group, session;
    char state;
    uint64_t flags;
    int64_t own_ticks, reaped_ticks;
};

typedef void visit_fn(const struct proc *proc, void *arg);

static int64_t next_number(char **text)
{
    return strtol(*text, text, 10);
}

static bool read_stat(int dir_fd, struct proc *ret)
{
    enum { SKIPPED = 2, FAULTS = 4 }; /* tty, its group; counts of page faults */
    char text[1024];

    if (file_read_at(dir_fd, "stat", text, sizeof text) <= 0)
        return false;
    /* The name may hold anything, so the fields are counted from the last parenthesis. */
    char *pos = strrchr(text, ')');
    if (!pos || strlen(pos) < 4)
        return false;
    ret->dir_fd = dir_fd;
    ret->state = pos[2];
    pos += 3;
    ret->parent = (pid_t)next_number(&pos);
    ret->group = (pid_t)next_number(&pos);
    ret->session = (pid_t)next_number(&pos);
    for (int i = 0; i < SKIPPED; i++)
        next_number(&pos);
    ret->flags = (uint64_t)next_number(&pos);
    for (int i = 0; i < FAULTS; i++)
        next_number(&pos);
    ret->own_ticks = next_number(&pos);
    ret->own_ticks += next_number(&pos);
    ret->reaped_ticks = next_number(&pos);
    ret->reaped_ticks += next_number(&pos);
    return true;
}

static bool is_marked(const struct proc_tree *tree, pid_t pid)
{
    return pid > 0 && pid < PROC_PID_MAX && (tree->marks[pid / 8] & (1U << (pid % 8)));
}

static void mark(struct proc_tree *tree, pid_t pid)
{
    tree->marks[pid / 8] |= (uint8_t)(1U << (pid % 8));
}

/* Visits those of one reading of /proc, which comes in the order of numbers, that are below a
 * marked one. Returns whether another reading may find more: parents have lower numbers than their
 * children, but for orphans and when numbers have started again. */
static bool read_once(struct proc_tree *tree, DIR *dir, visit_fn *visit, void *arg)
{
    bool found = false, out_of_order = false;
    const struct dirent *entry;

    rewinddir(dir);
    while ((entry = readdir(dir))) {
        long pid = strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || pid >= PROC_PID_MAX || is_marked(tree, (pid_t)pid))
            continue;
        auto_close int dir_fd =
            openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct proc proc = { .pid = (pid_t)pid };
        if (dir_fd < 0 || !read_stat(dir_fd, &proc))
            continue; /* it is gone, or not ours to see */
        if (!is_marked(tree, proc.parent)) {
            out_of_order |= proc.parent > proc.pid;
            continue;
        }
        mark(tree, proc.pid);
        visit(&proc, arg);
        found = true;
    }
    return found && out_of_order;
}

static void walk(struct proc_tree *tree, pid_t root, visit_fn *visit, void *arg)
{
    DIR *dir = opendir("/proc");

    if (!dir)
        return;
    memset(tree, 0, sizeof *tree);
    mark(tree, root);
    while (read_once(tree, dir, visit, arg))
        continue;
    closedir(dir);
}

/* ---- cpu ---- */

static void add_cpu(const struct proc *proc, void *arg)
{
    *(int64_t *)arg += proc->own_ticks + proc->reaped_ticks;
}

void proc_tree_cpu(struct proc_tree *tree, pid_t root, struct proc_cpu *ret)
{
    int64_t tick_ns = NS_PER_SEC / sysconf(_SC_CLK_TCK);
    int64_t living = 0;
    struct proc self = { 0 };
    char path[32];

    walk(tree, root, add_cpu, &living);
    snprintf(path, sizeof path, "/proc/%d", root);
    auto_close int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd >= 0)
        read_stat(dir_fd, &self);
    *ret = (struct proc_cpu){ living * tick_ns, self.reaped_ticks * tick_ns };
}

struct session_cpu {
    pid_t session;
    int64_t ticks;
};

static void add_session_cpu(const struct proc *proc, void *arg)
{
    struct session_cpu *cpu = arg;

    if (proc->session == cpu->session)
        cpu->ticks += proc->own_ticks + proc->reaped_ticks;
}

int64_t proc_session_cpu(struct proc_tree *tree, pid_t root, pid_t session)
{
    struct session_cpu cpu = { .session = session };

    walk(tree, root, add_session_cpu, &cpu);
    return cpu.ticks * (NS_PER_SEC / sysconf(_SC_CLK_TCK));
}

/* ---- kill ---- */

struct killing {
    pid_t spared_group; /* the root's own */
    bool can_run;
};

/* A fork waits for the signal of the whole group or is part of it, so that a bomb that stays in its
 * group dies at once. A group lives in one session, and sessions below the root were made there. */
static void kill_one(const struct proc *proc, void *arg)
{
    struct killing *killing = arg;

    syscall(SYS_pidfd_send_signal, proc->dir_fd, SIGKILL, NULL, 0);
    if (proc->group > 1 && proc->group != killing->spared_group)
        kill(-proc->group, SIGKILL);
    killing->can_run |= !strchr("DZX", proc->state);
}

/* The root's own children: also those that /proc hides (hidepid, and not dumpable). Only the root
 * reaps them, so their numbers are theirs. */
static void kill_children(void)
{
    char list[16384];

    if (file_read_at(AT_FDCWD, "/proc/thread-self/children", list, sizeof list) <= 0)
        return; /* none, or a kernel without CONFIG_PROC_CHILDREN */
    /* A space follows each number: one that has none was cut off, and is another's. */
    char *pos = list;
    for (char *space; (space = strchr(pos, ' ')); pos = space + 1)
        kill((pid_t)strtol(pos, NULL, 10), SIGKILL);
}

bool proc_tree_kill(struct proc_tree *tree, pid_t root)
{
    struct killing killing = { .spared_group = getpgid(root) };

    if (root == getpid())
        kill_children();
    walk(tree, root, kill_one, &killing);
    return killing.can_run;
}

/* An init that exits lets no process be made any more, kills all there are, and only then waits for
 * them (zap_pid_ns_processes): on its way to that it never sleeps like one that waits. */
bool proc_has_ended_namespace(pid_t init)
{
    enum { PF_EXITING = 4 };
    char path[32];
    struct proc proc;

    snprintf(path, sizeof path, "/proc/%d", init);
    auto_close int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return init > 0 && dir_fd >= 0 && read_stat(dir_fd, &proc) && (proc.flags & PF_EXITING) &&
           strchr("SZ", proc.state);
}

pid_t proc_pid_inside(pid_t pid)
{
    char path[32], text[4096];

    snprintf(path, sizeof path, "/proc/%d/status", pid);
    if (pid <= 0 || file_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
        return -1;
    char *line = strstr(text, "\nNSpid:");
    char *end = line ? strchr(line + 1, '\n') : NULL;
    if (!end)
        return -1;
    *end = '\0';
    return (pid_t)strtol(strrchr(line, '\t') + 1, NULL, 10);
}

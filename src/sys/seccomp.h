/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The list of system calls that a program in a sandbox can make.
 *
 *     prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
 *     ...everything else that needs a call the filter refuses...
 *     int r = seccomp_load(SECCOMP_PROFILE_DEFAULT);
 *     if (r < 0)
 *         ...refuse to run...
 *     execve(...);
 *
 * The list is src/sys/seccomp.rows, which says what is allowed, what is refused with which errno,
 * and why. tools/gen-seccomp.c compiles it while cay is built; here a finished table is handed to
 * the kernel and nothing is computed. The filter holds for the calling thread, for what it forks
 * and executes, and can not be taken off.
 *
 * This does not set no_new_privs, does not look at arguments in memory (paths, addresses), and is
 * no replacement for the namespaces: it is the layer that keeps the kernel's rarely used parts out
 * of reach.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum seccomp_profile {
    SECCOMP_PROFILE_DEFAULT,
    /* A run without cgroups: nothing that holds memory which no process has mapped (memfd,
     * System V IPC, POSIX message queues), for the watcher that adds it up would not see it. */
    SECCOMP_PROFILE_WATCHED,
};

/*
 * Puts the filter on the calling thread. Async-signal-safe. Needs no_new_privs also where a
 * capability would do without: without it -EACCES. -ENOTSUP on an architecture that cay has no
 * table for; else what the kernel answered.
 */
int seccomp_load(enum seccomp_profile profile);

/* The same for a table of one's own, which tools/gen-seccomp.c made of other rows. */
struct sock_filter;
int seccomp_load_table(const struct sock_filter *table, size_t n);

/*
 * The same as seccomp_load, and a process that ends by spawn_leave, or sets a lock (fcntl, flock),
 * is held in the call: the fd that is returned reports it (SECCOMP_IOCTL_NOTIF_RECV,
 * Linux 5.19). Once received, nothing but a kill ends the wait. Any other exit_group just ends it,
 * as a signal would break the wait for being received; a lock call is then made once more. From
 * Linux 5.5 on only locks are reported; where the kernel can't do that either, *ret_fd is -errno,
 * and the list is loaded all the same.
 */
int seccomp_load_notif(enum seccomp_profile profile, int *ret_fd);

/*
 * Only the second, and no list: for pid 1, whose children have it too. Returns the fd, or -errno
 * where the kernel can't do it (Linux 5.5).
 */
int seccomp_load_flock_notif(void);

/*
 * The default profile in two parts, for a process that forks many children that need it. The first,
 * the larger one, still allows the calls that the rows mark as the zygote's; the second, loaded in
 * the child, refuses these too and gives the fd of seccomp_load_notif. The second protects nothing
 * without the first.
 */
int seccomp_load_zygote(void);
int seccomp_load_forked(int *ret_fd);

/* Besides one of those: no file becomes setuid or setgid (EPERM), for where the host's own can be
 * written. openat2, whose mode no filter sees, answers ENOSYS. */
int seccomp_load_no_setid(void);

/* Somebody is held in it: its pid in the caller's numbers, and the status it would exit with, if
 * that is what it wants. Only when the fd is readable: it waits. -errno: it was killed meanwhile.
 */
struct seccomp_event {
    uint64_t id;
    pid_t pid;
    bool is_exit;  /* else it sets a lock */
    bool is_flock; /* by flock, not fcntl */
    int status;    /* as wait's */
};

int seccomp_notif_recv(int fd, struct seccomp_event *ret);

/* Lets it go on. */
void seccomp_notif_continue(int fd, const struct seccomp_event *event);

/* Its call fails. */
void seccomp_notif_refuse(int fd, const struct seccomp_event *event, int errnum);

/* Whether seccomp_load can work here: one system call, and nothing changes. */
bool seccomp_supported(void);

/* How many calls the default profile lets reach the kernel, checked ones included; 0 without table.
 */
size_t seccomp_allowed_count(void);

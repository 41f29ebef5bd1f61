/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A process and everything below it, found in /proc. For a root that is a subreaper, "below" holds
 * whatever its descendants do: an orphan goes to the root and not out of the tree.
 *
 *     struct proc_tree *tree = mem_alloc(sizeof *tree);      once, before memory is short
 *     while (a process is left)
 *         proc_tree_kill(tree, root);
 *
 * A look at /proc is no snapshot: what is forked meanwhile can be missed, so a kill is repeated
 * until wait(2) says that no process is left. A signal never goes to a process that only took over
 * a number: it is sent by the /proc folder that was read.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROC_PID_MAX = 4 * 1024 * 1024 }; /* the kernel's own most */

/* Room for one look: a bit for each pid. */
struct proc_tree {
    uint8_t marks[PROC_PID_MAX / 8];
};

/* CPU time in clock ticks of the kernel, as ns. */
struct proc_cpu {
    int64_t living_ns; /* of all below the root, and of what they have reaped */
    int64_t reaped_ns; /* of what the root has reaped */
};

void proc_tree_cpu(struct proc_tree *tree, pid_t root, struct proc_cpu *ret);

/* CPU time of those below the root that are of this session, and of what they have reaped. */
int64_t proc_session_cpu(struct proc_tree *tree, pid_t root, pid_t session);

/* Its number in the innermost of its pid namespaces; -1: it is gone. */
pid_t proc_pid_inside(pid_t pid);

/* Whether this pid 1 of a pid namespace has ended what lives there: everything was sent its
 * SIGKILL, and can only exit. false also where /proc does not say. */
bool proc_has_ended_namespace(pid_t init);

/* SIGKILL for all below the root, once. Returns whether one of them can still run, as opposed to
 * being dead or held by the kernel. */
bool proc_tree_kill(struct proc_tree *tree, pid_t root);

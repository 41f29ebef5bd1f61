/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The CPU time of processes, also of those that are gone. Where a parent ignores SIGCHLD, its
 * children are reaped by the kernel, and their time is added nowhere: so each is remembered as it
 * was last seen. What one used after that is lost, so looks should be frequent while processes come
 * and go.
 *
 *     for each look:
 *         cpu_ledger_begin(&ledger);
 *         for each process, in the order of numbers
 *             cpu_ledger_add(&ledger, pid);
 *         cpu_ledger_end(&ledger);
 */

#include <stdint.h>
#include <sys/types.h>

struct cpu_line;

struct cpu_ledger {
    struct cpu_line *now, *before; /* this look and the last one */
    unsigned n_now, n_before;
    int64_t living_ns; /* of those of this look, without children that they have reaped */
    int64_t gone_ns;   /* of those that are no longer there */
};

/* Its room; never given back. -errno. */
int cpu_ledger_init(struct cpu_ledger *ledger);

/* Forgets all. This and what follows is async-signal-safe. */
void cpu_ledger_clear(struct cpu_ledger *ledger);

void cpu_ledger_begin(struct cpu_ledger *ledger);
void cpu_ledger_add(struct cpu_ledger *ledger, pid_t pid);
void cpu_ledger_end(struct cpu_ledger *ledger);

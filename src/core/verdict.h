/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From facts to a verdict: a pure function of what the kernel said, never of what the program
 * printed. The order of causes is the contract's.
 */

#include <cay/run.h>

#include "core/spec.h"

struct arena;

/* Why a run was stopped from outside. */
enum stop_reason {
    STOP_NONE,
    STOP_WALL,
    STOP_CPU,
    STOP_MEMORY, /* by the watcher, or for socket memory that no cgroup is charged for */
    STOP_OUTPUT,
    STOP_CANCELLED,
};

struct verdict_facts {
    bool is_compile; /* it is a compiler's end */
    enum stop_reason stop;
    struct exec_end end;
    struct cay_limits limits; /* of that exec */
    uint64_t output_bytes;
    int cancel_signal; /* of STOP_CANCELLED: the signal that asked for it, or 0 */
};

/* Fills verdict, exit_code, signal, success, timeout. Texts live in the arena. */
void verdict_decide(struct arena *arena, const struct verdict_facts *facts, struct cay_result *ret);

/* ": /tmp has 48m of it", of a place that has a part of disk or inodes for itself and is full; else
 * "". */
const char *verdict_full_place(struct arena *arena, const struct verdict_facts *facts);

/* Limits that were touched by a run that ended well: appended as warnings to a list. */
struct value;
void verdict_warn(struct arena *arena, const struct verdict_facts *facts, struct value *warnings);

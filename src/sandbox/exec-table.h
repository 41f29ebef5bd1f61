/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The execs of one sandbox, as its backend knows them on the warden's side: which numbers live, and
 * what has been reported of them. So the rules are the same everywhere: how many there may be, that
 * one that owns the sandbox is alone, that nothing is reported of one that there is not, and that
 * each that was asked for gets an end, whatever becomes of its sandbox: its own, or, of one that has
 * not begun, that of a sandbox that failed.
 */

#include <stdbool.h>
#include <stdint.h>

#include "sandbox/backend.h"

struct live_exec {
    bool is_used;
    bool owns_sandbox;
    uint32_t number;
    int64_t started_ns; /* 0: not yet */
};

struct exec_table {
    struct live_exec list[SANDBOX_EXECS];
    bool is_over;             /* it is being closed, or has failed: no more are taken */
    struct cay_error error;   /* where it failed: why */
    struct cay_error failure; /* the error that it failed with; "": it did not */
};

/* Takes one in that is about to be asked for; refuses what can't be. */
int exec_table_add(struct exec_table *table, const struct exec_spec *spec, struct cay_error *err);

/* Its slot; -1: there is none. */
int exec_table_find(const struct exec_table *table, uint32_t number);
void exec_table_remove(struct exec_table *table, uint32_t number);

/* Whether any lives, started or not. */
bool exec_table_has_any(const struct exec_table *table);

/* Takes note of a report that came from the process that keeps the sandbox. false: it is about
 * nothing that there is, and is to be dropped. */
bool exec_table_note(struct exec_table *table, const struct report *report);

/* Of a sandbox that is gone: the end of one exec that has not had one yet. false: there is none. */
bool exec_table_end_one(struct exec_table *table, struct report *ret);

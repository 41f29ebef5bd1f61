/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/exec-table.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"

int exec_table_find(const struct exec_table *table, uint32_t number)
{
    for (int i = 0; i < SANDBOX_EXECS; i++)
        if (table->list[i].is_used && table->list[i].number == number)
            return i;
    return -1;
}

static int find_free(const struct exec_table *table)
{
    for (int i = 0; i < SANDBOX_EXECS; i++)
        if (!table->list[i].is_used)
            return i;
    return -1;
}

bool exec_table_has_any(const struct exec_table *table)
{
    for (int i = 0; i < SANDBOX_EXECS; i++)
        if (table->list[i].is_used)
            return true;
    return false;
}

static bool has_owner(const struct exec_table *table)
{
    for (int i = 0; i < SANDBOX_EXECS; i++)
        if (table->list[i].is_used && table->list[i].owns_sandbox)
            return true;
    return false;
}

int exec_table_add(struct exec_table *table, const struct exec_spec *spec, struct cay_error *err)
{
    int slot = find_free(table);

    if (table->is_over && table->failure.msg[0]) {
        *err = table->failure;
        return -1;
    }
    if (table->is_over)
        return cay_fail(err, CAY_E_UNSUPPORTED, "the sandbox is closed");
    if (spec->number == EXEC_NONE || exec_table_find(table, spec->number) >= 0)
        return cay_fail(err, CAY_E_USAGE, "the sandbox has an exec %u already", spec->number);
    if (has_owner(table) || (spec->owns_sandbox && exec_table_has_any(table)))
        return cay_fail(err, CAY_E_USAGE,
                        "another exec runs in the sandbox, which one of them owns");
    if (slot < 0)
        return cay_fail(err, CAY_E_LIMIT, "the sandbox has %d execs, which is the maximum",
                        SANDBOX_EXECS);
    table->list[slot] = (struct live_exec){
        .is_used = true,
        .owns_sandbox = spec->owns_sandbox,
        .number = spec->number,
    };
    return 0;
}

void exec_table_remove(struct exec_table *table, uint32_t number)
{
    int slot = exec_table_find(table, number);

    if (slot >= 0)
        table->list[slot] = (struct live_exec){ 0 };
}

/* Those that have not begun fail with their sandbox, and of its error. */
static void forget_waiting(struct exec_table *table)
{
    for (int i = 0; i < SANDBOX_EXECS; i++)
        if (!table->list[i].started_ns)
            table->list[i] = (struct live_exec){ 0 };
}

bool exec_table_note(struct exec_table *table, const struct report *report)
{
    int slot = exec_table_find(table, report->exec);
    struct live_exec *exec = slot < 0 ? NULL : &table->list[slot];

    switch (report->kind) {
    case REPORT_EXEC_STARTED:
        if (!exec || exec->started_ns)
            return false;
        exec->started_ns = report->at_ns ? report->at_ns : clock_now_ns();
        return true;
    case REPORT_EXEC_ENDED:
        if (!exec || !exec->started_ns)
            return false;
        *exec = (struct live_exec){ 0 };
        return true;
    case REPORT_EXEC_FAILED:
        if (!exec || exec->started_ns)
            return false;
        *exec = (struct live_exec){ 0 };
        return true;
    case REPORT_USAGE:
        return exec && exec->started_ns;
    case REPORT_OVER:
        return (report->over == TICK_CPU_TIME || report->over == TICK_MEMORY) &&
               (exec || report->exec == EXEC_NONE);
    case REPORT_OPENED: /* those that wait for it say so by their start */
        return !exec_table_has_any(table);
    case REPORT_FAILED:
        forget_waiting(table);
        table->is_over = true;
        table->failure = report->error;
        return true;
    case REPORT_DOOMED:
    case REPORT_CLOSED:
        return true;
    case REPORT_NONE:
        return false;
    }
    return false;
}

bool exec_table_end_one(struct exec_table *table, struct report *ret)
{
    for (int i = 0; i < SANDBOX_EXECS; i++) {
        struct live_exec exec = table->list[i];
        if (!exec.is_used)
            continue;
        table->list[i] = (struct live_exec){ 0 };
        *ret = (struct report){ .kind = REPORT_EXEC_ENDED, .exec = exec.number };
        if (exec.started_ns) {
            ret->end.wall_ns = clock_now_ns() - exec.started_ns;
            ret->end.usage = (struct cay_usage){
                .memory_peak_bytes = UINT64_MAX,
                .pids_peak = UINT64_MAX,
            };
        } else {
            ret->kind = REPORT_EXEC_FAILED;
            cay_fail(&ret->error, CAY_E_UNSUPPORTED,
                     "the sandbox ended before the program was started");
        }
        return true;
    }
    return false;
}

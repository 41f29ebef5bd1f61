/* SPDX-License-Identifier: Apache-2.0 */
#include "core/verdict.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/parse.h"
#include "core/field.h"

const char *cay_cause_name(enum cay_cause cause)
{
    static const char *const names[] = {
#define CAUSE_WORD(name, word) [CAY_CAUSE_##name] = word,
        CAY_CAUSES(CAUSE_WORD)
#undef CAUSE_WORD
    };
    return names[cause];
}

static bool is_exit_zero(const struct verdict_facts *facts)
{
    return facts->stop == STOP_NONE && facts->end.has_status && WIFEXITED(facts->end.wait_status) &&
           WEXITSTATUS(facts->end.wait_status) == 0;
}

static int end_signal(const struct verdict_facts *facts)
{
    if (!facts->end.has_status)
        return SIGKILL;
    return WIFSIGNALED(facts->end.wait_status) ? WTERMSIG(facts->end.wait_status) : 0;
}

/* That of the program itself, or of the kernel: what we ended was not ended by a signal of its own.
 */
static int own_signal(const struct verdict_facts *facts, enum cay_cause cause)
{
    bool is_ours = cause == CAY_CAUSE_CANCELLED || cause == CAY_CAUSE_WALL_TIMEOUT ||
                   cause == CAY_CAUSE_CPU_TIMEOUT || cause == CAY_CAUSE_OUTPUT;
    return is_ours ? 0 : end_signal(facts);
}

/* Each cause: whether it holds, and the limit behind it. In order; the first that holds is it. */

static bool holds_cancelled(const struct verdict_facts *f, struct cay_verdict *v)
{
    (void)v;
    return f->stop == STOP_CANCELLED;
}

static bool holds_wall(const struct verdict_facts *f, struct cay_verdict *v)
{
    v->limit_name = "timeout";
    v->limit = clock_seconds(f->limits.timeout_ns);
    v->measured = clock_seconds(f->end.wall_ns);
    v->unit = "s";
    v->remedy = "raise timeout, or make the program do less";
    return f->stop == STOP_WALL;
}

/* Also when the kernel's own RLIMIT_CPU, which is past the limit, was faster than the look at the
 * counter; but not when a program sends itself that signal. */
static bool holds_cpu(const struct verdict_facts *f, struct cay_verdict *v)
{
    v->limit_name = "cpu_time";
    v->limit = clock_seconds(f->limits.cpu_time_ns);
    v->measured = clock_seconds(f->end.usage.cpu_time_ns);
    v->unit = "s";
    v->remedy = "raise cpu_time, or make the program compute less";
    bool is_used_up = f->end.usage.cpu_time_ns >= f->limits.cpu_time_ns;
    return f->stop == STOP_CPU || (f->limits.cpu_time_ns > 0 && end_signal(f) == SIGXCPU &&
                                   f->end.has_status && is_used_up);
}

static bool holds_memory(const struct verdict_facts *f, struct cay_verdict *v)
{
    v->limit_name = "memory";
    v->limit = (double)f->limits.memory_bytes;
    v->measured = f->end.usage.memory_peak_bytes == UINT64_MAX
                      ? v->limit
                      : (double)f->end.usage.memory_peak_bytes;
    v->unit = "bytes";
    v->remedy = "raise memory, or make the program hold less at once";
    return f->stop == STOP_MEMORY || f->end.oom_kills > 0;
}

static bool holds_output(const struct verdict_facts *f, struct cay_verdict *v)
{
    v->limit_name = "output_cap";
    v->limit = (double)f->limits.output_cap_bytes;
    v->measured = (double)f->output_bytes;
    v->unit = "bytes";
    v->remedy = "raise output_cap, or make the program print less";
    return f->stop == STOP_OUTPUT || f->output_bytes > f->limits.output_cap_bytes;
}

static bool holds_pids(const struct verdict_facts *f, struct cay_verdict *v)
{
    v->limit_name = "pids";
    v->limit = f->limits.pids;
    v->measured = f->end.usage.pids_peak == UINT64_MAX ? v->limit : (double)f->end.usage.pids_peak;
    v->unit = "count";
    v->remedy = "raise pids, or start fewer processes and threads";
    return f->end.pids_denied > 0;
}

static bool holds_disk(const struct verdict_facts *f, struct cay_verdict *v)
{
    v->limit_name = f->end.disk_full ? "disk" : "inodes";
    v->limit = (double)(f->end.disk_full ? f->end.disk_size : f->end.inodes_size);
    v->measured = (double)(f->end.disk_full ? f->end.disk_used : f->end.inodes_used);
    v->unit = f->end.disk_full ? "bytes" : "count";
    v->remedy = f->end.disk_full ? "raise disk (and memory: disk is at most half of it)"
                                 : "raise inodes, or make fewer files";
    return f->end.disk_full || f->end.inodes_full;
}

static bool holds_syscall(const struct verdict_facts *f, struct cay_verdict *v)
{
    v->remedy = "the program made a system call through a closed entry (32-bit or x32), or sent "
                "itself SIGSYS";
    return f->end.has_status && end_signal(f) == SIGSYS;
}

static bool holds_network(const struct verdict_facts *f, struct cay_verdict *v)
{
    v->limit_name = "network";
    v->limit = 0;
    v->measured = (double)f->end.unreachable;
    v->unit = "count";
    v->remedy = "the network is off; let the program do without, or allow the hosts it needs";
    return f->end.unreachable > 0;
}

static bool holds_signal(const struct verdict_facts *f, struct cay_verdict *v)
{
    (void)v;
    return end_signal(f) != 0;
}

static bool holds_exit(const struct verdict_facts *f, struct cay_verdict *v)
{
    (void)f;
    (void)v;
    return true;
}

static const struct {
    enum cay_cause cause;
    bool (*holds)(const struct verdict_facts *facts, struct cay_verdict *verdict);
} causes[] = {
    { CAY_CAUSE_CANCELLED, holds_cancelled }, { CAY_CAUSE_WALL_TIMEOUT, holds_wall },
    { CAY_CAUSE_CPU_TIMEOUT, holds_cpu },     { CAY_CAUSE_MEMORY, holds_memory },
    { CAY_CAUSE_OUTPUT, holds_output },       { CAY_CAUSE_PIDS, holds_pids },
    { CAY_CAUSE_DISK, holds_disk },           { CAY_CAUSE_SYSCALL, holds_syscall },
    { CAY_CAUSE_NETWORK, holds_network },     { CAY_CAUSE_SIGNAL, holds_signal },
    { CAY_CAUSE_EXIT, holds_exit },
};

const char *verdict_full_place(struct arena *arena, const struct verdict_facts *facts)
{
    static const char *const paths[DISK_N] = {
#define DISK_PATH(name, path) [DISK_##name] = (path),
        DISK_PLACES(DISK_PATH)
#undef DISK_PATH
    };
    const struct exec_end *end = &facts->end;
    bool is_known = end->full_place < DISK_N && paths[end->full_place];
    char size[32];

    if (!is_known || !(end->disk_full || end->inodes_full))
        return "";
    if (end->disk_full)
        format_bytes(size, end->full_size);
    else
        snprintf(size, sizeof size, "%llu", (unsigned long long)end->full_size);
    return arena_printf(arena, ": %s has %s of it", paths[end->full_place], size);
}

static struct cay_verdict first_cause(const struct verdict_facts *facts)
{
    for (size_t i = 0; i < ARRAY_LEN(causes); i++) {
        struct cay_verdict verdict = { .cause = causes[i].cause };
        if (causes[i].holds(facts, &verdict))
            return verdict;
    }
    return (struct cay_verdict){ .cause = CAY_CAUSE_INFRASTRUCTURE };
}

static int exit_code(const struct verdict_facts *facts, enum cay_cause cause)
{
    int number = end_signal(facts);

    if (cause == CAY_CAUSE_WALL_TIMEOUT || cause == CAY_CAUSE_CPU_TIMEOUT)
        return 124;
    if (cause == CAY_CAUSE_CANCELLED)
        return facts->cancel_signal ? 128 + facts->cancel_signal : 137;
    if (cause == CAY_CAUSE_MEMORY || cause == CAY_CAUSE_OUTPUT)
        return 137;
    return number ? 128 + number : WEXITSTATUS(facts->end.wait_status);
}

/* Its time and memory are other settings than the program's. */
static void name_compilers_limit(struct cay_verdict *verdict)
{
    if (verdict->limit_name && strcmp(verdict->limit_name, "timeout") == 0) {
        verdict->limit_name = "compile_timeout";
        verdict->remedy = "raise compile_timeout, or give the compiler less to do";
    } else if (verdict->limit_name && strcmp(verdict->limit_name, "memory") == 0) {
        verdict->limit_name = "compile_memory";
        verdict->remedy = "raise compile_memory, or give the compiler less to do";
    }
    if (!verdict->remedy)
        verdict->remedy = "fix what the compiler reports on stderr";
}

void verdict_decide(struct arena *arena, const struct verdict_facts *facts, struct cay_result *ret)
{
    struct cay_verdict verdict = { .cause = CAY_CAUSE_OK };

    if (!is_exit_zero(facts)) {
        verdict = first_cause(facts);
        if (verdict.cause == CAY_CAUSE_DISK)
            verdict.remedy =
                arena_printf(arena, "%s%s", verdict.remedy, verdict_full_place(arena, facts));
        ret->exit_code = exit_code(facts, verdict.cause);
        ret->signal = own_signal(facts, verdict.cause);
        ret->timeout =
            verdict.cause == CAY_CAUSE_WALL_TIMEOUT || verdict.cause == CAY_CAUSE_CPU_TIMEOUT;
        /* A compiler that failed, for whatever reason; the limit behind it is kept. */
        if (facts->is_compile && verdict.cause != CAY_CAUSE_CANCELLED) {
            verdict.cause = CAY_CAUSE_COMPILE;
            name_compilers_limit(&verdict);
        }
    }
    ret->verdict = verdict;
    ret->success = verdict.cause == CAY_CAUSE_OK;
}

void verdict_warn(struct arena *arena, const struct verdict_facts *facts, struct value *warnings)
{
    /* Whatever became of it: of what it could not open some programs die without a word. */
    if (facts->end.files_cut)
        field_append(arena, warnings,
                     "its processes had too many files open or mapped together, and could open few "
                     "or none from then on");
    if (!is_exit_zero(facts))
        return;
    for (size_t i = 0; i < ARRAY_LEN(causes); i++) {
        struct cay_verdict verdict = { .cause = causes[i].cause };
        enum cay_cause cause = causes[i].cause;
        bool is_network = cause == CAY_CAUSE_NETWORK;
        if (cause != CAY_CAUSE_MEMORY && cause != CAY_CAUSE_OUTPUT && cause != CAY_CAUSE_PIDS &&
            cause != CAY_CAUSE_DISK && !is_network)
            continue;
        if (!causes[i].holds(facts, &verdict))
            continue;
        if (is_network) {
            field_append(arena, warnings,
                         arena_printf(arena,
                                      "the network is off, and the program tried to reach it (the "
                                      "kernel counted %.0f)",
                                      verdict.measured));
            continue;
        }
        char limit[32];
        if (strcmp(verdict.unit, "bytes") == 0)
            format_bytes(limit, (uint64_t)verdict.limit);
        else
            snprintf(limit, sizeof limit, "%.0f", verdict.limit);
        field_append(arena, warnings,
                     arena_printf(arena, "the limit %s (%s) was reached%s", verdict.limit_name,
                                  limit,
                                  cause == CAY_CAUSE_DISK ? verdict_full_place(arena, facts) : ""));
    }
}

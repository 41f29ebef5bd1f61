/* SPDX-License-Identifier: Apache-2.0 */
/* What the sandbox and the execs of a run report, and what that means for it. */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/run.h"

static const enum cay_event_kind stream_events[STREAMS] = { CAY_EVENT_STDOUT, CAY_EVENT_STDERR };

/* Pid 1 told what the compiler made before the compiler's end was told: this is all there is. */
static void keep_products(struct run *run)
{
    const struct spool *products = &run->compile.harvest;

    if (products->file_fd >= 0 && !products->errnum)
        compiled_keep(&run->compiled, &run->cay->config, products->file_fd);
}

/* What the compiler said when it compiled this, as it would be said again. */
static void warn_again(struct run *run)
{
    size_t keep = run->plan.run.spec.limits.max_output_bytes;

    for (int i = 0; i < COMPILED_STREAMS; i++) {
        const struct bytes *said = &run->compiled.said[i];
        struct capture capture;
        struct cay_stream text;
        if (said->len == 0)
            continue;
        capture_init(&capture, keep);
        capture_add(&capture, said->data, said->len);
        capture_text(&capture, run->arena, &text);
        run_warn(run, arena_printf(run->arena, "compiler: %s", text.data));
        capture_done(&capture);
    }
}

static void on_started(struct run *run, const struct exec_report *report)
{
    bool is_first = !run->has_started;

    run->layers = report->layers;
    run->is_compiling = run->exec == &run->compile;
    if (is_first) {
        run->result->timing.setup_ns = report->setup_ns;
        run->start_kind = (enum start_kind)report->start_kind;
    }
    if (run->compiled.is_found)
        warn_again(run);
    if (run->is_compiling)
        run_emit_text(run, CAY_EVENT_STAGE, "compile");
    else
        run_tell_begun(run);
    if (is_first)
        run_again_tell(run);
    for (int i = 0; i < SANDBOX_FOLDERS; i++)
        close_fd(&run->folder_fds[i]);
    run->has_started = true;
}

static void on_output(struct run *run, const struct exec_report *report)
{
    if (run->has_taken_streams) /* of what outlived the program, behind its end */
        return;
    record_output(&run->record, report->stream, &run->exec->captures[report->stream], report->data,
                  report->len);
    if (run->exec == &run->compile)
        return;
    run_tell_begun(run);
    run_emit(run, (struct cay_event){ .kind = stream_events[report->stream],
                                      .data = report->data,
                                      .len = report->len });
}

static void on_input(struct run *run, const struct exec_report *report)
{
    record_input(&run->record, report->data, report->len);
    if (run->options.on_input)
        run->options.on_input(run->options.arg, report->data, report->len);
}

static void on_usage(struct run *run, const struct exec_report *report)
{
    if (!run->is_over)
        run_emit(run, (struct cay_event){ .kind = CAY_EVENT_USAGE, .usage = report->usage });
}

/* What a compiler that succeeded had to say is a warning; what a failed one said is the output. */
static void end_compile(struct run *run, bool is_failed)
{
    struct cay_stream streams[STREAMS];

    for (int i = 0; i < STREAMS; i++)
        capture_text(&run->compile.captures[i], run->arena, &streams[i]);
    for (int i = 0; i < STREAMS; i++) {
        if (is_failed && streams[i].len > 0)
            run_emit(run, (struct cay_event){ .kind = stream_events[i],
                                              .data = streams[i].data,
                                              .len = streams[i].len });
        if (!is_failed && streams[i].len > 0)
            run_warn(run, arena_printf(run->arena, "compiler: %s", streams[i].data));
        run->compiled.said[i] = (struct bytes){ streams[i].data, streams[i].len };
        if (streams[i].truncated)
            run->compiled.key[0] = '\0'; /* what it said is a part of what it made */
    }
    if (!is_failed)
        record_drop_output(&run->record);
    run->is_run_told = is_failed; /* it never will be */
}

/* Returns whether the program can be executed. */
static bool on_compiled(struct run *run, const struct exec_report *report)
{
    const struct exec_end *end = report->end;
    bool is_failed = report->stop != STOP_NONE || !end->has_status || end->wait_status;

    run->result->timing.compile_ns = end->wall_ns;
    end_compile(run, is_failed);
    if (!is_failed)
        keep_products(run);
    run->is_compiling = false;
    return !is_failed;
}

static void on_ran(struct run *run, const struct exec_report *report)
{
    run->result->timing.run_ns = report->end->wall_ns;
    if (run->result->timing.compile_ns >= 0) /* the usage up to here is the compiler's */
        run->result->compile_cpu_ns = MAX(run->result->usage.cpu_time_ns, INT64_C(0));
}

static void on_ended(struct run *run, const struct exec_report *report)
{
    struct exec *exec = run->exec;
    bool is_compiler = exec == &run->compile, goes_on = false;
    struct cay_error err;

    run->facts.is_compile = is_compiler;
    run->facts.end = *report->end;
    run->facts.stop = report->stop;
    run->facts.limits = exec->spec.limits;
    if (is_compiler)
        goes_on = on_compiled(run, report) && !run->is_stopping;
    else
        on_ran(run, report);
    run->result->execution_time_ns = report->end->wall_ns;
    run->result->usage = *report->usage;
    run_emit(run, (struct cay_event){ .kind = CAY_EVENT_USAGE, .usage = report->usage });
    if (goes_on) {
        if (run_start_program(run, &err) < 0)
            run_fail(run, &err);
        return;
    }
    if (exec->harvest.pipe_fd >= 0 && !is_compiler) /* EXEC_HARVESTED comes */
        return;
    /* Held, and all it wrote was taken: the answer need not wait for the cleaning up. */
    run->has_all = report->end->is_held;
    if (run->has_all)
        run_end(run);
    else
        sandbox_close(&run->sandbox, STOP_NONE);
}

/* Go makes a library of what is no package main, and is content with it. */
static bool lacks_program(const struct run *run, const struct cay_error *failure)
{
    const struct plan *plan = &run->plan;
    const char *program = plan->run.argv[0];
    bool is_compiled = run->compiled.is_found || run->result->timing.compile_ns > 0;

    return is_compiled && strchr(program, '/') && failure->kind == CAY_E_UNSUPPORTED &&
           (failure->errnum == EACCES || failure->errnum == ENOEXEC);
}

/* As if the compiler had said so itself. */
static void fail_compile(struct run *run)
{
    run->has_no_program = true;
    run->facts = (struct verdict_facts){
        .is_compile = true,
        .end = { .has_status = true, .wait_status = 1 << 8 }, /* exit code 1 */
        .limits = run->plan.compile.spec.limits,
    };
}

static void on_failed(struct run *run, const struct cay_error *err)
{
    const struct plan *plan = &run->plan;
    const struct plan_exec *exec = run->exec == &run->compile ? &plan->compile : &plan->run;

    sandbox_close(&run->sandbox, STOP_NONE);
    if (run->has_failed || run->is_ending) /* this comes of that */
        return;
    if (lacks_program(run, err)) {
        fail_compile(run);
        return;
    }
    run->has_failed = true;
    run->failure = *err;
    if (run->failure.kind == CAY_E_NOTFOUND)
        cay_wrap(&run->failure, "%.80s", exec->argv[0]);
}

static void on_broken(struct run *run, const struct cay_error *err)
{
    if (run->has_failed || run->is_ending)
        return;
    run->has_failed = true;
    run->failure = *err;
    sandbox_close(&run->sandbox, STOP_CANCELLED);
}

void run_on_exec(void *arg, const struct exec_report *report)
{
    struct run *run = arg;

    switch (report->kind) {
    case EXEC_STARTED:
        on_started(run, report);
        break;
    case EXEC_OUTPUT:
        on_output(run, report);
        break;
    case EXEC_INPUT:
        on_input(run, report);
        break;
    case EXEC_USAGE:
        on_usage(run, report);
        break;
    case EXEC_ENDED:
        on_ended(run, report);
        break;
    case EXEC_HARVESTED:
        sandbox_close(&run->sandbox, STOP_NONE);
        break;
    case EXEC_FAILED:
        on_failed(run, report->error);
        break;
    case EXEC_BROKEN:
        on_broken(run, report->error);
        break;
    }
}

static void on_closed(struct run *run, const struct sandbox_report *report)
{
    if (run->facts.stop == STOP_NONE && !run->is_ending)
        run->facts.stop = report->stop;
    run->result->timing.teardown_ns = report->teardown_ns;
    if (run->is_ending || run->policy_wait == POLICY_TO_END) /* it has ended before */
        return;
    if (!run_again(run))
        run_end(run);
}

static void on_lost(struct run *run, const struct sandbox_report *report)
{
    struct cay_error err = report->error;

    if (run->is_ending || run->policy_wait == POLICY_TO_END)
        return;
    if (!report->was_server || run_begin_anew(run, &err) < 0)
        run_fail(run, &err);
}

void run_on_sandbox(void *arg, const struct sandbox_report *report)
{
    struct run *run = arg;

    switch (report->kind) {
    case SANDBOX_OPENED: /* its exec's start says more */
        break;
    case SANDBOX_FAILED: /* pid 1 may be killed for memory with its program, whose end came before */
        if (!run->exec->has_ended)
            on_failed(run, &report->error);
        break;
    case SANDBOX_CLOSED:
        on_closed(run, report);
        break;
    case SANDBOX_LOST:
        on_lost(run, report);
        break;
    }
}

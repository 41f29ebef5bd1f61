/* SPDX-License-Identifier: Apache-2.0 */
/* The warden's word of a run: a stage started or ended, the sandbox failed, all of it is gone. */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/run.h"

/* Pid 1 told what the compiler made before the compiler's end was told, and what the program left
 * is not read yet: this is all there is. */
static void take_products(struct run *run)
{
    if (!run->harvest.errnum)
        compiled_keep(&run->compiled, &run->cay->config, run->harvest.file_fd);
    spool_reset(&run->harvest);
    run->awaits_products = false;
}

/* What the compiler said when it compiled this, as it would be said again. */
static void warn_again(struct run *run)
{
    size_t keep = run->plan.job.limits[0].max_output_bytes;

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

/* Whether this is the end of the run as well: held, so that what it wrote is all there will be, and
 * nothing is to be told of what it left. */
static bool tells_all(const struct run *run, const struct warden_reply *reply)
{
    return reply->kind == WARDEN_STAGE_ENDED && reply->end.is_held && run->harvest.pipe_fd < 0 &&
           reply->stage + 1U >= run->plan.job.n_stages;
}

static void on_stage_started(struct run *run, const struct warden_reply *reply)
{
    run->layers = reply->layers;
    run->stage_ns = clock_now_ns();
    run->is_compiling = run->plan.job.n_stages == 2 && reply->stage == 0;
    if (reply->stage == 0) {
        run->result->timing.setup_ns = reply->setup_ns;
        run->start_kind = (enum start_kind)reply->start_kind;
    }
    if (run->compiled.is_found)
        warn_again(run);
    if (run->is_compiling)
        run_emit_text(run, CAY_EVENT_STAGE, "compile");
    else
        run_tell_begun(run);
    if (!run->has_started)
        run_again_tell(run);
    if (!run->has_started && !tells_all(run, reply)) {
        run_close_far(run);
        run_watch_output(run);
    }
    run->has_started = true;
}

/* What a compiler that succeeded had to say is a warning; what a failed one said is the output. */
static void end_compile(struct run *run, bool is_failed)
{
    struct cay_stream streams[STREAMS];

    for (int i = 0; i < STREAMS; i++)
        capture_text(&run->captures[i], run->arena, &streams[i]);
    for (int i = 0; i < STREAMS; i++) {
        if (is_failed && streams[i].len > 0)
            run_emit(run, (struct cay_event){ .kind = stream_events[i],
                                              .data = streams[i].data,
                                              .len = streams[i].len });
        if (!is_failed && streams[i].len > 0)
            run_warn(run, arena_printf(run->arena, "compiler: %s", streams[i].data));
        if (!is_failed)
            capture_reset(&run->captures[i]);
        run->compiled.said[i] = (struct bytes){ streams[i].data, streams[i].len };
        if (streams[i].truncated)
            run->compiled.key[0] = '\0'; /* what it said is a part of what it made */
    }
    if (!is_failed)
        record_drop_output(&run->record);
    run->is_run_told = is_failed; /* it never will be */
}

static void on_stage_ended(struct run *run, const struct warden_reply *reply)
{
    struct cay_error err;
    bool is_last = reply->stage + 1U >= run->plan.job.n_stages;

    run_drain(run);
    run->stage_ns = 0;
    run->facts.stage = reply->stage;
    run->facts.end = reply->end;
    run->facts.stop = reply->stop;
    run->facts.limits = run->plan.job.limits[MIN(reply->stage, JOB_STAGES - 1U)];
    if (run->is_compiling) {
        bool is_failed =
            reply->stop != STOP_NONE || !reply->end.has_status || reply->end.wait_status;
        run->result->timing.compile_ns = reply->end.wall_ns;
        end_compile(run, is_failed);
        if (!is_failed)
            loop_owe(run, OWES_NEXT, &err);
        if (!is_failed && run->awaits_products)
            take_products(run);
        run->is_compiling = false;
        is_last = is_failed;
    } else {
        run->result->timing.run_ns = reply->end.wall_ns;
        if (run->result->timing.compile_ns >= 0) /* the usage up to here is the compiler's */
            run->result->compile_cpu_ns = MAX(run->result->usage.cpu_time_ns, INT64_C(0));
    }
    run->result->execution_time_ns = reply->end.wall_ns;
    struct cay_usage usage = reply->end.usage;
    usage.stdout_bytes = run->captures[OUT].total;
    usage.stderr_bytes = run->captures[ERR].total;
    usage.memory_bytes = usage.pids = UINT64_MAX; /* in use: nothing any more */
    run->result->usage = usage;
    run_emit(run, (struct cay_event){ .kind = CAY_EVENT_USAGE, .usage = &usage });
    /* Held, and all it wrote was taken: the answer need not wait for the cleaning up. */
    run->has_all = reply->end.is_held && is_last && run->harvest.pipe_fd < 0;
    if (run->has_all)
        run_end(run);
}

static void on_usage(struct run *run, const struct warden_reply *reply)
{
    struct cay_usage usage = reply->end.usage;

    if (run->stage_ns == 0 || run->is_over)
        return;
    usage.stdout_bytes = run->captures[OUT].total;
    usage.stderr_bytes = run->captures[ERR].total;
    run_emit(run, (struct cay_event){ .kind = CAY_EVENT_USAGE, .usage = &usage });
}

/* Go makes a library of what is no package main, and is content with it. */
static bool lacks_program(const struct run *run, const struct cay_error *failure)
{
    const struct plan *plan = &run->plan;
    const char *program = plan->payload.argv[plan->job.n_stages - 1][0];
    bool is_compiled = run->compiled.is_found || run->result->timing.compile_ns > 0;

    return is_compiled && strchr(program, '/') && failure->kind == CAY_E_UNSUPPORTED &&
           (failure->errnum == EACCES || failure->errnum == ENOEXEC);
}

/* As if the compiler had said so itself. */
static void fail_compile(struct run *run)
{
    run->has_no_program = true;
    run->facts = (struct verdict_facts){
        .n_stages = 2,
        .end = { .has_status = true, .wait_status = 1 << 8 }, /* exit code 1 */
        .limits = run->plan.job.limits[0],
    };
}

static void on_failed(struct run *run, const struct warden_reply *reply)
{
    if (lacks_program(run, &reply->error)) {
        fail_compile(run);
        return;
    }
    run->has_failed = true;
    run->failure = reply->error;
    unsigned stage = run->has_started && !run->is_compiling ? run->plan.job.n_stages - 1U : 0;
    if (run->failure.kind == CAY_E_NOTFOUND)
        cay_wrap(&run->failure, "%.80s", run->plan.payload.argv[stage][0]);
}

static void on_gone(struct run *run, const struct warden_reply *reply)
{
    run->facts.stop = reply->stop;
    run->result->timing.teardown_ns = reply->teardown_ns;
    if (!run_again(run))
        run_end(run);
}

void run_reply(struct run *run, const struct warden_reply *reply)
{
    switch (reply->kind) {
    case WARDEN_STAGE_STARTED:
        on_stage_started(run, reply);
        break;
    case WARDEN_STAGE_ENDED:
        if (reply->tells_start)
            on_stage_started(run, reply);
        on_stage_ended(run, reply);
        break;
    case WARDEN_USAGE:
        on_usage(run, reply);
        break;
    case WARDEN_FAILED:
        on_failed(run, reply);
        break;
    case WARDEN_GONE:
        on_gone(run, reply);
        break;
    case WARDEN_POOL: /* is no run's */
        break;
    }
}

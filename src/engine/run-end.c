/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a run, which comes once whatever became of it: the result is made, recorded and told,
 * the callback is called, and nothing is left.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/language.h"
#include "core/layer.h"
#include "core/result-json.h"
#include "engine/engine.h"
#include "engine/run.h"
#include "explain/explain.h"
#include "explain/result-message.h"
#include "policy/policy.h"
#include "sys/cgroup.h"

/* ---- the result ---- */

static void list_layers(struct run *run)
{
    const char **layers = arena_alloc(run->arena, (LAYER_N + 1) * sizeof *layers);
    size_t n = 0;

    for (int i = 0; i < LAYER_N; i++)
        if (run->layers & (UINT32_C(1) << i))
            layers[n++] = layer_name((enum layer)i);
    run->result->layers = layers;
}

/* What the caller should know of a sandbox that is whole but held by lesser means. */
static void warn_of_layers(struct run *run)
{
    if (!run->has_started) /* it was stopped before there was one */
        return;
    if (run->layers & LAYER_BIT(WATCHER)) {
        const char *how = "";
        if (!run->cay->options
                 .journal) { /* a server's clients can't delegate, and its front can't name the user */
            char command[160];
            cgroup_setup_command(geteuid(), command, sizeof command);
            how = arena_printf(run->arena, " (`%s` delegates one)", command);
        }
        run_warn(run, arena_printf(run->arena,
                                   "no cgroup is delegated to this user: a watcher enforces memory "
                                   "and pids, and cpus only as whole CPUs%s",
                                   how));
    } else if (run->plan.backend->tier != TIER_NONE && !(run->layers & LAYER_BIT(CGROUP_CPU)))
        run_warn(run, "the cpu controller is not there: cpus is not enforced");
}

/* What the backend tells in the end, or NULL. */
static const char *known_text(struct run *run, const char *text)
{
    return text[0] ? arena_str(run->arena, text) : NULL;
}

static void name_language(struct run *run)
{
    const struct plan *plan = &run->plan;

    if (!plan->language)
        return;
    run->result->language = arena_str(run->arena, plan->language->name);
    if (plan->sandbox.image[0] && !plan->image) /* a container engine's, which was asked inside */
        run->result->language_version = known_text(run, run->facts.end.runtime_version);
    else if (!plan->image) /* what is in one is not started outside of a sandbox, not even to ask */
        run->result->language_version =
            version_remembered(&run->cay->versions, run->arena, plan->language, plan->program);
}

/* What ran; and what was asked for, where that was something else. */
static void name_backend(struct run *run)
{
    const struct plan *plan = &run->plan;

    run->result->backend = plan->backend->name;
    run->result->tier = tier_name(plan->tier);
    if (!plan->fallback.how)
        return;
    struct cay_fallback *fallback = arena_alloc(run->arena, sizeof *fallback);
    *fallback =
        (struct cay_fallback){ arena_str(run->arena, plan->fallback.asked), plan->fallback.how,
                               arena_str(run->arena, plan->fallback.why) };
    run->result->fallback = fallback;
}

/* All that it wrote; nothing comes after it. */
static void take_streams(struct run *run)
{
    struct cay_result *result = run->result;

    if (run->has_taken_streams)
        return;
    run->has_taken_streams = true;
    struct exec *exec = run->exec;
    if (!run->has_all && exec_is_prepared(exec))
        exec_drain(exec);
    capture_take(&exec->captures[OUT], run->arena, &result->out);
    capture_take(&exec->captures[ERR], run->arena, &result->err);
}

/* What it wrote, and what it ran as. */
static void tell_run(struct run *run)
{
    struct cay_result *result = run->result;
    const struct plan *plan = &run->plan;

    const struct capture *captures = run->exec->captures;
    take_streams(run);
    result->usage.stdout_bytes = captures[OUT].total;
    result->usage.stderr_bytes = captures[ERR].total;
    list_layers(run);
    name_language(run);
    name_backend(run);
    result->start = start_kind_name(run->start_kind);
    result->image = known_text(run, plan->sandbox.image);
    result->image_digest = plan->image_digest ? arena_str(run->arena, plan->image_digest)
                                              : known_text(run, run->facts.end.image_digest);
    result->limits = plan->run.spec.limits;
}

/* ---- each way to end ---- */

static void finish(struct run *run)
{
    struct cay_result *result = run->result;
    const struct plan *plan = &run->plan;
    struct policy_report report;

    tell_run(run);
    run->facts.output_bytes = exec_output_total(run->exec);
    if (run->is_cancelled && run->facts.stop == STOP_CANCELLED && !run->facts.cancel_signal)
        run->facts.cancel_signal = SIGKILL;
    verdict_decide(run->arena, &run->facts, result);
    verdict_warn(run->arena, &run->facts, &run->warnings);
    if (run->facts.stop == STOP_CANCELLED && !run->is_cancelled)
        run_warn(run, "the server that this run went through has ended; --no-server makes it "
                      "independent of servers");
    warn_of_layers(run);
    if (run->policy)
        run_take_policy(run, &report);
    result->warnings = run->warnings.list;
    if (run->has_no_program)
        result->verdict.remedy =
            "give the code an entry point, such as `package main` and main() in Go";
    result->error_message = run->has_no_program
                                ? "Execution failed: the compiler made nothing that can be executed"
                                : message_of(run->arena, result, plan->language, &run->facts);
    explain_result(run->arena, &run->cay->errors, run->req, plan, result);
    result->error_message = message_explained(run->arena, result, plan->language);
    const struct record_left left = {
        .harvest_fd = run_wants_harvest(plan) ? run->program.harvest.file_fd : -1,
        .errnum = run->program.harvest.errnum,
        .workspace_fd = run->workspace_fd,
        .workspace = plan->sandbox.writes ? NULL : plan->workspace,
        .started_ns = run->started_ns,
    };
    record_finish(&run->record, plan, &left, run->arena, result, &run->warnings);
    run_tell_finished(run);
}

/* Whoever cancelled it has what was asked for, whatever else went wrong meanwhile. */
static void tell_cancelled(struct run *run)
{
    int signal = run->facts.cancel_signal ? run->facts.cancel_signal : SIGKILL;

    run->result->verdict = (struct cay_verdict){ .cause = CAY_CAUSE_CANCELLED };
    run->result->exit_code = 128 + signal;
    run->result->error_message = "Execution cancelled";
    run->result->failure = NULL;
    explain_result(run->arena, &run->cay->errors, run->req, &run->plan, run->result);
}

/* What was started is finished, whatever became of it: no stream of events ends without, and what
 * was told of it is kept. How long it ran nobody said, if the warden is gone. */
static void finish_failed(struct run *run)
{
    const struct record_left left = { .harvest_fd = -1, .workspace_fd = -1 };
    struct cay_result *result = run->result;
    struct cay_error shown = run->failure;

    tell_run(run);
    run->record.is_unstarted = !run->has_started;
    if (!run->has_started) {
        result->tier = tier_name(TIER_NONE);
        result->backend = NULL; /* none of those that were tried */
    }
    if (run->exec->started_ns > 0) {
        result->execution_time_ns = clock_now_ns() - run->exec->started_ns;
        *(run->is_compiling ? &result->timing.compile_ns : &result->timing.run_ns) =
            result->execution_time_ns;
    }
    if (run->cay->options.journal) /* a server's, whose clients read it */
        cay_client_error(&run->failure, &shown);
    result_fail(result, &shown);
    if (run->is_cancelled)
        tell_cancelled(run);
    record_finish(&run->record, &run->plan, &left, run->arena, result, &run->warnings);
    run_tell_finished(run);
}

void run_free(struct run *run)
{
    struct cay *cay = run->cay;

    *run->link = run->next;
    if (run->next)
        run->next->link = run->link;
    if (cay->loop.in_words == run)
        cay->loop.in_words = NULL;
    sandbox_done(&run->sandbox);
    exec_done(&run->compile);
    exec_done(&run->program);
    loop_remove(cay, &run->entry);
    close_fd(&run->timer_fd);
    for (int i = 0; i < SANDBOX_FOLDERS; i++)
        close_fd(&run->folder_fds[i]);
    record_done(&run->record);
    policy_drop(run->policy);
    close_fd(&run->workspace_fd);
    compiled_done(&run->compiled);
    cay_result_free(run->result);
    plan_done(&run->plan);
    run_again_done(run);
    cay_request_free(run->req);
    free(run);
}

/* From here on nothing else keeps it from its end. */
static bool comes_again(struct run *run, int64_t in_ns)
{
    run->is_ending = run_set_timer(run, in_ns) == 0;
    return run->is_ending;
}

/* A large request takes its time to hash, and others are served meanwhile: a piece in each turn of
 * the loop, whoever's it is. */
static bool has_to_hash(struct run *run)
{
    size_t all = SIZE_MAX;

    if (!run->is_watched || record_hash(&run->record, &run->plan, &run->cay->loop.hash_room))
        return false;
    return comes_again(run, 1) || !record_hash(&run->record, &run->plan, &all);
}

static bool is_large(const struct run *run)
{
    return capture_held(&run->exec->captures[OUT]) + capture_held(&run->exec->captures[ERR]) >
           LOOP_TEXT_BYTES;
}

/* Between looks of those that wait for it. */
#define WORDS_WAIT_NS (10 * NS_PER_MSEC)

/* So does a large result to be put into words. It may become six times as long, so that there is
 * one of them at a time. */
static bool has_to_make_text(struct run *run)
{
    struct loop *loop = &run->cay->loop;
    size_t all = SIZE_MAX, len;
    const char *text;

    if (!run->is_watched)
        return false;
    if (is_large(run) && loop->in_words && comes_again(run, WORDS_WAIT_NS))
        return true;
    if (is_large(run)) {
        loop->in_words = run;
        loop->text_room = 0; /* to take them is work enough for this turn */
    }
    take_streams(run);
    /* The large one is first in each turn: it leaves half of the room to others. */
    size_t most = loop->in_words == run ? LOOP_TEXT_BYTES / 2 : LOOP_TEXT_BYTES;
    size_t given = MIN(loop->text_room, most), room = given;
    bool is_made = result_text_make(run->result, &room);
    loop->text_room -= given - room;
    result_text_get(run->result, &text, &len);
    record_text(&run->record, text, len);
    if (!is_made && comes_again(run, 1))
        return true;
    if (loop->in_words == run)
        loop->in_words = NULL;
    return !is_made && !result_text_make(run->result, &all);
}

void run_refuse(struct run *run)
{
    struct cay_result *result = run->result;
    const struct plan *plan = &run->plan;

    if (has_to_hash(run))
        return;
    run->is_over = true;
    name_language(run);
    result->exit_code = cay_error_exit_status(CAY_E_POLICY);
    result->verdict.cause = CAY_CAUSE_POLICY;
    name_backend(run);
    if (result->fallback)
        result->backend = NULL; /* "ran" names what ran, and none did */
    result->start = "cold";
    result->limits = plan->run.spec.limits;
    result->out.data = result->err.data = "";
    result->layers = NULL;
    result->warnings = run->warnings.list;
    explain_result(run->arena, &run->cay->errors, run->req, plan, result);
    const struct record_left left = { .harvest_fd = -1, .workspace_fd = -1 };
    run->record.is_unstarted = true;
    record_finish(&run->record, plan, &left, run->arena, result, &run->warnings);
    run_tell_finished(run);
    run->on_done(run->done_arg, take_ptr(&run->result), NULL);
    run_free(run);
}

static void end(struct run *run)
{
    run->policy_wait = POLICY_NO_WAIT;
    run->is_over = true;
    take_streams(run);
    if (run->has_failed)
        finish_failed(run);
    else
        finish(run);
    struct cay_result *result = run->has_failed ? NULL : take_ptr(&run->result);
    run->on_done(run->done_arg, result, run->has_failed ? &run->failure : NULL);
    run_free(run);
}

void run_end(struct run *run)
{
    if (!has_to_hash(run) && !has_to_make_text(run) && !run_wait_for_policy(run, POLICY_TO_END))
        end(run);
    else
        sandbox_close(&run->sandbox, STOP_NONE); /* it is of no use to anybody meanwhile */
}

void run_fail(struct run *run, const struct cay_error *err)
{
    bool has_ended = run->is_ending && !run->is_refused; /* before this */

    if (!run->has_failed && !has_ended)
        run->failure = *err;
    run->has_failed |= !has_ended;
    end(run);
}

void runs_fail(struct cay *cay)
{
    struct cay_error err;

    cay_fail(&err, CAY_E_SYSTEM, "the engine was closed, and the sandbox with it");
    while (cay->runs)
        run_fail(cay->runs, &err);
}

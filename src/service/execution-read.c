/* SPDX-License-Identifier: Apache-2.0 */
/* Who reads an execution: its events as they come, or its result. */
#include <string.h>

#include <cay/run.h>

#include "base/auto.h"
#include "service/execution.h"
#include "service/metrics.h"
#include "service/service-state.h"

enum {
    COPY_MAX = 64 << 10,    /* a result up to this size is copied for each who asks */
    PIECE_BYTES = 64 << 10, /* of a larger event, in a stream */
};

static void link_reader(struct execution *run, struct ask *ask)
{
    ask->run = run;
    ask_link(&run->readers, ask);
    execution_count_kept(run);
}

/* What is kept counts as that no more once somebody reads it: from here on it counts as what waits
 * to be sent, once, however many read it; execution_release gives it back. */
static bool take_for_reading(struct execution *run)
{
    return run->state != EXECUTION_FINISHED || run->is_ending || run->room.bytes > 0 ||
           bodies_take(&run->service->bodies, &run->room, run->tenant, run->logged_bytes);
}

static void owner_left(struct execution *run)
{
    metrics_add(run->service->metrics, COUNTER_CLIENTS_LEFT, 1);
    execution_cancel(run, 0);
}

static void forget_reader(struct ask *ask)
{
    struct execution *run = ask->run;

    ask_unlink(&run->readers, ask);
    if (run->state == EXECUTION_FINISHED)
        execution_release(run);
    else if (ask->is_owner)
        owner_left(run);
}

enum next_event service_next_event(struct ask *ask, struct event_piece *ret)
{
    struct execution *run = ask->run;

    if (event_log_next(&run->log, ask->after, &ret->event)) {
        /* The end, which is as large as the result, goes in pieces: it stays where it is. */
        bool is_end = run->state == EXECUTION_FINISHED && ret->event.seq == run->log.last;
        size_t left = ret->event.len - ask->at;
        ret->from = ask->at;
        ret->len = is_end ? MIN(left, (size_t)PIECE_BYTES) : left;
        ask->at += ret->len;
        if (ask->at == ret->event.len) {
            ask->after = ret->event.seq;
            ask->at = 0;
        }
        return NEXT_EVENT;
    }
    if (run->state != EXECUTION_FINISHED)
        return NEXT_LATER;
    ask_drop(ask);
    return NEXT_END;
}

int service_follow(struct ask *ask, struct execution *run, uint64_t after, struct refusal *refusal)
{
    if (!take_for_reading(run)) {
        refusal_unread(refusal);
        return -1;
    }
    ask->forget = forget_reader;
    ask->at = 0;
    ask->after = MIN(after, run->log.last);
    /* No stream is without its end, whatever was seen of it or is claimed to have been. */
    if (run->state == EXECUTION_FINISHED && ask->after == run->log.last)
        ask->after--;
    link_reader(run, ask);
    return 0;
}

void execution_wake_readers(struct execution *run)
{
    for (struct ask *ask = run->readers; ask; ask = ask->next)
        if (ask->on_events)
            ask->on_events(ask);
}

static void forget_waiter(struct ask *ask)
{
    struct execution *run = ask->run;

    run->waiter = NULL;
    owner_left(run);
}

/* A large result is there once, however many read it. */
void execution_answer(struct execution *run, struct ask *ask)
{
    struct answer answer = { .text = run->result, .len = run->result_len, .fd = -1 };
    struct refusal refusal;

    if (run->result_len > COPY_MAX) {
        if (!take_for_reading(run)) {
            refusal_unread(&refusal);
            ask_refuse_with(ask, &refusal);
            return;
        }
        link_reader(run, ask);
        ask->forget = forget_reader;
        answer.is_lent = true;
    }
    ask_answer(ask, &answer);
}

void execution_answer_waiter(struct execution *run)
{
    struct ask *ask = run->waiter;

    run->waiter = NULL;
    execution_answer(run, ask);
}

void service_wait(struct ask *ask, struct execution *run)
{
    ask->run = run;
    ask->forget = forget_waiter;
    run->waiter = ask;
    if (run->state == EXECUTION_FINISHED)
        execution_answer_waiter(run);
}

void service_describe(const struct execution *run, struct execution_info *ret)
{
    bool is_finished = run->state == EXECUTION_FINISHED;

    *ret = (struct execution_info){
        .id = run->id,
        .timestamp = run->timestamp,
        .tenant = run->tenant,
        .language = *run->language ? run->language : NULL,
        .state = run->state,
        .state_name = execution_state_name(run->state),
        .is_detached = run->is_detached,
        .usage = !is_finished && run->has_usage ? &run->usage : NULL,
        .last = run->log.last,
        .exit_code = run->exit_code,
        .success = run->success,
        .cause = run->cause,
        .seconds = run->seconds,
    };
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One execution by its id: what the front remembers is answered at once; what is older, by the
 * recorder (store/history-client.h), without waiting for it. Another tenant's is answered as one
 * that never was.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "service/execution.h"
#include "service/recall.h"
#include "service/service-state.h"
#include "service/whole-stream.h"

enum { ASK_SECONDS = 5 };

static void refuse_unknown(struct ask *ask)
{
    struct refusal refusal = { .why = REFUSED_REQUEST };

    cay_fail(&refusal.err, CAY_E_NOTFOUND, "no such execution");
    cay_hint(&refusal.err, "the list of executions has yours; old ones are pruned");
    ask_refuse_with(ask, &refusal);
}

static void refuse_shortage(struct ask *ask, const char *message)
{
    struct refusal refusal;

    refusal_shortage(&refusal, message, NULL, 1);
    ask_refuse_with(ask, &refusal);
}

static void forget_question(struct ask *ask)
{
    history_client_forget(ask->service->history, ask);
}

int recall_ask(struct ask *ask, struct history_query *query, history_answer_fn *answer)
{
    struct cay_error err;

    if (!(ask->owner.scopes & SCOPE_ADMIN))
        snprintf(query->tenant, sizeof query->tenant, "%s", ask->owner.tenant);
    if (history_client_ask(ask->service->history, query,
                           clock_now_ns() + (int64_t)ASK_SECONDS * NS_PER_SEC, answer, ask,
                           &err) < 0)
        return -1;
    ask->forget = forget_question;
    return 0;
}

/* What is asked of one execution by its id. */
static void ask_of(struct ask *ask, const char *id, enum history_kind kind,
                   history_answer_fn *answer)
{
    struct history_query query = { .kind = kind };

    if (strlen(id) != sizeof query.id - 1) {
        refuse_unknown(ask);
        return;
    }
    snprintf(query.id, sizeof query.id, "%s", id);
    memcpy(ask->id, query.id, sizeof ask->id);
    if (recall_ask(ask, &query, answer) < 0)
        refuse_shortage(ask, "the history is unavailable right now");
}

bool recall_is_found(struct ask *ask, int status)
{
    struct refusal refusal;

    ask->forget = NULL;
    service_give_back(ask); /* the answer counts for itself */
    if (status == 0)
        return true;
    if (status == -ENOENT || status == -EINVAL) {
        refuse_unknown(ask);
    } else if (status == -ENOBUFS) {
        refusal_unread(&refusal);
        ask_refuse_with(ask, &refusal);
    } else {
        refuse_shortage(ask, "the history did not answer");
    }
    return false;
}

static void answer_one(void *arg, int status, const char *json, size_t len)
{
    struct ask *ask = arg;

    if (recall_is_found(ask, status))
        ask_answer(ask, &(struct answer){ .text = json, .len = len, .fd = -1 });
}

void service_recall(struct ask *ask, const char *id)
{
    ask_of(ask, id, HISTORY_ONE, answer_one);
}

struct execution *service_find(const struct ask *ask, const char *id)
{
    return execution_find(ask->service, id, &ask->owner);
}

void service_get(struct ask *ask, const char *id)
{
    struct execution *run = service_find(ask, id);

    if (!run)
        service_recall(ask, id);
    else if (run->state != EXECUTION_FINISHED)
        ask_answer(ask, &(struct answer){ .run = run, .fd = -1 });
    else
        execution_answer(run, ask);
}

/* Where nobody knows how many there were, at least one is missing: readers see that rather than
 * nothing, and it is the end for all who ask from here on. */
uint64_t service_last_event(struct service *service, const char *id, uint64_t after)
{
    uint64_t last = execution_end_of(service, id);

    if (last == 0) {
        last = after + 2;
        execution_note_end(service, id, last);
    }
    return last;
}

/* ---- whole streams ---- */

static void answer_stream(struct ask *ask, const char *result, size_t len)
{
    auto_strbuf struct strbuf out = { 0 };
    struct refusal refusal = { .why = REFUSED_GONE };

    if (whole_stream_read(&out, ask->stream == STREAM_STDERR ? "stderr" : "stdout", result, len)) {
        ask_answer(ask, &(struct answer){ .text = strbuf_str(&out), .len = out.len, .fd = -1 });
        return;
    }
    cay_fail(&refusal.err, CAY_E_NOTFOUND, "the whole stream is no longer kept");
    cay_hint(&refusal.err, "the result has its beginning and end");
    ask_refuse_with(ask, &refusal);
}

/* There is no file of it: then the result, asked for behind it, has all that there is. */
static void answer_from_result(void *arg, int status, const char *json, size_t len)
{
    struct ask *ask = arg;

    if (recall_is_found(ask, status))
        answer_stream(ask, json, len);
}

static void answer_file(void *arg, int status, const char *json, size_t len)
{
    struct ask *ask = arg;

    (void)json, (void)len;
    int fd = history_client_take_fd(ask->service->history);
    if (status == 0 && fd >= 0) {
        ask_answer(ask, &(struct answer){ .fd = fd });
        return;
    }
    close_fd(&fd);
    const struct execution *run = service_find(ask, ask->id);
    if (run && run->state == EXECUTION_FINISHED) { /* not recorded, or nothing of it is kept */
        answer_from_result(ask, 0, run->result, run->result_len);
    } else if (status == -ENODATA) {
        char id[sizeof ask->id];
        memcpy(id, ask->id, sizeof id);
        ask_of(ask, id, HISTORY_ONE, answer_from_result);
    } else {
        recall_is_found(ask, status);
    }
}

void service_get_stream(struct ask *ask, const char *id, int stream)
{
    const struct execution *run = service_find(ask, id);
    struct refusal refusal = { .why = REFUSED_STATE };

    ask->stream = stream;
    if (run && run->state != EXECUTION_FINISHED) {
        cay_fail(&refusal.err, CAY_E_BUSY, "the execution has not finished");
        cay_hint(&refusal.err, "its events have the output as it comes");
        ask_refuse_with(ask, &refusal);
    } else if (run && !run->is_cut && !run->is_short) {
        answer_stream(ask, run->result, run->result_len);
    } else {
        ask_of(ask, id, stream == STREAM_STDERR ? HISTORY_STDERR : HISTORY_STDOUT, answer_file);
    }
}

/* ---- the end ---- */

/* The recorder knows whose it is. What is forgotten here and was never recorded is gone, too. */
static void answer_removed(void *arg, int status, const char *json, size_t len)
{
    struct ask *ask = arg;
    struct execution *run = service_find(ask, ask->id);
    bool was_here = run && run->state == EXECUTION_FINISHED;
    struct refusal refusal = { .why = REFUSED_STATE };

    (void)json, (void)len;
    if (status == -EBUSY) {
        cay_fail(&refusal.err, CAY_E_BUSY, "its changes are being applied");
        cay_hint(&refusal.err, "try again");
        ask_refuse_with(ask, &refusal);
        return;
    }
    if (was_here && (status == 0 || status == -ENOENT)) {
        execution_forget(run);
        status = 0;
    }
    if (recall_is_found(ask, status))
        ask_answer(ask, &(struct answer){ .fd = -1 });
}

void service_cancel(struct ask *ask, const char *id)
{
    struct execution *run = service_find(ask, id);

    if (run && run->state != EXECUTION_FINISHED) {
        execution_cancel(run, 0);
        ask_answer(ask, &(struct answer){ .run = run, .fd = -1 });
    } else {
        ask_of(ask, id, HISTORY_REMOVE, answer_removed);
    }
}

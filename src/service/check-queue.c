/* SPDX-License-Identifier: Apache-2.0 */
#include "service/check-queue.h"

#include <stdlib.h>
#include <string.h>

#include <cay/check.h>

#include "base/auto.h"
#include "service/service-state.h"

/* Code that takes longer is unknown. Of those that wait, a tenant has three quarters at most. */
enum {
    CHECK_TIMEOUT_MS = 1000,
    CHECKS_AT_ONCE = 2,
    CHECKS_MAX = 64,
    CHECKS_TENANT_MAX = CHECKS_MAX / 4 * 3,
};

struct check_job {
    struct cay_checking *checking; /* NULL while it waits for its turn */
    struct cay_check_request req;
    char *language, *code; /* of req, until it is begun */
};

static void free_job(struct check_job *job)
{
    cay_check_drop(job->checking);
    free(job->language);
    free(job->code);
    free(job);
}

static void leave(struct ask *ask)
{
    struct check_queue *checks = &ask->service->checks;

    if (ask->prev)
        ask->prev->next = ask->next;
    else
        checks->first = ask->next;
    if (ask->next)
        ask->next->prev = ask->prev;
    else
        checks->last = ask->prev;
    ask->prev = ask->next = NULL;
    ask->forget = NULL;
    checks->n--;
    checks->n_begun -= ask->check->checking != NULL;
    free_job(ask->check);
    ask->check = NULL;
}

static void join(struct ask *ask, struct check_job *job)
{
    struct check_queue *checks = &ask->service->checks;

    ask->forget = leave;
    ask->check = job;
    ask->prev = checks->last;
    ask->next = NULL;
    if (ask->prev)
        ask->prev->next = ask;
    else
        checks->first = ask;
    checks->last = ask;
    checks->n++;
}

/* How many the tenant of ask has. */
static size_t count_of(const struct ask *ask, bool is_begun)
{
    size_t n = 0;

    for (const struct ask *other = ask->service->checks.first; other; other = other->next)
        n += (!is_begun || other->check->checking) &&
             strcmp(other->owner.tenant, ask->owner.tenant) == 0;
    return n;
}

static bool is_its_turn(const struct ask *ask)
{
    const struct check_queue *checks = &ask->service->checks;
    size_t n = count_of(ask, true);

    if (checks->n_begun >= CHECKS_AT_ONCE)
        return false;
    for (const struct ask *other = checks->first; n > 0 && other; other = other->next)
        if (!other->check->checking && count_of(other, true) < n)
            return false;
    return true;
}

static int begin(struct ask *ask, struct cay_error *err)
{
    struct check_job *job = ask->check;

    job->req.timeout_ms = CHECK_TIMEOUT_MS;
    job->req.tenant = ask->owner.tenant;
    if (cay_check_begin(ask->service->cay, &job->req, &job->checking, err) < 0)
        return -1;
    ask->service->checks.n_begun++;
    free(take_ptr(&job->code));
    return 0;
}

static void refuse(struct ask *ask, const struct cay_error *err)
{
    struct refusal refusal;

    if (err->kind != CAY_E_BUSY) {
        ask_refuse(ask, err);
        return;
    }
    refusal_shortage(&refusal, err->msg, "try again", 1);
    ask_refuse_with(ask, &refusal);
}

/* Begins it if it is its turn, and answers it if it can be. Returns whether it was. */
static bool serve_one(struct ask *ask)
{
    struct cay_error err;
    char *report = NULL;
    bool is_safe;
    int rc = 0;

    if (!ask->check->checking && is_its_turn(ask) && begin(ask, &err) < 0)
        rc = -1;
    else if (ask->check->checking)
        rc = cay_check_end(ask->check->checking, &report, &is_safe, &err);
    if (rc == 0)
        return false;
    leave(ask);
    if (rc > 0)
        ask_answer(ask, &(struct answer){ .text = report, .len = strlen(report), .fd = -1 });
    else
        refuse(ask, &err);
    free(report);
    return true;
}

void check_queue_serve(struct service *service)
{
    /* An answer may lead to the next question, and so to another list. */
    for (struct ask *ask = service->checks.first; ask;)
        ask = serve_one(ask) ? service->checks.first : ask->next;
}

void service_check(struct ask *ask, const struct cay_check_request *req)
{
    struct refusal refusal;

    if (ask->service->checks.n >= CHECKS_MAX || count_of(ask, false) >= CHECKS_TENANT_MAX) {
        refusal_shortage(&refusal, "too many checks wait already", "try again", 1);
        ask_refuse_with(ask, &refusal);
        return;
    }
    struct check_job *job = mem_alloc(sizeof *job);
    job->req = *req;
    job->req.language = job->language = req->language ? str_dup(req->language) : NULL;
    job->req.code = job->code = mem_dup(req->code, req->len);
    join(ask, job);
    serve_one(ask);
}

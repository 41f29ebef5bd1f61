/* SPDX-License-Identifier: Apache-2.0 */
/* The executions that the front remembers: found by id, in the order of lists, and forgotten. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cay/run.h>
#include <cay/settings.h>

#include "base/auto.h"
#include "base/clock.h"
#include "service/execution.h"
#include "service/refusals.h"
#include "service/service-state.h"

enum {
    LOG_BYTES_MAX = 8 << 20, /* of one run */
    LOG_COUNT_MAX = 20000,   /* events of one run */
    KEEP_MAX = 256,          /* finished ones that are remembered */
};

static const char *const state_names[] = { "queued", "running", "finished" };

const char *execution_state_name(enum execution_state state)
{
    return state_names[state];
}

/* ---- the table ---- */

/* Ids are random and ours: nobody can choose them to meet in one bucket. */
static size_t bucket_of(const char *id)
{
    char head[9];

    snprintf(head, sizeof head, "%.8s", id);
    return strtoul(head, NULL, 16) % EXECUTION_BUCKETS;
}

int execution_compare(const struct execution *run, const char *timestamp, const char *id)
{
    int order = strcmp(run->timestamp, timestamp);
    return order != 0 ? order : strcmp(run->id, id);
}

/* Nearly always at the front: only those of the same millisecond, and of a clock that was set back,
 * are passed. */
static void insert(struct executions *all, struct execution *run)
{
    struct execution **bucket = &all->buckets[bucket_of(run->id)];
    struct execution *newer = NULL, *older = all->newest;

    run->bucket_next = *bucket;
    *bucket = run;
    while (older && execution_compare(older, run->timestamp, run->id) > 0) {
        newer = older;
        older = older->older;
    }
    run->newer = newer;
    run->older = older;
    *(newer ? &newer->older : &all->newest) = run;
    *(older ? &older->newer : &all->oldest) = run;
}

static void take_out(struct executions *all, struct execution *run)
{
    struct execution **at = &all->buckets[bucket_of(run->id)];

    while (*at != run)
        at = &(*at)->bucket_next;
    *at = run->bucket_next;
    if (run->newer)
        run->newer->older = run->older;
    else
        all->newest = run->older;
    if (run->older)
        run->older->newer = run->newer;
    else
        all->oldest = run->newer;
}

bool execution_is_of(const struct execution *run, const struct token_owner *owner)
{
    return (owner->scopes & SCOPE_ADMIN) || strcmp(run->tenant, owner->tenant) == 0;
}

struct execution *execution_find(const struct service *service, const char *id,
                                 const struct token_owner *owner)
{
    struct execution *run = service->executions.buckets[bucket_of(id)];

    while (run && strcmp(run->id, id) != 0)
        run = run->bucket_next;
    return run && !run->is_removed && execution_is_of(run, owner) ? run : NULL;
}

/* ---- making and forgetting ---- */

bool execution_is_in_use(const struct execution *run)
{
    return run->state != EXECUTION_FINISHED || run->waiter || run->readers || run->is_ending;
}

struct execution *execution_new(struct service *service, const struct token_owner *owner,
                                struct cay_request *req, int64_t taken_ns)
{
    struct execution *run = mem_alloc(sizeof *run);
    const char *language = cay_request_language(service->cay, req);

    run->service = service;
    run->req = req;
    run->taken_ns = taken_ns;
    snprintf(run->tenant, sizeof run->tenant, "%s", owner->tenant);
    snprintf(run->language, sizeof run->language, "%s", language ? language : "");
    cay_make_id(run->id);
    clock_timestamp(run->timestamp);
    event_log_init(&run->log, LOG_BYTES_MAX, LOG_COUNT_MAX);
    insert(&service->executions, run);
    service->executions.n_active++;
    return run;
}

void execution_count_log(struct execution *run)
{
    struct executions *all = &run->service->executions;

    all->log_bytes += run->log.bytes - run->logged_bytes;
    run->logged_bytes = run->log.bytes;
}

void execution_count_kept(struct execution *run)
{
    struct executions *all = &run->service->executions;
    size_t kept = execution_is_in_use(run) ? 0 : run->logged_bytes;

    all->kept_bytes += kept - run->kept_bytes;
    run->kept_bytes = kept;
    bodies_give_back(&all->kept, &run->share);
    all->kept.max_bytes = UINT64_MAX; /* nobody is refused here */
    if (!execution_is_in_use(run))
        bodies_take(&all->kept, &run->share, run->tenant,
                    kept + run->service->settings.event_log_bytes / KEEP_MAX + 1);
}

uint64_t execution_end_of(const struct service *service, const char *id)
{
    const struct executions *all = &service->executions;

    for (size_t i = 0; i < MIN(all->n_ends, (size_t)ENDS_MAX); i++)
        if (strcmp(all->ends[i].id, id) == 0)
            return all->ends[i].last;
    return 0;
}

void execution_note_end(struct service *service, const char *id, uint64_t last)
{
    struct executions *all = &service->executions;
    struct execution_end *end = &all->ends[all->n_ends++ % ENDS_MAX];

    snprintf(end->id, sizeof end->id, "%s", id);
    end->last = last;
}

void execution_drop_request(struct execution *run)
{
    cay_request_free(run->req);
    run->req = NULL;
    bodies_give_back(&run->service->bodies, &run->held);
}

void execution_free(struct execution *run)
{
    struct executions *all = &run->service->executions;

    take_out(all, run);
    if (run->state == EXECUTION_FINISHED) {
        all->n_finished--;
        execution_note_end(run->service, run->id, run->log.last);
    } else {
        all->n_active--;
    }
    all->log_bytes -= run->logged_bytes;
    all->kept_bytes -= run->kept_bytes;
    bodies_give_back(&all->kept, &run->share);
    event_log_done(&run->log);
    execution_drop_request(run);
    bodies_give_back(&run->service->bodies, &run->room);
    free(run->webhook);
    free(run);
}

void execution_forget(struct execution *run)
{
    run->is_removed = true;
    if (!execution_is_in_use(run))
        execution_free(run);
}

/* The oldest of the tenant that has most: nobody's runs push those of others out. Those that still
 * run or are read are passed over: their number is bounded by admission and connections. */
static struct execution *next_to_forget(const struct executions *all)
{
    struct execution *found = NULL;

    for (struct execution *run = all->oldest; run; run = run->newer)
        if (run->share.bytes > 0 && (!found || bodies_of(&run->share) > bodies_of(&found->share)))
            found = run;
    return found;
}

void execution_forget_some(struct service *service)
{
    struct executions *all = &service->executions;

    while (all->n_finished > KEEP_MAX || all->kept_bytes > service->settings.event_log_bytes) {
        struct execution *run = next_to_forget(all);
        if (!run)
            return;
        execution_free(run);
    }
}

/* It is finished, and who read it may have been the last: it is kept as long as there is room, of
 * which half is the most that one gets. */
void execution_release(struct execution *run)
{
    struct service *service = run->service;
    size_t most = service->settings.event_log_bytes / 2;

    if (execution_is_in_use(run))
        return;
    event_log_shrink(&run->log, most);
    execution_count_log(run);
    execution_count_kept(run);
    bodies_give_back(&service->bodies, &run->room);
    if (run->is_removed || run->is_short || run->log.bytes > most)
        execution_free(run);
    execution_forget_some(service);
}

void execution_forget_all(struct service *service)
{
    service->executions.tell_unrecorded_ns = 0;
    refusals_report(service, clock_now_ns());
    for (struct execution *run = service->executions.oldest, *newer; run; run = newer) {
        newer = run->newer;
        execution_free(run);
    }
}

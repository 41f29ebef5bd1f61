/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants with runs that wait are in a heap, the one whose turn is next on top. Its key changes
 * only when the tenant itself starts or ends a run, so each call moves one tenant.
 */
#include "service/admit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "service/admit-state.h"

enum {
    /* How far to look past runs that there is no room for, by tenant and within one: a bound for
     * the time that a call takes. */
    LOOK_TENANTS = 16,
    LOOK_TICKETS = 8,
    RETRY_MAX_S = 120,
};

struct admit {
    struct admit_settings settings;
    struct admit_host host;
    uint64_t capacity_bytes, headroom_bytes; /* total and free, less the reserve */
    /* Cost of the runs started since the host was looked at last, and in the time before: they may
     * not have taken their memory yet. */
    uint64_t recent_bytes, before_bytes;
    uint64_t looks; /* how often the host was looked at */

    struct tenant **tenants; /* by name */
    struct tenant **heap;    /* those with runs that wait */
    size_t n_tenants, n_heap, room;
    size_t n_expected; /* 0: nobody said */

    uint64_t turns;
    int64_t service_ns; /* how long a run takes, recent ones counting more */
    struct admit_counts counts;
};

/* ---- the host ---- */

static uint64_t less(uint64_t bytes, uint64_t reserve)
{
    return bytes > reserve ? bytes - reserve : 0;
}

static void update_room(struct admit *admit)
{
    uint64_t reserve = admit->settings.reserve_bytes;

    admit->headroom_bytes = less(admit->host.free_bytes, reserve);
    admit->capacity_bytes = less(admit->host.total_bytes, reserve);
}

void admit_set_host(struct admit *admit, const struct admit_host *host)
{
    admit->host = *host;
    admit->before_bytes = admit->recent_bytes;
    admit->recent_bytes = 0;
    admit->looks++;
    update_room(admit);
}

void admit_set_settings(struct admit *admit, const struct admit_settings *settings)
{
    admit->settings = *settings;
    if (admit->settings.overcommit_milli < 1000)
        admit->settings.overcommit_milli = 1000;
    update_room(admit);
}

struct admit *admit_new(const struct admit_settings *settings, const struct admit_host *host)
{
    struct admit *admit = mem_alloc(sizeof *admit);

    admit_set_settings(admit, settings);
    admit_set_host(admit, host);
    admit->service_ns = NS_PER_SEC / 10;
    return admit;
}

void admit_free(struct admit *admit)
{
    if (!admit)
        return;
    for (size_t i = 0; i < admit->n_tenants; i++) {
        free(admit->tenants[i]->name);
        free(admit->tenants[i]);
    }
    free(admit->tenants);
    free(admit->heap);
    free(admit);
}

/* ---- tenants ---- */

/* Where it is, or belongs. */
static size_t tenant_place(const struct admit *admit, const char *name, bool *ret_is_there)
{
    size_t low = 0, high = admit->n_tenants;

    *ret_is_there = false;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = strcmp(name, admit->tenants[mid]->name);
        if (order == 0) {
            *ret_is_there = true;
            return mid;
        }
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

struct tenant *admit_tenant(struct admit *admit, const char *name)
{
    bool is_there;
    size_t at = tenant_place(admit, name, &is_there);

    if (is_there)
        return admit->tenants[at];
    if (admit->n_tenants == ADMIT_TENANTS_MAX)
        return NULL;
    if (admit->n_tenants == admit->room) {
        admit->room = admit->room ? admit->room * 2 : 8;
        admit->tenants = mem_resize(admit->tenants, admit->room * sizeof *admit->tenants);
        admit->heap = mem_resize(admit->heap, admit->room * sizeof *admit->heap);
    }
    struct tenant *tenant = mem_alloc(sizeof *tenant);
    tenant->name = str_dup(name);
    tenant->heap_index = SIZE_MAX;
    memmove(&admit->tenants[at + 1], &admit->tenants[at],
            (admit->n_tenants - at) * sizeof *admit->tenants);
    admit->tenants[at] = tenant;
    admit->n_tenants++;
    return tenant;
}

struct tenant *admit_tenant_at(const struct admit *admit, size_t i)
{
    return i < admit->n_tenants ? admit->tenants[i] : NULL;
}

void admit_expect(struct admit *admit, size_t n_tenants)
{
    admit->n_expected = n_tenants;
}

const char *tenant_name(const struct tenant *tenant)
{
    return tenant->name;
}

void tenant_set_quota(struct tenant *tenant, const struct cay_tenant *quota)
{
    uint32_t had = tenant->quota.runs_per_minute, has = quota ? quota->runs_per_minute : 0;

    /* As many runs as before are taken, of another number. */
    tenant->bucket_ns = has ? tenant->bucket_ns * had / has : 0;
    tenant->quota = quota ? *quota : (struct cay_tenant){ 0 };
    tenant->quota.name = tenant->quota.webhook_secret = NULL;
}

/* ---- the heap ---- */

static bool is_before(const struct tenant *a, const struct tenant *b)
{
    return a->running != b->running ? a->running < b->running : a->turn < b->turn;
}

static void heap_put(struct admit *admit, size_t at, struct tenant *tenant)
{
    admit->heap[at] = tenant;
    tenant->heap_index = at;
}

static void heap_move(struct admit *admit, struct tenant *tenant)
{
    size_t at = tenant->heap_index;

    while (at > 0 && is_before(tenant, admit->heap[(at - 1) / 2])) {
        heap_put(admit, at, admit->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < admit->n_heap && is_before(admit->heap[child + 1], admit->heap[child]))
            child++;
        if (child >= admit->n_heap || !is_before(admit->heap[child], tenant))
            break;
        heap_put(admit, at, admit->heap[child]);
        at = child;
    }
    heap_put(admit, at, tenant);
}

static void heap_remove(struct admit *admit, struct tenant *tenant)
{
    struct tenant *last = admit->heap[--admit->n_heap];

    if (last != tenant) {
        heap_put(admit, tenant->heap_index, last);
        heap_move(admit, last);
    }
    tenant->heap_index = SIZE_MAX;
}

/* Puts a tenant where it belongs, in or out. */
static void heap_update(struct admit *admit, struct tenant *tenant)
{
    bool is_in = tenant->heap_index != SIZE_MAX;

    if (!tenant->first && is_in)
        heap_remove(admit, tenant);
    if (!tenant->first)
        return;
    if (!is_in)
        heap_put(admit, admit->n_heap++, tenant);
    heap_move(admit, tenant);
}

/* ---- room ---- */

static uint64_t cost_of(const struct admit *admit, uint64_t memory_bytes)
{
    uint64_t cost = memory_bytes / admit->settings.overcommit_milli * 1000;

    return admit->host.is_service ? memory_bytes : MIN(cost, admit->capacity_bytes / 4);
}

/* Whether this much fits in a tenant's share: SHARE times what would be left of all and one more,
 * which rounds what is left to others down. A place of two or three that is kept for who may never
 * come would be much. */
static bool is_in_share(const struct admit *admit, uint64_t own, uint64_t used, uint64_t all)
{
    size_t n_tenants = admit->n_expected ? admit->n_expected : admit->n_tenants;

    return n_tenants < 2 || own <= (uint64_t)ADMIT_SHARE * (less(all, used) + 1);
}

static uint32_t most_running(const struct admit *admit)
{
    return admit->settings.max_running ? admit->settings.max_running : UINT32_MAX;
}

static bool has_memory(const struct admit *admit, const struct tenant *tenant, uint64_t cost)
{
    uint64_t charged = admit->counts.charged_bytes + cost;
    uint64_t fresh = admit->recent_bytes + admit->before_bytes + cost;

    return charged <= admit->capacity_bytes && fresh <= admit->headroom_bytes &&
           (tenant->running == 0 ||
            is_in_share(admit, tenant->charged_bytes + cost, charged, admit->capacity_bytes));
}

/* A tenant that has nothing running needs no share: each can have one run. */
static bool has_room(const struct admit *admit, const struct tenant *tenant, uint64_t cost)
{
    uint64_t own = tenant->running + 1, all = admit->counts.running + 1;
    uint64_t floor =
        admit->host.is_service ? 0 : (uint64_t)admit->settings.runs_per_core * admit->host.cores;
    uint64_t most = most_running(admit);

    if (all == 1)
        return true;
    if (all > most || (own > 1 && !is_in_share(admit, own, all, most)))
        return false;
    if (has_memory(admit, tenant, cost))
        return true;
    return all <= floor && admit->headroom_bytes > 0 &&
           (own == 1 || is_in_share(admit, own, all, floor));
}

static void start(struct admit *admit, struct admit_ticket *ticket, uint64_t cost, int64_t now_ns)
{
    struct tenant *tenant = ticket->tenant;

    ticket->state = TICKET_RUNNING;
    ticket->started_ns = now_ns;
    ticket->cost_bytes = cost;
    tenant->running++;
    tenant->charged_bytes += cost;
    tenant->turn = ++admit->turns;
    admit->counts.running++;
    admit->counts.charged_bytes += cost;
    ticket->look = admit->looks;
    admit->recent_bytes += cost;
    admit->counts.admitted++;
    heap_update(admit, tenant);
}

/* ---- asking ---- */

unsigned admit_retry_after(const struct admit *admit)
{
    int64_t slots = MAX(admit->counts.running, 1);
    int64_t waiting = MAX(admit->counts.queued, 1);
    int64_t seconds = (int64_t)((double)admit->service_ns * (double)waiting / (double)slots /
                                (double)NS_PER_SEC) +
                      1;
    return (unsigned)MIN(seconds, RETRY_MAX_S);
}

static bool is_queue_full(const struct admit *admit, const struct tenant *tenant,
                          struct admit_refusal *why)
{
    uint32_t queued = admit->counts.queued, most = admit->settings.max_queue;
    bool is_share = queued < most;

    /* A queue too short for shares may be one tenant's: another can still have a place. */
    if (queued == most && tenant->queued == 0 && admit->n_heap == 1)
        return false;
    if (is_share &&
        (tenant->queued == 0 || is_in_share(admit, tenant->queued + 1u, queued + 1u, most)))
        return false;
    int64_t wait_ns = admit_retry_after(admit) * NS_PER_SEC;
    if (is_share)
        admit_refuse(why, NULL, wait_ns, "the queue is full: tenant %.64s has %u of %u places",
                     tenant->name, tenant->queued, most);
    else
        admit_refuse(why, NULL, wait_ns, "the queue is full: %u runs are waiting", queued);
    snprintf(why->hint, sizeof why->hint, "try again later (Retry-After)");
    return true;
}

static void enqueue(struct admit *admit, struct admit_ticket *ticket)
{
    struct tenant *tenant = ticket->tenant;

    ticket->state = TICKET_QUEUED;
    ticket->next = NULL;
    ticket->prev = tenant->last;
    *(tenant->last ? &tenant->last->next : &tenant->first) = ticket;
    tenant->last = ticket;
    tenant->queued++;
    admit->counts.queued++;
    admit->counts.queued_total++;
    heap_update(admit, tenant);
}

static void dequeue(struct admit *admit, struct admit_ticket *ticket)
{
    struct tenant *tenant = ticket->tenant;

    *(ticket->prev ? &ticket->prev->next : &tenant->first) = ticket->next;
    *(ticket->next ? &ticket->next->prev : &tenant->last) = ticket->prev;
    ticket->prev = ticket->next = NULL;
    tenant->queued--;
    admit->counts.queued--;
}

/* The first of a tenant's that there is room for. */
static struct admit_ticket *first_with_room(const struct admit *admit, const struct tenant *tenant,
                                            uint64_t *ret_cost)
{
    struct admit_ticket *ticket = tenant->first;

    for (int i = 0; ticket && i < LOOK_TICKETS; i++, ticket = ticket->next) {
        *ret_cost = cost_of(admit, ticket->memory_bytes);
        if (has_room(admit, tenant, *ret_cost))
            return ticket;
    }
    return NULL;
}

/* Whether somebody waits who could start: a place was freed and not yet handed on. */
static bool is_next_ready(const struct admit *admit)
{
    uint64_t cost;
    return admit->n_heap > 0 && first_with_room(admit, admit->heap[0], &cost);
}

enum admit_outcome admit_ask(struct admit *admit, struct admit_ticket *ticket, int64_t now_ns,
                             struct admit_refusal *why)
{
    struct tenant *tenant = ticket->tenant;
    uint64_t cost = cost_of(admit, ticket->memory_bytes);

    ticket->asked_ns = now_ns;
    if (quota_forbids(ticket, admit->service_ns, now_ns, why)) {
        admit->counts.refused_quota++;
        return ADMIT_REFUSED;
    }
    bool is_now = has_room(admit, tenant, cost) && !is_next_ready(admit);
    if (!is_now && is_queue_full(admit, tenant, why)) {
        admit->counts.refused_queue++;
        return ADMIT_REFUSED;
    }
    quota_take(tenant);
    tenant->memory_bytes += ticket->memory_bytes;
    if (is_now)
        start(admit, ticket, cost, now_ns);
    else
        enqueue(admit, ticket);
    return is_now ? ADMIT_NOW : ADMIT_QUEUED;
}

struct admit_ticket *admit_next(struct admit *admit, int64_t now_ns)
{
    struct tenant *passed[LOOK_TENANTS];
    struct admit_ticket *ticket = NULL;
    uint64_t cost = 0;
    size_t n = 0;

    if (admit->counts.running >= most_running(admit))
        return NULL;
    while (admit->n_heap > 0 && n < LOOK_TENANTS && !ticket) {
        struct tenant *tenant = admit->heap[0];
        ticket = first_with_room(admit, tenant, &cost);
        if (!ticket) {
            heap_remove(admit, tenant);
            passed[n++] = tenant;
        }
    }
    if (ticket) {
        dequeue(admit, ticket);
        start(admit, ticket, cost, now_ns);
    }
    while (n > 0)
        heap_update(admit, passed[--n]);
    return ticket;
}

static void settle(struct admit_ticket *ticket)
{
    ticket->tenant->memory_bytes -= ticket->memory_bytes;
    ticket->state = TICKET_DONE;
}

void admit_leave(struct admit *admit, struct admit_ticket *ticket)
{
    if (ticket->state != TICKET_QUEUED)
        return;
    dequeue(admit, ticket);
    settle(ticket);
    admit->counts.left++;
    heap_update(admit, ticket->tenant);
}

/* A running one does not count as that any more. */
static void stop(struct admit *admit, struct admit_ticket *ticket)
{
    struct tenant *tenant = ticket->tenant;

    settle(ticket);
    tenant->running--;
    tenant->charged_bytes -= ticket->cost_bytes;
    admit->counts.running--;
    admit->counts.charged_bytes -= ticket->cost_bytes;
    if (ticket->look == admit->looks)
        admit->recent_bytes -= ticket->cost_bytes;
    else if (ticket->look + 1 == admit->looks)
        admit->before_bytes -= ticket->cost_bytes;
}

void admit_done(struct admit *admit, struct admit_ticket *ticket, int64_t cpu_ns, int64_t now_ns)
{
    struct tenant *tenant = ticket->tenant;

    if (ticket->state != TICKET_RUNNING)
        return;
    stop(admit, ticket);
    quota_add_cpu(tenant, cpu_ns, now_ns);
    admit->service_ns += (MAX(now_ns - ticket->started_ns, 0) - admit->service_ns) / 16;
    heap_update(admit, tenant);
}

void admit_undo(struct admit *admit, struct admit_ticket *ticket)
{
    if (ticket->state == TICKET_QUEUED) {
        admit_leave(admit, ticket);
    } else {
        stop(admit, ticket);
        heap_update(admit, ticket->tenant);
    }
    quota_give_back(ticket->tenant);
}

/* ---- counts ---- */

void admit_count(const struct admit *admit, struct admit_counts *ret)
{
    *ret = admit->counts;
    ret->tenants = (uint32_t)admit->n_tenants;
    ret->most_running = most_running(admit);
    ret->headroom_bytes = admit->headroom_bytes;
    ret->capacity_bytes = admit->capacity_bytes;
}

void tenant_count(const struct tenant *tenant, int64_t now_ns, struct tenant_counts *ret)
{
    *ret = (struct tenant_counts){ tenant->running, tenant->queued, tenant->memory_bytes,
                                   quota_cpu(tenant, now_ns) };
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Admission: which run starts now, which waits, which is refused.
 *
 *     struct admit_ticket *t = &run->ticket;           embedded in what the caller keeps of a run
 *     t->tenant = tenant, t->memory_bytes = limit;
 *     switch (admit_ask(admit, t, now_ns, &refusal)) {
 *     case ADMIT_NOW:     start it                     then, at its end: admit_done(admit, t, …)
 *     case ADMIT_QUEUED:  wait                         the client leaves: admit_leave(admit, t, …)
 *     case ADMIT_REFUSED: 429, refusal.message, Retry-After: refusal.retry_after_s; is_final: 403
 *     }
 *     ... after each admit_done, admit_leave and admit_set_host:
 *     while ((t = admit_next(admit, now_ns)))
 *         start it
 *
 * Room. Memory decides, for a program that sleeps uses nothing else. Each run counts its memory
 * limit over the overcommit factor, and never more than a quarter of all there is, so that no run
 * has to wait for an empty host. All that run stay within what the host (or our own cgroup) has,
 * less a reserve; those started since the host was last looked at but one stay within what was free
 * then, less the reserve. Up to runs_per_core runs per core start whatever their limits add up to,
 * as long as anything is free; one always starts. Never more than max_running. Where the limit is
 * one of the service's own, which the kernel does not hold runs to, each counts all of its limit.
 *
 * Order. The tenant with the fewest running goes first; among equals, the one whose turn was
 * longest ago; within a tenant, first come, first served. A run too large for the room that is left
 * does not hold up the smaller ones behind it.
 *
 * Shares. Where there is more than one tenant, none can take all: a tenant's part of the running,
 * of the memory and of the queue is at most SHARE times what is left free of each, and one more. A
 * tenant that fills its share with sleepers leaves every newcomer room to run in, and its flood of
 * requests leaves him places in the queue. Of fewer than five places a lone tenant can have all, so
 * that none idles; then a newcomer is let into the queue even where it is full, and has the first
 * place that becomes free.
 *
 * Quotas are per tenant: concurrency and memory count what runs and what waits; runs_per_minute is
 * a token bucket; cpu_ns_per_day a window of 24 hours in steps of one, which a restart forgets.
 *
 * Nothing here reads a clock, sleeps or starts anything: time is passed in (monotonic). Each call
 * takes O(log tenants), admit_tenant O(log tenants) too.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cay_tenant;

enum {
    ADMIT_TENANTS_MAX = 8192,
    ADMIT_REFUSALS = 60, /* that are recorded in a minute, of each tenant */
    ADMIT_SHARE = 4,     /* a lone busy tenant among several has 4/5 of everything, rounded up */
    ADMIT_MESSAGE_SIZE = 200,
};

struct admit_settings {
    uint32_t max_running;      /* 0: as many as memory allows */
    uint32_t max_queue;        /* 0: nobody waits */
    uint32_t overcommit_milli; /* 4000: limits may add up to 4 times the headroom */
    uint32_t runs_per_core;    /* always allowed, memory permitting at all */
    uint64_t reserve_bytes;    /* left alone for the host and the server */
};

#define ADMIT_SETTINGS_INIT                                             \
    {                                                                   \
        .max_queue = 256, .overcommit_milli = 4000, .runs_per_core = 4, \
        .reserve_bytes = UINT64_C(256) << 20                            \
    }

/* What the host has; to be looked at a few times a second while anything runs or waits. */
struct admit_host {
    uint64_t free_bytes;  /* the least of MemAvailable and what our cgroups have left */
    uint64_t total_bytes; /* the least of MemTotal and our cgroups' limits */
    unsigned cores;
    bool is_service; /* that is the limit of a cgroup of ours which the runs' own are not in:
                        nothing but admission holds them to it */
};

/* proc/meminfo, and the limits of the cgroups that this process is in now (v1 and v2, ancestors
 * included): opened once, so that they can be read by who may open nothing any more. root is "/",
 * or a test's folder. */
struct admit_files *admit_files_open(const char *root);
void admit_files_close(struct admit_files *files); /* NULL is nothing */

/* Reads these, and the number of cores. What can't be read does not count. */
void admit_host_read(const struct admit_files *files, struct admit_host *ret);

struct admit;
struct tenant;

enum ticket_state { TICKET_NEW, TICKET_QUEUED, TICKET_RUNNING, TICKET_DONE };

/* One run; zeroed, then tenant and memory filled in by the caller, the rest is admission's.
 * It must stay where it is until admit_done or admit_leave. */
struct admit_ticket {
    struct tenant *tenant;
    uint64_t memory_bytes; /* the run's limit */
    bool is_compilers;     /* which is that of compiling, not what was asked for */

    enum ticket_state state;
    int64_t asked_ns, started_ns; /* queue time is the difference */
    uint64_t cost_bytes, look;
    struct admit_ticket *prev, *next;
};

enum admit_outcome { ADMIT_NOW, ADMIT_QUEUED, ADMIT_REFUSED };

struct admit_refusal {
    const char *quota;                /* its name in [tenant.NAME], or NULL: the queue is full */
    bool is_final;                    /* waiting won't help: the run alone is past the quota */
    unsigned retry_after_s;           /* at least 1 */
    char message[ADMIT_MESSAGE_SIZE]; /* names the quota, its value and what is in use */
    char hint[96];
};

struct admit *admit_new(const struct admit_settings *settings, const struct admit_host *host);
void admit_free(struct admit *admit); /* tickets must be gone */
void admit_set_settings(struct admit *admit, const struct admit_settings *settings);
void admit_set_host(struct admit *admit, const struct admit_host *host);

/* How many tenants there can be, seen or not: of more than one, none gets all. Not called: as many
 * as were seen. */
void admit_expect(struct admit *admit, size_t n_tenants);

/* The tenant of that name, made where it is not there yet; lives as long as admit does. NULL: there
 * are ADMIT_TENANTS_MAX already. */
struct tenant *admit_tenant(struct admit *admit, const char *name);
/* The i-th of those that were made, by name; NULL past the last one. */
struct tenant *admit_tenant_at(const struct admit *admit, size_t i);
const char *tenant_name(const struct tenant *tenant);
/* NULL: none. Copies the numbers. */
void tenant_set_quota(struct tenant *tenant, const struct cay_tenant *quota);

enum admit_outcome admit_ask(struct admit *admit, struct admit_ticket *ticket, int64_t now_ns,
                             struct admit_refusal *why);

/* Something that the tenant asked for is refused for what it is: no run of its minute, but each
 * that is recorded is written to the journal. Whether this one may be: ADMIT_REFUSALS in a minute.
 */
bool tenant_take_refusal(struct tenant *tenant, int64_t now_ns);

/* One that waits and may start now; it counts as running from here on. NULL: none. */
struct admit_ticket *admit_next(struct admit *admit, int64_t now_ns);

/* A ticket that waits is taken out of the queue. */
void admit_leave(struct admit *admit, struct admit_ticket *ticket);

/* What was let in turned out to be nothing that can be run: it has used nothing, and is no run of
 * its tenant's minute. */
void admit_undo(struct admit *admit, struct admit_ticket *ticket);

/* A run has ended (or could not be started), having used this much CPU time. */
void admit_done(struct admit *admit, struct admit_ticket *ticket, int64_t cpu_ns, int64_t now_ns);

struct admit_counts {
    uint32_t running, queued, tenants;
    uint32_t most_running;   /* by max_running; UINT32_MAX: not bounded */
    uint64_t charged_bytes;  /* what the running count for */
    uint64_t capacity_bytes; /* of this */
    uint64_t headroom_bytes; /* free by the last look, less the reserve */
    uint64_t admitted, queued_total, left, refused_queue, refused_quota;
};
void admit_count(const struct admit *admit, struct admit_counts *ret);

struct tenant_counts {
    uint32_t running, queued;
    uint64_t memory_bytes;
    int64_t cpu_ns_of_day;
};
void tenant_count(const struct tenant *tenant, int64_t now_ns, struct tenant_counts *ret);

/* In how many seconds a place in the queue is likely to be free, by recent service times: 1 to
 * 120. */
unsigned admit_retry_after(const struct admit *admit);

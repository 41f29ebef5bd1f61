/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of src/service share. For doors there is service.h. */

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/bodies.h"
#include "service/check-queue.h"
#include "service/confine.h"
#include "service/drain.h"
#include "service/execution.h"
#include "service/health.h"
#include "service/hooks.h"
#include "service/monitor.h"
#include "service/service.h"

struct admit;
struct admit_files;
struct cay;
struct cay_journal;
struct history_client;
struct metrics;
struct serve_log;
struct tokens;

struct service {
    struct service_options options;
    struct service_settings settings;
    struct event_base *base;
    struct cay *cay;
    struct monitor monitor;
    struct cay_journal *journal;
    struct history_client *history;
    struct tokens *tokens;
    struct admit *admit;
    struct admit_files *host_files;
    struct metrics *metrics;
    struct serve_log *log;
    int notify_fd;
    struct confine_user user; /* who we become */
    int statm_fd;             /* /proc/self/statm */
    int64_t host_read_ns;
    char setup_command[128]; /* delegates a cgroup; made while /etc/passwd can be read */

    struct bodies bodies; /* requests that are being read, or wait */
    struct executions executions;
    struct health health;
    struct hooks hooks;
    struct check_queue checks;
    struct drain drain;
    struct ask *stats_asks; /* of stats.c */
    char *languages;        /* an answer that never changes */
    size_t languages_len;

    struct event *engine_ready, *history_ready, *monitor_ready, *signals[3];
    bool is_warm; /* what was wanted of the pools from the start was there once */
    unsigned reported_spares;
    bool is_reloading;         /* the monitor was asked for the files, */
    int64_t reload_by_ns;      /* and is said to hang if it has not answered by then; 0: it was */
    int64_t warden_retry_ns;   /* not before this; 0: the engine is healthy */
    unsigned warden_losses;    /* in a row */
    int64_t recorder_retry_ns; /* it is gone, and not started before this; 0: it is there */
    int64_t recorder_since_ns; /* when it was last started again */
    unsigned recorder_losses;  /* in a row */
    int64_t checker_ns;        /* when it was last seen to, */
    unsigned checker_restarts; /* how often it was started again, */
    bool is_checker_gone;      /* and whether that failed */
    bool is_recorder_failing;  /* as it said, */
    unsigned losses;           /* and what it knows to be missing */
    bool has_failed;
    bool cannot_run;                    /* this host can't do what the configuration asks for */
    int64_t idle_since_ns;              /* 0: for so long that memory was given back */
    const struct execution *trimmed_at; /* the newest when that began; only compared */
};

/* A line for people while the server starts; formatted. */
void service_progress(const struct service *service, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* service-open.c */
int service_open_all(struct service *service, struct cay_error *err);
void service_close_all(struct service *service);

/* tenants.c */
int service_open_tokens(struct service *service, struct cay_error *err);

/* Gives each tenant the quotas that the configuration has for it now, and the others none. */
void service_load_quotas(struct service *service);

/* Admission learns how many tenants the token file has; also after it was read again. */
void service_count_tenants(struct service *service);

/* Calls report for each table [tenant.NAME] whose name no token has; near is the tenant that may
 * have been meant, or NULL. */
typedef void idle_tenant_fn(const struct service *service, const char *name, const char *near);
void service_idle_tenants(const struct service *service, idle_tenant_fn *report);
idle_tenant_fn service_warn_idle_tenant;

/* reload.c */
void service_reload(struct service *service);
void service_go_on_reloading(struct service *service, int64_t now_ns);

/* stats.c: answers those whose numbers have come, or did not in time. */
void stats_serve(struct service *service);

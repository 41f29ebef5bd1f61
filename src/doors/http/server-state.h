/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of src/service and src/doors/http share. From outside there is server.h. */

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doors/http/listen.h"
#include "doors/http/server.h"
#include "service/bodies.h"
#include "service/execution.h"
#include "service/health.h"
#include "service/monitor.h"
#include "service/webhook.h"

struct admit;
struct admit_files;
struct cay;
struct cay_journal;
struct conn;
struct history_client;
struct metrics;
struct serve_log;
struct tls;
struct tokens;

/* Settings of the configuration that are the server's own, read once. */
struct serve_settings {
    uint64_t max_connections, max_running, max_body_bytes, max_bodies_bytes;
    int64_t head_ns, idle_ns, write_ns, drain_ns;
    uint64_t event_log_bytes;
};

/* Of hooks.c. */
enum { HOOKS_ALLOW_MAX = 64 };

struct hooks {
    struct webhooks *webhooks;
    bool has_tried_tls;
    struct webhook_options options;
    struct tls_client *tls;
    char *allow_text;
    const char *allow[HOOKS_ALLOW_MAX];
    size_t n_allow;
};

/* Of handle-check.c. */
struct checks {
    struct exchange *first, *last;
    size_t n, n_begun;
};

enum { SCRATCH_BYTES = 64 * 1024 };

struct server {
    struct serve_options options;
    struct serve_settings settings;
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
    struct tls *tls;
    int notify_fd;
    uid_t owner; /* who started it: whom the unix socket is for */

    struct listener listeners[SERVE_LISTEN_MAX + 1];
    struct event *accepts[SERVE_LISTEN_MAX + 1];
    size_t n_listeners;
    const char *hosts[SERVE_HOSTS_MAX + SERVE_LISTEN_MAX + 4];
    size_t n_hosts;

    char host_names[SERVE_LISTEN_MAX][LISTEN_TEXT_SIZE];

    struct conn *conns; /* all of them */
    size_t n_conns;
    int64_t swept_ns;     /* when they were last looked at */
    struct bodies bodies; /* requests that are being read, or wait */
    char *scratch;        /* of SCRATCH_BYTES: what was just received */
    char date[32];        /* as in the header, of this second */
    time_t date_s;

    struct executions executions;
    struct health health;
    struct hooks hooks;
    struct checks checks;
    struct exchange *metrics_waiters; /* of handle-info.c */
    char *languages;                  /* answers that never change */
    size_t languages_len;
    uint64_t max_queue;
    int64_t host_read_ns;
    int statm_fd; /* /proc/self/statm */
    char *openapi;
    size_t openapi_len;

    struct event *tick, *engine_ready, *history_ready, *monitor_gone, *signals[4];
    bool is_warm; /* what was wanted of the pools from the start was there once */
    unsigned told_ready;
    bool is_accept_paused; /* until the next tick */
    int64_t no_files_ns;   /* when it was last told of */
    bool is_reloading;     /* the monitor was asked for the files, */
    int64_t reload_by_ns;  /* and is said to hang if it has not answered by then; 0: it was */
    bool is_draining;
    int64_t drain_cancel_ns;   /* from here on what still runs is stopped; */
    int64_t drain_until_ns;    /* by then it has ended */
    int64_t drain_answers;     /* of the warden, when last looked at; */
    int64_t drain_progress_ns; /* when there last was a new one with something still running */
    bool is_drain_told;
    int64_t drain_tell_ns;     /* by then it is, */
    int64_t drain_after;       /* or when the warden has told more often than this */
    int64_t warden_retry_ns;   /* not before this; 0: the engine is well */
    unsigned warden_losses;    /* in a row */
    int64_t recorder_retry_ns; /* it is gone, and not started before this; 0: it is there */
    int64_t recorder_since_ns; /* when it was last started again */
    unsigned recorder_losses;  /* in a row */
    int64_t checker_ns;        /* when it was last seen to, */
    unsigned checker_restarts; /* how often it was started again, */
    bool is_checker_gone;      /* and whether that did not go */
    bool is_recorder_failing;  /* as it said, */
    unsigned losses;           /* and what it knows to be missing */
    bool has_failed;
    char setup_command[128];            /* delegates a cgroup; made while /etc/passwd can be read */
    bool cannot_run;                    /* this host can't do what the configuration asks for */
    int64_t quiet_since_ns;             /* 0: for so long that memory was given back */
    const struct execution *trimmed_at; /* the newest when that began; only compared */
};

/* The loop's own second: for headers and logs. */
void server_set_date(struct server *server);

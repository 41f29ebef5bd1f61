/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of src/doors/http share. From outside there is server.h. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "doors/http/listen.h"
#include "doors/http/server.h"

struct conn;
struct event;
struct event_base;
struct http_door;
struct http_metrics;
struct service;
struct service_settings;
struct tls;

enum { SCRATCH_BYTES = 64 * 1024 };

struct server {
    struct serve_options options;
    struct service *service;
    const struct service_settings *settings;
    struct event_base *base;
    const struct http_door *const *doors; /* NULL at the end */
    struct http_metrics *metrics;
    struct tls *tls;
    uid_t owner; /* who started it: whom the unix socket is for */

    struct listener listeners[SERVE_LISTEN_MAX + 1];
    struct event *accepts[SERVE_LISTEN_MAX + 1];
    size_t n_listeners;
    const char *hosts[SERVE_HOSTS_MAX + SERVE_LISTEN_MAX + 4];
    size_t n_hosts;
    char host_names[SERVE_LISTEN_MAX][LISTEN_TEXT_SIZE];

    struct conn *conns; /* all of them */
    size_t n_conns;
    int64_t swept_ns; /* when they were last looked at */
    char *scratch;    /* of SCRATCH_BYTES: what was just received */
    char date[32];    /* as in the header, of this second */
    time_t date_s;

    char *openapi;
    size_t openapi_len;

    struct event *tick;
    bool is_accept_paused; /* until the next tick */
    int64_t no_files_ns;   /* when it was last logged */
};

/* accept.c */
int accept_start(struct server *server, struct cay_error *err);
void accept_resume(struct server *server); /* where it was paused, for want of files */
void accept_stop(struct server *server);

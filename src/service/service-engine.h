/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The server's engine: libcay's, with what a server adds to it. A warden that died is started again
 * by the next run, but not faster and faster when it keeps dying.
 */

#include <cay/run.h>

struct server;

/* As cay_start; CAY_E_BUSY while a new warden is held back. */
int engine_start(struct server *server, const struct cay_request *req,
                 const struct cay_start_options *options, struct cay_running **ret,
                 struct cay_error *err);

/* Serves what is ready: runs' events and ends. */
void engine_dispatch(struct server *server);

/* False: the warden was lost, and there is no other yet. */
bool engine_can_start(const struct server *server);

/* Whether a warden was lost and no run has gone well since. */
bool engine_is_ailing(const struct server *server);

/* How long to wait before what was lost so often in a row is started again. */
int64_t engine_retry_ms(unsigned losses);

/* A run went well. */
void engine_is_well(struct server *server);

/* Has what starts the workers of the static check started again, where it has died; once a second
 * is often enough. */
void engine_tend_checker(struct server *server, int64_t now_ns);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The handlers of the routes: on_NAME for each row of route.h. Each gets a request that passed all
 * checks of exchange.c, and answers it, now or later. */

#include "doors/http/route.h"

struct exchange;

typedef void on_fn(struct exchange *x);

#define ON_DECLARE(id, name, ...) on_fn on_##name;
ROUTES(ON_DECLARE)
#undef ON_DECLARE

struct server;

/* Answers checks that are done, and begins those whose turn it is. */
void check_serve(struct server *server);

/* Of /metrics: answers those whose numbers have come, or did not in time. */
void metrics_serve(struct server *server);

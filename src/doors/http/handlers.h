/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The handlers of our own API: handle_NAME for each row of route.h. Each gets a request that passed
 * all checks of exchange.c, and answers it, now or later. */

#include "doors/http/route.h"

struct exchange;

#define HANDLER_DECLARE(id, name, ...) handler_fn handle_##name;
ROUTES(HANDLER_DECLARE)
#undef HANDLER_DECLARE

extern const struct http_door own_door; /* handle-info.c */

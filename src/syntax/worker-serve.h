/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The worker's side of core/syntax-wire.h: asks in, answers out, for one language. */

#include <stddef.h>

#include "core/syntax-wire.h"

/* Whether the head of an ask is one that can be served. */
int serve_check_head(const struct syntax_ask *ask);

/* Whether the lists are entries with a sign before and a NUL behind. */
int serve_check_lists(const char *lists, size_t len);

/* Serves one fd until its other end closes. Loads the grammar and the rules of the language, then
 * puts the guard on. Returns the exit status. */
int serve_language(const char *language, int fd);

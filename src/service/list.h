/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The list of executions, GET /v1/executions?limit=&before=&language=&cause=: those that the front
 * remembers and those of the recorder in one order, the newest first, each once. */

#include <stddef.h>
#include <stdint.h>

struct cay_error;
struct execution;
struct server;
struct strbuf;
struct token_owner;

enum { LIST_LIMIT = 50, LIST_LIMIT_MAX = 1000 };

struct list_query {
    uint32_t limit;
    char before[33]; /* "": from the newest on */
    char language[32], cause[32];
};

/* From a request's target. Parameters that are not known are an error. */
int list_parse(const char *target, struct list_query *ret, struct cay_error *err);

/* recorded is the recorder's answer, a JSON array; NULL: it has none, and the list says so. */
void list_put(struct strbuf *out, struct server *server, const struct token_owner *owner,
              const struct list_query *query, const char *recorded, size_t recorded_len);

/* One execution as it stands in the list. */
void list_put_one(struct strbuf *out, const struct execution *run);

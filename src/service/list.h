/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The list of executions (service_list): those that the front remembers and those of the recorder in
 * one order, the newest first, each once. */

#include <stddef.h>
#include <stdint.h>

struct cay_error;
struct execution_info;
struct strbuf;

enum { LIST_LIMIT = 50, LIST_LIMIT_MAX = 1000 };

/* How a door writes one that the front remembers. */
typedef void list_put_fn(struct strbuf *out, const struct execution_info *run);

struct list_query {
    uint32_t limit;
    char before[33]; /* "": from the newest on */
    char language[32], cause[32];
    list_put_fn *put;
};

void list_query_init(struct list_query *query, list_put_fn *put);

/* One of what may be asked for, by its name and as text: limit, before, language, cause. */
int list_query_set(struct list_query *query, const char *name, const char *value,
                   struct cay_error *err);

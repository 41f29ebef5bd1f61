/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Berths of one kind in which nothing is. */

#include <stdbool.h>
#include <stdint.h>

#include "backends/native/berth.h"

struct berth_list {
    struct berth_kind kind; /* made with the first of them */
    bool has_kind;
    struct berth *first;
    unsigned n;
    int64_t not_before_ns; /* the pool's: when to try again */
};

/* Whether there is one that is not too old; those that are, go. */
bool berth_list_has(struct berth_list *list);

/* Makes one. NULL: it can't be had. */
struct berth *berth_list_make(struct berth_list *list, const struct backend_host *host,
                              int32_t language, bool is_lent);

/* One that is not too old, now the caller's; or NULL. */
struct berth *berth_list_take(struct berth_list *list);

/* Keeps one that a sandbox has left, if it is as good as new and there are not that many. */
void berth_list_keep(struct berth_list *list, struct berth *berth, unsigned most);

void berth_list_done(struct berth_list *list);

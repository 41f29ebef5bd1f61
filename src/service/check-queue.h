/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks of code, which run nothing (service_check). A worker reads it, and nobody waits for that
 * but who asked. Few are asked for at once; the others wait: whose tenant has the fewest under way
 * comes first, and among these who came first.
 */

#include <stddef.h>

struct ask;
struct service;

struct check_queue {
    struct ask *first, *last;
    size_t n, n_begun;
};

/* Answers checks that are done, and begins those whose turn it is. */
void check_queue_serve(struct service *service);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the server can run something, found out by running something: /bin/true, in a sandbox
 * like any other, at most once a second however many ask. GET /v1/health gives the last answer, or
 * waits for the one that is on its way.
 */

#include <stdbool.h>
#include <stdint.h>

struct exchange;
struct server;

struct health {
    bool is_checking;
    bool is_known;
    bool is_well;
    int64_t checked_ns;
    int64_t took_ns;
    char message[500]; /* what went wrong */
    struct exchange *waiters;
    void (*on_first)(struct server *server); /* called once, after the first check */
};

/* Starts a check, unless one goes on. */
void health_check(struct server *server);

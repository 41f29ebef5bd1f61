/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the server can run something, found out by running something: /bin/true, in a sandbox
 * like any other, at most once a second however many ask. GET /v1/health gives the last answer, or
 * waits for the one that is on its way; but not for long: where something hangs, that is the
 * answer.
 */

#include <stdbool.h>
#include <stdint.h>

#include <cay/error.h>

struct exchange;
struct server;

struct health {
    bool is_checking;
    bool is_known;
    bool is_well;
    int64_t checked_ns;
    int64_t begun_ns;      /* the check that goes on */
    int64_t after_answers; /* how often the warden had told of itself before it */
    int64_t took_ns;
    char message[500];            /* what went wrong */
    struct cay_error first_error; /* that the first check met */
    bool is_watched;              /* the first run had a watcher in place of a cgroup */
    struct exchange *waiters;
    void (*on_first)(struct server *server); /* called once, after the first check */
};

/* Starts a check, unless one goes on. */
void health_check(struct server *server);

/* Answers those who have waited long enough. */
void health_serve(struct server *server, int64_t now_ns);

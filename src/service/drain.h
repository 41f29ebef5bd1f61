/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The server's end: nobody comes in any more, what runs may end in its time, is cancelled then, and
 * who waits for an answer gets it.
 */

#include <stdbool.h>
#include <stdint.h>

struct service;

struct drain {
    bool is_on;
    int64_t cancel_ns;   /* from here on what still runs is stopped; */
    int64_t until_ns;    /* by then it has ended */
    int64_t answers;     /* of the warden, when last looked at; */
    int64_t progress_ns; /* when there last was a new one with something still running */
    bool is_reported;
    int64_t report_ns; /* by then it is, */
    int64_t after;     /* or when the warden has reported more often than this */
};

void drain_begin(struct service *service);

/* Asked to end once more: what runs is cancelled now; and then nobody is waited for. */
void drain_hurry(struct service *service);

/* Ends the loop where nothing is left to wait for. */
void drain_check(struct service *service);

/* The same, now and then: and when the time is over. */
void drain_tick(struct service *service, int64_t now_ns);

/* How long helpers are waited for in the end. */
int64_t drain_helpers_ns(const struct service *service);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rows that are requests, not commands: sent to a server on a connection that is kept, or given to
 * the engine in this process. Both are timed from asking to having the whole answer.
 */

#include "bench.h"

struct cay;

/* Where the requests of one driver go; opened when the first row needs it. */
struct place {
    int fd;          /* of HTTP: the kept connection */
    struct cay *cay; /* of the engine */
};

struct requests {
    struct place places[DRIVERS];
};

void requests_init(struct requests *r);
void requests_done(struct requests *r);

/* Runs a row once; the time is valid if the row is still MEASURED afterwards. */
int64_t request_once(struct bench *b, struct requests *r, struct row *row);

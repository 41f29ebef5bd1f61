/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The bytes of requests that are being read or wait for their turn, of what running programs wrote
 * and of answers that are not sent yet, bounded together and for each tenant:
 *
 *     struct bodies bodies = { .max_bytes = 128 << 20 };
 *     struct bodies_part part = { 0 };
 *     if (!bodies_take(&bodies, &part, tenant, len)) ... 503
 *     bodies_give_back(&bodies, &part);
 *
 * A tenant can take as long as it has no more than is left free: alone that is up to half of all,
 * beside others less, and whoever has nothing yet always finds room. Bytes of a request are taken
 * when they are there, not when they are promised: a promise costs a client nothing. Those of a
 * run's output are taken before it starts, for nobody can be refused once it has run.
 */

#include <stdbool.h>
#include <stdint.h>

struct bodies_tenant;

struct bodies {
    uint64_t max_bytes;
    uint64_t bytes;                /* taken by all */
    struct bodies_tenant *tenants; /* those that have taken some */
};

/* What one request has of them. It can be handed on by copying, and setting the old one to zero. */
struct bodies_part {
    struct bodies_tenant *tenant;
    uint64_t bytes;
};

/* Whether the tenant could have so much just now. */
bool bodies_has_room(const struct bodies *all, const char *tenant, uint64_t bytes);

/* Adds to the part, which has always the same tenant; false: there is no room, and it is as before.
 */
bool bodies_take(struct bodies *all, struct bodies_part *part, const char *tenant, uint64_t bytes);

/* How much the tenant of a part has, who has some. */
uint64_t bodies_of(const struct bodies_part *part);

/* The part keeps no more than so many. */
void bodies_shrink(struct bodies *all, struct bodies_part *part, uint64_t bytes);

/* The part is empty afterwards. */
void bodies_give_back(struct bodies *all, struct bodies_part *part);

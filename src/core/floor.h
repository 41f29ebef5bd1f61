/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The administrator's floor: whatever the configuration sets, a request of somebody else's (a
 * server's client) can only tighten. One rule for each field that has an order (FIELD_ORDERED in
 * core/field.h), whichever way the request came and however it says it, by itself or by a profile.
 *
 * Built-in values are nobody's word and no floor. A limit that [max] has is bounded by that alone:
 * there the administrator says how far a request may go.
 */

#include "core/request.h"

struct config;

/* CAY_E_POLICY for a request that loosens what the configuration sets; `loosening` are the names of
 * fields that its sender may loosen, NULL-terminated, or NULL. Layers that are required are added
 * to those that the request names. */
int floor_apply(const struct config *config, struct cay_request *req, const char *const *loosening,
                struct cay_error *err);

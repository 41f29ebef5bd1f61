/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Docker's names for limits that have others here: cpu_quota divided by cpu_period is cpus, and
 * memory_swap less memory is swap. What they stand for is set beside them, so that whatever bounds
 * that (caps, the server's floor) bounds them; both at once are refused.
 */

#include "core/request.h"

/* CAY_E_USAGE where the field can't be set because its other name was. */
int request_alias_check(const struct cay_request *req, enum field_id id, struct cay_error *err);

/* After the field was set: sets what it stands for. */
int request_alias_apply(struct cay_request *req, enum field_id id, struct cay_error *err);

/* Whether the field is that one, or another name of it. */
bool request_alias_is(enum field_id id, enum field_id what);

/* Once all fields are set: CAY_E_USAGE for one that lacks what it goes with. */
int request_alias_finish(const struct cay_request *req, struct cay_error *err);

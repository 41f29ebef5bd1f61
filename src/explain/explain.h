/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Why a run failed: fills result->failure, where it did, from the verdict, the streams and the
 * request's own files. Comes after the verdict and the message. */

struct arena;
struct cay_request;
struct cay_result;
struct errors_cache;
struct plan;

void explain_result(struct arena *arena, struct errors_cache *cache, const struct cay_request *req,
                    const struct plan *plan, struct cay_result *result);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Why a program failed (<cay/failure.h>), as `error` of a result. */

struct cay_failure;
struct json_writer;

void failure_put(struct json_writer *w, const struct cay_failure *failure);

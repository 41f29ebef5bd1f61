/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What cay_result_json gives (<cay/run.h>), added to a buffer: it can have many megabytes. */

struct cay_result;
struct strbuf;

void result_put_json(struct strbuf *out, const struct cay_result *result);

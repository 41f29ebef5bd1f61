/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The static check for code whose language was found already: for cay_check_types, which needs the
 * language too. */

#include <stdbool.h>

struct arena;
struct cay;
struct cay_check_request;
struct cay_error;
struct language;

/* Takes the Markdown fence off the request's code, if that was asked for, and finds the language:
 * the one that the request names, then the fence's, then by file name or #! line. */
int static_check_prepare(struct arena *arena, struct cay_check_request *req,
                         const struct language **ret, struct cay_error *err);

/* As cay_check, for a request that was prepared. */
int static_check_run(struct cay *cay, const struct cay_check_request *req,
                     const struct language *language, char **ret_report, bool *ret_safe,
                     struct cay_error *err);

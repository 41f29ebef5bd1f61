/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Filling in a struct cay_error. Each of these returns -1, so that a failure reads as one line:
 *
 *     return cay_fail(err, CAY_E_USAGE, "timeout: %s is not a number", text);
 *     return cay_fail_errno(err, errno, "open %s", path);
 *     return cay_wrap(err, "start %s", plan->name);
 *
 * They print nothing: only cli/ and doors/ show an error.
 */

#include <cay/error.h>

/* Sets kind and message. */
int cay_fail(struct cay_error *err, enum cay_errkind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Sets CAY_E_SYSTEM, the errno, and "message: what strerror says". */
int cay_fail_errno(struct cay_error *err, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "context: " before the message that is there. */
int cay_wrap(struct cay_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Says what the user can do about it; keeps a hint that is there already. */
int cay_hint(struct cay_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#ifdef __clang_analyzer__ /* which does not look into other files: -1 is all it needs to know */
#define cay_fail(...)       (cay_fail(__VA_ARGS__), -1)
#define cay_fail_errno(...) (cay_fail_errno(__VA_ARGS__), -1)
#define cay_wrap(...)       (cay_wrap(__VA_ARGS__), -1)
#define cay_hint(...)       (cay_hint(__VA_ARGS__), -1)
#endif

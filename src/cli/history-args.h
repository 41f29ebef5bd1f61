/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What `cay history` and `cay stats` have in common: options that fill in a query, and asking. */

struct cay_error;
struct history;
struct history_query;
struct opt;
struct strbuf;

/* Calls of option rows; target is the query. */
int history_arg_language(void *target, const struct opt *opt, const char *value,
                         struct cay_error *err);
int history_arg_cause(void *target, const struct opt *opt, const char *value,
                      struct cay_error *err);
int history_arg_tenant(void *target, const struct opt *opt, const char *value,
                       struct cay_error *err);
int history_arg_since(void *target, const struct opt *opt, const char *value,
                      struct cay_error *err);
int history_arg_until(void *target, const struct opt *opt, const char *value,
                      struct cay_error *err);

/* Takes in what is new. history_close. */
int history_open_current(struct history **ret, struct cay_error *err);

/* Asks; the answer is appended to out. */
int history_query_text(struct history *history, const struct history_query *query,
                       struct strbuf *out, struct cay_error *err);

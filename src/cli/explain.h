/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What `cay explain` shows, from a result or its `error` as JSON; and the short form that `cay run`
 * adds on a terminal. Whatever comes from the program is made visible, never obeyed. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct cay_result;
struct strbuf;

/* The error for a reader: what, where, the lines around, what to do. */
void explain_put(struct strbuf *out, json_t *error, bool color);

/* All there is to say of a run, in Markdown; code may be NULL. */
void explain_report(struct strbuf *out, json_t *result, const char *code, size_t code_len);

/* Two lines on stderr: which error where, and the suggestion; nothing where there is none. */
void explain_briefly(const struct cay_result *result);

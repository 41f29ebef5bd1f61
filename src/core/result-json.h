/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The JSON of a result (<cay/run.h>). It can have many megabytes, nearly all of them in its streams
 * and files, so that these are put into words once, a piece at a time, and the same text serves the
 * record, the answer and the last event:
 *
 *     while (!result_text_make(result, &room)) ...            others are served
 *     result_text_add_files(result);                          once they are listed
 *     result_put_parts(result, &parts);                       what is said around it may differ
 *     cay_event_take_json(&event, &text);                     in place: nothing is copied
 *
 * A result of which no such text was made is put into words as it is asked for.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

struct cay_result;
struct cay_result_text;

/* Makes the text of the streams, as far as there is room: so many bytes of them, which become less.
 * Returns whether that is all. The result and its streams stay as they are from the first call on.
 */
bool result_text_make(struct cay_result *result, size_t *room);

/* As far as it is made; it only grows. Until result_text_make has begun there is none. */
void result_text_get(const struct cay_result *result, const char **ret, size_t *ret_len);

/* The files come behind the streams. */
void result_text_add_files(struct cay_result *result);

void result_text_free(struct cay_result_text *text);

/* One behind the other they are the result's JSON. */
struct result_parts {
    struct strbuf head, tail;
    const char *large; /* in the result's text, or in `own` */
    size_t large_len;
    struct strbuf own;
};

void result_put_parts(const struct cay_result *result, struct result_parts *ret);
void result_parts_done(struct result_parts *parts);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The grammar of single lines, and what a whole head means; http-parse.c moves the bytes and calls
 * these. A line comes without its line end, with a NUL in its place, without control bytes, and may
 * be cut up in place. A fault with status 0 is none.
 */

#include "net/http.h"

/* Request line or status line, into head. */
struct http_fault http_start_line(enum http_side side, char *line, struct http_head *head);

/* "Name: value" */
struct http_fault http_field_line(char *line, struct http_header *ret);

/* Fields that a message has once at most; then Host, framing, Connection and Expect, into head. */
struct http_fault http_head_finish(enum http_side side, bool is_head_answer,
                                   struct http_head *head);

/* "1a;name=value": the size, and the length of the extensions. */
struct http_fault http_chunk_line(const char *line, uint64_t *ret_size, size_t *ret_extra);

/* A trailer that would change where the message ends or goes to, were it merged. */
bool http_is_forbidden_trailer(const char *name);

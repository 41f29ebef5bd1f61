/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Data as people like to see it: JSON with line breaks and colours, rows of CSV or TSV as a table.
 * For terminals only, and where it was asked for: a pipe gets what the program wrote.
 */

#include <stdbool.h>
#include <stddef.h>

struct cay;
struct strbuf;

/* Adds the text in its better form and returns true; false where it is neither, and nothing is
 * added. cay may be NULL: no colours. */
bool pretty_text(struct cay *cay, struct strbuf *out, const char *data, size_t len);

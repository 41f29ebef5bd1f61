/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Code with colours, by the grammar's own highlight queries; and whether a text is complete, for
 * a program that reads line by line.
 */

#include <stddef.h>
#include <stdint.h>

struct grammar;
struct highlighter;
struct strbuf;

/* Reads the grammar's queries. Where it has none that are usable, highlight_code adds the code as
 * it is; the same for NULL. */
struct highlighter *highlighter_new(const struct grammar *grammar);
void highlighter_free(struct highlighter *highlighter);

/* Adds the code with colour sequences around its parts. The code's own bytes are added unchanged:
 * make control bytes visible before showing it on a terminal. */
void highlight_code(struct highlighter *highlighter, const struct grammar *grammar,
                    const char *code, size_t len, int64_t deadline_ns, struct strbuf *out);

enum completeness { IS_COMPLETE, IS_INCOMPLETE, IS_INVALID };

/* Incomplete: more could make it right, as the broken part reaches to the end. */
enum completeness complete_code(const struct grammar *grammar, const char *code, size_t len,
                                int64_t deadline_ns);
const char *complete_name(enum completeness completeness);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between fold.c (literals, joining) and fold-call.c (calls that give a constant). */

#include "base/strbuf.h"
#include "syntax/names.h"

/* Text under way. Each of the functions below that gives back a text ends it. */
struct folding {
    struct names *names;
    struct strbuf out;
    int depth;
};

/* The text as it is, or NULL where it is none, or too long. */
const char *fold_done(struct folding *f, bool is_constant);

/* Adds what a node folds to; false where that is no constant. */
bool fold_add(struct folding *f, TSNode node);

void fold_put_code(struct strbuf *out, uint32_t code, bool is_byte);

const char *fold_call(struct folding *f, TSNode call);
const char *fold_index(struct folding *f, TSNode node);
const char *fold_percent(struct folding *f, TSNode node);

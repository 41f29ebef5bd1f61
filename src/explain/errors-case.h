/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* From type and message to what they mean: the [[case]]s of a language, and those of all. */

#include "explain/errors-data.h"
#include "explain/errors-source.h"

/* What is known of an error, as texts. */
struct errors_known {
    const char *type; /* or NULL */
    const char *message;
    struct slice name, call; /* of the report */
    const char *hint;        /* a name that the runtime suggests, or NULL */
    bool is_remote; /* suggestions with flags that only a command line has are not for it */
};

struct errors_meaning {
    const char *as; /* a better type, or NULL */
    const char *category, *suggestion, *doc;
    const char *const *find; /* texts to find the line by; NULL-terminated or NULL */
};

/* Data may be NULL each. Each part is from the first case that has it, the language's own first;
 * what none has is NULL. */
void case_decide(struct arena *arena, const struct errors_data *own,
                 const struct errors_data *common, const struct errors_sources *sources,
                 const struct errors_known *known, struct errors_meaning *ret);

/* A text of `find` with its holes filled; NULL where one has nothing. */
const char *case_fill(struct arena *arena, const char *text, const struct errors_known *known);

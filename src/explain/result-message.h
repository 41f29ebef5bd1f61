/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The result's error_message: words for people, in the forms that scripts rely on. The verdict is
 * decided before and elsewhere; here the program's own text may be quoted. */

struct arena;
struct cay_result;
struct language;
struct verdict_facts;

/* NULL on success. The text lives in the arena. */
const char *message_of(struct arena *arena, const struct cay_result *result,
                       const struct language *language, const struct verdict_facts *facts);

/* The message once it is known what failed: what a program calls a syntax error need not be one,
 * nor what a linker says; and not every syntax error calls itself so. */
const char *message_explained(struct arena *arena, const struct cay_result *result,
                              const struct language *language);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The version of a runtime, as it prints it itself. Asking costs a start of the runtime, so the
 * answer is kept in the state folder under the program's path, size and time of change. */

#include <stddef.h>
#include <stdint.h>

struct arena;
struct language;

/* The last answers, for whoever asks again and again: the state folder is not looked at for them.
 */
struct version_memo {
    struct version_row {
        char *key, *version;
        int64_t fresh_until_ns; /* monotonic: the program is not looked at before */
    } rows[32];
    size_t next; /* the one that is overwritten */
};

/* "3.11.2", or NULL when it does not tell. program is the runtime's path; state_fd may be -1. */
const char *version_of(struct arena *arena, int state_fd, const struct language *language,
                       const char *program);

/* The same, with a memory in front. */
const char *version_remembered(struct version_memo *memo, struct arena *arena,
                               const struct language *language, const char *program);
void versions_forget(struct version_memo *memo);

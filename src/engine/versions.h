/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The version of a runtime, as it prints it itself. Asking costs a start of the runtime, so the
 * answer is kept in the state folder under the program's path, size and time of change. */

struct arena;
struct language;

/* "3.11.2", or NULL when it does not tell. program is the runtime's path; state_fd may be -1. */
const char *version_of(struct arena *arena, int state_fd, const struct language *language,
                       const char *program);

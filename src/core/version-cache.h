/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The versions of runtimes that were asked for before: lines of the file "versions" in the state
 * folder, "KEY VERSION". Asking costs a start of the runtime.
 */

struct arena;

/* The first thing in a text that looks like a version: "Python 3.11.2", "v20.1.0", "GNU bash,
 * version 5.2.15"; NULL: nothing does. */
const char *version_in(struct arena *arena, const char *text);

/* key ends with a blank. NULL: it was not asked for yet, or too long ago. */
const char *version_cache_get(struct arena *arena, int state_fd, const char *key);
void version_cache_put(int state_fd, const char *key, const char *version);

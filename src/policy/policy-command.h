/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the static check reads of a command (`cay exec`), which has no code of its own:
 *
 *     the command itself, as a line of a shell: sh -c TEXT and sudo are seen through there
 *     the code that an interpreter is given: python3 -c CODE, node -e CODE
 *     what a shell or an interpreter reads from its input, where the request holds that
 *     the files of the request, each by its name or #! line
 *
 * What lies on the host or in the workspace is not read.
 */

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct plan;

struct policy_text {
    const char *name;     /* "command", "python3 -c", "tool.py" */
    const char *language; /* NULL: it can't be read, and code says why */
    const char *code;
    size_t len;
    bool is_command; /* the line itself */
};

typedef void policy_text_fn(void *arg, const struct policy_text *text);

/* Calls fn for each; what it is given lives as long as plan and arena do. */
void policy_command(struct arena *arena, const struct plan *plan, policy_text_fn *fn, void *arg);

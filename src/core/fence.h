/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Code as language models hand it over: wrapped in a Markdown fence,
 *
 *     ```python
 *     print(1)
 *     ```
 *
 * The fence is three or more backticks or tildes, blank lines around it do not matter, and the
 * closing one may be missing (an answer that was cut off). Text before or after it is not code and
 * not a fence: then nothing is found.
 */

#include <stdbool.h>

#include "core/request.h"

struct fence {
    bool is_there;
    struct bytes code;     /* what is inside; without a fence all of it */
    struct bytes language; /* the first word behind the opening fence, may be empty */
};

struct fence fence_find(struct bytes code);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where programs were found a moment ago, for who plans many runs a second: each look is half a
 * dozen calls. What was not found is looked for again each time, and what was found after a second:
 * a runtime that was installed or taken away is noticed by then.
 */

#include <stdint.h>

#include "base/clock.h"

enum { FOUND_MAX = 32, FOUND_NAME = 32, FOUND_PATH = 96 };

#define FOUND_NS NS_PER_SEC

struct found {
    struct {
        char name[FOUND_NAME], path[FOUND_PATH];
        int64_t until_ns;
    } rows[FOUND_MAX];
};

/* The path, which stays as it is until the next found_keep; or NULL. */
const char *found_recall(const struct found *found, const char *name, int64_t now_ns);

/* Too long a name or path is not kept; where there is no room, the oldest goes. */
void found_keep(struct found *found, const char *name, const char *path, int64_t now_ns);

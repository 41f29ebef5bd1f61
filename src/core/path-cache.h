/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where programs were found a moment ago, for a process that plans many runs a second: each look is
 * half a dozen calls. What was not found is looked for again each time, and what was found after a
 * second: a runtime that was installed or taken away is noticed by then.
 */

#include <stdint.h>

#include "base/clock.h"

enum { PATH_CACHE_MAX = 32, PATH_CACHE_NAME = 32, PATH_CACHE_PATH = 96 };

#define PATH_CACHE_NS NS_PER_SEC

struct path_cache {
    struct {
        char name[PATH_CACHE_NAME], path[PATH_CACHE_PATH];
        int64_t until_ns;
    } rows[PATH_CACHE_MAX];
};

/* The path, which stays as it is until the next path_cache_put; or NULL. */
const char *path_cache_get(const struct path_cache *cache, const char *name, int64_t now_ns);

/* Too long a name or path is not kept; where there is no room, the oldest goes. */
void path_cache_put(struct path_cache *cache, const char *name, const char *path, int64_t now_ns);

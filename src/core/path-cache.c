/* SPDX-License-Identifier: Apache-2.0 */
#include "core/path-cache.h"

#include <string.h>

const char *path_cache_get(const struct path_cache *cache, const char *name, int64_t now_ns)
{
    for (int i = 0; i < PATH_CACHE_MAX; i++)
        if (now_ns < cache->rows[i].until_ns && strcmp(cache->rows[i].name, name) == 0)
            return cache->rows[i].path;
    return NULL;
}

void path_cache_put(struct path_cache *cache, const char *name, const char *path, int64_t now_ns)
{
    size_t name_len = strlen(name), path_len = strlen(path);
    int at = 0;

    if (name_len >= PATH_CACHE_NAME || path_len >= PATH_CACHE_PATH)
        return;
    for (int i = 0; i < PATH_CACHE_MAX; i++) {
        if (strcmp(cache->rows[i].name, name) == 0) {
            at = i;
            break;
        }
        if (cache->rows[i].until_ns < cache->rows[at].until_ns)
            at = i;
    }
    memcpy(cache->rows[at].name, name, name_len + 1);
    memcpy(cache->rows[at].path, path, path_len + 1);
    cache->rows[at].until_ns = now_ns + PATH_CACHE_NS;
}

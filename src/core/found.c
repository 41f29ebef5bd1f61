/* SPDX-License-Identifier: Apache-2.0 */
#include "core/found.h"

#include <string.h>

const char *found_recall(const struct found *found, const char *name, int64_t now_ns)
{
    for (int i = 0; i < FOUND_MAX; i++)
        if (now_ns < found->rows[i].until_ns && strcmp(found->rows[i].name, name) == 0)
            return found->rows[i].path;
    return NULL;
}

void found_keep(struct found *found, const char *name, const char *path, int64_t now_ns)
{
    size_t name_len = strlen(name), path_len = strlen(path);
    int at = 0;

    if (name_len >= FOUND_NAME || path_len >= FOUND_PATH)
        return;
    for (int i = 0; i < FOUND_MAX; i++) {
        if (strcmp(found->rows[i].name, name) == 0) {
            at = i;
            break;
        }
        if (found->rows[i].until_ns < found->rows[at].until_ns)
            at = i;
    }
    memcpy(found->rows[at].name, name, name_len + 1);
    memcpy(found->rows[at].path, path, path_len + 1);
    found->rows[at].until_ns = now_ns + FOUND_NS;
}

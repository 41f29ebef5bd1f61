/* SPDX-License-Identifier: Apache-2.0 */
#include "syntax/path.h"

#include <stdbool.h>
#include <string.h>

#include "base/arena.h"

static bool is_odd(const char *path)
{
    size_t len = strlen(path);

    if (strstr(path, "://"))
        return false;
    return strstr(path, "//") || strstr(path, "/./") || strstr(path, "/../") ||
           (len >= 2 && strcmp(path + len - 2, "/.") == 0) ||
           (len >= 3 && strcmp(path + len - 3, "/..") == 0);
}

/* Whether what stands before a ".." goes away with it. */
static bool goes(const char *part, size_t len)
{
    return len > 0 && !(len == 2 && memcmp(part, "..", 2) == 0) && !(len == 1 && part[0] == '~');
}

const char *path_plain(struct arena *arena, const char *path)
{
    if (!is_odd(path))
        return path;
    char *out = arena_str(arena, path);
    bool is_absolute = path[0] == '/', ends_open = path[strlen(path) - 1] == '/';
    size_t n = 0;

    while (*path) {
        size_t len = strcspn(path, "/");
        const char *part = path;
        path += len + (path[len] == '/');
        if (len == 0 || (len == 1 && part[0] == '.'))
            continue;
        if (len == 2 && memcmp(part, "..", 2) == 0) {
            size_t start = n;
            while (start > 0 && out[start - 1] != '/')
                start--;
            if (goes(out + start, n - start)) {
                n = start > 0 ? start - 1 : 0;
                continue;
            }
            if (is_absolute && n == 0)
                continue; /* above the root is the root */
        }
        if (n > 0 || is_absolute)
            out[n++] = '/';
        memmove(out + n, part, len);
        n += len;
    }
    if ((n == 0 && is_absolute) || (n > 0 && ends_open))
        out[n++] = '/';
    if (n == 0)
        out[n++] = '.';
    out[n] = '\0';
    return out;
}

unsigned path_climbs(const char *path)
{
    unsigned n = 0;

    for (; strncmp(path, "..", 2) == 0 && (path[2] == '/' || path[2] == '\0'); n++)
        path += path[2] == '/' ? 3 : 2;
    return n;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/http/route.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "service/token.h"

const struct route routes[ROUTE_N] = {
#define ROUTE_ROW(id, name, method, pattern, scope, flags, body, answer, summary) \
    [ROUTE_##id] = { #name, method, pattern, scope, flags, body, answer, summary },
    ROUTES(ROUTE_ROW)
#undef ROUTE_ROW
};

/* A parameter is one of our ids: what is longer or holds anything else is no path of ours, and so
 * neither an escape nor a dot can play tricks behind this door. */
static bool is_param(const char *text, size_t len)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

    if (len == 0 || len > 64)
        return false;
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\0' || !strchr(allowed, text[i]))
            return false;
    return true;
}

static bool fits(const char *pattern, const char *path, size_t len, struct route_match *match)
{
    const char *end = path + len;

    while (*pattern) {
        if (*pattern != '{') {
            if (path == end || *path++ != *pattern++)
                return false;
            continue;
        }
        const char *slash = memchr(path, '/', (size_t)(end - path));
        match->param = path;
        match->param_len = (size_t)((slash ? slash : end) - path);
        if (!is_param(match->param, match->param_len))
            return false;
        path += match->param_len;
        pattern = strchr(pattern, '}') + 1;
    }
    return path == end;
}

int route_find(const char *method, const char *path, size_t len, struct route_match *ret)
{
    bool has_path = false;

    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    for (int i = 0; i < ROUTE_N; i++) {
        struct route_match match = { .id = (enum route_id)i };
        if (!fits(routes[i].pattern, path, len, &match))
            continue;
        has_path = true;
        if (strcmp(routes[i].method, method) != 0)
            continue;
        *ret = match;
        return 0;
    }
    return has_path ? -EPERM : -ENOENT;
}

void route_allow(const char *path, size_t len, char out[static 64])
{
    size_t used = 0;

    out[0] = '\0';
    for (int i = 0; i < ROUTE_N; i++) {
        struct route_match match;
        bool is_get = strcmp(routes[i].method, "GET") == 0;
        if (!fits(routes[i].pattern, path, len, &match) || used >= 48)
            continue;
        used += (size_t)snprintf(out + used, 64 - used, "%s%s%s", used ? ", " : "",
                                 routes[i].method, is_get ? ", HEAD" : "");
    }
}

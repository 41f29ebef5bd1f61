/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/http/route.h"

#include <assert.h>
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

    if (len == 0 || len > ROUTE_PARAM_LEN)
        return false;
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\0' || !strchr(allowed, text[i]))
            return false;
    return true;
}

static bool fits(const char *pattern, const char *path, size_t len, struct route_match *match)
{
    const char *end = path + len;
    size_t n = 0;

    while (*pattern) {
        if (*pattern != '{') {
            if (path == end || *path++ != *pattern++)
                return false;
            continue;
        }
        assert(n < ROUTE_PARAMS_MAX);
        const char *slash = memchr(path, '/', (size_t)(end - path));
        size_t param_len = (size_t)((slash ? slash : end) - path);
        if (!is_param(path, param_len))
            return false;
        match->params[n++] = (struct route_param){ path, param_len };
        path += param_len;
        pattern = strchr(pattern, '}') + 1;
    }
    return path == end;
}

/* The next route that the path fits; at is the door and the route in it to go on from. */
static bool next_fit(const struct http_door *const *doors, const char *path, size_t len,
                     size_t at[static 2], struct route_match *ret)
{
    for (; doors[at[0]]; at[0]++, at[1] = 0) {
        const struct http_door *door = doors[at[0]];
        size_t prefix_len = strlen(door->prefix);
        if (len < prefix_len || memcmp(path, door->prefix, prefix_len) != 0)
            continue;
        while (at[1] < door->n_routes) {
            const struct route *route = &door->routes[at[1]++];
            *ret = (struct route_match){ .door = door, .route = route };
            if (fits(route->pattern, path + prefix_len, len - prefix_len, ret))
                return true;
        }
    }
    return false;
}

int route_find(const struct http_door *const *doors, const char *method, const char *path,
               size_t len, struct route_match *ret)
{
    struct route_match match;
    size_t at[2] = { 0 };
    bool has_path = false;

    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    while (next_fit(doors, path, len, at, &match)) {
        has_path = true;
        if (strcmp(match.route->method, method) != 0)
            continue;
        *ret = match;
        return 0;
    }
    return has_path ? -EPERM : -ENOENT;
}

void route_allow(const struct http_door *const *doors, const char *path, size_t len,
                 char out[static 64])
{
    struct route_match match;
    size_t at[2] = { 0 }, used = 0;

    out[0] = '\0';
    while (used < 48 && next_fit(doors, path, len, at, &match)) {
        bool is_get = strcmp(match.route->method, "GET") == 0;
        used += (size_t)snprintf(out + used, 64 - used, "%s%s%s", used ? ", " : "",
                                 match.route->method, is_get ? ", HEAD" : "");
    }
}

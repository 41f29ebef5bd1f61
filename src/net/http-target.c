/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "net/http-chars.h"
#include "net/http.h"

/* RFC 3986: unreserved, sub-delims, ":", "@", "/", and the escape's "%". */
static bool is_path_char(char c)
{
    return http_is_alnum(c) || http_is_one_of(c, "-._~!$&'()*+,;=:@/%");
}

/* Browsers leave a few more as they are in a query (WHATWG URL, query percent-encode set). */
static bool is_query_char(char c)
{
    return is_path_char(c) || http_is_one_of(c, "?[]\\^`{|}");
}

bool http_is_target(const char *target)
{
    bool (*is_char)(char c) = is_path_char;

    if (*target != '/' && *target != '?')
        return false;
    for (; *target; target++) {
        if (*target == '?')
            is_char = is_query_char;
        if (!is_char(*target))
            return false;
    }
    return true;
}

/* Decodes len bytes into the arena. NULL with *why: what is wrong with them. */
static const char *decode(struct arena *arena, const char *text, size_t len, bool is_query,
                          const char **why)
{
    char *out = arena_alloc(arena, len + 1);
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '%') {
            int high = len - i > 2 ? http_hex_value(text[i + 1]) : -1;
            int low = high >= 0 ? http_hex_value(text[i + 2]) : -1;
            if (low < 0) {
                *why = "an escape (%) without two hexadecimal digits";
                return NULL;
            }
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && is_query) {
            c = ' ';
        }
        if (c == '\0') {
            *why = "an escaped NUL";
            return NULL;
        }
        if (!is_query && (http_is_control(c) || c == '\t')) {
            *why = "an escaped control byte in the path";
            return NULL;
        }
        out[n++] = c;
    }
    if (!utf8_is_valid(out, n)) {
        *why = "escapes that are not UTF-8";
        return NULL;
    }
    return out;
}

static int parse_path(struct arena *arena, const char *path, size_t len, struct http_target *ret,
                      const char **why)
{
    const char *end = path + len;

    /* "" is what "http://host" leaves. */
    if (len <= 1)
        return 0;
    while (path < end) {
        path++; /* the '/' */
        const char *slash = memchr(path, '/', (size_t)(end - path));
        size_t part = (size_t)((slash ? slash : end) - path);
        if (ret->n_segments == HTTP_SEGMENTS_MAX) {
            *why = "too many segments in the path";
            return -E2BIG;
        }
        const char *segment = decode(arena, path, part, false, why);
        if (!segment)
            return -EINVAL;
        ret->segments[ret->n_segments++] = segment;
        path += part;
    }
    return 0;
}

static int parse_query(struct arena *arena, const char *query, struct http_target *ret,
                       const char **why)
{
    while (*query) {
        size_t len = strcspn(query, "&");
        const char *next = query + len + (query[len] == '&');
        if (len > 0) {
            const char *equals = memchr(query, '=', len);
            size_t name_len = equals ? (size_t)(equals - query) : len;
            if (ret->n_params == HTTP_PARAMS_MAX) {
                *why = "too many parameters in the query";
                return -E2BIG;
            }
            struct http_param *param = &ret->params[ret->n_params];
            param->name = decode(arena, query, name_len, true, why);
            param->value = !equals ? "" : decode(arena, equals + 1, len - name_len - 1, true, why);
            if (!param->name || !param->value)
                return -EINVAL;
            ret->n_params++;
        }
        query = next;
    }
    return 0;
}

int http_target_parse(struct arena *arena, const char *target, struct http_target *ret,
                      const char **why)
{
    struct http_target made = { 0 };

    if (strcmp(target, "*") == 0) {
        made.is_asterisk = true;
        *ret = made;
        return 0;
    }
    const char *path = target;
    const char *scheme_end = *path == '/' ? NULL : strstr(path, "://");
    if (scheme_end)
        path = scheme_end + 3 + strcspn(scheme_end + 3, "/?");
    if (scheme_end ? *path && !http_is_target(path) : *path != '/' || !http_is_target(path)) {
        *why = "the target is malformed";
        return -EINVAL;
    }
    size_t path_len = strcspn(path, "?");
    int result = parse_path(arena, path, path_len, &made, why);
    if (result == 0 && path[path_len] == '?')
        result = parse_query(arena, path + path_len + 1, &made, why);
    if (result < 0)
        return result;
    *ret = made;
    return 0;
}

const char *http_target_param(const struct http_target *target, const char *name)
{
    for (size_t i = 0; i < target->n_params; i++) {
        if (strcmp(target->params[i].name, name) == 0)
            return target->params[i].value;
    }
    return NULL;
}

void http_escape(struct strbuf *out, const char *text)
{
    for (; *text; text++) {
        if (http_is_alnum(*text) || http_is_one_of(*text, "-._~"))
            strbuf_putc(out, *text);
        else
            strbuf_printf(out, "%%%02X", (unsigned char)*text);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json-scan.h"

#include <string.h>

const char *json_past_string(const char *at, const char *end)
{
    const char *begin = at + 1;

    for (const char *from = begin; (at = memchr(from, '"', (size_t)(end - from))); from = at + 1) {
        const char *slash = at;
        while (slash > begin && slash[-1] == '\\')
            slash--;
        if ((at - slash) % 2 == 0)
            return at + 1;
    }
    return NULL;
}

bool json_has_at_most(const char *text, size_t len, size_t max)
{
    const char *at = text, *end = text + len;
    size_t n =
        1; /* one that is in nothing; then each is the first of something, or behind a comma */

    while (at && at < end && n <= max) {
        if (*at == '"') {
            at = json_past_string(at, end);
            continue;
        }
        n += *at == ',' || *at == '[' || *at == '{';
        at++;
    }
    return n <= max;
}

bool json_find_string(const char *text, size_t len, const char *key, const char **ret,
                      size_t *ret_len)
{
    const char *at = text, *end = text + len;
    size_t key_len = strlen(key);

    while (at && end - at > 2 && (*at == '{' || *at == ',') && at[1] == '"') {
        const char *name = at + 2, *colon = json_past_string(at + 1, end);
        if (!colon || end - colon < 2)
            return false;
        const char *value = colon + 1;
        if (*value == '{' || *value == '[')
            return false;
        at = value;
        if (*value == '"')
            at = json_past_string(value, end);
        else
            while (at < end && *at != ',' && *at != '}')
                at++;
        if (!at || (size_t)(colon - 1 - name) != key_len || memcmp(name, key, key_len) != 0)
            continue;
        if (*value != '"')
            return false;
        *ret = value + 1;
        *ret_len = (size_t)(at - 1 - *ret);
        return true;
    }
    return false;
}

/* What stands between the quotes. */
static void take_key(const char *begin, const char *end, const char **ret, size_t *ret_len)
{
    *ret = begin + 1;
    *ret_len = (size_t)(end - 1 - *ret);
}

static bool is_of_number(char c)
{
    return (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.' || c == 'E' || c == 'e';
}

struct json_spot json_spot_of(const char *text, size_t len)
{
    const char *end = text + len, *string = NULL, *string_end = NULL;
    struct json_spot spot = { .number = end };
    size_t depth = 0;

    for (const char *at = text; at && at < end;) {
        if (*at == '"') {
            string = at;
            at = string_end = json_past_string(at, end);
            continue;
        }
        if (*at == '{' || *at == '[')
            depth++;
        else if (*at == '}' || *at == ']')
            depth--;
        else if (*at == ':' && string && depth == 1)
            take_key(string, string_end, &spot.outer, &spot.outer_len);
        else if (*at == ':' && string && depth == 2)
            take_key(string, string_end, &spot.inner, &spot.inner_len);
        if (depth < 2) {
            spot.inner = NULL;
            spot.inner_len = 0;
        }
        at++;
    }
    spot.is_deep = depth > (spot.inner ? 2 : 1);
    while (spot.number > text && is_of_number(spot.number[-1]))
        spot.number--;
    spot.number_len = (size_t)(end - spot.number);
    return spot;
}

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

bool json_has_at_most(const char *text, size_t len, size_t most)
{
    const char *at = text, *end = text + len;
    size_t n =
        1; /* one that is in nothing; then each is the first of something, or behind a comma */

    while (at && at < end && n <= most) {
        if (*at == '"') {
            at = json_past_string(at, end);
            continue;
        }
        n += *at == ',' || *at == '[' || *at == '{';
        at++;
    }
    return n <= most;
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

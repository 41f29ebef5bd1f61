/* SPDX-License-Identifier: Apache-2.0 */
#include "base/glob.h"

#include <stddef.h>

/* One byte against the pattern's next element, which is not a star. Returns the pattern behind it,
 * or NULL. */
static const char *match_set(const char *p, char c)
{
    bool is_negated = *p == '!' || *p == '^', found = false;
    const char *first = p += is_negated;

    for (; *p && (*p != ']' || p == first); p++) {
        char low = *p == '\\' && p[1] ? *++p : *p, high = low;
        if (p[1] == '-' && p[2] && p[2] != ']') {
            p += 2;
            high = *p == '\\' && p[1] ? *++p : *p;
        }
        found = found ||
                ((unsigned char)low <= (unsigned char)c && (unsigned char)c <= (unsigned char)high);
    }
    return *p == ']' && found != is_negated ? p + 1 : NULL;
}

static const char *match_one(const char *p, char c)
{
    if (*p == '?')
        return c == '/' ? NULL : p + 1;
    if (*p == '[')
        return c == '/' ? NULL : match_set(p + 1, c);
    if (*p == '\\' && p[1])
        p++;
    return *p == c ? p + 1 : NULL;
}

/* Where a star may be taken up again with one byte more, should what follows not match. */
struct retry {
    const char *pattern, *path;
};

bool glob_match(const char *pattern, const char *path)
{
    struct retry one = { NULL, NULL }, any = { NULL, NULL };
    bool whole_parts = false;

    for (;;) {
        const char *next;
        if (pattern[0] == '*' && pattern[1] == '*') {
            pattern += 2;
            whole_parts = *pattern == '/'; /* any number of folders, also none */
            pattern += whole_parts;
            any = (struct retry){ pattern, path };
            one.pattern = NULL;
        } else if (*pattern == '*') {
            one = (struct retry){ ++pattern, path };
        } else if (*path == '\0' && *pattern == '\0') {
            return true;
        } else if (*path && (next = match_one(pattern, *path))) {
            pattern = next;
            path++;
        } else if (one.pattern && *one.path && *one.path != '/') {
            path = ++one.path;
            pattern = one.pattern;
        } else if (any.pattern && *any.path) {
            while (whole_parts && *any.path && *any.path != '/')
                any.path++;
            any.path += *any.path != '\0';
            if (!*any.path && whole_parts)
                return false;
            path = any.path;
            pattern = any.pattern;
            one.pattern = NULL;
        } else {
            return false;
        }
    }
}

unsigned glob_prefix(const char *pattern)
{
    unsigned len = 0;

    for (unsigned i = 0; pattern[i] && pattern[i] != '*' && pattern[i] != '?' &&
                         pattern[i] != '[' && pattern[i] != '\\';
         i++)
        if (pattern[i] == '/')
            len = i + 1;
    return len;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/suggest.h"

#include <stdbool.h>
#include <string.h>

#include "base/auto.h"

enum {
    LETTERS_PER_SLIP = 3,
    SLIPS_MAX = 3,
    PREFIX_MIN = 2, /* a single letter begins too many names to mean any */
};

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static bool has_prefix(const char *text, const char *prefix)
{
    for (; *prefix != '\0'; text++, prefix++) {
        if (lower(*text) != lower(*prefix))
            return false;
    }
    return true;
}

/* Damerau-Levenshtein distance in which no letter is edited twice (optimal string alignment).
 * Both texts are at most SUGGEST_MAX long. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t rows[3][SUGGEST_MAX + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];

    for (size_t j = 0; j <= b_len; j++)
        above[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);
            size_t best = above[j - 1] + (same ? 0 : 1);
            best = MIN(best, above[j] + 1);
            best = MIN(best, row[j - 1] + 1);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]))
                best = MIN(best, before[j - 2] + 1);
            row[j] = best;
        }
        size_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[b_len];
}

static const char *only_with_prefix(const char *prefix, const char *const *candidates, size_t n)
{
    const char *found = NULL;

    for (size_t i = 0; i < n; i++) {
        if (!has_prefix(candidates[i], prefix))
            continue;
        if (found)
            return NULL;
        found = candidates[i];
    }
    return found;
}

/* Letters in another order: of two that are as near, the likelier slip. */
static bool has_same_letters(const char *a, const char *b)
{
    int count[256] = { 0 };

    for (; *a; a++)
        count[(unsigned char)lower(*a)]++;
    for (; *b; b++)
        count[(unsigned char)lower(*b)]--;
    for (size_t i = 0; i < ARRAY_LEN(count); i++)
        if (count[i] != 0)
            return false;
    return true;
}

const char *suggest(const char *given, const char *const *candidates, size_t n)
{
    const char *nearest = NULL;
    size_t nearest_slips = SLIPS_MAX + 1;
    size_t given_len = strnlen(given, SUGGEST_MAX + 1);

    if (given_len == 0 || given_len > SUGGEST_MAX)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t len = strnlen(candidates[i], SUGGEST_MAX + 1);
        if (len > SUGGEST_MAX)
            continue;
        size_t slips = distance(given, given_len, candidates[i], len);
        bool is_nearer = slips < nearest_slips || (nearest && slips == nearest_slips &&
                                                   has_same_letters(given, candidates[i]) &&
                                                   !has_same_letters(given, nearest));
        if (slips <= MAX(given_len, len) / LETTERS_PER_SLIP && is_nearer) {
            nearest = candidates[i];
            nearest_slips = slips;
        }
    }
    if (!nearest && given_len >= PREFIX_MIN)
        nearest = only_with_prefix(given, candidates, n);
    return nearest;
}

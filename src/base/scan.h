/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reading a short text of a known form, piece by piece; each takes what it wants and moves on, or
 * takes nothing and says so:
 *
 *     const char *at = text;
 *     bool is_fine = scan_word(&at, "log ") && scan_uint(&at, 6, &number) && *at == '\0';
 */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline bool scan_word(const char **at, const char *word)
{
    size_t len = strlen(word);

    if (strncmp(*at, word, len) != 0)
        return false;
    *at += len;
    return true;
}

/* Whether a list of words with white space in between has this one. */
static inline bool scan_has_word(const char *list, const char *word)
{
    static const char space[] = " \t\r\n";
    size_t len = strlen(word);

    for (const char *at = list; (at = strstr(at, word)); at += len)
        if ((at == list || strchr(space, at[-1])) && (!at[len] || strchr(space, at[len])))
            return true;
    return false;
}

/* One to `max` digits, with no digit after them. max is at most 19, so that it fits. */
static inline bool scan_uint(const char **at, size_t max, uint64_t *ret)
{
    size_t len = strspn(*at, "0123456789");
    uint64_t value = 0;

    if (len == 0 || len > max)
        return false;
    for (size_t i = 0; i < len; i++)
        value = value * 10 + (uint64_t)((*at)[i] - '0');
    *at += len;
    *ret = value;
    return true;
}

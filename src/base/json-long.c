/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json-long.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/json-scan.h"
#include "base/utf8.h"

struct json_slice {
    const char *data;
    size_t len;
};

/* ---- setting aside ---- */

static void make_tag(struct json_long *all)
{
    uint64_t bits;

    if (getrandom(&bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        abort();
    snprintf(all->tag, sizeof all->tag, "%016llx:", (unsigned long long)bits);
}

static bool is_key(const char *behind, const char *end)
{
    while (behind < end && strchr(" \t\r\n", *behind) && *behind)
        behind++;
    return behind < end && *behind == ':';
}

static void set_aside(struct json_long *all, const char *data, size_t len)
{
    if (all->n == all->room) {
        all->room = MAX(2 * all->room, (size_t)16);
        all->slices = mem_resize(all->slices, all->room * sizeof *all->slices);
    }
    strbuf_printf(&all->rest, "\"%s%zu\"", all->tag, all->n);
    all->slices[all->n++] = (struct json_slice){ data, len };
}

void json_long_take(struct json_long *all, const char *text, size_t len)
{
    const char *at = text, *end = text + len, *from = text; /* what is not in the rest yet */

    make_tag(all);
    while (at < end) {
        if (*at != '"') {
            at++;
            continue;
        }
        const char *past = json_past_string(at, end);
        if (!past)
            break; /* which the parser will say */
        if (past - at > JSON_LONG_MIN && !is_key(past, end)) {
            strbuf_add(&all->rest, from, (size_t)(at - from));
            set_aside(all, at + 1, (size_t)(past - at) - 2);
            from = past;
        }
        at = past;
    }
    strbuf_add(&all->rest, from, (size_t)(end - from));
}

void json_long_done(struct json_long *all)
{
    strbuf_done(&all->rest);
    strbuf_done(&all->decoded);
    free(all->slices);
    *all = (struct json_long){ 0 };
}

/* ---- reading ---- */

static bool has_control(const char *data, size_t len)
{
    unsigned char found = 0;

    for (size_t i = 0; i < len; i++)
        found |= (unsigned char)data[i] < 0x20;
    return found;
}

static int32_t digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Four digits behind "\u", or below 0. A body may hold nothing else, by the megabyte. */
static int32_t code_at(const char *at, const char *end)
{
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u')
        return -1;
    int32_t a = digit_of(at[2]), b = digit_of(at[3]), c = digit_of(at[4]), d = digit_of(at[5]);
    return (a | b | c | d) < 0 ? -1 : a << 12 | b << 8 | c << 4 | d;
}

/* Past the escape at `at`; what it stands for is put at *out. NULL: it is none. */
static const char *decode_escape(const char *at, const char *end, char **out)
{
    static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";

    if (end - at < 2)
        return NULL;
    if (at[1] != 'u') {
        const char *name = memchr(names, at[1], sizeof names - 1);
        if (!name)
            return NULL;
        *(*out)++ = bytes[name - names];
        return at + 2;
    }
    int32_t code = code_at(at, end);
    at += 6;
    if (code >= 0xd800 && code < 0xdc00) { /* the first half of a character */
        int32_t low = code_at(at, end);
        if (low < 0xdc00 || low > 0xdfff)
            return NULL;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        at += 6;
    } else if (code < 0 || (code >= 0xdc00 && code <= 0xdfff)) {
        return NULL;
    }
    *out += utf8_put_code(*out, (uint32_t)code);
    return at;
}

/* It never gets longer: six bytes of an escape stand for three at most. */
int json_unescape(struct strbuf *out, const char *data, size_t len)
{
    const char *at = data, *end = data + len;
    size_t before = out->len;

    char *to = strbuf_extend(out, len + 4), *begin = to;
    while (at && at < end) {
        const char *slash = *at == '\\' ? at : memchr(at, '\\', (size_t)(end - at));
        to = mempcpy(to, at, (size_t)((slash ? slash : end) - at));
        at = slash ? decode_escape(slash, end, &to) : end;
    }
    out->len = before + (at ? (size_t)(to - begin) : 0);
    out->data[out->len] = '\0';
    return at ? 0 : -EINVAL;
}

int json_long_string(struct json_long *all, const char *value, size_t value_len, const char **ret,
                     size_t *ret_len)
{
    if (value_len <= JSON_LONG_TAG || memcmp(value, all->tag, JSON_LONG_TAG) != 0) {
        *ret = value;
        *ret_len = value_len;
        return 0;
    }
    size_t i = strtoul(value + JSON_LONG_TAG, NULL, 10);
    if (i >= all->n)
        return -EINVAL;
    const char *data = all->slices[i].data;
    size_t len = all->slices[i].len;
    if (has_control(data, len) || !utf8_is_valid(data, len))
        return -EINVAL;
    if (memchr(data, '\\', len)) {
        all->decoded.len = 0;
        if (json_unescape(&all->decoded, data, len) < 0)
            return -EINVAL;
        data = all->decoded.data;
        len = all->decoded.len;
    }
    *ret = data;
    *ret_len = len;
    return 0;
}

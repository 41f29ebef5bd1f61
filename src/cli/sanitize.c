/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sanitize.h"

#include <stdint.h>
#include <string.h>

#include "base/auto.h"
#include "base/strbuf.h"
#include "base/utf8.h"

enum { ESC = 0x1b };

static bool is_plain(unsigned char c)
{
    return c == '\n' || c == '\t' || c == '\r' || (c >= 0x20 && c < 0x7f);
}

/* "^[" for ESC, as terminals and editors show control characters; a byte that is no character, in
 * which an old terminal may see a control too, by its number. */
static void put_byte(struct strbuf *out, unsigned char c)
{
    if (is_plain(c))
        strbuf_putc(out, (char)c);
    else if (c >= 0x80)
        strbuf_printf(out, "<%02X>", c);
    else
        strbuf_printf(out, "^%c", c == 0x7f ? '?' : c + 0x40);
}

/* How what is held stands: not yet complete, fit to be passed on as it is, or not. */
enum held_state { HELD_MORE, HELD_PASS, HELD_SHOW };

static enum held_state judge_escape(const char *held, size_t len, size_t room)
{
    if (len == 1 || (len == 2 && held[1] == '['))
        return HELD_MORE;
    if (held[1] != '[')
        return HELD_SHOW;
    if (held[len - 1] == 'm')
        return HELD_PASS;
    bool is_param = held[len - 1] && strchr("0123456789;:", held[len - 1]);
    return is_param && len < room ? HELD_MORE : HELD_SHOW;
}

bool sanitize_is_sign(const char *text, size_t len)
{
    return len == strlen(CAY_SIGN) && memcmp(text, CAY_SIGN, len) == 0;
}

/* ---- bars ---- */

struct code_range {
    uint32_t first, last;
};

/* Upright bars of any script, drawn lines and blocks that are narrow. No '|', and no letters: those
 * are everybody's. */
static const struct code_range bars[] = {
    { 0x01c0, 0x01c1 }, { 0x05c0, 0x05c0 },   { 0x0964, 0x0965 },   { 0x16c1, 0x16c1 },
    { 0x2016, 0x2016 }, { 0x2223, 0x2223 },   { 0x2225, 0x2225 },   { 0x239c, 0x239c },
    { 0x239f, 0x239f }, { 0x23a2, 0x23a2 },   { 0x23a5, 0x23a5 },   { 0x23aa, 0x23aa },
    { 0x23b8, 0x23b9 }, { 0x23d0, 0x23d0 },   { 0x23f8, 0x23f8 },   { 0x2502, 0x2503 },
    { 0x2506, 0x2507 }, { 0x250a, 0x250b },   { 0x254e, 0x254f },   { 0x2551, 0x2551 },
    { 0x2575, 0x2575 }, { 0x2577, 0x2577 },   { 0x2579, 0x2579 },   { 0x257b, 0x257b },
    { 0x257d, 0x257d }, { 0x257f, 0x257f },   { 0x258b, 0x2590 },   { 0x2595, 0x2595 },
    { 0x25ae, 0x25af }, { 0x2758, 0x275a },   { 0x2980, 0x2980 },   { 0x2af4, 0x2af4 },
    { 0x2afc, 0x2afe }, { 0x2d4f, 0x2d4f },   { 0xfe31, 0xfe33 },   { 0xff5c, 0xff5c },
    { 0xffe8, 0xffe8 }, { 0x1d369, 0x1d36d }, { 0x1f5ac, 0x1f5ac }, { 0x1fb70, 0x1fb75 },
};

/* Spaces, and what takes no room. */
static const struct code_range blanks[] = {
    { 0x00a0, 0x00a0 }, { 0x00ad, 0x00ad }, { 0x0300, 0x036f },   { 0x034f, 0x034f },
    { 0x061c, 0x061c }, { 0x115f, 0x1160 }, { 0x1680, 0x1680 },   { 0x180b, 0x180f },
    { 0x2000, 0x200f }, { 0x2028, 0x202f }, { 0x205f, 0x206f },   { 0x2800, 0x2800 },
    { 0x3000, 0x3000 }, { 0x3164, 0x3164 }, { 0xfe00, 0xfe0f },   { 0xfeff, 0xfeff },
    { 0xffa0, 0xffa0 }, { 0xfff9, 0xfffb }, { 0xe0000, 0xe0fff },
};

static bool is_among(const struct code_range *ranges, size_t n, uint32_t code)
{
    for (size_t i = 0; i < n; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

/* Of a whole character. */
static uint32_t code_of(const char *text, size_t len)
{
    static const unsigned char masks[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
    uint32_t code = (unsigned char)text[0] & masks[len];

    for (size_t i = 1; i < len; i++)
        code = code << 6 | ((unsigned char)text[i] & 0x3f);
    return code;
}

void sanitize_put_character(struct strbuf *out, const char *text, size_t len, bool *is_mid)
{
    uint32_t code = code_of(text, len);

    if (!*is_mid && is_among(bars, ARRAY_LEN(bars), code))
        strbuf_putc(out, '|');
    else
        strbuf_add(out, text, len);
    *is_mid |= !is_among(blanks, ARRAY_LEN(blanks), code);
}

/* A whole character passes, unless it is cay's sign or one of the C1 controls, U+0080 to U+009F. */
static enum held_state judge_character(const char *held, size_t len)
{
    if (sanitize_is_sign(held, len))
        return HELD_SHOW;
    if (utf8_is_valid(held, len))
        return len == 2 && (unsigned char)held[0] == 0xc2 && (unsigned char)held[1] < 0xa0
                   ? HELD_SHOW
                   : HELD_PASS;
    return utf8_incomplete_tail(held, len) == len ? HELD_MORE : HELD_SHOW;
}

static enum held_state judge(const struct sanitizer *sanitizer)
{
    return sanitizer->held[0] == ESC
               ? judge_escape(sanitizer->held, sanitizer->held_len, sizeof sanitizer->held)
               : judge_character(sanitizer->held, sanitizer->held_len);
}

static void put_held(struct sanitizer *sanitizer, struct strbuf *out, enum held_state state)
{
    const char *held = sanitizer->held;
    size_t len = sanitizer->held_len;

    if (state == HELD_PASS && held[0] == ESC)
        sanitizer->colored = !(len == 3 || (len == 4 && held[2] == '0')); /* a reset ends it */
    if (state == HELD_PASS && held[0] != ESC) {
        sanitize_put_character(out, held, len, &sanitizer->is_mid_line);
    } else if (state == HELD_PASS) {
        strbuf_add(out, held, len);
    } else if (len == 2 && (unsigned char)held[0] == 0xc2 && utf8_is_valid(held, len)) {
        put_byte(out, (unsigned char)held[1]);
    } else {
        for (size_t i = 0; i < len; i++)
            put_byte(out, (unsigned char)held[i]);
    }
    sanitizer->is_mid_line |= state != HELD_PASS;
    sanitizer->held_len = 0;
}

static bool begins_something(unsigned char c)
{
    return c == ESC || c >= 0x80;
}

/* Whether c can't belong to what is held: a new sequence begins, or a character breaks off. */
static bool breaks_off(const struct sanitizer *sanitizer, unsigned char c)
{
    bool is_escape = sanitizer->held[0] == ESC;
    return is_escape ? begins_something(c) : (c & 0xc0) != 0x80;
}

void sanitize_put(struct sanitizer *sanitizer, struct strbuf *out, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];
        if (sanitizer->held_len > 0 && breaks_off(sanitizer, c))
            put_held(sanitizer, out, HELD_SHOW);
        if (sanitizer->held_len == 0 && !begins_something(c)) {
            put_byte(out, c);
            if (c == '\n' || c == '\r')
                sanitizer->is_mid_line = false;
            else if (c != ' ' && c != '\t')
                sanitizer->is_mid_line = true;
            continue;
        }
        sanitizer->held[sanitizer->held_len++] = data[i];
        enum held_state state = judge(sanitizer);
        if (state != HELD_MORE)
            put_held(sanitizer, out, state);
    }
}

void sanitize_end(struct sanitizer *sanitizer, struct strbuf *out)
{
    if (sanitizer->held_len > 0)
        put_held(sanitizer, out, HELD_SHOW);
    if (sanitizer->colored)
        strbuf_puts(out, "\033[0m");
    sanitizer->colored = 0;
}

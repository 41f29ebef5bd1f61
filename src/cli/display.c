/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/display.h"

#include <string.h>

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

bool display_is_sign(const char *text, size_t len)
{
    return len == strlen(CAY_SIGN) && memcmp(text, CAY_SIGN, len) == 0;
}

/* A whole character passes, unless it is cay's sign or one of the C1 controls, U+0080 to U+009F. */
static enum held_state judge_character(const char *held, size_t len)
{
    if (display_is_sign(held, len))
        return HELD_SHOW;
    if (utf8_is_valid(held, len))
        return len == 2 && (unsigned char)held[0] == 0xc2 && (unsigned char)held[1] < 0xa0
                   ? HELD_SHOW
                   : HELD_PASS;
    return utf8_incomplete_tail(held, len) == len ? HELD_MORE : HELD_SHOW;
}

static enum held_state judge(const struct display *display)
{
    return display->held[0] == ESC
               ? judge_escape(display->held, display->held_len, sizeof display->held)
               : judge_character(display->held, display->held_len);
}

static void put_held(struct display *display, struct strbuf *out, enum held_state state)
{
    const char *held = display->held;
    size_t len = display->held_len;

    if (state == HELD_PASS && held[0] == ESC)
        display->colored = !(len == 3 || (len == 4 && held[2] == '0')); /* a reset ends it */
    if (state == HELD_PASS) {
        strbuf_add(out, held, len);
    } else if (len == 2 && (unsigned char)held[0] == 0xc2 && utf8_is_valid(held, len)) {
        put_byte(out, (unsigned char)held[1]);
    } else {
        for (size_t i = 0; i < len; i++)
            put_byte(out, (unsigned char)held[i]);
    }
    display->held_len = 0;
}

static bool begins_something(unsigned char c)
{
    return c == ESC || c >= 0x80;
}

/* Whether c can't belong to what is held: a new sequence begins, or a character breaks off. */
static bool breaks_off(const struct display *display, unsigned char c)
{
    bool is_escape = display->held[0] == ESC;
    return is_escape ? begins_something(c) : (c & 0xc0) != 0x80;
}

void display_filter(struct display *display, struct strbuf *out, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];
        if (display->held_len > 0 && breaks_off(display, c))
            put_held(display, out, HELD_SHOW);
        if (display->held_len == 0 && !begins_something(c)) {
            put_byte(out, c);
            continue;
        }
        display->held[display->held_len++] = data[i];
        enum held_state state = judge(display);
        if (state != HELD_MORE)
            put_held(display, out, state);
    }
}

void display_flush(struct display *display, struct strbuf *out)
{
    if (display->held_len > 0)
        put_held(display, out, HELD_SHOW);
    if (display->colored)
        strbuf_puts(out, "\033[0m");
    display->colored = 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/display.h"

#include <stdbool.h>
#include <string.h>

#include "base/strbuf.h"

enum { ESC = 0x1b };

static bool is_plain(unsigned char c)
{
    return c == '\n' || c == '\t' || c == '\r' || (c >= 0x20 && c != 0x7f);
}

/* "^[" for ESC, as terminals and editors show control characters. */
static void put_control(struct strbuf *out, unsigned char c)
{
    strbuf_printf(out, "^%c", c == 0x7f ? '?' : c + 0x40);
}

/* How a held sequence stands: not yet complete, a colour, or something else. */
enum held_state { HELD_MORE, HELD_COLOR, HELD_OTHER };

static enum held_state judge(const struct display *display)
{
    const char *held = display->held;
    size_t len = display->held_len;

    if ((unsigned char)held[0] == 0xc2) { /* U+0080 to U+009F: the C1 controls */
        if (len == 1)
            return HELD_MORE;
        return HELD_OTHER;
    }
    if (len == 1)
        return HELD_MORE;
    if (held[1] != '[')
        return HELD_OTHER;
    if (len == 2)
        return HELD_MORE;
    if (held[len - 1] == 'm')
        return HELD_COLOR;
    bool is_param = held[len - 1] && strchr("0123456789;:", held[len - 1]);
    return is_param && len < sizeof display->held ? HELD_MORE : HELD_OTHER;
}

static void put_visible(struct strbuf *out, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c == 0xc2 && i + 1 < len && ((unsigned char)data[i + 1] & 0xe0) == 0x80) {
            strbuf_printf(out, "<%02X>", (unsigned char)data[++i]);
        } else if (is_plain(c)) {
            strbuf_putc(out, data[i]);
        } else {
            put_control(out, c);
        }
    }
}

static void put_held(struct display *display, struct strbuf *out, enum held_state state)
{
    if (state == HELD_COLOR) {
        bool resets = display->held_len == 3 || (display->held_len == 4 && display->held[2] == '0');
        display->colored = !resets;
        strbuf_add(out, display->held, display->held_len);
    } else {
        put_visible(out, display->held, display->held_len);
    }
    display->held_len = 0;
}

void display_filter(struct display *display, struct strbuf *out, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];
        if (display->held_len > 0 && (c == ESC || c == 0xc2)) /* a new one starts in the middle */
            put_held(display, out, HELD_OTHER);
        if (display->held_len > 0 || c == ESC || c == 0xc2) {
            display->held[display->held_len++] = data[i];
            enum held_state state = judge(display);
            if (state != HELD_MORE)
                put_held(display, out, state);
        } else if (is_plain(c)) {
            strbuf_putc(out, data[i]);
        } else {
            put_control(out, c);
        }
    }
}

void display_flush(struct display *display, struct strbuf *out)
{
    if (display->held_len > 0)
        put_held(display, out, HELD_OTHER);
    if (display->colored)
        strbuf_puts(out, "\033[0m");
    display->colored = 0;
}

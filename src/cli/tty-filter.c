/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tty-filter.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "cli/sanitize.h"

enum { ESC = 0x1b, BEL = 0x07, CAN = 0x18, SUB = 0x1a };

/* ---- what is put back: a row for each thing a program can leave behind ---- */

enum touched { COLOUR, CHARSET, MARGINS, CURSOR_STYLE, KEYPAD, INSERT, MODES };

static const char *const resets[] = {
    [COLOUR] = "\033[0m",           [CHARSET] = "\033(B\017",
    [MARGINS] = "\0337\033[r\0338", /* it moves the cursor home */
    [CURSOR_STYLE] = "\033[0 q",    [KEYPAD] = "\033>",
    [INSERT] = "\033[4l",
};

/* DEC private modes that a program may change, and what each is where nobody changed it. The second
 * screen is left first of all: what is put back after it belongs to the first one. */
static const struct {
    uint16_t mode;
    bool is_on;
} modes[] = {
    { 1049, false }, { 1047, false }, { 47, false },   { 1, false },    { 5, false },
    { 6, false },    { 7, true },     { 12, false },   { 25, true },    { 66, false },
    { 69, false },   { 9, false },    { 1000, false }, { 1002, false }, { 1003, false },
    { 1004, false }, { 1005, false }, { 1006, false }, { 1015, false }, { 1016, false },
    { 2004, false }, { 2026, false },
};

_Static_assert(MODES + ARRAY_LEN(modes) <= 32, "bits of touched");

static void touch(struct tty_filter *filter, unsigned what, bool is_changed)
{
    uint32_t bit = UINT32_C(1) << what;
    filter->touched = is_changed ? filter->touched | bit : filter->touched & ~bit;
}

/* ---- control sequences: ESC [ private parameters intermediates final ---- */

struct csi {
    char marker;        /* one of "<=>?", or 0 */
    const char *params; /* not NUL-terminated */
    size_t params_len;
    char intermediate; /* 0: none */
    char final;
};

/* Splits what is held; false if it is none of that form. */
static bool split_csi(const char *held, size_t len, struct csi *ret)
{
    size_t pos = 2;

    *ret = (struct csi){ .final = held[len - 1] };
    if (pos < len && strchr("<=>?", held[pos]) && held[pos])
        ret->marker = held[pos++];
    ret->params = held + pos;
    while (pos < len - 1 && held[pos] && strchr("0123456789;:", held[pos]))
        pos++;
    ret->params_len = (size_t)(held + pos - ret->params);
    if (pos < len - 1 && held[pos] >= 0x20 && held[pos] <= 0x2f)
        ret->intermediate = held[pos++];
    return pos == len - 1;
}

static bool params_are(const struct csi *csi, const char *text)
{
    return strlen(text) == csi->params_len && memcmp(csi->params, text, csi->params_len) == 0;
}

/* "?25;1049h" is taken apart, and passed on as far as it is known. */
static void put_modes(struct tty_filter *filter, struct strbuf *out, const struct csi *csi)
{
    bool to_on = csi->final == 'h';
    const char *pos = csi->params, *end = csi->params + csi->params_len;

    while (pos < end) {
        unsigned long number = 0;
        const char *start = pos;
        while (pos < end && *pos >= '0' && *pos <= '9' && pos - start < 6)
            number = number * 10 + (unsigned long)(*pos++ - '0');
        bool is_whole = pos == end || *pos == ';';
        for (unsigned i = 0; is_whole && pos > start && i < ARRAY_LEN(modes); i++)
            if (modes[i].mode == number) {
                strbuf_printf(out, "\033[?%lu%c", number, csi->final);
                touch(filter, MODES + i, to_on != modes[i].is_on);
            }
        while (pos < end && *pos != ';')
            pos++;
        pos += pos < end;
    }
}

/* Marker, intermediate and finals of the sequences that pass as they are. */
static const struct {
    char marker, intermediate;
    const char *finals;
} passing[] = {
    /* Cursor, erase, insert, delete, scroll, repeat, tabs, colours, margins, save and restore. */
    { 0, 0, "@ABCDEFGHIJKLMPSTXZ`abdefgmrsu" },
    { 0, ' ', "q" }, /* shape of the cursor */
    { 0, '!', "p" }, /* soft reset */
    { '?', 0, "JK" },
};

static bool csi_passes(const struct csi *csi)
{
    if (csi->final == 'T' && memchr(csi->params, ';', csi->params_len))
        return false; /* tracking of the mouse that waits for an answer */
    if (csi->final == 'u' && csi->params_len > 0)
        return false; /* a key, as some terminals would send it */
    for (size_t i = 0; i < ARRAY_LEN(passing); i++)
        if (csi->marker == passing[i].marker && csi->intermediate == passing[i].intermediate &&
            strchr(passing[i].finals, csi->final))
            return true;
    return false;
}

static void put_csi(struct tty_filter *filter, struct strbuf *out)
{
    struct csi csi;

    if (filter->is_too_long || !split_csi(filter->held, filter->held_len, &csi))
        return;
    bool is_mode = csi.final == 'h' || csi.final == 'l';
    if (is_mode && csi.marker == '?' && !csi.intermediate) {
        put_modes(filter, out, &csi);
        return;
    }
    if (is_mode && !csi.marker && !csi.intermediate && params_are(&csi, "4"))
        touch(filter, INSERT, csi.final == 'h');
    else if (!csi_passes(&csi))
        return;
    if (csi.final != 'm') /* the cursor may be anywhere */
        filter->is_mid_line = false;
    if (csi.final == 'm')
        touch(filter, COLOUR, csi.params_len > 0 && !params_are(&csi, "0"));
    else if (csi.final == 'r')
        touch(filter, MARGINS, csi.params_len > 0);
    else if (csi.final == 'q')
        touch(filter, CURSOR_STYLE, csi.params_len > 0 && !params_are(&csi, "0"));
    strbuf_add(out, filter->held, filter->held_len);
}

/* ---- escape sequences: ESC intermediates final ---- */

static void put_escape(struct tty_filter *filter, struct strbuf *out)
{
    char first = filter->held[1], final = filter->held[filter->held_len - 1];

    if (filter->is_too_long)
        return;
    if (filter->held_len == 2) {
        if (!strchr("78DEHMNO=>c", first))
            return;
        if (first == '=' || first == '>')
            touch(filter, KEYPAD, first == '=');
    } else if (filter->held_len == 3 && strchr("()*+", first)) {
        if (!strchr("AB012", final)) /* character sets: ASCII, British, lines */
            return;
        touch(filter, CHARSET, true);
    } else if (!(filter->held_len == 3 && first == '#' && strchr("34568", final))) {
        return; /* "%@" would end UTF-8, " G" begin 8-bit controls */
    }
    filter->is_mid_line = false;
    strbuf_add(out, filter->held, filter->held_len);
}

/* ---- the stream ---- */

static void put_control(struct tty_filter *filter, struct strbuf *out, unsigned char c)
{
    if (c >= BEL && c <= 0x0f) { /* BEL, BS, HT, LF, VT, FF, CR, SO, SI */
        strbuf_putc(out, (char)c);
        filter->is_mid_line &= c == BEL || c == '\t' || c == 0x0e || c == 0x0f;
        if (c == 0x0e)
            touch(filter, CHARSET, true);
    }
}

static void hold(struct tty_filter *filter, unsigned char c)
{
    if (filter->held_len < sizeof filter->held)
        filter->held[filter->held_len++] = (char)c;
    else
        filter->is_too_long = true;
}

static void to_ground(struct tty_filter *filter)
{
    filter->state = TTY_GROUND;
    filter->held_len = 0;
    filter->is_too_long = false;
}

/* A byte of a character: passed on when it is whole, and not one of U+0080 to U+009F. */
static void put_high(struct tty_filter *filter, struct strbuf *out, unsigned char c)
{
    static const char replacement[] = "\xef\xbf\xbd";
    const char *held = filter->held;

    hold(filter, c);
    size_t len = filter->held_len;
    if (utf8_is_valid(held, len)) {
        bool is_c1 = len == 2 && (unsigned char)held[0] == 0xc2 && (unsigned char)held[1] < 0xa0;
        if (sanitize_is_sign(held, len))
            strbuf_puts(out, replacement);
        else if (!is_c1)
            sanitize_put_character(out, held, len, &filter->is_mid_line);
        filter->held_len = 0;
    } else if (utf8_incomplete_tail(held, len) != len) {
        strbuf_puts(out, replacement);
        filter->held_len = 0;
        if (len > 1) /* the last byte may begin another one */
            put_high(filter, out, c);
    }
}

static void put_ground(struct tty_filter *filter, struct strbuf *out, unsigned char c)
{
    if (c >= 0x80) {
        put_high(filter, out, c);
        return;
    }
    if (filter->held_len > 0)
        strbuf_puts(out, "\xef\xbf\xbd"); /* a character that broke off */
    filter->held_len = 0;
    if (c < 0x20)
        put_control(filter, out, c);
    else if (c != 0x7f)
        strbuf_putc(out, (char)c);
    filter->is_mid_line |= c > ' ' && c != 0x7f;
}

static void begin_string(struct tty_filter *filter, unsigned char c)
{
    to_ground(filter);
    filter->state = TTY_STRING;
    filter->is_osc = c == ']';
}

static void take_escape(struct tty_filter *filter, struct strbuf *out, unsigned char c)
{
    bool is_first = filter->held_len == 1;

    hold(filter, c);
    if (is_first && c == '[') {
        filter->state = TTY_CSI;
    } else if (is_first && strchr("]P^_Xk", c)) { /* OSC, DCS, PM, APC, SOS, and screen's title */
        begin_string(filter, c);
    } else if (c >= 0x30) {
        put_escape(filter, out);
        to_ground(filter);
    }
}

static void take_csi(struct tty_filter *filter, struct strbuf *out, unsigned char c)
{
    hold(filter, c);
    if (c >= 0x40) {
        put_csi(filter, out);
        to_ground(filter);
    }
}

/* In a sequence, a control, a new ESC, or a byte that can't be in one ends it: nothing of it was
 * passed on, so nothing can be left half done. */
static bool breaks_off(const struct tty_filter *filter, unsigned char c)
{
    return filter->state != TTY_GROUND && (c < 0x20 || c >= 0x7f);
}

static void take_string(struct tty_filter *filter, unsigned char c)
{
    if (c == ESC)
        filter->state = TTY_STRING_ESCAPE;
    else if (c == CAN || c == SUB || (c == BEL && filter->is_osc))
        to_ground(filter);
}

void tty_filter_put(struct tty_filter *filter, struct strbuf *out, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];
        if (filter->state == TTY_STRING) {
            take_string(filter, c);
            continue;
        }
        if (filter->state == TTY_STRING_ESCAPE) {
            to_ground(filter);
            if (c == '\\')
                continue;
            filter->state = TTY_ESCAPE; /* the string broke off: this is another sequence */
            hold(filter, ESC);
        }
        if (breaks_off(filter, c))
            to_ground(filter);
        if (c == ESC) {
            if (filter->held_len > 0)
                strbuf_puts(out, "\xef\xbf\xbd");
            to_ground(filter);
            filter->state = TTY_ESCAPE;
            hold(filter, c);
        } else if (filter->state == TTY_ESCAPE) {
            take_escape(filter, out, c);
        } else if (filter->state == TTY_CSI) {
            take_csi(filter, out, c);
        } else {
            put_ground(filter, out, c);
        }
    }
}

void tty_filter_end(struct tty_filter *filter, struct strbuf *out)
{
    to_ground(filter);
    for (unsigned i = 0; i < ARRAY_LEN(modes); i++)
        if (filter->touched & (UINT32_C(1) << (MODES + i)))
            strbuf_printf(out, "\033[?%u%c", modes[i].mode, modes[i].is_on ? 'h' : 'l');
    for (unsigned i = 0; i < ARRAY_LEN(resets); i++)
        if (filter->touched & (UINT32_C(1) << i))
            strbuf_puts(out, resets[i]);
    filter->touched = 0;
}

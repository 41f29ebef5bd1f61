/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pretty.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include <cay/check.h>

#include "base/auto.h"
#include "base/strbuf.h"

enum { COLUMNS_MAX = 64, ROWS_MAX = 2000, CELL_MAX = 60 };

/* ---- JSON ---- */

static bool put_json(struct cay *cay, struct strbuf *out, const char *data, size_t len)
{
    size_t start = 0;

    while (start < len && strchr(" \t\r\n", data[start]))
        start++;
    if (start == len || (data[start] != '{' && data[start] != '['))
        return false;
    json_t *root = json_loadb(data + start, len - start, 0, NULL);
    auto_free char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(root);
    if (!text)
        return false;
    auto_free char *colored = cay ? cay_highlight(cay, "json", text, strlen(text)) : NULL;
    strbuf_puts(out, colored ? colored : text);
    strbuf_putc(out, '\n');
    return true;
}

/* ---- rows ---- */

/* How many columns of a terminal a text takes: characters, near enough. */
static size_t width_of(const char *text, size_t len)
{
    size_t width = 0;

    for (size_t i = 0; i < len; i++)
        width += ((unsigned char)text[i] & 0xc0) != 0x80;
    return width;
}

/* The next cell of a row, unquoted, into cell; returns where the one behind it starts, or NULL at
 * the end of the row (at which *ret_end points). */
static const char *next_cell(const char *at, const char *end, char separator, struct strbuf *cell,
                             const char **ret_end)
{
    bool is_quoted = at < end && *at == '"';

    cell->len = 0;
    for (at += is_quoted; at < end; at++) {
        if (is_quoted && *at == '"') {
            if (at + 1 < end && at[1] == '"')
                at++;
            else {
                is_quoted = false;
                continue;
            }
        } else if (!is_quoted && (*at == separator || *at == '\n')) {
            break;
        }
        strbuf_putc(cell, *at == '\n' || *at == '\t' ? ' ' : *at);
    }
    while (cell->len > 0 && cell->data[cell->len - 1] == '\r')
        cell->len--;
    *ret_end = at;
    return at < end && *at == separator ? at + 1 : NULL;
}

struct table {
    size_t widths[COLUMNS_MAX];
    size_t n_columns, n_rows;
    char separator;
};

/* Measures all rows: they have to have the same number of cells, two at least. */
static bool measure(const char *data, size_t len, struct table *table)
{
    const char *end = data + len;
    auto_strbuf struct strbuf cell = { 0 };

    while (data < end) {
        const char *at = data, *stop = data;
        size_t n = 0;
        do {
            at = next_cell(at, end, table->separator, &cell, &stop);
            if (n == COLUMNS_MAX)
                return false;
            size_t width = width_of(strbuf_str(&cell), cell.len);
            width = MIN(width, (size_t)CELL_MAX);
            table->widths[n] = MAX(table->widths[n], width);
            n++;
        } while (at);
        if (n < 2 || (table->n_rows > 0 && n != table->n_columns) || table->n_rows == ROWS_MAX)
            return false;
        table->n_columns = n;
        table->n_rows++;
        data = stop < end ? stop + 1 : end;
    }
    return table->n_rows >= 2;
}

/* What is longer than a cell is cut, between characters. */
static void put_cell(struct strbuf *out, const char *text, size_t len, size_t width)
{
    size_t shown = 0, i = 0;

    while (i < len && (shown < width || ((unsigned char)text[i] & 0xc0) == 0x80)) {
        shown += ((unsigned char)text[i] & 0xc0) != 0x80;
        strbuf_putc(out, text[i++]);
    }
    for (; shown < width; shown++)
        strbuf_putc(out, ' ');
}

static void put_rule(struct strbuf *out, const struct table *table)
{
    for (size_t i = 0; i < table->n_columns; i++) {
        strbuf_puts(out, i ? "-+-" : "");
        for (size_t k = 0; k < table->widths[i]; k++)
            strbuf_putc(out, '-');
    }
    strbuf_putc(out, '\n');
}

static bool put_rows(struct strbuf *out, const char *data, size_t len, char separator)
{
    struct table table = { .separator = separator };
    const char *end = data + len;
    auto_strbuf struct strbuf cell = { 0 };

    if (!measure(data, len, &table))
        return false;
    for (size_t row = 0; row < table.n_rows; row++) {
        const char *at = data, *stop = data;
        for (size_t i = 0; at; i++) {
            at = next_cell(at, end, separator, &cell, &stop);
            strbuf_puts(out, i ? " | " : "");
            put_cell(out, strbuf_str(&cell), cell.len, table.widths[i]);
        }
        strbuf_putc(out, '\n');
        if (row == 0)
            put_rule(out, &table);
        data = stop < end ? stop + 1 : end;
    }
    return true;
}

bool pretty_text(struct cay *cay, struct strbuf *out, const char *data, size_t len)
{
    static const char separators[] = "\t,;|";

    if (put_json(cay, out, data, len))
        return true;
    for (const char *separator = separators; *separator; separator++)
        if (put_rows(out, data, len, *separator))
            return true;
    return false;
}

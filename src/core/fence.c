/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fence.h"

#include <string.h>

/* What is left of the text from pos on, without its first line; *line is that line. */
static const char *cut_line(const char *pos, const char *end, struct bytes *line)
{
    const char *stop = memchr(pos, '\n', (size_t)(end - pos));
    size_t len = (size_t)((stop ? stop : end) - pos);

    *line = (struct bytes){ pos, len > 0 && pos[len - 1] == '\r' ? len - 1 : len };
    return stop ? stop + 1 : end;
}

static bool is_blank(struct bytes line)
{
    for (size_t i = 0; i < line.len; i++)
        if (line.data[i] != ' ' && line.data[i] != '\t')
            return false;
    return true;
}

static size_t count_sign(struct bytes line, char sign)
{
    size_t n = 0;

    while (n < line.len && line.data[n] == sign)
        n++;
    return n;
}

struct fence fence_find(struct bytes code)
{
    const struct fence none = { .code = code };
    const char *pos = code.data, *end = pos ? pos + code.len : NULL;
    struct bytes line = { 0 };

    do {
        if (pos == end)
            return none;
        pos = cut_line(pos, end, &line);
    } while (is_blank(line));

    char sign = line.data[0];
    size_t width = count_sign(line, sign), start = width;
    if ((sign != '`' && sign != '~') || width < 3)
        return none;
    while (start < line.len && line.data[start] == ' ')
        start++;
    size_t stop = start;
    while (stop < line.len && line.data[stop] != ' ' && line.data[stop] != '{')
        stop++;
    if (memchr(line.data + start, '`', line.len - start))
        return none; /* code between backticks in one line */

    struct fence fence = { true,
                           { pos, (size_t)(end - pos) },
                           { line.data + start, stop - start } };
    while (pos < end) {
        const char *here = pos;
        pos = cut_line(pos, end, &line);
        size_t n = count_sign(line, sign);
        if (n < width || !is_blank((struct bytes){ line.data + n, line.len - n }))
            continue;
        fence.code.len = (size_t)(here - fence.code.data);
        for (; pos < end; pos = cut_line(pos, end, &line)) {
            struct bytes rest;
            cut_line(pos, end, &rest);
            if (!is_blank(rest))
                return none; /* text, or another block: which one is meant? */
        }
    }
    return fence;
}

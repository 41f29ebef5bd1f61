/* SPDX-License-Identifier: Apache-2.0 */
#include "explain/errors-source.h"

#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/suggest.h"
#include "base/utf8.h"

static bool starts(struct slice text, const char *prefix)
{
    return text.len >= strlen(prefix) && memcmp(text.data, prefix, strlen(prefix)) == 0;
}

static bool equals(struct slice text, const char *word)
{
    return text.len == strlen(word) && memcmp(text.data, word, text.len) == 0;
}

static struct slice skip(struct slice text, size_t n)
{
    return (struct slice){ text.data + n, text.len - n };
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\0';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_word(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9');
}

char *source_copy(struct arena *arena, struct slice text, size_t max)
{
    while (text.len > 0 && (is_blank(text.data[0]) || text.data[0] == '\n'))
        text = skip(text, 1);
    while (text.len > 0 && (is_blank(text.data[text.len - 1]) || text.data[text.len - 1] == '\n'))
        text.len--;
    if (text.len > max)
        text.len = max - utf8_incomplete_tail(text.data, max);
    char *copy = arena_dup(arena, text.data ? text.data : "", text.len);
    for (size_t i = 0; i < text.len; i++)
        if (copy[i] == '\0')
            copy[i] = ' ';
    return copy;
}

/* ---- paths ---- */

struct slice source_path(struct slice path)
{
    static const char *const prefixes[] = { "file://", "/sandbox/", "./" };

    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
        if (starts(path, prefixes[i]))
            path = skip(path, strlen(prefixes[i]));
    return path;
}

static const char *last_part(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

const struct errors_source *source_find(const struct errors_sources *sources, struct slice path)
{
    struct slice own = source_path(path);

    if (!path.data || path.len == 0)
        return NULL;
    for (size_t i = 0; i < sources->n; i++) {
        const char *name = sources->list[i].name;
        if (equals(own, name) || equals(path, name))
            return &sources->list[i];
    }
    const char *slash = memrchr(own.data, '/', own.len);
    if (slash && !sources->by_last_part)
        return NULL;
    if (slash)
        own = skip(own, (size_t)(slash + 1 - own.data));
    for (size_t i = 0; i < sources->n; i++) /* a Java trace has no folders */
        if (equals(own, last_part(sources->list[i].name)))
            return &sources->list[i];
    return NULL;
}

bool source_is_user(const struct errors_sources *sources, struct slice path)
{
    static const char *const libraries[] = { "/node_modules/", "/site-packages/", "/dist-packages/",
                                             "/vendor/" };

    if (!path.data || path.len == 0)
        return false;
    if (source_find(sources, path))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(libraries); i++)
        if (memmem(path.data, path.len, libraries[i], strlen(libraries[i])))
            return false;
    if (starts(path, "file://"))
        path = skip(path, strlen("file://"));
    if (starts(path, "/sandbox/") || starts(path, "/workspace/"))
        return true;
    bool is_odd = strchr("/<[", path.data[0]) || starts(path, "node:");
    return !is_odd && (sources->n == 0 || sources->is_relative_own || starts(path, "./"));
}

/* ---- lines ---- */

/* Goes through the lines: *at starts at 0. False past the last one. */
static bool next_line(const struct errors_source *source, size_t *at, struct slice *ret)
{
    size_t len = MIN(source->len, (size_t)ERRORS_SOURCE_MAX);

    if (*at >= len)
        return false;
    const char *start = source->data + *at;
    const char *newline = memchr(start, '\n', len - *at);
    size_t n = newline ? (size_t)(newline - start) : len - *at;
    *ret = (struct slice){ start, n };
    *at += n + 1;
    return true;
}

struct slice source_line(const struct errors_source *source, unsigned line)
{
    struct slice text;
    size_t at = 0;

    for (unsigned i = 1; next_line(source, &at, &text); i++)
        if (i == line)
            return text;
    return (struct slice){ 0 };
}

static size_t blanks(struct slice text)
{
    size_t n = 0;
    while (n < text.len && is_blank(text.data[n]))
        n++;
    return n;
}

/* Runtimes show a line with its blanks, without them, or with others; what counts is where the mark
 * stands from the first character that is none. A compiler's view of a tab does not matter then,
 * unless there are more in the line, which is rare. */
unsigned source_column(const struct errors_source *source, unsigned line, struct slice echo,
                       size_t mark)
{
    struct slice text = source_line(source, line);

    if (!text.data || !echo.data || mark == 0)
        return 0;
    size_t shown = blanks(echo), own = blanks(text);
    echo = skip(echo, shown);
    while (echo.len > 0 && is_blank(echo.data[echo.len - 1]))
        echo.len--;
    if (echo.len == 0 || echo.len > text.len - own ||
        memcmp(echo.data, text.data + own, echo.len) != 0 || mark <= shown ||
        mark > shown + echo.len + 1)
        return 0;
    return (unsigned)(mark - shown + own);
}

/* ---- finding ---- */

/* Without blanks, cut to a size. */
static size_t squeeze(struct slice text, char *out, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len && n < size; i++)
        if (!is_blank(text.data[i]))
            out[n++] = text.data[i];
    return n;
}

unsigned source_line_with(const struct errors_source *source, const char *text, bool may_repeat)
{
    enum { LINE_MAX = 1024, TEXT_MAX = 256 };
    char wanted[TEXT_MAX], line[LINE_MAX];
    size_t len = squeeze((struct slice){ text, strlen(text) }, wanted, sizeof wanted);
    struct slice given;
    size_t at = 0;
    unsigned found = 0;

    if (len == 0)
        return 0;
    for (unsigned i = 1; next_line(source, &at, &given); i++) {
        size_t n = squeeze(given, line, sizeof line);
        if (!memmem(line, n, wanted, len))
            continue;
        if (found && !may_repeat)
            return 0;
        found = i;
    }
    return found;
}

/* The next text in quotes, as far as it is plain: up to an escape or a placeholder. */
static bool next_quoted(struct slice *rest, struct slice *ret)
{
    size_t i = 0;

    while (i < rest->len && rest->data[i] != '"' && rest->data[i] != '\'' && rest->data[i] != '`')
        i++;
    if (i == rest->len)
        return false;
    char quote = rest->data[i++];
    struct slice text = { rest->data + i, 0 };
    while (i < rest->len && rest->data[i] != quote)
        i++;
    while (text.data + text.len < rest->data + i && !strchr("%\\{$#\n", text.data[text.len]))
        text.len++;
    *rest = skip(*rest, MIN(i + 1, rest->len));
    *ret = text;
    return true;
}

unsigned source_line_saying(const struct errors_source *source, const char *word,
                            const char *message)
{
    enum { LITERAL_MIN = 3 };
    size_t at = 0, best_at = SIZE_MAX, best_len = 0;
    unsigned found = 0;
    struct slice line, text;

    for (unsigned i = 1; next_line(source, &at, &line); i++) {
        const char *hit = memmem(line.data, line.len, word, strlen(word));
        if (!hit)
            continue;
        struct slice rest = skip(line, (size_t)(hit - line.data) + strlen(word));
        while (next_quoted(&rest, &text)) {
            const char *said = text.len < LITERAL_MIN
                                   ? NULL
                                   : memmem(message, strlen(message), text.data, text.len);
            size_t place = said ? (size_t)(said - message) : SIZE_MAX;
            if (place > best_at || !said || (place == best_at && text.len <= best_len))
                continue;
            best_at = place;
            best_len = text.len;
            found = i;
        }
    }
    return found;
}

/* Whether a text ends, or starts, with another; blanks apart. */
static bool ends_alike(struct slice line, struct slice end, bool at_start)
{
    enum { PART_MAX = 512 };
    char a[PART_MAX], b[PART_MAX];
    size_t n_a = squeeze(line, a, sizeof a), n_b = squeeze(end, b, sizeof b);

    return n_b > 0 && n_b <= n_a && memcmp(at_start ? a : a + n_a - n_b, b, n_b) == 0;
}

unsigned source_lines_quoted(const struct errors_source *source, const char *message)
{
    const char *start = strchr(message, '"'), *end = strrchr(message, '"');
    const char *newline = start ? memchr(start, '\n', (size_t)(end - start)) : NULL;
    struct slice line, before = { 0 };
    size_t at = 0;

    if (!newline)
        return 0;
    struct slice first = { start + 1, (size_t)(newline - start - 1) };
    struct slice second = { newline + 1, (size_t)(end - newline - 1) };
    for (unsigned i = 1; next_line(source, &at, &line); i++) {
        if (before.data && ends_alike(before, first, false) && ends_alike(line, second, true))
            return i;
        before = line;
    }
    return 0;
}

unsigned source_end_line(const struct errors_source *source)
{
    struct slice text;
    size_t at = 0;
    unsigned n = 1;

    while (next_line(source, &at, &text))
        n++;
    return n;
}

static const char *find_word(struct slice line, struct slice word)
{
    for (size_t at = 0; word.len > 0 && at + word.len <= line.len;) {
        const char *hit = memmem(line.data + at, line.len - at, word.data, word.len);
        if (!hit)
            return NULL;
        const char *end = hit + word.len;
        bool is_start = hit == line.data || !is_word(hit[-1]) || !is_word(*hit);
        bool is_end = end == line.data + line.len || !is_word(*end) || !is_word(end[-1]);
        if (is_start && is_end)
            return hit;
        at = (size_t)(hit - line.data) + 1;
    }
    return NULL;
}

unsigned source_word_from(const struct errors_source *source, unsigned line, struct slice word,
                          unsigned *ret_column)
{
    struct slice text;
    size_t at = 0;

    for (unsigned i = 1; next_line(source, &at, &text); i++) {
        if (i < line)
            continue;
        const char *hit = find_word(text, word);
        if (hit) {
            *ret_column = (unsigned)(hit - text.data) + 1;
            return i;
        }
        while (text.len > 0 && is_blank(text.data[text.len - 1]))
            text.len--;
        if (text.len > 0 && text.data[text.len - 1] == ';')
            return 0;
    }
    return 0;
}

unsigned source_shown_line(const struct errors_source *source, unsigned line, struct slice echo,
                           size_t mark, unsigned *ret_column)
{
    enum { SHOWN_MAX = 40 };
    char shown[512], last[SHOWN_MAX] = "";
    struct slice text;
    size_t at = 0, n = 0;

    if (mark == 0 || mark > echo.len || is_blank(echo.data[mark - 1]))
        return 0;
    size_t start = mark > sizeof shown ? mark - sizeof shown : 0;
    size_t len = squeeze((struct slice){ echo.data + start, mark - start }, shown, sizeof shown);
    const char *wanted = shown + len - MIN(len, (size_t)SHOWN_MAX);
    len = MIN(len, (size_t)SHOWN_MAX);
    /* The characters that came last, blanks apart, against those that end at the mark. */
    for (unsigned i = 1; next_line(source, &at, &text); i++)
        for (size_t c = 0; i >= line && c < text.len; c++) {
            if (is_blank(text.data[c]))
                continue;
            memmove(last, last + 1, sizeof last - 1);
            last[SHOWN_MAX - 1] = text.data[c];
            if (++n >= len && memcmp(last + SHOWN_MAX - len, wanted, len) == 0) {
                *ret_column = (unsigned)c + 1;
                return i;
            }
        }
    return 0;
}

/* Whether a word stands where a shell takes it for a command: at the start, or behind a sign or a
 * word that begins one. */
static bool is_command_at(struct slice line, const char *word)
{
    static const char *const openers[] = { "then", "do", "else", "!", "time", "exec", "command" };
    struct slice before = { line.data, (size_t)(word - line.data) };

    while (before.len > 0 && is_blank(before.data[before.len - 1]))
        before.len--;
    if (before.len == 0 || strchr("|&;({`", before.data[before.len - 1]))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(openers); i++) {
        size_t len = strlen(openers[i]);
        if (before.len >= len && memcmp(before.data + before.len - len, openers[i], len) == 0 &&
            (before.len == len || is_blank(before.data[before.len - len - 1])))
            return true;
    }
    return false;
}

unsigned source_command_line(const struct errors_source *source, unsigned line, struct slice name)
{
    struct slice text;
    size_t at = 0;
    unsigned found = 0;

    for (unsigned i = 1; next_line(source, &at, &text); i++) {
        const char *hit = find_word(text, name);
        if (hit && i == line)
            return line;
        if (!hit || !is_command_at(text, hit) ||
            (found > 0 && i > line && i - line >= line - found))
            continue;
        found = i;
        if (i > line)
            break;
    }
    return found;
}

unsigned source_redirect_line(const struct errors_source *source, unsigned line)
{
    static const char *const openers[] = { "while ", "for ", "until ", "if ", "case ", "{", "(" };
    static const char *const closers[] = { "done", "fi", "esac", "}", ")" };
    struct slice text;
    size_t at = 0;

    for (unsigned i = 1; next_line(source, &at, &text); i++) {
        if (i < line)
            continue;
        text = skip(text, blanks(text));
        bool is_one = false;
        if (i == line) {
            for (size_t w = 0; w < ARRAY_LEN(openers); w++)
                is_one = is_one || starts(text, openers[w]);
            if (!is_one && !memchr(text.data, '{', text.len))
                return 0;
            continue;
        }
        for (size_t w = 0; w < ARRAY_LEN(closers); w++)
            is_one = is_one || starts(text, closers[w]);
        if (is_one && (memchr(text.data, '<', text.len) || memchr(text.data, '>', text.len)))
            return i;
    }
    return 0;
}

unsigned source_function_line(const struct errors_source *source, struct slice name)
{
    struct slice text;
    size_t at = 0;

    if (equals(name, "(anon)"))
        name.len = 0;

    for (unsigned i = 1; next_line(source, &at, &text); i++) {
        text = skip(text, blanks(text));
        bool has_keyword = starts(text, "function ");
        if (has_keyword)
            text = skip(text, strlen("function "));
        text = skip(text, blanks(text));
        if (text.len < name.len || memcmp(text.data, name.data, name.len) != 0)
            continue;
        text = skip(text, name.len);
        bool is_whole = text.len == 0 || !is_word(text.data[0]);
        text = skip(text, blanks(text));
        if (is_whole && (has_keyword || starts(text, "()")))
            return i;
    }
    return 0;
}

const char *source_place(const struct errors_sources *sources, const char *message,
                         const struct errors_source **ret, unsigned *ret_line)
{
    for (size_t i = 0; i < sources->n; i++) {
        const char *name = sources->list[i].name;
        const char *pos = strncmp(message, "./", 2) == 0 ? message + 2 : message;
        unsigned line = 0;
        if (strncmp(pos, name, strlen(name)) != 0 || pos[strlen(name)] != ':')
            continue;
        for (pos += strlen(name) + 1; *pos >= '0' && *pos <= '9' && line < 100000000; pos++)
            line = line * 10 + (unsigned)(*pos - '0');
        if (line == 0 || pos[0] != ':' || pos[1] != ' ')
            continue;
        *ret = &sources->list[i];
        *ret_line = line;
        return pos + 2;
    }
    return NULL;
}

/* ---- names ---- */

enum { NAMES_MAX = 2048, NAME_SLOTS = 4096 };

struct names {
    const char **list;
    size_t n;
    struct slice slots[NAME_SLOTS]; /* by hash, for each once */
};

/* Returns false where it is there already, or where the table is full. */
static bool names_add(struct names *names, struct slice word)
{
    size_t hash = 5381;

    for (size_t i = 0; i < word.len; i++)
        hash = hash * 33 + (unsigned char)word.data[i];
    for (size_t step = 0; step < 8; step++) {
        struct slice *slot = &names->slots[(hash + step) % NAME_SLOTS];
        if (!slot->data) {
            *slot = word;
            return true;
        }
        if (slot->len == word.len && memcmp(slot->data, word.data, word.len) == 0)
            return false;
    }
    return false;
}

static void names_read(struct arena *arena, struct names *names, const struct errors_source *source,
                       const char *but)
{
    size_t len = MIN(source->len, (size_t)ERRORS_SOURCE_MAX);

    for (size_t i = 0; i < len && names->n < NAMES_MAX;) {
        size_t start = i;
        while (i < len && is_word(source->data[i]))
            i++;
        struct slice word = { source->data + start, i - start };
        if (word.len >= 2 && word.len <= SUGGEST_MAX && is_letter(word.data[0]) &&
            !equals(word, but) && names_add(names, word))
            names->list[names->n++] = arena_dup(arena, word.data, word.len);
        i += i == start;
    }
}

const char *const *source_names(struct arena *arena, const struct errors_sources *sources,
                                const char *but, size_t *ret_n)
{
    struct names *names = arena_alloc(arena, sizeof *names);

    names->list = arena_alloc(arena, NAMES_MAX * sizeof *names->list);
    for (size_t i = 0; i < sources->n; i++)
        if (!sources->list[i].is_other)
            names_read(arena, names, &sources->list[i], but);
    *ret_n = names->n;
    return names->list;
}

/* ---- context ---- */

const struct cay_context_line *source_context(struct arena *arena,
                                              const struct errors_source *source, unsigned line,
                                              size_t *ret_n)
{
    enum { AROUND = 2, LINES = 2 * AROUND + 1, TEXT_MAX = 240 };
    struct cay_context_line *lines = arena_alloc(arena, LINES * sizeof *lines);
    struct slice text;
    size_t at = 0, n = 0;

    for (unsigned i = 1; n < LINES && next_line(source, &at, &text); i++) {
        if (i + AROUND < line || i > line + AROUND)
            continue;
        size_t indent = blanks(text);
        char *shown = source_copy(arena, text, TEXT_MAX);
        /* source_copy has no blanks at the start; in code they count. */
        shown = arena_printf(arena, "%.*s%s", (int)MIN(indent, (size_t)TEXT_MAX), text.data, shown);
        lines[n++] = (struct cay_context_line){ i, shown, i == line };
    }
    *ret_n = n;
    return lines;
}

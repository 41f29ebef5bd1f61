/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The file of rows. Words are split at blanks, there is no quoting:
 *
 *     let NAME = WORDS...         {NAME} as a word stands for these words from here on
 *     [GROUP]                     starts a group
 *     ROW: COMMAND...             the first row of a group is its baseline
 *     ROW (root): COMMAND...      only measured as root
 *     ROW (root, cgroup2): ...    and started where /sys/fs/cgroup is cgroup v2 and nothing else
 *     ROW (http): KEY=VALUE...    a request to the server of --server; a word that comes twice is a
 *                                 list
 *     ROW (engine): KEY=VALUE...  the same given to an engine in this process; (engine, no spares)
 *                                 and (engine, fork): see enum driver
 *     target: ROW <= N x ROW      printed with yes or no, never a failure
 *
 * `--set NAME=VALUE` replaces {NAME} within words, and its value is not split; an empty value that
 * is all of a word removes it.
 */

#include "bench.h"

#include <errno.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/strbuf.h"

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t\r\n", text[len - 1]))
        len--;
    text[len] = '\0';
    return text;
}

static const struct name *find_name(const struct bench *b, const char *text, size_t len)
{
    for (int i = 0; i < b->name_count; i++) {
        if (strlen(b->names[i].name) == len && strncmp(b->names[i].name, text, len) == 0)
            return &b->names[i];
    }
    return NULL;
}

static int add_name(struct bench *b, const char *name, char **words, bool is_set,
                    struct cay_error *err)
{
    if (find_name(b, name, strlen(name)))
        return cay_fail(err, CAY_E_USAGE, "%s is defined twice", name);
    if (b->name_count == MAX_NAMES)
        return cay_fail(err, CAY_E_LIMIT, "more than %d names", MAX_NAMES);
    b->names[b->name_count++] = (struct name){ arena_str(&b->arena, name), words, is_set };
    return 0;
}

static int add_word(char **words, int *count, char *word, struct cay_error *err)
{
    if (*count == MAX_WORDS)
        return cay_fail(err, CAY_E_LIMIT, "more than %d words", MAX_WORDS);
    words[(*count)++] = word;
    return 0;
}

/* Replaces each {NAME} within a word by the value that --set gave it. */
static int expand_word(struct bench *b, const char *word, char **ret, struct cay_error *err)
{
    auto_strbuf struct strbuf out = { 0 };
    for (const char *p = word; *p != '\0';) {
        const char *end = *p == '{' ? strchr(p, '}') : NULL;
        if (!end) {
            strbuf_putc(&out, *p++);
            continue;
        }
        const struct name *n = find_name(b, p + 1, (size_t)(end - p - 1));
        if (!n || !n->is_set)
            return cay_fail(err, CAY_E_USAGE, "%s: no --set gives {%.*s}", word, (int)(end - p - 1),
                            p + 1);
        strbuf_puts(&out, n->words[0]);
        p = end + 1;
    }
    *ret = arena_str(&b->arena, strbuf_str(&out));
    return 0;
}

/* Splits a command into words; the result ends with NULL. */
static int parse_words(struct bench *b, char *text, char ***ret, struct cay_error *err)
{
    char *words[MAX_WORDS];
    int count = 0;
    char *rest = NULL;
    for (char *w = strtok_r(text, " \t", &rest); w; w = strtok_r(NULL, " \t", &rest)) {
        size_t len = strlen(w);
        const struct name *n =
            w[0] == '{' && w[len - 1] == '}' ? find_name(b, w + 1, len - 2) : NULL;
        if (n && !(n->is_set && n->words[0][0] != '\0')) {
            for (char **p = n->words; *p && **p != '\0'; p++) {
                if (add_word(words, &count, *p, err) < 0)
                    return -1;
            }
            continue;
        }
        char *word = NULL;
        if (expand_word(b, w, &word, err) < 0 || add_word(words, &count, word, err) < 0)
            return -1;
    }
    if (count == 0)
        return cay_fail(err, CAY_E_USAGE, "a command is missing");

    char **copy = arena_alloc(&b->arena, ((size_t)count + 1) * sizeof(*copy));
    memcpy(copy, words, (size_t)count * sizeof(*copy));
    *ret = copy;
    return 0;
}

static const struct row *find_row(const struct group *g, const char *name)
{
    for (int i = 0; i < g->row_count; i++) {
        if (strcmp(g->rows[i].name, name) == 0)
            return &g->rows[i];
    }
    return NULL;
}

static int parse_target(struct group *g, const char *text, struct cay_error *err)
{
    char name[64], of[64];
    double limit = 0;
    int end = 0;
    if (sscanf(text, "%63s <= %lf x %63s%n", name, &limit, of, &end) != 3 || text[end] != '\0' ||
        !(limit > 0))
        return cay_fail(err, CAY_E_USAGE, "a target reads: ROW <= N x ROW");
    if (g->target_count == MAX_TARGETS)
        return cay_fail(err, CAY_E_LIMIT, "more than %d targets in [%s]", MAX_TARGETS, g->name);

    struct target t = { find_row(g, name), find_row(g, of), limit };
    if (!t.row || !t.of)
        return cay_fail(err, CAY_E_NOTFOUND, "no row %s in [%s]", t.row ? of : name, g->name);
    g->targets[g->target_count++] = t;
    return 0;
}

static int read_mark(struct row *row, const char *mark)
{
    static const struct {
        const char *mark;
        enum driver driver;
        bool root_only, on_cgroup2;
    } marks[] = {
        { " (root)", COMMAND, true, false },
        { " (root, cgroup2)", COMMAND, true, true },
        { " (http)", HTTP, false, false },
        { " (engine)", ENGINE, false, false },
        { " (engine, no spares)", ENGINE_NO_SPARES, false, false },
        { " (engine, fork)", ENGINE_FORK, false, false },
    };

    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        if (strcmp(mark, marks[i].mark) != 0)
            continue;
        row->driver = marks[i].driver;
        row->root_only = marks[i].root_only;
        row->on_cgroup2 = marks[i].on_cgroup2;
        return 0;
    }
    return -1;
}

static int parse_row(struct bench *b, struct group *g, char *name, char *text,
                     struct cay_error *err)
{
    if (g->row_count == MAX_ROWS)
        return cay_fail(err, CAY_E_LIMIT, "more than %d rows in [%s]", MAX_ROWS, g->name);
    struct row *row = &g->rows[g->row_count];
    if (parse_words(b, text, &row->argv, err) < 0)
        return -1;

    char *mark = strstr(name, " (");
    if (mark && read_mark(row, mark) < 0)
        return cay_fail(err, CAY_E_USAGE, "no mark of a row:%s", mark);
    if (mark)
        *mark = '\0';
    row->name = arena_str(&b->arena, trim(name));
    if (find_row(g, row->name))
        return cay_fail(err, CAY_E_USAGE, "row %s is there twice", row->name);
    g->row_count++;
    return 0;
}

static int parse_line(struct bench *b, char *line, struct cay_error *err)
{
    line = trim(line);
    size_t len = strlen(line);
    if (len == 0 || line[0] == '#')
        return 0;

    if (line[0] == '[' && line[len - 1] == ']') {
        if (b->group_count == MAX_GROUPS)
            return cay_fail(err, CAY_E_LIMIT, "more than %d groups", MAX_GROUPS);
        line[len - 1] = '\0';
        b->groups[b->group_count++].name = arena_str(&b->arena, line + 1);
        return 0;
    }
    if (strncmp(line, "let ", 4) == 0) {
        char *value = strchr(line, '=');
        if (!value)
            return cay_fail(err, CAY_E_USAGE, "let reads: let NAME = WORDS");
        *value++ = '\0';
        char **words = NULL;
        if (parse_words(b, value, &words, err) < 0)
            return -1;
        return add_name(b, trim(line + 4), words, false, err);
    }

    char *text = strchr(line, ':');
    if (!text || b->group_count == 0)
        return cay_fail(err, CAY_E_USAGE, "neither a let, a [group], nor a row in a group");
    *text++ = '\0';
    struct group *g = &b->groups[b->group_count - 1];
    if (strcmp(line, "target") == 0)
        return parse_target(g, trim(text), err);
    return parse_row(b, g, line, text, err);
}

int rows_set(struct bench *b, const char *text, struct cay_error *err)
{
    const char *value = strchr(text, '=');
    if (!value || value == text)
        return cay_fail(err, CAY_E_USAGE, "--set: %s is not NAME=VALUE", text);
    auto_free char *name = mem_dup(text, (size_t)(value - text));
    char **words = arena_alloc(&b->arena, 2 * sizeof(*words));
    words[0] = arena_str(&b->arena, value + 1);
    return add_name(b, name, words, true, err);
}

int rows_read(struct bench *b, const char *path, struct cay_error *err)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return cay_fail_errno(err, errno, "open %s", path);

    auto_free char *line = NULL;
    size_t size = 0;
    int rc = 0;
    for (int number = 1; rc == 0 && getline(&line, &size, file) >= 0; number++) {
        rc = parse_line(b, line, err);
        if (rc < 0)
            cay_wrap(err, "%s:%d", path, number);
    }
    if (rc == 0 && ferror(file))
        rc = cay_fail_errno(err, errno, "read %s", path);
    fclose(file);
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "syntax/rules.h"

#include <fnmatch.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "base/toml.h"

enum { TABLE = 256, PATTERNS_MAX = 4096, RULES_MAX = 4096 };

/* One name of one rule. */
struct entry {
    struct entry *next;
    const char *pattern;
    const struct rule *rule;
    size_t len;
    bool is_head, is_tail; /* * at its start: compare the tail; at its end: the head */
};

struct rules {
    struct arena *arena;
    const char *language;
    struct rule *first, *last;
    size_t n;
    struct entry *exact[WAY_N][TABLE], *loose[WAY_N];
    TSQuery *query;
    const struct rule **patterns; /* by index in the query */
    uint32_t n_patterns;
};

static const char *const severities[] = { "off", "info", "warn", "block" };

const char *severity_name(enum severity severity)
{
    return severities[severity];
}

/* ---- reading ---- */

struct reading {
    struct rules *rules;
    const char *file;
    struct cay_error *err;
};

static int wrong(const struct reading *r, unsigned line, const char *what)
{
    return cay_fail(r->err, CAY_E_USAGE, "%s:%u: %s", r->file, line, what);
}

static int read_text(const struct reading *r, const struct toml_value *value, const char **ret)
{
    if (value->kind != TOML_STRING || strlen(value->text) != value->len)
        return wrong(r, value->line,
                     arena_printf(r->rules->arena, "%s has to be a string", value->key));
    *ret = value->text;
    return 0;
}

static int read_list(const struct reading *r, const struct toml_value *value,
                     const char *const **ret)
{
    const char **list = arena_alloc(
        r->rules->arena, (value->kind == TOML_ARRAY ? value->count + 1 : 2) * sizeof *list);
    size_t n = 0;

    if (value->kind == TOML_STRING) {
        list[0] = value->text;
        *ret = list;
        return 0;
    }
    if (value->kind != TOML_ARRAY)
        return wrong(r, value->line,
                     arena_printf(r->rules->arena, "%s has to be a list of strings", value->key));
    for (const struct toml_value *item = value->first; item; item = item->next) {
        if (item->kind != TOML_STRING)
            return wrong(
                r, item->line,
                arena_printf(r->rules->arena, "%s has to be a list of strings", value->key));
        list[n++] = item->text;
    }
    *ret = list;
    return 0;
}

static int read_severity(const struct reading *r, const struct toml_value *value,
                         enum severity *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(severities); i++)
        if (value->kind == TOML_STRING && strcmp(value->text, severities[i]) == 0) {
            *ret = (enum severity)i;
            return 0;
        }
    return wrong(r, value->line, "severity is one of off, info, warn, block");
}

static int read_key(const struct reading *r, struct rule *rule, const struct toml_value *value)
{
    const struct {
        const char *key;
        const char **text;
        const char *const **list;
        bool *flag;
    } keys[] = {
        { "id", .text = &rule->id },
        { "message", .text = &rule->message },
        { "remedy", .text = &rule->remedy },
        { "tags", .list = &rule->tags },
        { "import", .list = &rule->ways[WAY_IMPORT] },
        { "use", .list = &rule->ways[WAY_USE] },
        { "call", .list = &rule->ways[WAY_CALL] },
        { "command", .list = &rule->ways[WAY_COMMAND] },
        { "pipe", .list = &rule->ways[WAY_PIPE] },
        { "path", .list = &rule->ways[WAY_PATH] },
        { "write", .list = &rule->ways[WAY_WRITE] },
        { "word", .list = &rule->ways[WAY_WORD] },
        { "query", .text = &rule->query },
        { "arg", .list = &rule->arg },
        { "first", .list = &rule->first },
        { "except", .list = &rule->except },
        { "ordinary", .list = &rule->ordinary },
        { "keyword", .text = &rule->keyword },
        { "flags", .text = &rule->flags },
        { "dynamic", .flag = &rule->is_dynamic },
        { "no_network", .flag = &rule->needs_no_network },
        { "no_isolation", .flag = &rule->needs_no_isolation },
        { "strict", .flag = &rule->is_strict },
        { "above", .flag = &rule->is_above },
    };
    const char *names[ARRAY_LEN(keys) + 1];

    if (strcmp(value->key, "severity") == 0)
        return read_severity(r, value, &rule->severity);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        names[i] = keys[i].key;
        if (strcmp(value->key, keys[i].key) != 0)
            continue;
        if (keys[i].text)
            return read_text(r, value, keys[i].text);
        if (keys[i].list)
            return read_list(r, value, keys[i].list);
        if (value->kind != TOML_BOOLEAN)
            return wrong(r, value->line,
                         arena_printf(r->rules->arena, "%s is true or false", value->key));
        *keys[i].flag = value->boolean;
        return 0;
    }
    names[ARRAY_LEN(keys)] = "severity";
    wrong(r, value->line,
          arena_printf(r->rules->arena, "there is no key '%.60s' in a rule", value->key));
    const char *near = suggest(value->key, names, ARRAY_LEN(names));
    return near ? cay_hint(r->err, "did you mean %s?", near) : -1;
}

static void put_rule(struct rules *rules, const struct rule *rule)
{
    for (struct rule *old = rules->first; old; old = old->next)
        if (strcmp(old->id, rule->id) == 0) {
            struct rule *next = old->next;
            *old = *rule;
            old->next = next;
            return;
        }
    struct rule *copy = arena_alloc(rules->arena, sizeof *copy);
    *copy = *rule;
    copy->next = NULL;
    if (rules->last)
        rules->last->next = copy;
    else
        rules->first = copy;
    rules->last = copy;
    rules->n++;
}

static int read_rule(const struct reading *r, const struct toml_value *table)
{
    struct rule rule = { .severity = SEVERITY_WARN, .file = r->file, .line = table->line };
    bool has_way = false;

    if (table->kind != TOML_TABLE)
        return wrong(r, table->line, "a rule is a table, [[rule]]");
    for (const struct toml_value *value = table->first; value; value = value->next) {
        if (strcmp(value->key, "query") == 0)
            rule.query_line = value->line;
        if (read_key(r, &rule, value) < 0)
            return -1;
    }
    if (!rule.id || !rule.id[0])
        return wrong(r, table->line, "the rule has no id");
    for (int i = 0; i < WAY_N; i++)
        has_way = has_way || rule.ways[i];
    if (rule.severity != SEVERITY_OFF && !rule.message)
        return wrong(r, table->line, "the rule has no message");
    if (rule.severity != SEVERITY_OFF && !has_way && !rule.query && !rule.except)
        return wrong(r, table->line,
                     "the rule looks for nothing: it needs import, use, call, command, pipe, path, "
                     "write, word or query");
    if (r->rules->n >= RULES_MAX)
        return wrong(r, table->line, "too many rules");
    put_rule(r->rules, &rule);
    return 0;
}

int rules_add(struct rules *rules, const char *text, size_t len, const char *file,
              struct cay_error *err)
{
    const struct reading r = { rules, arena_str(rules->arena, file), err };
    struct toml_value *root;
    const char *const *languages = NULL;
    bool is_ours = false;

    if (toml_parse(rules->arena, text, len, file, &root, err) < 0)
        return -1;
    for (const struct toml_value *value = root->first; value; value = value->next)
        if (strcmp(value->key, "languages") == 0 && read_list(&r, value, &languages) < 0)
            return -1;
        else if (strcmp(value->key, "languages") != 0 && strcmp(value->key, "rule") != 0)
            return wrong(&r, value->line,
                         arena_printf(rules->arena,
                                      "there is no key '%.60s'; allowed are languages, rule",
                                      value->key));
    if (!languages || !languages[0])
        return wrong(&r, 1, "languages is missing: which ones are these rules for?");
    for (; *languages; languages++)
        is_ours = is_ours || strcmp(*languages, rules->language) == 0;
    const struct toml_value *list = toml_get(root, "rule");
    if (list && list->kind != TOML_ARRAY)
        return wrong(&r, list->line, "rule is a list of tables: [[rule]]");
    /* Those of other languages are read too: a broken file is broken for all. */
    struct rules other = { .arena = rules->arena, .language = rules->language };
    struct reading each = r;
    each.rules = is_ours ? rules : &other;
    for (const struct toml_value *table = list ? list->first : NULL; table; table = table->next)
        if (read_rule(&each, table) < 0)
            return -1;
    return 0;
}

struct rules *rules_new(struct arena *arena, const char *language)
{
    struct rules *rules = arena_alloc(arena, sizeof *rules);
    *rules = (struct rules){ .arena = arena, .language = language };
    return rules;
}

/* ---- tables ---- */

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 2166136261U;

    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619U;
    return (hash ^ hash >> 15) % TABLE;
}

static void index_rule(struct rules *rules, const struct rule *rule)
{
    for (int way = 0; way < WAY_N; way++)
        for (const char *const *at = rule->ways[way]; at && *at; at++) {
            struct entry *entry = arena_alloc(rules->arena, sizeof *entry);
            const char *pattern = *at;
            size_t len = strlen(pattern);
            bool is_value = way == WAY_PATH || way == WAY_WRITE;
            *entry = (struct entry){ .pattern = pattern, .rule = rule, .len = len };
            if (!is_value && len > 0 && pattern[0] == '*') {
                entry->is_head = true;
                entry->pattern++;
                entry->len--;
            } else if (!is_value && len > 0 && pattern[len - 1] == '*') {
                entry->is_tail = true;
                entry->len--;
            }
            bool is_exact = !is_value && !entry->is_head && !entry->is_tail;
            struct entry **slot =
                is_exact ? &rules->exact[way][hash_of(pattern)] : &rules->loose[way];
            while (*slot) /* in the order of the files */
                slot = &(*slot)->next;
            *slot = entry;
        }
}

/* Which rule's part of the joined text an offset is in, and on which line of its query. */
static int query_error(struct rules *rules, const struct strbuf *text, uint32_t offset,
                       struct cay_error *err)
{
    size_t at = 0;

    for (const struct rule *rule = rules->first; rule; rule = rule->next) {
        size_t len = rule->query && rule->severity != SEVERITY_OFF ? strlen(rule->query) + 1 : 0;
        if (len == 0 || offset >= at + len) {
            at += len;
            continue;
        }
        unsigned line = rule->query_line;
        for (size_t i = at; i < offset && i < text->len; i++)
            line += text->data[i] == '\n';
        return cay_fail(err, CAY_E_USAGE, "%s:%u: the query of %s does not fit the grammar of %s",
                        rule->file, line, rule->id, rules->language);
    }
    return cay_fail(err, CAY_E_USAGE, "a query does not fit the grammar of %s", rules->language);
}

static int make_query(struct rules *rules, const struct grammar *grammar, struct cay_error *err)
{
    auto_strbuf struct strbuf text = { 0 };
    uint32_t offset = 0;
    TSQueryError error = TSQueryErrorNone;

    for (const struct rule *rule = rules->first; rule; rule = rule->next)
        if (rule->query && rule->severity != SEVERITY_OFF)
            strbuf_printf(&text, "%s\n", rule->query);
    if (text.len == 0)
        return 0;
    rules->query = ts_query_new(grammar->language, text.data, (uint32_t)text.len, &offset, &error);
    if (!rules->query)
        return query_error(rules, &text, offset, err);
    rules->n_patterns = ts_query_pattern_count(rules->query);
    rules->patterns = arena_alloc(rules->arena, rules->n_patterns * sizeof *rules->patterns);
    for (uint32_t i = 0; i < rules->n_patterns; i++) {
        size_t start = ts_query_start_byte_for_pattern(rules->query, i), at = 0;
        for (const struct rule *rule = rules->first; rule; rule = rule->next) {
            size_t len =
                rule->query && rule->severity != SEVERITY_OFF ? strlen(rule->query) + 1 : 0;
            if (len > 0 && start >= at && start < at + len)
                rules->patterns[i] = rule;
            at += len;
        }
    }
    return 0;
}

int rules_finish(struct rules *rules, const struct grammar *grammar, struct cay_error *err)
{
    for (const struct rule *rule = rules->first; rule; rule = rule->next)
        if (rule->severity != SEVERITY_OFF)
            index_rule(rules, rule);
    return grammar && grammar->language ? make_query(rules, grammar, err) : 0;
}

void rules_done(struct rules *rules)
{
    if (rules && rules->query)
        ts_query_delete(rules->query);
}

size_t rules_count(const struct rules *rules)
{
    return rules->n;
}

const struct rule *rules_first(const struct rules *rules)
{
    return rules->first;
}

const TSQuery *rules_query(const struct rules *rules)
{
    return rules->query;
}

const struct rule *rules_of_pattern(const struct rules *rules, uint32_t pattern)
{
    return pattern < rules->n_patterns ? rules->patterns[pattern] : NULL;
}

/* ---- finding ---- */

void rules_find(const struct rules *rules, enum way way, const char *name, rules_fn *fn, void *arg)
{
    size_t len = strlen(name);

    for (const struct entry *e = rules->exact[way][hash_of(name)]; e; e = e->next)
        if (e->len == len && memcmp(e->pattern, name, len) == 0)
            fn(arg, e->rule);
    for (const struct entry *e = rules->loose[way]; e; e = e->next)
        if (len >= e->len &&
            memcmp(e->is_head ? name + len - e->len : name, e->pattern, e->len) == 0 &&
            (e->is_head || !strchr(name + e->len, '('))) /* what a call gave is another thing */
            fn(arg, e->rule);
}

/* What fnmatch would find out too, but for a tenth of the time: the text before the first star, and
 * that between it and the next, have to be there. */
static bool can_match(const char *glob, const char *value)
{
    static const char special[] = "*?[\\";
    size_t n = strcspn(glob, special);

    if (strncmp(glob, value, n) != 0)
        return false;
    size_t between = glob[n] == '*' ? strcspn(glob + n + 1, special) : 0;
    return between == 0 || memmem(value + n, strlen(value + n), glob + n + 1, between);
}

void rules_match(const struct rules *rules, enum way way, const char *value, rules_fn *fn,
                 void *arg)
{
    const struct rule *last = NULL;

    for (const struct entry *e = rules->loose[way]; e; e = e->next)
        if (e->rule != last && can_match(e->pattern, value) && fnmatch(e->pattern, value, 0) == 0) {
            last = e->rule;
            fn(arg, e->rule);
        }
}

bool rules_is_in(const char *const *globs, const char *value)
{
    for (; globs && *globs; globs++)
        if (can_match(*globs, value) && fnmatch(*globs, value, 0) == 0)
            return true;
    return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "syntax/facts-state.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/syntax-wire.h"
#include "syntax/path.h"
#include "syntax/perl-words.h"
#include "syntax/query.h"

enum { NESTING_MAX = 3, ARGS_MAX = 32, LOOK_EVERY = 4096 };

/* ---- telling ---- */

/* "{name} runs a command" */
static const char *fill(struct arena *arena, const char *message, const char *name)
{
    const char *at = strstr(message, "{name}");

    if (!at)
        return message;
    return arena_printf(arena, "%.*s%.200s%s", (int)(at - message), message, name ? name : "it",
                        at + strlen("{name}"));
}

/* In code within code, the finding is where the outer code holds it. */
static void report_finding(struct facts *facts, const struct rule *rule, TSNode node,
                           const char *name, const char *module)
{
    const struct facts *at = facts;

    while (at->outer) {
        node = at->outer_node;
        at = at->outer;
    }
    struct finding finding = {
        .rule = rule->id,
        .message = fill(facts->findings->arena, rule->message, name),
        .remedy = rule->remedy ? rule->remedy : "",
        .severity = rule->severity,
        .module = rule->severity == SEVERITY_BLOCK ? module : NULL,
        .is_ordinary = rules_is_in(rule->ordinary, name ? name : ""),
    };
    if (at->tree->tree)
        findings_add(facts->findings, at->tree, node, finding);
    else
        findings_add_at(facts->findings, at->tree, facts->at, finding);
}

/* ---- conditions ---- */

static bool has_flag(const struct shell_command *command, char letter)
{
    static const struct {
        char letter;
        const char *word;
    } rows[] = { { 'r', "--recursive" }, { 'R', "--recursive" }, { 'f', "--force" } };

    for (unsigned i = 0; i < command->n; i++) {
        const char *word = command->args[i];
        if (!word || word[0] != '-' || !word[1])
            continue;
        bool is_same = (letter == 'r' && strchr(word + 1, 'R')) || strchr(word + 1, letter);
        if (word[1] != '-' && is_same)
            return true;
        for (size_t k = 0; k < ARRAY_LEN(rows); k++)
            if (rows[k].letter == letter && strcmp(word, rows[k].word) == 0)
                return true;
    }
    return false;
}

static bool is_in(struct facts *facts, const char *const *globs, const char *word)
{
    if (!word)
        return false;
    const char *plain = path_plain(facts->findings->arena, word);
    return rules_is_in(globs, word) || (plain != word && rules_is_in(globs, plain));
}

static bool command_fits(struct facts *facts, const struct rule *rule,
                         const struct shell_command *command)
{
    bool has_arg = !rule->arg;

    for (const char *letter = rule->flags; letter && *letter; letter++)
        if (!has_flag(command, *letter))
            return false;
    for (unsigned i = 0; i < command->n && !has_arg; i++)
        has_arg = is_in(facts, rule->arg, command->args[i]);
    if (!has_arg || (rule->is_dynamic && !command->has_unknown))
        return false;
    /* The first operand: options are no matter of order. */
    for (unsigned i = 0; rule->first && i < command->n; i++)
        if (!command->args[i] || command->args[i][0] != '-')
            return is_in(facts, rule->first, command->args[i]);
    return !rule->first;
}

static bool keyword_fits(const struct look *look, const char *keyword)
{
    const struct roles *roles = look->facts->roles;
    const struct node_role *role = role_of(roles, look->call);
    TSNode list = ts_node_child_by_field_id(look->call, role->b);
    uint32_t n = ts_node_is_null(list) ? 0 : MIN(ts_node_named_child_count(list), 256U);
    size_t name_len = strcspn(keyword, "=");

    for (uint32_t i = 0; i < n; i++) {
        TSNode child = ts_node_named_child(list, i);
        const struct node_role *kind = role_of(roles, child);
        if (kind->role != ROLE_KEYWORD)
            continue;
        size_t len;
        TSNode name = ts_node_child_by_field_id(child, kind->a);
        TSNode value = ts_node_child_by_field_id(child, kind->b);
        const char *text = node_text(look->facts->tree, name, &len);
        if (len == name_len && memcmp(text, keyword, len) == 0 &&
            (!keyword[name_len] || node_is(look->facts->tree, value, keyword + name_len + 1)))
            return true;
    }
    return false;
}

static bool call_fits(const struct look *look, const struct rule *rule)
{
    struct names *names = look->facts->names;

    if (rule->keyword && !keyword_fits(look, rule->keyword))
        return false;
    if (!rule->arg && !rule->first && !rule->is_dynamic)
        return true;
    bool has_arg = !rule->arg;
    for (unsigned i = 0; i < ARGS_MAX; i++) {
        TSNode node = names_argument(names, look->call, i);
        if (ts_node_is_null(node))
            break;
        const char *text = names_fold(names, node);
        if (i == 0 && rule->first && (!text || !rules_is_in(rule->first, text)))
            return false;
        if (i == 0 && rule->is_dynamic && text)
            return false;
        has_arg = has_arg || (text && rules_is_in(rule->arg, text));
    }
    if ((rule->first || rule->is_dynamic) && ts_node_is_null(names_argument(names, look->call, 0)))
        return false;
    return has_arg;
}

void facts_on_rule(void *arg, const struct rule *rule)
{
    struct look *look = arg;
    unsigned flags = look->facts->findings->flags;

    if (rule->needs_no_network && !(flags & SYNTAX_NO_NETWORK))
        return;
    if (rule->needs_no_isolation && !(flags & SYNTAX_NO_ISOLATION))
        return;
    if (rule->is_strict && !(flags & SYNTAX_STRICT))
        return;
    if (rule->is_above && path_climbs(look->name) <= look->facts->n_entered)
        return;
    if (look->way == WAY_COMMAND && !command_fits(look->facts, rule, look->command))
        return;
    if (look->way == WAY_CALL && !call_fits(look, rule))
        return;
    report_finding(look->facts, rule, look->node, look->name,
                   look->way == WAY_IMPORT ? look->name : NULL);
}

void facts_look_up(struct facts *facts, enum way way, const char *name, TSNode node)
{
    struct look look = { .facts = facts, .node = node, .name = name, .way = way };

    if (!name || !name[0])
        return;
    if (way != WAY_PATH && way != WAY_WRITE) {
        rules_find(facts->rules, way, name, facts_on_rule, &look);
        return;
    }
    rules_match(facts->rules, way, name, facts_on_rule, &look);
    look.name = path_plain(facts->findings->arena, name);
    if (look.name != name)
        rules_match(facts->rules, way, look.name, facts_on_rule, &look);
}

/* ---- imports ---- */

static bool is_listed(const struct findings *findings, char sign, const char *module)
{
    for (size_t i = 0; i < findings->list_len;) {
        const char *entry = findings->list_text + i;
        if (entry[0] == sign && strcmp(entry + 1, module) == 0)
            return true;
        i += strlen(entry) + 1;
    }
    return false;
}

/* A module and all that it is part of: a.b.c, a.b, a. */
static void on_import(void *arg, const char *module, TSNode node)
{
    static const struct rule listed = {
        .id = "blocked-import",
        .severity = SEVERITY_BLOCK,
        .message = "import of {name}, which block_imports names",
        .remedy = "do without it, or take it off block_imports",
    };
    struct facts *facts = arg;
    char *name = arena_str(facts->findings->arena, module);

    for (;;) {
        if (is_listed(facts->findings, '-', name))
            return;
        if (is_listed(facts->findings, '+', name))
            report_finding(facts, &listed, node, name, name);
        facts_look_up(facts, WAY_IMPORT, arena_str(facts->findings->arena, name), node);
        size_t len = strlen(name);
        while (len > 0 && !strchr("./:", name[len - 1]))
            len--;
        while (len > 0 && strchr("./:", name[len - 1]))
            len--;
        if (len == 0)
            return;
        name[len] = '\0';
        if (facts->roles->dialect->has_flat_imports)
            return; /* net/url is no part of net */
    }
}

/* ---- calls and names ---- */

static void look_at_paths(struct facts *facts, TSNode call)
{
    for (unsigned i = 0; i < ARGS_MAX; i++) {
        TSNode node = names_argument(facts->names, call, i);
        if (ts_node_is_null(node))
            return;
        const char *text = names_fold(facts->names, node);
        if (text && (strchr(text, '/') || text[0] == '.' || text[0] == '~'))
            facts_look_up(facts, WAY_PATH, text, node);
    }
}

static bool is_evaluator(const struct dialect *dialect, const char *name)
{
    for (const char *const *at = dialect->evaluators; at && *at; at++) {
        size_t len = strlen(name), tail = strlen(*at) - 1;
        if (strcmp(*at, name) == 0 ||
            (**at == '*' && len > tail && memcmp(name + len - tail, *at + 1, tail) == 0))
            return true;
    }
    return false;
}

/* eval("import os"): the same rules on what is within. */
static void look_at_evaluated(struct facts *facts, TSNode call)
{
    const char *before = facts->roles->dialect->evaluated;

    for (unsigned i = 0; i < ARGS_MAX; i++) {
        TSNode node = names_argument(facts->names, call, i);
        if (ts_node_is_null(node))
            return;
        const char *code = names_fold(facts->names, node);
        if (code && before)
            code = arena_printf(facts->findings->arena, "%s%s", before, code);
        if (code)
            facts_look_within(facts, code, strlen(code), call);
    }
}

/* Names in a macro's text; what is in quotes is none. */
static void look_at_macro(struct facts *facts, TSNode node)
{
    TSNode value = ts_node_child_by_field_id(node, role_of(facts->roles, node)->b);
    size_t len = 0;
    const char *text = ts_node_is_null(value) ? "" : node_text(facts->tree, value, &len);
    bool is_quoted = false;

    for (size_t i = 0; i < len;) {
        size_t start = i;
        while (i < len && (isalnum((unsigned char)text[i]) || text[i] == '_'))
            i++;
        if (i > start && i - start <= NAME_MAX_BYTES && !is_quoted)
            facts_look_up(facts, WAY_USE,
                          arena_dup(facts->findings->arena, text + start, i - start), node);
        if (i == start) {
            is_quoted = is_quoted != (text[i] == '"');
            i += 1 + (text[i] == '\\');
        }
    }
}

static void look_at_call(struct facts *facts, TSNode node)
{
    const struct node_role *role = role_of(facts->roles, node);
    const char *module = names_imported(facts->names, node);
    const char *whole = names_resolve(facts->names, node);

    if (module)
        on_import(facts, module, node);
    /* The name with () behind it is what the call gives; without, what is called. */
    size_t len = whole ? strlen(whole) : 0;
    if (len > 0 && whole[len - 1] != ')')
        facts_look_up(facts, WAY_USE, whole, node); /* getattr(os, "system") */
    const char *called = NULL;
    if (len > 3 && strcmp(whole + len - 3, ".()") == 0)
        called = arena_dup(facts->findings->arena, whole, len - 3);
    else if (len > 4 && strcmp(whole + len - 4, "::()") == 0)
        called = arena_dup(facts->findings->arena, whole, len - 4);
    if (called) {
        struct look look = {
            .facts = facts, .node = node, .name = called, .call = node, .way = WAY_CALL
        };
        rules_find(facts->rules, WAY_CALL, called, facts_on_rule, &look);
        if (role->role != ROLE_CALL || facts->roles->dialect->names_by_string)
            facts_look_up(facts, WAY_USE, called, node); /* its name is no expression of its own */
        if (is_evaluator(facts->roles->dialect, called))
            look_at_evaluated(facts, node);
    }
    look_at_paths(facts, node);
}

static void look_at_shell_string(struct facts *facts, TSNode node)
{
    struct look look = { .facts = facts, .node = node, .name = "`…`", .way = WAY_USE };
    rules_find(facts->rules, WAY_USE, "`", facts_on_rule, &look);
}

/* ---- code within code ---- */

static void find_all(struct facts *facts);

void facts_look_within(struct facts *facts, const char *code, size_t len, TSNode node)
{
    const struct syntax_limits limits = { SYNTAX_CODE_MAX, facts->findings->deadline_ns };
    struct cay_error err;
    struct syntax_tree tree;

    if (facts->nesting >= NESTING_MAX || !code || len == 0 ||
        syntax_parse(facts->tree->grammar, code, len, &limits, &tree, &err) < 0)
        return;
    struct facts inner = {
        .tree = &tree,
        .roles = facts->roles,
        .rules = facts->rules,
        .findings = facts->findings,
        .nesting = facts->nesting + 1,
        .n_entered = facts->n_entered,
        .outer = facts,
        .outer_node = node,
    };
    find_all(&inner);
    /* A shell runs it line by line, up to where it breaks; elsewhere it may be no code at all. */
    if (facts->roles->dialect->is_shell && !ts_node_is_null(syntax_first_error(&tree))) {
        static const struct rule unread = {
            .id = "unparsed",
            .severity = SEVERITY_WARN,
            .message = "the code in here does not parse: some of it may have gone unseen",
            .remedy = "review it yourself: code that the check cannot read may do anything",
        };
        report_finding(facts, &unread, node, NULL, NULL);
        facts->findings->is_unread = true;
    }
    syntax_tree_done(&tree);
}

/* ---- all of it ---- */

/* The eval of model.eval() is no name of its own: it is reported before the walk comes to it. */
static void mark_part(struct facts *facts, TSNode node, TSFieldId id)
{
    TSNode part = id ? ts_node_child_by_field_id(node, id) : (TSNode){ 0 };
    uint32_t at = ts_node_is_null(part) ? 0 : ts_node_start_byte(part);

    if (!ts_node_is_null(part))
        facts->parts[at / 8] |= (unsigned char)(1U << at % 8);
}

static bool is_part(const struct facts *facts, TSNode node)
{
    uint32_t at = ts_node_start_byte(node);
    return facts->parts[at / 8] & 1U << at % 8;
}

static void look_at(struct facts *facts, TSNode node)
{
    const struct node_role *role = role_of(facts->roles, node);

    switch (role->role) {
    case ROLE_MEMBER:
    case ROLE_METHOD:
        mark_part(facts, node, role->b);
        break;
    case ROLE_KEYWORD:
    case ROLE_DEFINE:
        mark_part(facts, node, role->a);
        break;
    default:
        break;
    }
    switch (role->role) {
    case ROLE_NAME:
    case ROLE_MEMBER:
    case ROLE_INDEX:
        if (!facts->roles->dialect->is_shell && (role->role != ROLE_NAME || !is_part(facts, node)))
            facts_look_up(facts, WAY_USE, names_resolve(facts->names, node), node);
        break;
    case ROLE_CALL:
    case ROLE_METHOD:
    case ROLE_NEW:
        look_at_call(facts, node);
        break;
    case ROLE_MACRO:
        look_at_macro(facts, node);
        break;
    case ROLE_SHELL:
        look_at_shell_string(facts, node);
        break;
    case ROLE_COMMAND:
        facts_look_at_command(facts, node);
        break;
    case ROLE_PIPELINE:
        facts_look_at_pipeline(facts, node);
        break;
    case ROLE_REDIRECT:
        facts_look_at_redirect(facts, node);
        break;
    default:
        break;
    }
}

/* A constant is seen as its value, anything else, a name too, as its source. */
static const char *value_of(void *arg, TSNode node, char *buf, size_t size)
{
    struct facts *facts = arg;
    bool is_name = role_of(facts->roles, node)->role == ROLE_NAME;
    const char *text = is_name ? NULL : names_fold(facts->names, node);

    (void)buf;
    return text && strlen(text) < size ? text : NULL;
}

static void run_query(struct facts *facts)
{
    const TSQuery *query = rules_query(facts->rules);
    TSQueryCursor *cursor;
    TSQueryMatch match;

    if (!query)
        return;
    cursor = ts_query_cursor_new();
    ts_query_cursor_set_match_limit(cursor, 4096);
    ts_query_cursor_exec(cursor, query, ts_tree_root_node(facts->tree->tree));
    for (unsigned n = 0; !facts->findings->is_late && ts_query_cursor_next_match(cursor, &match);) {
        const struct rule *rule = rules_of_pattern(facts->rules, match.pattern_index);
        if (++n % 256 == 0)
            facts->findings->is_late = clock_now_ns() > facts->findings->deadline_ns;
        if (!rule || match.capture_count == 0 ||
            !query_holds(query, &match, facts->tree, value_of, facts))
            continue;
        struct look look = { .facts = facts, .node = match.captures[0].node, .way = WAY_USE };
        look.name = names_text(facts->names, look.node);
        facts_on_rule(&look, rule);
    }
    if (ts_query_cursor_did_exceed_match_limit(cursor))
        facts->findings->is_spent = true;
    ts_query_cursor_delete(cursor);
}

static void look_at_word(struct facts *facts, const char *word, uint32_t at)
{
    TSNode root = ts_tree_root_node(facts->tree->tree);
    facts_look_up(facts, WAY_WORD, word, ts_node_descendant_for_byte_range(root, at, at + 1));
}

/* Words of the text; a dot before one that begins its line is part of it, and so is a bracket right
 * behind a name of its own. */
static void look_at_words(struct facts *facts)
{
    const struct syntax_tree *tree = facts->tree;
    char word[64];

    bool is_start = true; /* of a line, but for blanks */
    for (uint32_t i = 0; i < tree->len && !facts->findings->is_late;) {
        uint32_t start = i;
        size_t n = 0;
        while (i < tree->len && (isalnum((unsigned char)tree->text[i]) || tree->text[i] == '_' ||
                                 (tree->text[i] == '.' && i == start && is_start))) {
            if (n < sizeof word - 1)
                word[n++] = (char)tolower((unsigned char)tree->text[i]);
            i++;
        }
        word[n] = '\0';
        is_start = n == 0 && (tree->text[i] == '\n' || (is_start && isblank(tree->text[i])));
        if (n > 1)
            look_at_word(facts, word, start);
        if (n > 1 && n < sizeof word - 1 && i < tree->len && tree->text[i] == '(') {
            word[n] = '(';
            word[n + 1] = '\0';
            look_at_word(facts, word, start);
        }
        i += i == start;
    }
}

static void find_in_tree(struct facts *facts)
{
    struct tree_walk walk;
    TSNode node;
    unsigned n = 0;

    facts->names = names_read(facts->findings->arena, facts->tree, facts->roles, on_import, facts);
    facts->parts = mem_alloc(facts->tree->len / 8 + 1);
    for (tree_walk_begin(&walk, ts_tree_root_node(facts->tree->tree));
         !facts->findings->is_late && !facts->findings->is_full && tree_walk_next(&walk, &node);) {
        if (++n % LOOK_EVERY == 0)
            facts->findings->is_late = clock_now_ns() > facts->findings->deadline_ns;
        if (role_of(facts->roles, node)->role != ROLE_NONE)
            look_at(facts, node);
    }
    tree_walk_end(&walk);
    free(facts->parts);
    run_query(facts);
    if (facts->roles->dialect->is_by_words)
        look_at_words(facts);
    facts->findings->is_spent = facts->findings->is_spent || names_is_spent(facts->names);
}

/* In both trees, where there are two: what fills the gaps hides nothing. */
static void find_all(struct facts *facts)
{
    const struct syntax_tree *tree = facts->tree;
    struct syntax_tree broken = *tree;

    find_in_tree(facts);
    if (!tree->broken)
        return;
    broken.tree = tree->broken;
    facts->tree = &broken;
    find_in_tree(facts);
    facts->tree = tree;
}

static bool on_word(void *arg, const char *word, size_t at, bool is_import)
{
    struct facts *facts = arg;

    facts->at = at;
    if (is_import)
        on_import(facts, word, (TSNode){ 0 });
    else
        facts_look_up(facts, WAY_WORD, word, (TSNode){ 0 });
    return !facts->findings->is_full;
}

void facts_find(const struct syntax_tree *tree, const struct roles *roles,
                const struct rules *rules, struct findings *findings)
{
    struct facts facts = { .tree = tree, .roles = roles, .rules = rules, .findings = findings };

    if (tree->tree)
        find_all(&facts);
    else
        perl_words(tree->text, tree->len, on_word, &facts);
}

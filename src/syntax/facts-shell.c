/* SPDX-License-Identifier: Apache-2.0 */
#include "syntax/facts-state.h"

#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/strbuf.h"
#include "syntax/path.h"

static void look_at_except(struct facts *facts, const struct shell_command *command)
{
    for (const struct rule *rule = rules_first(facts->rules); rule; rule = rule->next) {
        if (!rule->except || rule->severity == SEVERITY_OFF)
            continue;
        struct look look = { .facts = facts,
                             .node = command->node,
                             .name = command->name ? command->name : "a computed command",
                             .command = command,
                             .way = WAY_COMMAND };
        if (!command->name || !rules_is_in(rule->except, command->name))
            facts_on_rule(&look, rule);
    }
}

/* Where a cd leads: "cd build && cmake .." stays in the folder that it starts from. What is
 * computed may be anywhere. */
static void follow_cd(struct facts *facts, const struct shell_command *command)
{
    enum { ANYWHERE = 1000 };
    const char *to = NULL;

    if (!command->name || (strcmp(command->name, "cd") != 0 && strcmp(command->name, "pushd") != 0))
        return;
    for (unsigned i = 0; i < command->n && (i == 0 || (to && to[0] == '-' && to[1])); i++)
        to = command->args[i];
    if (!to || to[0] == '~' || to[0] == '/') {
        facts->n_entered = ANYWHERE;
        return;
    }
    const char *plain = path_plain(facts->findings->arena, to);
    unsigned n_up = path_climbs(plain);
    facts->n_entered -= MIN(n_up, facts->n_entered);
    for (const char *part = plain; *part; part += strcspn(part, "/"), part += *part == '/') {
        size_t len = strcspn(part, "/");
        bool is_name = len > 0 && strncmp(part, "..", 2) != 0 && !(len == 1 && strchr(".-", *part));
        facts->n_entered += is_name;
    }
}

static void look_at_one_command(struct facts *facts, const struct shell_command *read)
{
    const struct shell_command command = *read;
    TSNode node = command.node;
    const char *name = command.name ? command.name : "$";
    struct look look = {
        .facts = facts, .node = node, .name = name, .command = &command, .way = WAY_COMMAND
    };
    rules_find(facts->rules, WAY_COMMAND, name, facts_on_rule, &look);
    for (unsigned i = 0; i < command.n_wrappers; i++) {
        look.name = command.wrappers[i]; /* sudo itself */
        rules_find(facts->rules, WAY_COMMAND, command.wrappers[i], facts_on_rule, &look);
    }
    look_at_except(facts, &command);
    for (unsigned i = 0; i < command.n; i++) {
        const char *word = command.args[i];
        const char *value = word && word[0] != '~' && word[0] != '/' ? strchr(word, '=') : NULL;
        if (word)
            facts_look_up(facts, WAY_PATH, word, node);
        if (value)
            facts_look_up(facts, WAY_PATH, value + 1, node); /* if=/etc/shadow */
    }
    follow_cd(facts, &command);
    const char *code = shell_code_of(facts->names, &command);
    if (code)
        facts_look_within(facts, code, strlen(code), node);
}

/* (( n > 2 )), which the grammar takes for a command's name; $((1)) is one that is computed. */
static bool is_arithmetic(const struct facts *facts, TSNode name)
{
    size_t len = 0;
    const char *text = ts_node_is_null(name) ? "" : node_text(facts->tree, name, &len);

    return len > 2 && memcmp(text, "((", 2) == 0 && ts_node_named_child_count(name) == 1 &&
           strcmp(ts_node_type(ts_node_named_child(name, 0)), "arithmetic_expansion") == 0;
}

void facts_look_at_command(struct facts *facts, TSNode node)
{
    struct shell_command command;
    uint32_t at = 0, n = ts_node_named_child_count(node);

    if (is_arithmetic(facts, ts_node_named_child(node, 0)))
        at++;
    while (at > 0 && at < n && strstr(ts_node_type(ts_node_named_child(node, at)), "redirect"))
        at++;
    for (uint32_t before = at; at < n; before = at) {
        shell_read(facts->names, node, &at, &command);
        look_at_one_command(facts, &command);
        if (at == before)
            break;
    }
}

/* A command of a pipeline, its redirections left out. */
static bool read_part(struct facts *facts, TSNode child, struct shell_command *ret)
{
    for (int i = 0;
         i < 8 && !ts_node_is_null(child) && role_of(facts->roles, child)->role == ROLE_REDIRECT;
         i++)
        child = ts_node_named_child(child, 0);
    if (ts_node_is_null(child) || role_of(facts->roles, child)->role != ROLE_COMMAND)
        return false;
    uint32_t at = 0;
    shell_read(facts->names, child, &at, ret);
    return true;
}

/* echo rm -rf / | sh; echo / | xargs rm -rf: what is written is what is run. */
static void look_at_echoed(struct facts *facts, const struct shell_command *echo,
                           const struct shell_command *reader)
{
    struct shell_command all = *reader;
    bool is_xargs = false;

    if (echo->has_unknown)
        return;
    for (unsigned i = 0; i < reader->n_wrappers; i++)
        is_xargs = is_xargs || strcmp(reader->wrappers[i], "xargs") == 0;
    if (is_xargs) {
        for (unsigned i = 0; i < echo->n && all.n < SHELL_WORDS_MAX; i++)
            all.args[all.n++] = echo->args[i];
        look_at_one_command(facts, &all);
    } else if (shell_is_shell(reader->name) && reader->n == 0) {
        auto_strbuf struct strbuf code = { 0 };
        for (unsigned i = 0; i < echo->n && code.len < FOLD_MAX_BYTES; i++)
            strbuf_printf(&code, "%s ", echo->args[i]);
        facts_look_within(facts, strbuf_str(&code), code.len, reader->node);
    }
}

void facts_look_at_pipeline(struct facts *facts, TSNode node)
{
    static const char *const decoders[] = { "base64",   "xxd",    "openssl", "rev",  "tr",
                                            "uudecode", "gunzip", "zcat",    "xzcat" };
    uint32_t n = ts_node_named_child_count(node);
    struct shell_command command, echoed = { 0 };
    const char *source = "?"; /* what the pipe is fed by, the last that is more than a filter */

    if (n > 0 && read_part(facts, ts_node_named_child(node, 0), &command) && command.name) {
        source = command.name;
        if (strcmp(source, "echo") == 0 || strcmp(source, "printf") == 0)
            echoed = command;
    }
    for (uint32_t i = 1; i < MIN(n, 64U); i++) {
        TSNode child = ts_node_named_child(node, i);
        if (!read_part(facts, child, &command))
            continue;
        for (size_t k = 0; command.name && k < ARRAY_LEN(decoders); k++)
            if (strcmp(command.name, decoders[k]) == 0)
                source = command.name;
        if (i == 1 && echoed.name)
            look_at_echoed(facts, &echoed, &command);
        bool has_script = false; /* sh FILE: the pipe is only its input */
        for (unsigned k = 0; k < command.n; k++)
            has_script = has_script || !command.args[k] ||
                         (command.args[k][0] != '-' && command.args[k][0] != '/');
        if (command.name && shell_is_interpreter(command.name) &&
            (command.n == 0 || !has_script ||
             (command.args[0] && strcmp(command.args[0], "-s") == 0)))
            facts_look_up(facts, WAY_PIPE,
                          arena_printf(facts->findings->arena, "%.60s|%.60s", source, command.name),
                          node);
    }
}

/* The body of a here-document that a shell reads. */
static void look_at_heredoc(struct facts *facts, TSNode statement)
{
    TSNode command = ts_node_named_child(statement, 0);
    struct shell_command read;
    uint32_t n = MIN(ts_node_named_child_count(statement), 64U);

    if (ts_node_is_null(command) || role_of(facts->roles, command)->role != ROLE_COMMAND)
        return;
    uint32_t at = 0;
    shell_read(facts->names, command, &at, &read);
    bool is_source = read.name && (strcmp(read.name, ".") == 0 || strcmp(read.name, "source") == 0);
    if (!shell_is_shell(read.name) && !is_source)
        return;
    for (uint32_t i = 1; i < n; i++) {
        TSNode child = ts_node_named_child(statement, i);
        uint32_t parts = MIN(ts_node_named_child_count(child), 16U);
        for (uint32_t k = 0; k < parts; k++) {
            TSNode body = ts_node_named_child(child, k);
            size_t len;
            const char *text = node_text(facts->tree, body, &len);
            if (strcmp(ts_node_type(body), "heredoc_body") == 0)
                facts_look_within(facts, text, len, body);
        }
    }
}

void facts_look_at_redirect(struct facts *facts, TSNode node)
{
    const struct node_role *role = role_of(facts->roles, node);

    if (strcmp(ts_node_type(node), "redirected_statement") == 0) {
        look_at_heredoc(facts, node);
        return;
    }
    TSNode to = ts_node_child_by_field_id(node, role->b);
    const char *path = ts_node_is_null(to) ? NULL : names_fold(facts->names, to);
    if (!path)
        return;
    facts_look_up(facts, WAY_PATH, path, to);
    size_t len;
    const char *text = node_text(facts->tree, node, &len);
    if (memchr(text, '>', len))
        facts_look_up(facts, WAY_WRITE, path, to);
}

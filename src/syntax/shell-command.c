/* SPDX-License-Identifier: Apache-2.0 */
#include "syntax/shell-command.h"

#include <ctype.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/strbuf.h"
#include "core/wrapper.h"

static const char *const shells[] = { "sh", "bash", "zsh", "dash", "ksh", "ash", "mksh", "fish" };
static const char *const interpreters[] = { "python", "python3", "perl", "ruby",
                                            "node",   "php",     "lua" };

static bool is_in(const char *const *list, size_t n, const char *name)
{
    for (size_t i = 0; name && i < n; i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

bool shell_is_shell(const char *name)
{
    return is_in(shells, ARRAY_LEN(shells), name);
}

bool shell_is_interpreter(const char *name)
{
    return shell_is_shell(name) || is_in(interpreters, ARRAY_LEN(interpreters), name);
}

/* ---- words ---- */

static const char *fold_word(struct names *names, TSNode node)
{
    size_t len;
    const char *text = node_text(names_tree(names), node, &len);
    struct strbuf out = { 0 };

    for (size_t i = 0; i < len && out.len < FOLD_MAX_BYTES; i++) {
        if (text[i] == '\\' && i + 1 < len && text[++i] == '\n')
            continue;
        strbuf_putc(&out, text[i]);
    }
    const char *word = arena_dup(names_arena(names), strbuf_str(&out), out.len);
    strbuf_done(&out);
    return word;
}

static const char *fold_ansi_c(struct names *names, TSNode node)
{
    size_t len;
    const char *text = node_text(names_tree(names), node, &len);
    struct strbuf out = { 0 };
    const char *word = NULL;

    if (len >= 3 && len <= FOLD_MAX_BYTES) /* $'…' */
        fold_unescape(&out, text + 2, len - 3);
    if (!out.data || !memchr(out.data, '\0', out.len))
        word = arena_dup(names_arena(names), strbuf_str(&out), out.len);
    strbuf_done(&out);
    return word;
}

static const char *fold_variable(struct names *names, TSNode node, int depth)
{
    static const struct {
        const char *name, *value;
    } known[] = { { "HOME", "~" }, { "IFS", " " }, { "PWD", "." } };
    TSNode name = ts_node_named_child(node, 0);

    /* ${x:-rm}, where nobody gives x a value that is known */
    if (ts_node_named_child_count(node) == 2 && ts_node_child_count(node) == 5 &&
        (node_is(names_tree(names), ts_node_child(node, 2), ":-") ||
         node_is(names_tree(names), ts_node_child(node, 2), "-"))) {
        size_t len;
        const char *text = node_text(names_tree(names), name, &len);
        const char *value = names_fold_variable(names, text, len, depth);
        return value && value[0] ? value : fold_node(names, ts_node_child(node, 3), depth + 1);
    }
    if (ts_node_named_child_count(node) != 1 || ts_node_is_null(name) ||
        role_of(names_roles(names), name)->role != ROLE_NAME || ts_node_child_count(node) > 3)
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (node_is(names_tree(names), name, known[i].name))
            return known[i].value;
    size_t len;
    const char *text = node_text(names_tree(names), name, &len);
    return names_fold_variable(names, text, len, depth);
}

/* $(echo rm) */
static const char *fold_substitution(struct names *names, TSNode node, int depth)
{
    TSNode command = ts_node_named_child(node, 0);

    if (ts_node_named_child_count(node) != 1 || ts_node_is_null(command) ||
        role_of(names_roles(names), command)->role != ROLE_COMMAND)
        return NULL;
    uint32_t n = ts_node_named_child_count(command);
    if (n != 2)
        return NULL;
    const char *name = fold_node(names, ts_node_named_child(command, 0), depth + 1);
    if (!name || (strcmp(name, "echo") != 0 && strcmp(name, "printf") != 0))
        return NULL;
    const char *text = fold_node(names, ts_node_named_child(command, 1), depth + 1);
    if (!text || strcmp(name, "printf") != 0 || !strchr(text, '\\'))
        return text;
    struct strbuf out = { 0 };
    fold_unescape(&out, text, strlen(text));
    bool is_text = out.len > 0 && !memchr(out.data, '\0', out.len);
    text = is_text ? arena_dup(names_arena(names), out.data, out.len) : NULL;
    strbuf_done(&out);
    return text;
}

const char *shell_fold(struct names *names, TSNode node, enum role role, int depth)
{
    return role == ROLE_WORD       ? fold_word(names, node)
           : role == ROLE_ANSI_C   ? fold_ansi_c(names, node)
           : role == ROLE_VARIABLE ? fold_variable(names, node, depth)
                                   : fold_substitution(names, node, depth);
}

/* ---- commands ---- */

static void put(struct shell_command *command, const char *word)
{
    if (command->n < SHELL_WORDS_MAX)
        command->args[command->n++] = word;
}

/* A word may be more than one: rm${IFS}-rf */
static void put_words(struct names *names, struct shell_command *command, const char *word,
                      bool splits)
{
    if (!word || !splits || !strpbrk(word, " \t\n")) {
        put(command, word);
        return;
    }
    while (*word) {
        size_t len = strcspn(word, " \t\n");
        if (len > 0)
            put(command, arena_dup(names_arena(names), word, len));
        word += len + (word[len] != '\0');
    }
}

static void shift(struct shell_command *command, unsigned by)
{
    by = MIN(by, command->n);
    memmove(command->args, command->args + by, (command->n - by) * sizeof *command->args);
    command->n -= by;
}

static bool unwrap(struct shell_command *command)
{
    const char *name;
    size_t own = wrapper_words(command->args, command->n, &name);

    if (own == 0)
        return false;
    if (command->n_wrappers < ARRAY_LEN(command->wrappers))
        command->wrappers[command->n_wrappers++] = name;
    shift(command, (unsigned)own);
    return true;
}

/* What the shell splits into words: an expansion that is not within quotes. */
static bool is_split(const struct roles *roles, TSNode node)
{
    enum role role = (enum role)role_of(roles, node)->role;
    uint32_t n = ts_node_named_child_count(node);

    if (role == ROLE_VARIABLE || role == ROLE_SUBSTITUTION)
        return true;
    if (role == ROLE_PAREN)
        return n > 0 && is_split(roles, ts_node_named_child(node, 0));
    for (uint32_t i = 0; role == ROLE_JOIN && i < n; i++) {
        enum role inner = (enum role)role_of(roles, ts_node_named_child(node, i))->role;
        if (inner == ROLE_VARIABLE || inner == ROLE_SUBSTITUTION)
            return true;
    }
    return false;
}

/* Whether a line ends between the two, so that they can't be of one command. */
static bool is_line_between(const struct syntax_tree *tree, TSNode before, TSNode after)
{
    uint32_t start = ts_node_end_byte(before), end = ts_node_start_byte(after);

    if (ts_node_end_point(before).row == ts_node_start_point(after).row)
        return false;
    for (uint32_t i = start; i < end; i++)
        if (tree->text[i] == '\n' && (i == 0 || tree->text[i - 1] != '\\'))
            return true;
    return false;
}

void shell_read(struct names *names, TSNode node, uint32_t *at, struct shell_command *ret)
{
    const struct roles *roles = names_roles(names);
    uint32_t n = MIN(ts_node_named_child_count(node), (uint32_t)SHELL_WORDS_MAX * 16);
    uint32_t first = *at;

    *ret = (struct shell_command){ .node = node };
    for (; *at < n; ++*at) {
        TSNode child = ts_node_named_child(node, *at);
        const char *type = ts_node_type(child);
        if (*at > first &&
            is_line_between(names_tree(names), ts_node_named_child(node, *at - 1), child))
            break;
        if (*at == first && first > 0)
            ret->node = child;
        if (strcmp(type, "herestring_redirect") == 0) {
            TSNode text = ts_node_named_child(child, 0);
            ret->input = ts_node_is_null(text) ? NULL : names_fold(names, text);
        }
        if (strstr(type, "redirect") || strcmp(type, "variable_assignment") == 0 ||
            strcmp(type, "comment") == 0)
            continue;
        put_words(names, ret, names_fold(names, child), is_split(roles, child));
    }
    for (int i = 0; i < 8 && ret->n > 0 && unwrap(ret); i++)
        continue;
    if (ret->n > 0) {
        ret->name = ret->args[0] ? wrapper_base_name(ret->args[0]) : NULL;
        if (ret->name && ret->name[0] == '=' && ret->name[1])
            ret->name++; /* =rm: Zsh's way to the program itself */
        shift(ret, 1);
    }
    for (unsigned i = 0; i < ret->n; i++)
        ret->has_unknown = ret->has_unknown || !ret->args[i];
}

/* Behind the options: sh -c -e -- CODE. Those that begin with two dashes are words. */
static const char *option_code(const struct shell_command *command)
{
    bool has_c = false;

    for (unsigned i = 0; i < command->n; i++) {
        const char *word = command->args[i];
        if (!word || (word[0] != '-' && word[0] != '+'))
            return has_c ? word : NULL;
        if (strcmp(word, "--") == 0)
            return has_c && i + 1 < command->n ? command->args[i + 1] : NULL;
        bool is_long = word[1] == '-';
        has_c |= !is_long && strchr(word, 'c');
        if (strcmp(word, "--rcfile") == 0 || strcmp(word, "--init-file") == 0 ||
            (!is_long && word[strlen(word) - 1] == 'o'))
            i++; /* its value */
    }
    return NULL;
}

/* env -S TEXT: it splits the text into words itself. */
static const char *split_code(const struct shell_command *command)
{
    for (unsigned i = 0; i < command->n && command->args[i]; i++) {
        const char *word = command->args[i], *letter = strchr(word, 'S');
        if (strncmp(word, "--split-string=", 15) == 0)
            return word + 15;
        if (word[0] == '-' && word[1] != '-' && letter)
            return letter[1] ? letter + 1 : i + 1 < command->n ? command->args[i + 1] : NULL;
    }
    return NULL;
}

const char *shell_code_of(struct names *names, const struct shell_command *command)
{
    if (!command->name)
        return NULL;
    if (strcmp(command->name, "env") == 0)
        return split_code(command);
    if (strcmp(command->name, "eval") == 0 && !command->has_unknown && command->n > 0) {
        struct strbuf out = { 0 };
        for (unsigned i = 0; i < command->n && out.len < FOLD_MAX_BYTES; i++)
            strbuf_printf(&out, "%s ", command->args[i]);
        const char *code = arena_dup(names_arena(names), strbuf_str(&out), out.len);
        strbuf_done(&out);
        return code;
    }
    if (strcmp(command->name, "trap") == 0)
        return command->n > 1 ? command->args[0] : NULL;
    if (strcmp(command->name, "alias") == 0) {
        const char *word = command->n > 0 ? command->args[command->n - 1] : NULL;
        const char *sign = word ? strchr(word, '=') : NULL;
        return sign ? sign + 1 : NULL;
    }
    if (shell_is_shell(command->name)) {
        const char *code = option_code(command);
        return code ? code : command->input;
    }
    if (strcmp(command->name, "su") != 0 && strcmp(command->name, "script") != 0)
        return NULL;
    for (unsigned i = 0; i + 1 < command->n; i++)
        if (command->args[i] && command->args[i][0] == '-' && strchr(command->args[i], 'c'))
            return command->args[i + 1];
    return command->input;
}

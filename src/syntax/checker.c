/* SPDX-License-Identifier: Apache-2.0 */
#include "syntax/checker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "core/embedded.h"
#include "core/fence.h"
#include "core/syntax-wire.h"
#include "syntax/facts.h"
#include "sys/file.h"

extern const struct embedded_file rule_files[];

enum { RULE_FILE_MAX = 1 << 20, RULE_FILES_MAX = 256 };

struct checker {
    struct arena arena;
    const char *language;
    struct grammar grammar;
    struct roles roles;
    struct rules *rules;
    bool is_spent;
};

/* ---- rules of the system's and the user's ---- */

static int is_rule_file(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);
    return entry->d_name[0] != '.' && len > 5 && strcmp(entry->d_name + len - 5, ".toml") == 0;
}

static int add_file(struct rules *rules, const char *folder, const char *name,
                    struct cay_error *err)
{
    char path[4096];
    auto_free char *text = mem_alloc(RULE_FILE_MAX);

    snprintf(path, sizeof path, "%s/%s", folder, name);
    ssize_t len = file_read_at(AT_FDCWD, path, text, RULE_FILE_MAX);
    if (len < 0)
        return cay_fail_errno(err, (int)-len, "read the rules %s", path);
    if (len == RULE_FILE_MAX - 1)
        return cay_fail(err, CAY_E_USAGE, "%s:1: a file of rules holds at most 1m", path);
    return rules_add(rules, text, (size_t)len, path, err);
}

static int add_folder(struct rules *rules, const char *folder, struct cay_error *err)
{
    struct dirent **names = NULL;
    int n = scandir(folder, &names, is_rule_file, alphasort);
    int rc = 0;

    for (int i = 0; i < n; i++) {
        if (rc == 0 && i < RULE_FILES_MAX)
            rc = add_file(rules, folder, names[i]->d_name, err);
        free(names[i]);
    }
    free(names);
    return rc;
}

static int add_rules(struct rules *rules, struct cay_error *err)
{
    const char *config = secure_getenv("XDG_CONFIG_HOME"), *home = secure_getenv("HOME");
    char folder[3000] = "";

    for (const struct embedded_file *file = rule_files; file->name; file++)
        if (rules_add(rules, file->data, file->len, file->name, err) < 0)
            return -1;
    if (add_folder(rules, "/etc/cay/rules", err) < 0)
        return -1;
    if (config && config[0] == '/')
        snprintf(folder, sizeof folder, "%s/cay/rules", config);
    else if (home && home[0] == '/')
        snprintf(folder, sizeof folder, "%s/.config/cay/rules", home);
    return folder[0] ? add_folder(rules, folder, err) : 0;
}

int checker_open(const char *language, struct checker **ret, struct cay_error *err)
{
    struct checker *checker = mem_alloc(sizeof *checker);

    checker->language = arena_str(&checker->arena, language);
    int rc = grammar_open(language, &checker->grammar, err);
    if (rc == 0) {
        roles_make(&checker->arena, &checker->grammar, &checker->roles);
        checker->rules = rules_new(&checker->arena, checker->language);
        rc = add_rules(checker->rules, err);
    }
    if (rc == 0)
        rc = rules_finish(checker->rules, &checker->grammar, err);
    if (rc < 0) {
        checker_close(checker);
        return -1;
    }
    *ret = checker;
    return 0;
}

void checker_close(struct checker *checker)
{
    if (!checker)
        return;
    rules_done(checker->rules);
    arena_done(&checker->arena);
    free(checker);
}

const struct grammar *checker_grammar(const struct checker *checker)
{
    return &checker->grammar;
}

size_t checker_rules(const struct checker *checker)
{
    return rules_count(checker->rules);
}

bool checker_is_spent(const struct checker *checker)
{
    return checker->is_spent;
}

/* ---- the report ---- */

static int by_place(const void *a, const void *b)
{
    const struct finding *x = a, *y = b;

    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    if (x->column != y->column)
        return x->column < y->column ? -1 : 1;
    return (int)y->severity - (int)x->severity;
}

static void put_finding(struct json_writer *w, const struct finding *finding)
{
    json_begin_object(w);
    json_field_string(w, "rule", finding->rule);
    json_field_string(w, "severity", severity_name(finding->severity));
    json_field_uint(w, "line", finding->line);
    json_field_uint(w, "column", finding->column);
    json_field_string(w, "code", finding->code);
    json_field_string(w, "message", finding->message);
    json_field_string(w, "remedy", finding->remedy);
    json_field_bool(w, "ordinary", finding->is_ordinary);
    json_end_object(w);
}

static void put_report(const struct checker *checker, const struct findings *findings, bool is_safe,
                       struct strbuf *out)
{
    struct json_writer w = { .out = out };

    json_begin_object(&w);
    json_field_bool(&w, "safe", is_safe);
    json_field_string(&w, "language", checker->language);
    json_field_array(&w, "findings");
    for (size_t i = 0; i < findings->n; i++)
        put_finding(&w, &findings->list[i]);
    json_end_array(&w);
    json_field_array(&w, "blocked_imports");
    for (size_t i = 0; i < findings->n; i++) {
        const char *module = findings->list[i].module;
        bool is_seen = !module;
        for (size_t k = 0; k < i && !is_seen; k++)
            is_seen = findings->list[k].module && strcmp(findings->list[k].module, module) == 0;
        if (!is_seen)
            json_put_string(&w, module);
    }
    json_end_array(&w);
    json_end_object(&w);
}

/* What could not be read is unknown, never safe. */
static void add_unknown(struct findings *findings, const struct syntax_tree *tree, TSNode node,
                        const char *rule, const char *message)
{
    findings_add(
        findings, tree, node,
        (struct finding){
            .rule = rule,
            .severity = SEVERITY_WARN,
            .message = message,
            .remedy = "review it yourself: code that the check cannot read may do anything",
        });
}

static bool add_what_is_unknown(struct findings *findings, const struct syntax_tree *tree,
                                const struct dialect *dialect)
{
    TSNode none = { 0 };
    bool is_fenced = fence_find((struct bytes){ tree->text, tree->len }).is_there;

    if (is_fenced)
        findings_add(
            findings, tree, none,
            (struct finding){
                .rule = "fenced",
                .severity = SEVERITY_WARN,
                .message = "the code is wrapped in a Markdown fence, which is part of it",
                .remedy =
                    "check what is inside of it: --strip-fence (over HTTP \"strip_fence\": true)",
            });
    if (!tree->tree) {
        findings_add(findings, tree, none,
                     (struct finding){
                         .rule = "unchecked",
                         .severity = SEVERITY_INFO,
                         .message = "there is no grammar: the code was looked at by its words only",
                         .remedy = "have a look at it yourself",
                     });
        return true;
    }
    TSNode error = dialect->is_by_words || is_fenced ? none : syntax_first_error(tree);

    if (findings->is_late)
        add_unknown(findings, tree, none, "unchecked", "the check took too long and was given up");
    if (findings->is_spent)
        add_unknown(findings, tree, none, "unchecked", "the code is too tangled to be followed");
    if (findings->is_full)
        add_unknown(findings, tree, none, "unchecked", "there are more findings than are told");
    if (!ts_node_is_null(error))
        add_unknown(findings, tree, error, "unparsed",
                    "the code does not parse here: what follows may have gone unseen");
    return findings->is_late || findings->is_spent || findings->is_full || findings->is_unread ||
           is_fenced || !ts_node_is_null(error);
}

void checker_run(struct checker *checker, const struct check_ask *ask, struct strbuf *out,
                 bool *ret_safe)
{
    const struct syntax_limits limits = { SYNTAX_CODE_MAX, ask->deadline_ns };
    struct arena arena = { 0 };
    struct findings findings = {
        .arena = &arena,
        .flags = ask->flags,
        .list_text = ask->list,
        .list_len = ask->list_len,
        .deadline_ns = ask->deadline_ns,
    };
    struct syntax_tree tree = { .text = ask->code, .len = 0 };
    struct cay_error err;
    bool is_safe = true;

    if (syntax_parse(&checker->grammar, ask->code, ask->len, &limits, &tree, &err) < 0) {
        add_unknown(&findings, &tree, (TSNode){ 0 }, "unchecked", err.msg);
        is_safe = false;
    } else {
        facts_find(&tree, &checker->roles, checker->rules, &findings);
        is_safe = !add_what_is_unknown(&findings, &tree, checker->roles.dialect);
        checker->is_spent |= !syntax_tree_done(&tree);
    }
    for (size_t i = 0; i < findings.n; i++) {
        struct finding *finding = &findings.list[i];
        if ((ask->flags & SYNTAX_STRICT) && finding->severity == SEVERITY_WARN)
            finding->severity = SEVERITY_BLOCK;
        is_safe = is_safe && finding->severity != SEVERITY_BLOCK;
    }
    if (findings.n > 1)
        qsort(findings.list, findings.n, sizeof *findings.list, by_place);
    put_report(checker, &findings, is_safe, out);
    *ret_safe = is_safe;
    arena_done(&arena);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/language.h"
#include "core/path-cache.h"
#include "core/plan.h"
#include "core/syntax-wire.h"
#include "policy/policy-command.h"
#include "policy/syntax-client.h"

enum {
    FILES_MAX = 32,
    WARNINGS_MAX = 20,
    RULES_MAX = 64 /* what an audit entry holds */,
    TEXT_MAX = 400
};

/* One text that is checked. */
struct item {
    const char *name; /* the plan's, or the policy's */
    bool is_command;
    struct syntax_ticket *ticket;
    struct cay_error err; /* where there is no ticket */
};

struct policy {
    struct arena arena;
    struct item items[FILES_MAX];
    size_t n;
    const char *tenant; /* the run's */
    bool is_explicit;   /* a policy was asked for: warn if it could not be applied */
    bool is_unisolated;
    bool is_closed; /* what the grammar can't read is refused too */
    bool has_more;  /* files that were not looked at */
};

static unsigned flags_of(const struct plan *plan)
{
    return (plan->has_network ? 0U : SYNTAX_NO_NETWORK) |
           (plan->policy_strict ? SYNTAX_STRICT : 0U) |
           (plan->tier == TIER_NONE ? SYNTAX_NO_ISOLATION : 0U);
}

static void ask(const struct policy_asker *asker, const struct plan *plan, struct policy *policy,
                const struct policy_text *text)
{
    const struct syntax_question question = {
        .verb = SYNTAX_CHECK,
        .flags = flags_of(plan),
        .timeout_ms = POLICY_TIMEOUT_MS,
        .tenant = policy->tenant,
        .lists = plan->import_lists.data,
        .lists_len = plan->import_lists.len,
        .code = text->code,
        .len = text->len,
    };

    if (policy->n >= FILES_MAX) {
        policy->has_more = true;
        return;
    }
    struct item *item = &policy->items[policy->n++];
    item->name = text->name;
    item->is_command = text->is_command;
    if (!text->language)
        cay_fail(&item->err, CAY_E_POLICY, "%s", text->code);
    else if (syntax_ask(asker->syntax, asker->helper, text->language, &question, &item->ticket,
                        &item->err) < 0)
        item->ticket = NULL;
}

/* ---- code that no rule can be about ---- */

/* Words that reach nothing, in any language. */
static const char *const plain_words[] = {
    "print", "println", "printf", "puts",  "echo",   "console", "log",    "len",      "range",
    "sum",   "min",     "max",    "abs",   "sorted", "list",    "str",    "int",      "float",
    "for",   "in",      "if",     "else",  "elif",   "while",   "return", "def",      "function",
    "let",   "const",   "var",    "local", "end",    "do",      "then",   "done",     "fi",
    "true",  "false",   "True",   "False", "None",   "null",    "nil",    "and",      "or",
    "not",   "x",       "y",      "z",     "i",      "j",       "k",      "n",        "a",
    "b",     "c",       "s",      "t",     "end",    "pass",    "break",  "continue", "lambda",
};

enum { PLAIN_MAX = 512 };

static bool is_plain_word(const char *word, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(plain_words); i++)
        if (strlen(plain_words[i]) == len && memcmp(plain_words[i], word, len) == 0)
            return true;
    return false;
}

static bool has_own_rules(void)
{
    const char *config = secure_getenv("XDG_CONFIG_HOME"), *home = secure_getenv("HOME");
    char folder[4096] = "/";

    if (config && config[0] == '/')
        snprintf(folder, sizeof folder, "%s/cay/rules", config);
    else if (home)
        snprintf(folder, sizeof folder, "%s/.config/cay/rules", home);
    return access("/etc/cay/rules", F_OK) == 0 || access(folder, F_OK) == 0;
}

static bool may_have_own_rules(struct rules_look *look)
{
    int64_t now = clock_now_ns();

    if (now >= look->until_ns)
        *look = (struct rules_look){ now + PATH_CACHE_NS, has_own_rules() };
    return look->are_there;
}

/* Whether a line or two hold nothing but words that reach nothing, numbers, operators and plain
 * strings: then no rule of ours finds anything, and a warm run need not wait for a worker to start.
 * Shells are not asked: there any word is a command. With "block" everything is checked. */
static bool is_plain(const struct policy_asker *asker, const struct plan *plan)
{
    const char *code = plan->code.data;
    size_t len = plan->code.len;
    const char *language = plan->language->name;

    if (len > PLAIN_MAX || plan->policy == POLICY_BLOCK || strcmp(language, "bash") == 0 ||
        strcmp(language, "zsh") == 0 || strcmp(language, "sql") == 0)
        return false;
    for (size_t i = 0; i < len;) {
        if (isalpha((unsigned char)code[i])) {
            size_t start = i;
            while (i < len && (isalnum((unsigned char)code[i]) || code[i] == '_'))
                i++;
            if (!is_plain_word(code + start, i - start))
                return false;
        } else if (code[i] == '"' || code[i] == '\'') {
            char quote = code[i++];
            while (i < len &&
                   (isalnum((unsigned char)code[i]) || (code[i] && strchr(" ,!?:", code[i]))))
                i++;
            if (i >= len || code[i++] != quote)
                return false;
        } else if (isdigit((unsigned char)code[i]) ||
                   (code[i] && strchr(" \t\n+-*%=<>()[]{},.:;", code[i]))) {
            i++;
        } else {
            return false;
        }
    }
    return !may_have_own_rules(asker->rules);
}

static bool has_files(const struct plan *plan)
{
    for (size_t i = 0; i < plan->n_files; i++)
        if (strcmp(plan->files[i].name, plan->source_name) != 0 &&
            strncmp(plan->files[i].name, ".cay", 4) != 0)
            return true;
    return false;
}

static void ask_of_code(const struct policy_asker *asker, const struct plan *plan,
                        struct policy *policy)
{
    const char *language = plan->language->name;

    ask(asker, plan, policy,
        &(struct policy_text){ plan->source_name, language, plan->code.data, plan->code.len });
    for (size_t i = 0; i < plan->n_files; i++) {
        const struct payload_file *file = &plan->files[i];
        bool is_source = plan->source_name && strcmp(file->name, plan->source_name) == 0;
        bool is_ours = strncmp(file->name, ".cay", 4) == 0;
        if (!is_source && !is_ours && language_has_file(plan->language, file->name))
            ask(asker, plan, policy,
                &(struct policy_text){ file->name, language, file->data, file->len });
    }
}

struct asking {
    const struct policy_asker *asker;
    const struct plan *plan;
    struct policy *policy;
};

static void ask_of_text(void *arg, const struct policy_text *text)
{
    const struct asking *asking = arg;

    ask(asking->asker, asking->plan, asking->policy, text);
}

/* A command is checked where nothing isolates it from the host, or where a policy was asked for: in
 * a sandbox, a check would cost more than most commands. */
static bool is_due(const struct policy_asker *asker, const struct plan *plan)
{
    if (plan->policy == POLICY_OFF)
        return false;
    if (!plan->language)
        return plan->tier == TIER_NONE || plan->is_policy_explicit;
    return !is_plain(asker, plan) || has_files(plan);
}

struct policy *policy_begin(const struct policy_asker *asker, const struct plan *plan,
                            const char *tenant)
{
    if (!is_due(asker, plan))
        return NULL;
    struct policy *policy = mem_alloc(sizeof *policy);
    policy->tenant = tenant;
    policy->is_unisolated = plan->tier == TIER_NONE;
    policy->is_explicit = plan->is_policy_explicit || policy->is_unisolated;
    policy->is_closed = plan->policy_strict || policy->is_unisolated;
    if (plan->language)
        ask_of_code(asker, plan, policy);
    else
        policy_command(&policy->arena, plan, ask_of_text, &(struct asking){ asker, plan, policy });
    return policy;
}

/* ---- what came of it ---- */

struct report_ctx {
    struct arena *arena;
    const struct policy *policy;
    struct policy_report *report;
    size_t left_out, n_rules, n_unparsed;
};

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static void refuse(struct report_ctx *t, const char *message, const char *remedy)
{
    t->report->is_safe = false;
    if (!t->report->message) {
        t->report->message = message;
        t->report->remedy = remedy;
    }
}

static void warn(struct report_ctx *t, const char *text)
{
    size_t n = 0;

    for (const char *const *at = t->report->warnings.list; at && *at; at++)
        n++;
    if (n < WARNINGS_MAX)
        field_append(t->arena, &t->report->warnings, text);
    else
        t->left_out++;
}

/* In a sandbox, what everyday code does is no news, and that a grammar knows too little is said
 * once. */
static bool is_worth_reading(struct report_ctx *t, json_t *finding, bool is_unparsed)
{
    if (is_unparsed) /* the plan has warned of a fence already */
        return ++t->n_unparsed == 1 && strcmp(text_of(finding, "rule"), "unparsed") == 0;
    return t->policy->is_explicit || !json_is_true(json_object_get(finding, "ordinary"));
}

static void take_finding(struct report_ctx *t, const struct item *item, json_t *finding)
{
    const char *name = item->name;
    const char *severity = text_of(finding, "severity"), *rule = text_of(finding, "rule");
    int line = (int)json_integer_value(json_object_get(finding, "line"));
    bool is_block = strcmp(severity, "block") == 0;
    bool is_unparsed = strcmp(rule, "unparsed") == 0 || strcmp(rule, "fenced") == 0;
    bool is_unknown = strcmp(rule, "unchecked") == 0 || (is_unparsed && t->policy->is_closed);

    if (strcmp(severity, "info") == 0)
        return;
    if (t->n_rules++ < RULES_MAX)
        field_append(t->arena, &t->report->rules, arena_printf(t->arena, "%.80s:%d", rule, line));
    if (is_worth_reading(t, finding, is_unparsed))
        warn(t, arena_printf(t->arena, "policy: %.80s:%d: %.*s (%.80s)", name, line, TEXT_MAX,
                             text_of(finding, "message"), rule));
    if (is_block && item->is_command)
        refuse(t,
               arena_printf(t->arena, "Security policy blocked command: %.*s", TEXT_MAX,
                            text_of(finding, "message")),
               arena_str(t->arena, text_of(finding, "remedy")));
    else if (is_block)
        refuse(t,
               arena_printf(t->arena, "Security policy blocked code: line %d: %.*s", line, TEXT_MAX,
                            text_of(finding, "message")),
               arena_str(t->arena, text_of(finding, "remedy")));
    else if (is_unknown)
        refuse(t,
               arena_printf(t->arena,
                            "Security policy blocked code that could not be checked: line %d: %.*s",
                            line, TEXT_MAX, text_of(finding, "message")),
               "fix it, or set policy to warn");
}

static void take_report(struct report_ctx *t, const struct item *item,
                        const struct syntax_reply *reply)
{
    size_t n_unparsed = t->n_unparsed;
    json_error_t error;
    json_t *root = json_loadb(reply->text, reply->len, JSON_REJECT_DUPLICATES, &error);
    json_t *value;
    size_t i;

    if (!json_is_object(root))
        refuse(t,
               "Security policy blocked code that could not be checked: the syntax worker "
               "gave no report",
               NULL);
    json_array_foreach (json_object_get(root, "blocked_imports"), i, value) {
        const char *module = json_string_value(value);
        if (!module || i >= 64)
            break;
        field_append(t->arena, &t->report->blocked, arena_str(t->arena, module));
        /* The message for an import is the contract's, and goes before any other. */
        if (i == 0 && !t->report->message)
            refuse(t, arena_printf(t->arena, "Security policy blocked import: %.200s", module),
                   "remove it, add it to allow_imports, or set policy to warn");
    }
    json_array_foreach (json_object_get(root, "findings"), i, value)
        take_finding(t, item, value);
    /* Where code that the grammar can't read is allowed, that alone refuses nothing. Of a full
     * report it is not known what else it would hold. */
    bool is_full = json_array_size(json_object_get(root, "findings")) >= SYNTAX_FINDINGS_MAX;
    if (!reply->is_safe && (t->policy->is_closed || is_full || t->n_unparsed == n_unparsed))
        refuse(t, "Security policy blocked code that could not be checked", NULL);
    json_decref(root);
}

/* is_ours: neither the code nor what is installed is why. Then it is said to everybody: a check
 * is made by default too. */
static void take_failure(struct report_ctx *t, const char *name, bool is_ours, const char *what,
                         const char *hint)
{
    const struct policy *policy = t->policy;

    if (policy->is_explicit || is_ours)
        warn(t, arena_printf(t->arena, "policy: %.80s was not checked: %.300s", name, what));
    refuse(t,
           arena_printf(t->arena, "Security policy blocked code that could not be checked: %.300s",
                        what),
           hint && hint[0]         ? arena_str(t->arena, hint)
           : policy->is_unisolated ? "run it isolated; or set policy to warn to run it unchecked"
                                   : "set policy to warn to run it unchecked");
}

static void take_item(struct report_ctx *t, struct item *item, int wait_ms)
{
    struct syntax_reply reply;

    if (!item->ticket || syntax_wait(item->ticket, wait_ms, &reply, &item->err) < 0)
        take_failure(t, item->name, item->err.kind == CAY_E_SYSTEM || item->err.kind == CAY_E_BUSY,
                     item->err.msg, item->err.hint);
    else if (reply.status == SYNTAX_DONE)
        take_report(t, item, &reply);
    else
        take_failure(t, item->name, false, arena_printf(t->arena, "%.*s", TEXT_MAX, reply.text),
                     reply.status == SYNTAX_NO_GRAMMAR ? "tools/install-grammars.sh installs the "
                                                         "grammars; or set policy to warn"
                                                       : NULL);
}

bool policy_is_ready(const struct policy *policy)
{
    for (size_t i = 0; i < policy->n; i++)
        if (policy->items[i].ticket && !syntax_is_ready(policy->items[i].ticket))
            return false;
    return true;
}

bool policy_is_done(const struct policy *policy)
{
    for (size_t i = 0; i < policy->n; i++)
        if (policy->items[i].ticket && !syntax_is_done(policy->items[i].ticket))
            return false;
    return true;
}

void policy_end(struct policy *policy, int wait_ms, struct arena *arena, struct policy_report *ret)
{
    struct report_ctx t = { .arena = arena, .policy = policy, .report = ret };

    *ret = (struct policy_report){ .is_safe = true };
    for (size_t i = 0; i < policy->n; i++)
        take_item(&t, &policy->items[i], wait_ms);
    if (policy->has_more)
        take_failure(&t, "files", false, "more than 32 files of the language were given", NULL);
    if (t.left_out > 0)
        field_append(arena, &ret->warnings,
                     arena_printf(arena, "policy: and %zu more findings", t.left_out));
    policy_drop(policy);
}

void policy_drop(struct policy *policy)
{
    if (!policy)
        return;
    for (size_t i = 0; i < policy->n; i++)
        syntax_drop(policy->items[i].ticket);
    arena_done(&policy->arena);
    free(policy);
}

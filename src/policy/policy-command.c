/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy-command.h"

#include <ctype.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "core/language.h"
#include "core/plan.h"
#include "core/wrapper.h"

/* A shell's command has no more words for the check (syntax/shell-command.h). */
enum { WORDS_MAX = 250 };

/* Programs that run what they are given, and the letters of options: behind which code stands, and
 * of others that have a value in the next word. Of shells the rules see the code themselves. */
static const struct interpreter {
    const char *name, *language, *code, *valued;
    const char *long_code[2];
} interpreters[] = {
    { "sh", "bash", "", "oO", { NULL } },
    { "bash", "bash", "", "oO", { NULL } },
    { "dash", "bash", "", "o", { NULL } },
    { "ksh", "bash", "", "o", { NULL } },
    { "ash", "bash", "", "o", { NULL } },
    { "zsh", "zsh", "", "o", { NULL } },
    { "python", "python", "c", "WXQ", { NULL } },
    { "node", "javascript", "ep", "rC", { "--eval", "--print" } },
    { "nodejs", "javascript", "ep", "rC", { "--eval", "--print" } },
    { "ruby", "ruby", "e", "ICErx", { NULL } },
    { "perl", "perl", "eE", "ImMx", { NULL } },
    { "lua", "lua", "e", "l", { NULL } },
    { "php", "php", "r", "cdz", { "--run" } },
    { "Rscript", "r", "e", "", { NULL } },
};

struct reading {
    struct arena *arena;
    const struct plan *plan;
    policy_text_fn *fn;
    void *arg;
    const char *const *argv;
    size_t n;
    size_t at; /* of the program, behind env and its like */
    bool is_left_out[WORDS_MAX];
};

static void report_text(const struct reading *r, const char *name, const char *language,
                        const char *code, size_t len)
{
    r->fn(r->arg, &(struct policy_text){ name, language, code, len, false });
}

/* By name, with or without a version behind it: python3.11, lua5.4. */
static const struct interpreter *find_interpreter(const char *program)
{
    for (size_t i = 0; i < ARRAY_LEN(interpreters); i++) {
        size_t len = strlen(interpreters[i].name);
        if (strncmp(program, interpreters[i].name, len) == 0 &&
            program[len + strspn(program + len, "0123456789.-")] == '\0')
            return &interpreters[i];
    }
    return NULL;
}

static void leave_out(struct reading *r, size_t at)
{
    if (at < r->n)
        r->is_left_out[at] = true;
}

/* Tells of the code that this option gives. Returns how many words it takes; 0: it gives none. */
static size_t take_code(struct reading *r, const struct interpreter *it, size_t at)
{
    const char *word = r->argv[at], *code = NULL;
    size_t words = 2;

    for (size_t i = 0; i < ARRAY_LEN(it->long_code) && it->long_code[i]; i++) {
        size_t len = strlen(it->long_code[i]);
        if (strncmp(word, it->long_code[i], len) != 0 || (word[len] && word[len] != '='))
            continue;
        words = word[len] ? 1 : 2;
        code = word[len] ? word + len + 1 : r->argv[at + 1];
    }
    if (!code && word[1] != '-' && it->code[0]) {
        const char *letter = strpbrk(word + 1, it->code);
        if (!letter)
            return 0;
        words = letter[1] ? 1 : 2;
        code = letter[1] ? letter + 1 : r->argv[at + 1];
    }
    if (!code)
        return 0;
    for (size_t i = 0; i < words; i++)
        leave_out(r, at + i);
    report_text(r, arena_printf(r->arena, "%.40s %.12s", it->name, word), it->language, code,
                strlen(code));
    return words;
}

/* Whether a shell's options have it run the next word. */
static bool is_shell_code(const struct interpreter *it, const char *word)
{
    return !it->code[0] && word[1] != '-' && strchr(word, 'c');
}

/* A program that gets its code neither by an option nor from a file reads it from its input. */
static void take_input(const struct reading *r, const struct interpreter *it)
{
    const struct plan *plan = r->plan;
    static const char live[] =
        "it runs what it reads from its input, which is not there to be checked";

    if (plan->input.len > 0)
        report_text(r, "stdin", it->language, plan->input.data, plan->input.len);
    else
        report_text(r, it->name, NULL, live, strlen(live));
}

static void read_options(struct reading *r, const struct interpreter *it)
{
    bool has_code = false;

    for (size_t i = r->at + 1; i < r->n;) {
        const char *word = r->argv[i];
        bool is_dash = strcmp(word, "-") == 0 || strcmp(word, "-s") == 0;
        if (is_dash && !has_code)
            break; /* standard input */
        if (word[0] != '-' && !(word[0] == '+' && !it->code[0]))
            return; /* a file */
        if (strcmp(word, "--version") == 0 || strcmp(word, "--help") == 0 ||
            is_shell_code(it, word) || (it->code[0] == 'c' && word[1] == 'm'))
            return; /* nothing is read, or a module is run */
        size_t words = take_code(r, it, i);
        has_code |= words > 0;
        bool is_valued = (word[1] && word[2] == '\0' && strchr(it->valued, word[1])) ||
                         strcmp(word, "--rcfile") == 0 || strcmp(word, "--init-file") == 0;
        i += words ? words : is_valued ? 2 : 1;
    }
    if (!has_code)
        take_input(r, it);
}

/* In quotes, so that it is what execve is given. */
static void tell_line(const struct reading *r)
{
    auto_strbuf struct strbuf line = { 0 };

    for (size_t i = 0; i < r->n; i++) {
        if (r->is_left_out[i])
            continue;
        strbuf_puts(&line, line.len > 0 ? " '" : "'");
        for (const char *c = r->argv[i]; *c; c++)
            if (*c == '\'')
                strbuf_puts(&line, "'\\''");
            else
                strbuf_putc(&line, *c);
        strbuf_putc(&line, '\'');
    }
    strbuf_putc(&line, '\n');
    const char *text = arena_dup(r->arena, strbuf_str(&line), line.len);
    r->fn(r->arg, &(struct policy_text){ "command", "bash", text, line.len, true });
}

static void read_files(const struct reading *r)
{
    for (size_t i = 0; i < r->plan->n_files; i++) {
        const struct payload_file *file = &r->plan->files[i];
        const struct language *language = NULL;
        struct cay_error unknown;
        if (language_guess(r->arena, file->name, file->data, (size_t)file->len, &language,
                           &unknown) == 0 &&
            language)
            report_text(r, file->name, language->name, file->data, (size_t)file->len);
    }
}

void policy_command(struct arena *arena, const struct plan *plan, policy_text_fn *fn, void *arg)
{
    struct reading r = { arena, plan, fn, arg, .argv = plan_first(plan)->argv };
    static const char many[] = "the command has more words than can be checked";
    const char *wrapper;
    size_t own;

    while (r.argv[r.n])
        r.n++;
    if (r.n > WORDS_MAX) {
        report_text(&r, "command", NULL, many, strlen(many));
        return;
    }
    while ((own = wrapper_words(r.argv + r.at, r.n - r.at, &wrapper)) > 0)
        r.at += own;
    const struct interpreter *it =
        r.at < r.n ? find_interpreter(wrapper_base_name(r.argv[r.at])) : NULL;
    if (it)
        read_options(&r, it);
    tell_line(&r);
    read_files(&r);
}

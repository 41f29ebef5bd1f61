/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a language's type checker says of code, as findings of the static check's report.
 *
 * The checker is a program of the host (`types` of languages/NAME/language.toml) that reads what
 * anybody may have written: it is run as any command is, in a sandbox, with a compiler's time and
 * memory and without a network, and never without isolation, whatever the configuration would let
 * pass. What it prints is read with distrust.
 */
#include <cay/check.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cay/run.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "check/static-check.h"
#include "check/type-lines.h"
#include "core/config.h"
#include "core/language.h"
#include "engine/engine.h"

enum { WORDS_MAX = 32, CODE_LINE_MAX = 120 };

static const char *const severities[] = { "info", "warn", "block" };

/* ---- which checker ---- */

static int fail_none(struct arena *arena, const struct language *language, struct cay_error *err)
{
    const char *names = "";

    if (!language->types[0]) {
        cay_fail(err, CAY_E_USAGE, "%s: no type checker exists for this language", language->title);
        return cay_hint(err, "without --types, the rules of `cay check` are for it too"), -1;
    }
    for (const char *const *line = language->types; *line; line++)
        names = arena_printf(arena, "%s%s%.*s", names, *names ? ", " : "", (int)strcspn(*line, " "),
                             *line);
    cay_fail(err, CAY_E_NOTFOUND, "%s: no type checker is installed (%s)", language->title, names);
    return cay_hint(err, "%s", language->types_install), -1;
}

/* The words of the first command line whose program is there; {source} is replaced. */
static int find_checker(struct arena *arena, const struct language *language, const char *source,
                        const char *words[static WORDS_MAX + 1], struct cay_error *err)
{
    for (const char *const *line = language->types; *line; line++) {
        char *save = NULL, *copy = arena_str(arena, *line);
        size_t n = 0;
        for (char *word = strtok_r(copy, " ", &save); word && n < WORDS_MAX;
             word = strtok_r(NULL, " ", &save))
            words[n++] = strcmp(word, "{source}") == 0 ? source : word;
        words[n] = NULL;
        if (n > 0 && language_program(arena, words[0]))
            return 0;
    }
    return fail_none(arena, language, err);
}

/* ---- running it ---- */

static const struct value *in_force(const struct config *config, enum field_id id)
{
    const struct profile *profile =
        config_profile(config, config->settings[FIELD_PROFILE].value.text);
    return profile && profile->values[id].is_set ? &profile->values[id]
                                                 : &config->settings[id].value;
}

/* A compiler's limit, as far as the administrator lets a request go. */
static uint64_t limit_of(const struct config *config, enum field_id compilers, enum field_id id)
{
    const struct value *cap = &config->caps[id].value;
    uint64_t max = config->settings[compilers].value.num;
    return cap->is_set ? MIN(max, cap->num) : max;
}

static int set_up(struct arena *arena, const struct config *config,
                  const struct cay_check_request *asked, const char *source,
                  const char *const *words, struct cay_request *req, struct cay_error *err)
{
    const char *tier = in_force(config, FIELD_MIN_ISOLATION)->text;
    char memory[32], timeout[32];

    format_bytes(memory, limit_of(config, FIELD_COMPILE_MEMORY, FIELD_MEMORY));
    format_seconds(timeout, (int64_t)limit_of(config, FIELD_COMPILE_TIMEOUT, FIELD_TIMEOUT));
    const struct {
        const char *field, *value;
    } rows[] = {
        { "network", "none" }, { "fallback", "never" }, { "min_isolation", NULL },
        { "memory", memory },  { "timeout", timeout },  { "max_output", "1m" },
    };

    if (strcmp(in_force(config, FIELD_BACKEND)->text, "process") == 0 &&
        cay_request_set(req, "backend", "auto", err) < 0)
        return -1;
    for (; *words; words++)
        if (cay_request_set(req, "command", *words, err) < 0)
            return -1;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *value = rows[i].value;
        if (!value)
            value = tier && strcmp(tier, "none") != 0 ? tier : "kernel";
        if (cay_request_set(req, rows[i].field, arena_str(arena, value), err) < 0)
            return -1;
    }
    return cay_request_add_file(req, source, asked->code, asked->len, 0, err);
}

static int run_checker(struct cay *cay, struct arena *arena, const struct cay_check_request *asked,
                       const char *source, const char *const *words, struct cay_result **ret,
                       struct cay_error *err)
{
    const struct cay_run_options options = CAY_RUN_OPTIONS_INIT;
    struct cay_request *req = cay_request_new();

    int rc = set_up(arena, &cay->config, asked, source, words, req, err);
    if (rc >= 0)
        rc = cay_run(cay, req, &options, ret, err);
    cay_request_free(req);
    return rc < 0 ? cay_wrap(err, "%s", words[0]) : 0;
}

/* ---- the report ---- */

/* As the static check shows it: without what it is indented by. */
static const char *code_line(struct arena *arena, const struct cay_check_request *req,
                             unsigned number)
{
    const char *at = req->code, *end = req->code + req->len;

    for (unsigned i = 1; at < end && i < number; i++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    }
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    size_t len = 0;
    while (at + len < end && at[len] != '\n' && at[len] != '\r' && len < CODE_LINE_MAX)
        len++;
    len -= utf8_incomplete_tail(at, len);
    return arena_dup(arena, at, len);
}

/* Before the first one of a later line: both kinds stand in the order of the code. */
static void insert(json_t *list, json_t *finding, unsigned line)
{
    size_t i = 0;

    while (i < json_array_size(list) &&
           json_integer_value(json_object_get(json_array_get(list, i), "line")) <= line)
        i++;
    json_array_insert_new(list, i, finding);
}

static void add_finding(struct arena *arena, json_t *list, const struct cay_check_request *req,
                        const struct type_finding *found, const char *program)
{
    insert(list,
           json_pack("{s:s, s:s, s:i, s:i, s:s, s:s, s:s, s:b}", "rule",
                     arena_printf(arena, "types/%s", *found->code ? found->code : program),
                     "severity", severities[found->severity], "line", (int)found->line, "column",
                     (int)found->column, "code", code_line(arena, req, found->line), "message",
                     found->message, "remedy", found->remedy, "ordinary", 0),
           found->line);
}

/* Adds what was found to the static check's report. */
static int add_findings(struct arena *arena, const struct cay_check_request *req,
                        const struct type_findings *found, const char *program, char **report,
                        bool *is_safe, struct cay_error *err)
{
    json_t *root = json_loads(*report, JSON_ALLOW_NUL, NULL);
    json_t *list = json_object_get(root, "findings");

    for (size_t i = 0; i < found->n; i++) {
        add_finding(arena, list, req, &found->list[i], program);
        *is_safe &= found->list[i].severity != TYPE_ERROR &&
                    (found->list[i].severity != TYPE_WARNING || !(req->flags & CAY_CHECK_STRICT));
    }
    json_object_set_new(root, "safe", json_boolean(*is_safe));
    json_object_set_new(root, "type_checker", json_string(program));
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (!text)
        return cay_fail(err, CAY_E_SYSTEM, "%s: the report can't be made", program);
    free(*report);
    *report = text;
    return 0;
}

/* It failed, and not for what it found. */
static int fail_checker(struct arena *arena, const struct cay_result *result, const char *program,
                        struct cay_error *err)
{
    const struct cay_stream *from = result->err.len > 0 ? &result->err : &result->out;
    auto_strbuf struct strbuf said = { 0 };

    utf8_sanitize(&said, from->data, from->len);
    const char *text = arena_str(arena, strbuf_str(&said));
    size_t len = strcspn(text, "\n");
    cay_fail(err, CAY_E_SYSTEM, "%s: %.150s%s%.*s", program,
             result->error_message ? result->error_message : "it failed", len ? ": " : "",
             (int)MIN(len, (size_t)200), text);
    return cay_hint(err, "`cay show %.8s` has its output", result->id), -1;
}

static int check(struct cay *cay, struct arena *arena, const struct cay_check_request *req,
                 const struct language *language, char **report, bool *is_safe,
                 struct cay_error *err)
{
    const char *words[WORDS_MAX + 1];
    struct type_findings found = { 0 };
    struct cay_result *result = NULL;

    const char *source =
        language_source(arena, language, req->language, req->file_name, req->code, req->len);
    if (find_checker(arena, language, source, words, err) < 0 ||
        run_checker(cay, arena, req, source, words, &result, err) < 0)
        return -1;
    type_lines_read(arena, language, source, result->out.data, result->out.len, &found);
    /* All of them leave with 0 or few where they got to the end. */
    bool has_ended = result->verdict.cause == CAY_CAUSE_OK ||
                     (result->verdict.cause == CAY_CAUSE_EXIT && found.n > 0);
    int rc = has_ended ? add_findings(arena, req, &found, words[0], report, is_safe, err)
                       : fail_checker(arena, result, words[0], err);
    cay_result_free(result);
    return rc;
}

int cay_check_types(struct cay *cay, const struct cay_check_request *req, char **ret_report,
                    bool *ret_safe, struct cay_error *err)
{
    struct arena arena = { 0 };
    struct cay_check_request bare = *req; /* without a fence: both look at the same code */
    const struct language *language;
    char *report = NULL;
    bool is_safe = false;

    int rc = static_check_prepare(&arena, &bare, &language, err);
    if (rc == 0)
        rc = static_check_run(cay, &bare, language, &report, &is_safe, err);
    if (rc == 0)
        rc = check(cay, &arena, &bare, language, &report, &is_safe, err);
    arena_done(&arena);
    if (rc < 0) {
        free(report);
        return -1;
    }
    *ret_report = report;
    *ret_safe = is_safe;
    return 0;
}

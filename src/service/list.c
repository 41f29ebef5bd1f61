/* SPDX-License-Identifier: Apache-2.0 */
#include "service/list.h"

#include <cay/run.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "doors/http/server-state.h"
#include "net/http.h"
#include "service/execution.h"

static int take_text(char *out, size_t size, const struct http_param *param, struct cay_error *err)
{
    if (strlen(param->value) >= size)
        return cay_fail(err, CAY_E_USAGE, "%s: '%.40s…' is too long", param->name, param->value);
    snprintf(out, size, "%s", param->value);
    return 0;
}

static int take_cause(struct list_query *ret, const struct http_param *param, struct cay_error *err)
{
    static const char *const causes[] = {
#define CAUSE_WORD(name, word) word,
        CAY_CAUSES(CAUSE_WORD)
#undef CAUSE_WORD
    };

    for (size_t i = 0; i < ARRAY_LEN(causes); i++)
        if (strcmp(causes[i], param->value) == 0)
            return take_text(ret->cause, sizeof ret->cause, param, err);
    const char *near = suggest(param->value, causes, ARRAY_LEN(causes));
    cay_fail(err, CAY_E_USAGE, "cause: unknown cause '%.40s'", param->value);
    if (near)
        return cay_hint(err, "did you mean %s?", near);
    return cay_hint(err, "ok exit signal wall_timeout cpu_timeout memory pids disk output …");
}

/* Executions are known by their language's name, whatever they were asked for by. */
static int take_language(struct list_query *ret, const struct http_param *param,
                         struct cay_error *err)
{
    if (cay_language_name(param->value, ret->language, sizeof ret->language, err) == 0)
        return 0;
    err->kind = CAY_E_USAGE; /* nothing was to be run in it */
    return -1;
}

static int take_param(const struct http_param *param, struct list_query *ret, struct cay_error *err)
{
    uint64_t limit;

    if (strcmp(param->name, "limit") == 0) {
        if (parse_uint(param->value, LIST_LIMIT_MAX, &limit) < 0 || limit == 0)
            return cay_fail(err, CAY_E_USAGE, "limit: '%.40s' is not a number from 1 to %d",
                            param->value, LIST_LIMIT_MAX);
        ret->limit = (uint32_t)limit;
        return 0;
    }
    if (strcmp(param->name, "before") == 0)
        return take_text(ret->before, sizeof ret->before, param, err);
    if (strcmp(param->name, "language") == 0)
        return take_language(ret, param, err);
    if (strcmp(param->name, "cause") == 0)
        return take_cause(ret, param, err);
    cay_fail(err, CAY_E_USAGE, "'%.40s' is not a parameter of this list", param->name);
    return cay_hint(err, "limit, before, language, cause");
}

int list_parse(const char *target, struct list_query *ret, struct cay_error *err)
{
    struct arena arena = { 0 };
    struct http_target parsed;
    const char *why = "too many parameters";
    int rc = 0;

    *ret = (struct list_query){ .limit = LIST_LIMIT };
    if (http_target_parse(&arena, target, &parsed, &why) < 0)
        rc = cay_fail(err, CAY_E_USAGE, "the query can't be read: %s", why);
    for (size_t i = 0; rc == 0 && i < parsed.n_params; i++)
        rc = take_param(&parsed.params[i], ret, err);
    arena_done(&arena);
    return rc;
}

void list_put_one(struct strbuf *out, const struct execution *run)
{
    struct json_writer w = { .out = out };
    bool is_finished = run->state == EXECUTION_FINISHED;
    char events[96];

    snprintf(events, sizeof events, "/v1/executions/%s/events", run->id);
    json_begin_object(&w);
    json_field_string(&w, "id", run->id);
    json_field_string(&w, "status", execution_state_name(run->state));
    json_field_string(&w, "timestamp", run->timestamp);
    json_field_string(&w, "tenant", run->tenant);
    json_field_string(&w, "language", *run->language ? run->language : NULL);
    if (is_finished) {
        json_field_int(&w, "exit_code", run->exit_code);
        json_field_bool(&w, "success", run->success);
        json_field_string(&w, "cause", run->cause);
        json_field_real(&w, "execution_time", run->seconds);
    }
    if (!is_finished && run->has_usage) {
        auto_free char *usage = cay_usage_json(&run->usage);
        json_key(&w, "usage");
        json_put_json(&w, usage);
    }
    json_field_string(&w, "events", events);
    json_end_object(&w);
}

static bool matches(const struct execution *run, const struct token_owner *owner,
                    const struct list_query *query)
{
    return !run->is_removed && execution_is_of(run, owner) &&
           (!*query->language || strcmp(run->language, query->language) == 0) &&
           (!*query->cause || (run->cause && strcmp(run->cause, query->cause) == 0));
}

/* ---- what the recorder told: one execution a line (store/history.h), ids and times in front.
 * Passed on as it came: reading a thousand of them as JSON and writing them again would keep
 * everybody else waiting. ---- */

struct row {
    const char *text; /* "{…", to before its last brace */
    size_t len;
    char id[33];
    char timestamp[32];
};

/* Takes the word that the text begins with, in front of which `before` stands, up to a quote. */
static bool take_word(const char **text, const char *end, const char *before, char *out,
                      size_t size)
{
    size_t len = strlen(before);

    if ((size_t)(end - *text) < len || memcmp(*text, before, len) != 0)
        return false;
    const char *word = *text + len, *quote = memchr(word, '"', (size_t)(end - word));
    if (!quote || (size_t)(quote - word) >= size)
        return false;
    memcpy(out, word, (size_t)(quote - word));
    out[quote - word] = '\0';
    *text = quote + 1;
    return true;
}

/* The next row of the text; false: there is none. */
static bool next_row(const char **text, const char *end, struct row *ret)
{
    while (*text < end) {
        const char *line = *text, *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        *text = stop < end ? stop + 1 : end;
        stop -= stop > line && stop[-1] == ',';
        const char *at = line;
        if (!take_word(&at, stop, "{\"id\":\"", ret->id, sizeof ret->id) ||
            !take_word(&at, stop, ",\"timestamp\":\"", ret->timestamp, sizeof ret->timestamp) ||
            stop[-1] != '}')
            continue;
        ret->text = line;
        ret->len = (size_t)(stop - 1 - line);
        return true;
    }
    return false;
}

/* When the one that was named is on record, be it in no list: false where the record does not say.
 */
static bool take_before(const char *text, const char *end, char *out, size_t size)
{
    const char *line = memchr(text, '\n', (size_t)(end - text));

    if (!line)
        return false;
    line++;
    return take_word(&line, end, "{\"before\":\"", out, size);
}

/* Marks those that are recorded: they are listed once, as the record has them. */
static void mark_recorded(struct server *server, const struct token_owner *owner, const char *text,
                          const char *end)
{
    struct row row;

    server->executions.list_number++;
    while (next_row(&text, end, &row)) {
        struct execution *run = execution_find(server, row.id, owner);
        if (run)
            run->listed = server->executions.list_number;
    }
}

/* Where the front's part of the list begins: behind the one that was named. The front may have
 * forgotten that one and still have older ones, which run for long: then the record says when it
 * was. */
static const struct execution *first_of(const struct server *server,
                                        const struct token_owner *owner, const char *before,
                                        const char *recorded)
{
    const struct execution *run = server->executions.newest;
    const struct execution *named = *before ? execution_find(server, before, owner) : NULL;

    if (!*before)
        return run;
    if (!named && !recorded)
        return NULL;
    const char *timestamp = named ? named->timestamp : recorded;
    while (run && execution_compare(run, timestamp, before) >= 0)
        run = run->older;
    return run;
}

static void put_recorded(struct strbuf *out, const struct row *row)
{
    strbuf_add(out, row->text, row->len);
    strbuf_puts(out, ",\"status\":\"finished\"}");
}

void list_put(struct strbuf *out, struct server *server, const struct token_owner *owner,
              const struct list_query *query, const char *recorded, size_t recorded_len)
{
    const char *text = recorded ? recorded : "", *end = text + recorded_len;
    struct row row;

    char before[sizeof row.timestamp];
    bool has_before = take_before(text, end, before, sizeof before);
    mark_recorded(server, owner, text, end);
    const struct execution *run =
        first_of(server, owner, query->before, has_before ? before : NULL);
    bool has_row = next_row(&text, end, &row);
    if (has_row && strcmp(row.id, query->before) == 0)
        has_row = next_row(&text, end, &row);
    strbuf_puts(out, "{\"executions\":[");
    for (size_t n = 0; n < query->limit; n++) {
        while (run &&
               (!matches(run, owner, query) || run->listed == server->executions.list_number))
            run = run->older;
        if (!run && !has_row)
            break;
        strbuf_puts(out, n > 0 ? "," : "");
        if (run && (!has_row || execution_compare(run, row.timestamp, row.id) > 0)) {
            list_put_one(out, run);
            run = run->older;
        } else {
            put_recorded(out, &row);
            has_row = next_row(&text, end, &row);
        }
    }
    strbuf_printf(out, "],\"complete\":%s}\n", recorded ? "true" : "false");
}

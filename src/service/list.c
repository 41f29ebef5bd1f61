/* SPDX-License-Identifier: Apache-2.0 */
#include "service/list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cay/run.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "base/when.h"
#include "service/execution.h"
#include "service/recall.h"
#include "service/service-state.h"

static int take_text(char *out, size_t size, const char *name, const char *value,
                     struct cay_error *err)
{
    if (strlen(value) >= size)
        return cay_fail(err, CAY_E_USAGE, "%s: '%.40s…' is too long", name, value);
    snprintf(out, size, "%s", value);
    return 0;
}

static int take_cause(struct list_query *ret, const char *name, const char *value,
                      struct cay_error *err)
{
    static const char *const causes[] = {
#define CAUSE_WORD(name, word) word,
        CAY_CAUSES(CAUSE_WORD)
#undef CAUSE_WORD
    };

    for (size_t i = 0; i < ARRAY_LEN(causes); i++)
        if (strcmp(causes[i], value) == 0)
            return take_text(ret->cause, sizeof ret->cause, name, value, err);
    const char *near = suggest(value, causes, ARRAY_LEN(causes));
    cay_fail(err, CAY_E_USAGE, "cause: unknown cause '%.40s'", value);
    if (near)
        return cay_hint(err, "did you mean %s?", near);
    return cay_hint(err, "ok exit signal wall_timeout cpu_timeout memory pids disk output …");
}

/* Executions are known by their language's name, whatever they were asked for by. */
static int take_language(struct list_query *ret, const char *value, struct cay_error *err)
{
    if (cay_language_name(value, ret->language, sizeof ret->language, err) == 0)
        return 0;
    err->kind = CAY_E_USAGE; /* nothing was to be run in it */
    return -1;
}

int list_query_set(struct list_query *ret, const char *name, const char *value,
                   struct cay_error *err)
{
    uint64_t limit;

    if (strcmp(name, "limit") == 0) {
        if (parse_uint(value, LIST_LIMIT_MAX, &limit) < 0 || limit == 0)
            return cay_fail(err, CAY_E_USAGE, "limit: '%.40s' is not a number from 1 to %d", value,
                            LIST_LIMIT_MAX);
        ret->limit = (uint32_t)limit;
        return 0;
    }
    if (strcmp(name, "before") == 0)
        return take_text(ret->before, sizeof ret->before, name, value, err);
    if (strcmp(name, "language") == 0)
        return take_language(ret, value, err);
    if (strcmp(name, "cause") == 0)
        return take_cause(ret, name, value, err);
    cay_fail(err, CAY_E_USAGE, "'%.40s' is not a parameter of this list", name);
    return cay_hint(err, "limit, before, language, cause");
}

void list_query_init(struct list_query *query, list_put_fn *put)
{
    *query = (struct list_query){ .limit = LIST_LIMIT, .put = put };
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

struct recorded_row {
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
static bool next_row(const char **text, const char *end, struct recorded_row *ret)
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
static void mark_recorded(struct service *service, const struct token_owner *owner,
                          const char *text, const char *end)
{
    struct recorded_row row;

    service->executions.list_number++;
    while (next_row(&text, end, &row)) {
        struct execution *run = execution_find(service, row.id, owner);
        if (run)
            run->listed = service->executions.list_number;
    }
}

/* Where the front's part of the list begins: behind the one that was named. The front may have
 * forgotten that one and still have older ones, which run for long: then the record says when it
 * was. */
static const struct execution *first_of(const struct service *service,
                                        const struct token_owner *owner, const char *before,
                                        const char *recorded)
{
    const struct execution *run = service->executions.newest;
    const struct execution *named = *before ? execution_find(service, before, owner) : NULL;

    if (!*before)
        return run;
    if (!named && !recorded)
        return NULL;
    const char *timestamp = named ? named->timestamp : recorded;
    while (run && execution_compare(run, timestamp, before) >= 0)
        run = run->older;
    return run;
}

static void put_recorded(struct strbuf *out, const struct recorded_row *row)
{
    strbuf_add(out, row->text, row->len);
    strbuf_puts(out, ",\"status\":\"finished\"}");
}

static void put_list(struct strbuf *out, struct service *service, const struct token_owner *owner,
                     const struct list_query *query, const char *recorded, size_t recorded_len)
{
    const char *text = recorded ? recorded : "", *end = text + recorded_len;
    struct recorded_row row;

    char before[sizeof row.timestamp];
    bool has_before = take_before(text, end, before, sizeof before);
    mark_recorded(service, owner, text, end);
    const struct execution *run =
        first_of(service, owner, query->before, has_before ? before : NULL);
    bool has_row = next_row(&text, end, &row);
    if (has_row && strcmp(row.id, query->before) == 0)
        has_row = next_row(&text, end, &row);
    strbuf_puts(out, "{\"executions\":[");
    for (size_t n = 0; n < query->limit; n++) {
        while (run &&
               (!matches(run, owner, query) || run->listed == service->executions.list_number))
            run = run->older;
        if (!run && !has_row)
            break;
        strbuf_puts(out, n > 0 ? "," : "");
        if (run && (!has_row || execution_compare(run, row.timestamp, row.id) > 0)) {
            struct execution_info info;
            service_describe(run, &info);
            query->put(out, &info);
            run = run->older;
        } else {
            put_recorded(out, &row);
            has_row = next_row(&text, end, &row);
        }
    }
    strbuf_printf(out, "],\"complete\":%s}\n", recorded ? "true" : "false");
}

/* ---- asking ---- */

static void forget_list(struct ask *ask)
{
    history_client_forget(ask->service->history, ask);
    free(ask->list);
    ask->list = NULL;
}

static void answer_list(void *arg, int status, const char *json, size_t len)
{
    struct ask *ask = arg;
    auto_free struct list_query *query = take_ptr(&ask->list);
    auto_strbuf struct strbuf out = { 0 };

    ask->forget = NULL;
    service_give_back(ask); /* the answer counts for itself */
    if (status == -ENOENT && *query->before) {
        recall_is_found(ask, status);
        return;
    }
    put_list(&out, ask->service, &ask->owner, query, status == 0 ? json : NULL, len);
    ask_answer(ask, &(struct answer){ .text = strbuf_str(&out), .len = out.len, .fd = -1 });
}

void service_list(struct ask *ask, const struct list_query *query)
{
    struct history_query asked = { .kind = HISTORY_LIST };
    const struct execution *named = service_find(ask, query->before);

    if (named) /* it may still be waiting or running, and not be on record */
        when_parse(named->timestamp, 0, &asked.id_ms);
    asked.limit = query->limit + (*query->before != '\0'); /* which comes along */
    memcpy(asked.id, query->before, sizeof asked.id);
    memcpy(asked.language, query->language, sizeof asked.language);
    memcpy(asked.cause, query->cause, sizeof asked.cause);
    ask->list = mem_alloc(sizeof *query);
    *ask->list = *query;
    if (recall_ask(ask, &asked, answer_list) < 0)
        answer_list(ask, -EPIPE, NULL, 0);
    else
        ask->forget = forget_list;
}

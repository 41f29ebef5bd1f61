/* SPDX-License-Identifier: Apache-2.0 */
/* A request as the JSON that cay_request_parse reads: for whoever has it run elsewhere. */
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "core/language.h"
#include "core/request.h"

/* Under its other name it stands in the field that it is one of (core/request-alias.h). */
static bool is_alias(enum field_id id)
{
    return fields[id].flags & FIELD_LIMIT && fields[id].flags & FIELD_NO_CONFIG;
}

static void put_list(struct json_writer *w, const char *name, const struct value *list)
{
    if (!list->is_set)
        return;
    json_field_array(w, name);
    for (const char *const *word = list->list; word && *word; word++)
        json_put_string(w, *word);
    json_end_array(w);
}

/* As they were written: each kind but yes and no is read from text, too. */
static void put_fields(struct json_writer *w, const struct cay_request *req, bool limits)
{
    for (int i = 0; i < FIELD_N; i++) {
        const struct value *value = &req->values[i];
        bool is_limit = fields[i].flags & FIELD_LIMIT;
        if (!value->is_set || is_limit != limits || is_alias((enum field_id)i))
            continue;
        if (fields[i].kind == FIELD_LIST)
            put_list(w, fields[i].name, value);
        else if (fields[i].kind == FIELD_BOOL)
            json_field_bool(w, fields[i].name, value->num);
        else
            json_field_string(w, fields[i].name, value->text);
    }
}

static int check_list(const char *name, const struct value *list, struct cay_error *err)
{
    for (const char *const *word = list->list; word && *word; word++)
        if (!utf8_is_valid(*word, strlen(*word)))
            return cay_fail(err, CAY_E_USAGE, "%s: not UTF-8, which JSON can't hold", name);
    return 0;
}

static int put_text(struct json_writer *w, const char *name, const struct bytes *bytes,
                    struct cay_error *err)
{
    if (!bytes->data)
        return 0;
    if (!utf8_is_valid(bytes->data, bytes->len))
        return cay_fail(err, CAY_E_USAGE, "%s: not UTF-8, which JSON can't hold", name);
    json_field_string_len(w, name, bytes->data, bytes->len);
    return 0;
}

static void put_files(struct json_writer *w, const struct cay_request *req)
{
    if (req->files.n == 0)
        return;
    json_field_object(w, "files");
    for (size_t i = 0; i < req->files.n; i++) {
        const struct payload_file *file = &req->files.items[i];
        if (utf8_is_valid(file->data, (size_t)file->len)) {
            json_field_string_len(w, file->name, file->data, (size_t)file->len);
            continue;
        }
        json_field_object(w, file->name);
        json_field_base64(w, "base64", file->data, (size_t)file->len);
        json_end_object(w);
    }
    json_end_object(w);
}

/* Of two of one name the last one holds, as for a program that is given both. */
static bool is_last(const struct value *env, size_t at)
{
    size_t len = strcspn(env->list[at], "=") + 1;

    for (size_t i = at + 1; i < env->n; i++)
        if (strncmp(env->list[i], env->list[at], len) == 0)
            return false;
    return true;
}

static void put_env(struct json_writer *w, const struct value *env)
{
    if (env->n == 0)
        return;
    json_field_object(w, "env");
    for (size_t i = 0; i < env->n; i++) {
        size_t len = strcspn(env->list[i], "=");
        if (!is_last(env, i))
            continue;
        json_key_len(w, env->list[i], len);
        json_put_string(w, env->list[i] + len + 1);
    }
    json_end_object(w);
}

/* A file's name is not in a request; what it tells of the language is. */
static void put_language(struct json_writer *w, const struct cay_request *req)
{
    struct arena arena = { 0 };
    const struct language *language = NULL;
    struct cay_error unknown;

    if (!req->values[FIELD_LANGUAGE].is_set && req->file_name && req->code.data &&
        language_guess(&arena, req->file_name, req->code.data, req->code.len, &language,
                       &unknown) == 0 &&
        language)
        json_field_string(w, "language", language->name);
    arena_done(&arena);
}

int cay_request_json(const struct cay_request *req, char **ret, struct cay_error *err)
{
    auto_strbuf struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };

    if (check_list("args", &req->args, err) < 0 || check_list("command", &req->command, err) < 0 ||
        check_list("env", &req->env, err) < 0)
        return -1;
    json_begin_object(&w);
    put_language(&w, req);
    put_fields(&w, req, false);
    if (!req->values[FIELD_ROWS].is_set && req->rows_auto)
        json_field_string(&w, "rows", req->rows_auto);
    json_field_object(&w, "limits");
    put_fields(&w, req, true);
    json_end_object(&w);
    put_list(&w, "command", &req->command);
    put_list(&w, "args", &req->args);
    put_env(&w, &req->env);
    put_files(&w, req);
    if (put_text(&w, "code", &req->code, err) < 0 || put_text(&w, "stdin", &req->input, err) < 0)
        return -1;
    json_end_object(&w);
    *ret = strbuf_take(&out);
    return 0;
}

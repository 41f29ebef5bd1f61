/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A property is a row: its schema, its name, its type, whether it is always there, what it means.
 * Types are words: "string", "integer", "number", "boolean"; "#Name" another schema; "=words" one
 * of the words that a table of ours holds; "[]type" a list, "{}type" a map of such; "any"; and "?"
 * behind a type: it may be null.
 */
#include "doors/http/openapi-schema.h"

#include <stdbool.h>
#include <string.h>

#include <cay/run.h>
#include <cay/settings.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "service/refused.h"

enum { ALWAYS = 1 };

static const struct row {
    const char *schema, *name, *type;
    int is_always;
    const char *text;
} rows[] = {
    { "Result", "id", "string", ALWAYS, "32 hex digits" },
    { "Result", "success", "boolean", ALWAYS, "the program ended with 0" },
    { "Result", "exit_code", "integer", ALWAYS,
      "the program's own; 124 time, 125 cay could not run it, 126 policy, 127 unknown language, "
      "128+n signal n, 137 memory or output" },
    { "Result", "signal", "integer?", ALWAYS, "that ended the program" },
    { "Result", "stdout", "string", ALWAYS, "head and tail of what the program wrote" },
    { "Result", "stdout_base64", "string", 0, "the exact bytes, where they are not UTF-8" },
    { "Result", "stderr", "string", ALWAYS, "the same of its errors" },
    { "Result", "stderr_base64", "string", 0, "the exact bytes, where they are not UTF-8" },
    { "Result", "execution_time", "number", ALWAYS, "seconds of the run" },
    { "Result", "timeout", "boolean", ALWAYS, "it reached the timeout" },
    { "Result", "error_message", "string?", ALWAYS, "what went wrong, in a sentence" },
    { "Result", "container_id", "string?", ALWAYS, "of the sandbox" },
    { "Result", "language", "string?", ALWAYS, "null for a command" },
    { "Result", "timestamp", "string", ALWAYS, "when the request was taken, UTC" },
    { "Result", "verdict", "#Verdict", ALWAYS, "why it ended" },
    { "Result", "error", "#Analysis?", ALWAYS, "why it failed; null where it did not" },
    { "Result", "results", "[]any", ALWAYS, "what the program displayed" },
    { "Result", "files", "[]#File", ALWAYS, "what was collected" },
    { "Result", "meta", "#Meta", ALWAYS, "how it ran" },

    { "Verdict", "cause", "=causes", ALWAYS, "the true cause, as the kernel reports it" },
    { "Verdict", "limit_name", "string?", ALWAYS, "the limit that was reached" },
    { "Verdict", "limit", "number?", ALWAYS, "its value" },
    { "Verdict", "measured", "number?", ALWAYS, "what was measured" },
    { "Verdict", "unit", "string?", ALWAYS, "s, bytes or count" },
    { "Verdict", "remedy", "string?", ALWAYS, "what can be done about it" },

    { "Analysis", "type", "string?", ALWAYS, "as the language has it: ValueError" },
    { "Analysis", "full_type", "string?", ALWAYS, "with its module or package" },
    { "Analysis", "category", "string?", ALWAYS, "syntax, import, name, type, …, timeout" },
    { "Analysis", "message", "string?", ALWAYS, "" },
    { "Analysis", "file", "string?", ALWAYS, "of the program's own" },
    { "Analysis", "line", "integer?", ALWAYS, "" },
    { "Analysis", "column", "integer?", ALWAYS, "" },
    { "Analysis", "frames", "[]#Frame", ALWAYS, "the outermost first" },
    { "Analysis", "context", "[]#ContextLine", ALWAYS, "the lines around it" },
    { "Analysis", "suggestion", "string?", ALWAYS, "what to try" },
    { "Analysis", "doc", "string?", ALWAYS, "where the language explains it" },

    { "Frame", "file", "string?", ALWAYS, "" },
    { "Frame", "line", "integer?", ALWAYS, "" },
    { "Frame", "column", "integer?", ALWAYS, "" },
    { "Frame", "function", "string?", ALWAYS, "" },
    { "Frame", "user", "boolean", ALWAYS, "the program's own, not a library's" },

    { "ContextLine", "line", "integer", ALWAYS, "" },
    { "ContextLine", "text", "string", ALWAYS, "" },
    { "ContextLine", "error", "boolean", ALWAYS, "the one that failed" },

    { "File", "path", "string", ALWAYS, "where it was, with U+FFFD for what is not UTF-8" },
    { "File", "path_base64", "string", 0, "the exact bytes, where they are not UTF-8" },
    { "File", "change", "=changes", ALWAYS, "what the run did to it" },
    { "File", "type", "=types", 0, "where it is not a file" },
    { "File", "size", "integer", ALWAYS, "bytes" },
    { "File", "mode", "string", 0, "permissions, octal" },
    { "File", "target", "string", 0, "of a symbolic link" },
    { "File", "target_base64", "string", 0, "the exact bytes, where they are not UTF-8" },
    { "File", "base64", "string", 0, "its content, where it was collected" },

    { "Meta", "runtime", "string?", ALWAYS, "the backend that ran it; null where none did" },
    { "Meta", "fallback", "#Fallback?", ALWAYS, "null where it is the one that was asked for" },
    { "Meta", "language_version", "string?", ALWAYS, "" },
    { "Meta", "start", "string?", ALWAYS,
      "how the interpreter came to be: cold, spare, fork, warm" },
    { "Meta", "image", "string", 0, "the image, if it is not the host's own runtimes" },
    { "Meta", "image_digest", "string", 0, "what the image holds" },
    { "Meta", "truncated", "boolean", ALWAYS, "stdout or stderr was cut" },
    { "Meta", "blocked_imports", "[]string", ALWAYS, "by the static check" },
    { "Meta", "warnings", "[]string", ALWAYS, "" },
    { "Meta", "resource_limits", "#LimitsInForce", ALWAYS, "" },
    { "Meta", "usage", "#Usage", ALWAYS, "by the kernel's counters" },
    { "Meta", "timing", "#Timing", ALWAYS, "seconds" },
    { "Meta", "isolation", "#Isolation", ALWAYS, "what was really in force" },

    { "Fallback", "asked", "string", ALWAYS, "the backend that can't be had, or auto" },
    { "Fallback", "ran", "string?", ALWAYS, "the one that ran; null where none did" },
    { "Fallback", "how", "string", ALWAYS, "auto, isolated or unsafe" },
    { "Fallback", "why", "string", ALWAYS, "what stood in the way" },

    { "LimitsInForce", "timeout", "number", ALWAYS, "seconds" },
    { "LimitsInForce", "max_output", "integer", ALWAYS, "bytes" },
    { "LimitsInForce", "memory", "integer", ALWAYS, "bytes" },
    { "LimitsInForce", "swap", "integer", ALWAYS, "bytes" },
    { "LimitsInForce", "cpus", "number", ALWAYS, "" },
    { "LimitsInForce", "cpu_shares", "integer", ALWAYS, "1024 is a full one" },
    { "LimitsInForce", "cpu_time", "number?", ALWAYS, "seconds" },
    { "LimitsInForce", "pids", "integer", ALWAYS, "" },
    { "LimitsInForce", "disk", "integer", ALWAYS, "bytes" },
    { "LimitsInForce", "inodes", "integer", ALWAYS, "" },
    { "LimitsInForce", "open_files", "integer", ALWAYS, "" },
    { "LimitsInForce", "output_cap", "integer", ALWAYS, "bytes" },

    { "Usage", "cpu_time", "number", ALWAYS, "seconds" },
    { "Usage", "memory_peak", "integer?", ALWAYS, "bytes; null where nothing counts them" },
    { "Usage", "pids_peak", "integer?", ALWAYS,
      "processes and threads; those of a compiler included, if one ran too" },
    { "Usage", "stdout_bytes", "integer", ALWAYS, "written in all" },
    { "Usage", "stderr_bytes", "integer", ALWAYS, "" },
    { "Usage", "memory", "integer?", 0, "bytes in use at that moment; only in events" },
    { "Usage", "pids", "integer?", 0, "processes and threads at that moment; only in events" },

    { "Timing", "queue", "number?", ALWAYS, "waiting; does not count against limits" },
    { "Timing", "setup", "number?", ALWAYS, "" },
    { "Timing", "compile", "number?", ALWAYS, "null where nothing was compiled" },
    { "Timing", "run", "number?", ALWAYS, "" },
    { "Timing", "teardown", "number?", ALWAYS, "" },

    { "Isolation", "tier", "string?", ALWAYS, "none, kernel, gvisor, vm" },
    { "Isolation", "layers", "[]string", ALWAYS, "" },

    { "Event", "seq", "integer", ALWAYS, "counts from 1; what Last-Event-ID names" },
    { "Event", "event", "=events", ALWAYS, "" },
    { "Event", "time", "number?", ALWAYS,
      "seconds since the request was taken; null where it is not kept" },
    { "Event", "data", "string", 0, "output, the stage's name, the warning" },
    { "Event", "base64", "string", 0, "in its place, where the bytes are not UTF-8" },
    { "Event", "gap", "[]integer", 0,
      "of a warning: the first and the last of the events that are not there any more" },
    { "Event", "usage", "#Usage", 0, "of usage" },
    { "Event", "result", "#Result", 0, "of finished, which every stream ends with" },

    { "Status", "id", "string", ALWAYS, "32 hex digits" },
    { "Status", "status", "string", ALWAYS, "queued, running or finished" },
    { "Status", "events", "string", 0, "where its events can be read" },
    { "Status", "timestamp", "string", 0, "when the request was taken, UTC" },
    { "Status", "tenant", "string", 0, "" },
    { "Status", "language", "string?", 0, "null for a command" },
    { "Status", "exit_code", "integer", 0, "of one that is finished, as the next three" },
    { "Status", "success", "boolean", 0, "" },
    { "Status", "cause", "string?", 0, "" },
    { "Status", "execution_time", "number", 0, "seconds" },
    { "Status", "usage", "#Usage", 0, "of one that runs: the last that was told of it" },

    { "Executions", "executions", "[]#Status", ALWAYS, "the newest first" },

    { "Error", "error", "#ErrorDetail", ALWAYS, "" },
    { "ErrorDetail", "kind", "=kinds", ALWAYS, "" },
    { "ErrorDetail", "message", "string", ALWAYS, "names what was given and what is allowed" },
    { "ErrorDetail", "hint", "string?", ALWAYS, "what can be done about it" },

    { "Language", "name", "string", ALWAYS, "what a request says" },
    { "Language", "title", "string", ALWAYS, "" },
    { "Language", "version", "string?", ALWAYS, "null where it is not installed" },
    { "Language", "aliases", "[]string", ALWAYS, "" },
    { "Language", "extensions", "[]string", ALWAYS, "" },
    { "Language", "path", "string?", ALWAYS, "of its program" },
    { "Language", "packages", "[]string", ALWAYS, "to install where it is missing" },
    { "Language", "compiled", "boolean", ALWAYS, "" },
    { "Language", "memory", "integer?", ALWAYS, "its own default, bytes" },

    { "CheckRequest", "language", "string", 0, "a name or an alias; else by the #! line" },
    { "CheckRequest", "code", "string", ALWAYS, "the source text" },
    { "CheckRequest", "strict", "boolean", 0, "warnings block too" },
    { "CheckRequest", "strip_fence", "boolean", 0, "check what is inside the Markdown fence" },

    { "CheckReport", "safe", "boolean", ALWAYS, "nothing blocks, and all of it could be read" },
    { "CheckReport", "language", "string", ALWAYS, "" },
    { "CheckReport", "findings", "[]#Finding", ALWAYS, "" },
    { "CheckReport", "blocked_imports", "[]string", ALWAYS, "" },

    { "Finding", "rule", "string", ALWAYS, "its id" },
    { "Finding", "severity", "string", ALWAYS, "info, warn or block" },
    { "Finding", "line", "integer", ALWAYS, "from 1" },
    { "Finding", "column", "integer", ALWAYS, "from 1, in characters" },
    { "Finding", "code", "string", ALWAYS, "the line" },
    { "Finding", "message", "string", ALWAYS, "" },
    { "Finding", "remedy", "string", ALWAYS, "what can be done about it" },
    { "Finding", "ordinary", "boolean", ALWAYS,
      "everyday code has it: no warning where it runs isolated" },

    { "Health", "status", "string", ALWAYS, "ok, failing or draining" },
    { "Health", "version", "string", ALWAYS, "" },
    { "Health", "running", "integer", ALWAYS, "" },
    { "Health", "queued", "integer", ALWAYS, "" },
    { "Health", "check_time", "number", ALWAYS, "seconds that the last check took" },
    { "Health", "warden", "string", ALWAYS, "ok, slow, hung or restarting" },
    { "Health", "commands", "integer", ALWAYS, "runs of `cay run` that go through the warden" },
    { "Health", "recorder", "string", ALWAYS,
      "ok, restarting, failing: what is answered waits in the journal, or hung" },
    { "Health", "journal", "string", ALWAYS,
      "ok, or failing: the last run is not on record, or the journal was cut or removed" },
    { "Health", "checker", "string", ALWAYS,
      "ok, or restarting: what starts the workers of the static check is gone; code is not checked "
      "meanwhile" },
    { "Health", "losses", "integer", ALWAYS,
      "how often something of the audit log or a journal was found missing or damaged in the last "
      "24 hours; `cay audit verify` says what" },
    { "Health", "message", "string?", ALWAYS, "what went wrong" },
};

/* The fields of a request that are no rows of the field table, because their values are no words.
 */
static const struct row request_rows[] = {
    { "Request", "code", "string", 0, "the source text" },
    { "Request", "command", "[]string", 0,
      "instead of language and code: a program and its "
      "arguments" },
    { "Request", "files", "{}#Content", 0, "name to text; put at /sandbox/NAME" },
    { "Request", "args", "[]string", 0, "the program's arguments" },
    { "Request", "env", "{}string", 0, "the program's variables" },
    { "Request", "stdin", "string", 0, "the program's input" },
    { "Request", "limits", "#Limits", 0, "" },
};

/* ---- words ---- */

static const char *const cause_words[] = {
#define WORD(name, word) word,
    CAY_CAUSES(WORD) NULL
};
static const char *const event_words[] = { CAY_EVENTS(WORD) NULL };
#undef WORD

static void put_words(struct json_writer *w, const char *set)
{
    json_field_array(w, "enum");
    if (strcmp(set, "kinds") == 0)
        for (int i = CAY_E_OK + 1; i <= CAY_E_BUSY; i++)
            json_put_string(w, cay_error_kind_name((enum cay_errkind)i));
    else if (strcmp(set, "changes") == 0)
        for (int i = CAY_UNCHANGED; i <= CAY_DELETED; i++)
            json_put_string(w, cay_change_name((enum cay_change_kind)i));
    else if (strcmp(set, "types") == 0)
        for (int i = CAY_FILE; i <= CAY_SPECIAL; i++)
            json_put_string(w, cay_file_type_name((enum cay_file_type)i));
    else
        for (const char *const *word = strcmp(set, "causes") == 0 ? cause_words : event_words;
             *word; word++)
            json_put_string(w, *word);
    json_end_array(w);
}

/* ---- types ---- */

static void put_reference(struct json_writer *w, const char *name)
{
    auto_strbuf struct strbuf path = { 0 };

    strbuf_printf(&path, "#/components/schemas/%s", name);
    json_field_string(w, "$ref", strbuf_str(&path));
}

/* What a type's object holds; the object is open. */
static void put_type(struct json_writer *w, const char *type)
{
    bool is_list = strncmp(type, "[]", 2) == 0, is_map = strncmp(type, "{}", 2) == 0;
    size_t len = strlen(type);

    if (is_list || is_map) {
        json_field_string(w, "type", is_list ? "array" : "object");
        json_field_object(w, is_list ? "items" : "additionalProperties");
        put_type(w, type + 2);
        json_end_object(w);
    } else if (*type == '#' && type[len - 1] == '?') {
        auto_strbuf struct strbuf name = { 0 };
        strbuf_add(&name, type + 1, len - 2);
        json_field_array(w, "anyOf");
        json_begin_object(w);
        put_reference(w, strbuf_str(&name));
        json_end_object(w);
        json_begin_object(w);
        json_field_string(w, "type", "null");
        json_end_object(w);
        json_end_array(w);
    } else if (*type == '#') {
        put_reference(w, type + 1);
    } else if (*type == '=') {
        json_field_string(w, "type", "string");
        put_words(w, type + 1);
    } else if (type[len - 1] == '?') {
        json_field_array(w, "type");
        json_put_string_len(w, type, len - 1);
        json_put_string(w, "null");
        json_end_array(w);
    } else if (strcmp(type, "any") != 0) {
        json_field_string(w, "type", type);
    }
}

static void put_row(struct json_writer *w, const struct row *row)
{
    json_field_object(w, row->name);
    put_type(w, row->type);
    if (*row->text)
        json_field_string(w, "description", row->text);
    json_end_object(w);
}

/* ---- the request ---- */

static bool is_kind(const struct cay_field *field, const char *kind)
{
    return strcmp(field->kind, kind) == 0;
}

/* A value is a number, or text as on the command line. */
static void put_number_type(struct json_writer *w, const struct cay_field *field, struct cay *cay)
{
    bool is_whole = is_kind(field, "size") || is_kind(field, "count");
    double unit = is_kind(field, "seconds") ? 1e9 : is_kind(field, "number") ? 1e3 : 1;
    uint64_t cap = cay ? cay_max(cay, field->name) : 0;
    uint64_t max = cap ? MIN(cap, field->max) : field->max;

    json_field_array(w, "type");
    json_put_string(w, is_whole ? "integer" : "number");
    json_put_string(w, "string");
    json_end_array(w);
    if (is_whole) {
        json_field_uint(w, "minimum", field->min);
        json_field_uint(w, "maximum", max);
    } else {
        json_field_real(w, "minimum", (double)field->min / unit);
        json_field_real(w, "maximum", (double)max / unit);
    }
    json_field_string(w, "pattern",
                      is_kind(field, "size")      ? "^[0-9]+(\\.[0-9]+)?[kKmMgG]?$"
                      : is_kind(field, "seconds") ? "^[0-9]+(\\.[0-9]+)?s?$"
                      : is_kind(field, "count")   ? "^[0-9]+$"
                                                  : "^[0-9]+(\\.[0-9]+)?$");
}

static bool is_refused(const char *field, const char *value, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        if (refused[i].value && strcmp(refused[i].field, field) == 0 &&
            strlen(refused[i].value) == len && memcmp(refused[i].value, value, len) == 0)
            return true;
    return false;
}

static void put_choices(struct json_writer *w, const struct cay_field *field)
{
    const char *choices = field->choices;

    json_field_string(w, "type", "string");
    json_field_array(w, "enum");
    while (*choices) {
        size_t len = strcspn(choices, " ");
        if (!is_refused(field->name, choices, len))
            json_put_string_len(w, choices, len);
        choices += len + (choices[len] == ' ');
    }
    json_end_array(w);
}

/* What the configuration says in words (hosts, images, a webhook) is not for everybody: the document
 * needs no token. */
static void put_default(struct json_writer *w, const struct cay_field *field, struct cay *cay)
{
    bool is_words = field->is_list || (is_kind(field, "text") && !field->choices);
    const char *value = cay && !is_words ? cay_default(cay, field->name) : field->initial;

    if (!value || is_refused(field->name, value, strlen(value)))
        return;
    if (field->is_flag)
        json_field_bool(w, "default", strcmp(value, "true") == 0);
    else
        json_field_string(w, "default", value);
}

static void put_field(struct json_writer *w, const struct cay_field *field, struct cay *cay)
{
    json_field_object(w, field->name);
    if (field->is_list) {
        json_field_array(w, "type");
        json_put_string(w, "array");
        json_put_string(w, "string");
        json_end_array(w);
        json_field_object(w, "items");
        json_field_string(w, "type", "string");
        json_end_object(w);
    } else if (field->is_flag) {
        json_field_string(w, "type", "boolean");
    } else if (field->choices) {
        put_choices(w, field);
    } else if (is_kind(field, "text")) {
        json_field_string(w, "type", "string");
    } else {
        put_number_type(w, field, cay);
    }
    json_field_string(w, "description", field->help);
    put_default(w, field, cay);
    json_end_object(w);
}

static void put_fields(struct json_writer *w, bool is_limit, struct cay *cay)
{
    const struct cay_field *field;

    for (size_t i = 0; (field = cay_field_at(i)); i++)
        if (field->is_limit == is_limit && !field->is_local)
            put_field(w, field, cay);
}

static void put_request(struct json_writer *w, struct cay *cay)
{
    json_field_object(w, "Request");
    json_field_string(w, "type", "object");
    json_field_bool(w, "additionalProperties", false);
    json_field_object(w, "properties");
    for (size_t i = 0; i < ARRAY_LEN(request_rows); i++)
        put_row(w, &request_rows[i]);
    put_fields(w, false, cay);
    json_end_object(w);
    json_end_object(w);

    json_field_object(w, "Limits");
    json_field_string(w, "type", "object");
    json_field_bool(w, "additionalProperties", false);
    json_field_object(w, "properties");
    put_fields(w, true, cay);
    json_end_object(w);
    json_end_object(w);
}

/* ---- schemas that are no plain objects ---- */

static void put_content(struct json_writer *w)
{
    json_field_string(w, "description", "text, or bytes in base64");
    json_field_array(w, "oneOf");
    json_begin_object(w);
    json_field_string(w, "type", "string");
    json_end_object(w);
    json_begin_object(w);
    json_field_string(w, "type", "object");
    json_field_bool(w, "additionalProperties", false);
    json_field_object(w, "properties");
    json_field_object(w, "base64");
    json_field_string(w, "type", "string");
    json_field_string(w, "contentEncoding", "base64");
    json_end_object(w);
    json_end_object(w);
    json_field_array(w, "required");
    json_put_string(w, "base64");
    json_end_array(w);
    json_end_object(w);
    json_end_array(w);
}

static void put_execution(struct json_writer *w)
{
    json_field_string(w, "description", "the result of one that is finished, else its state");
    json_field_array(w, "anyOf");
    for (int i = 0; i < 2; i++) {
        json_begin_object(w);
        put_reference(w, i == 0 ? "Result" : "Status");
        json_end_object(w);
    }
    json_end_array(w);
}

static void put_languages(struct json_writer *w)
{
    put_type(w, "[]#Language");
}

static const struct {
    const char *name;
    void (*put)(struct json_writer *w);
} others[] = {
    { "Content", put_content },
    { "Execution", put_execution },
    { "Languages", put_languages },
};

/* ---- all ---- */

/* Rows of one schema stand together; returns the first of the next. */
static const struct row *put_object(struct json_writer *w, const struct row *first)
{
    const struct row *end = rows + ARRAY_LEN(rows), *row;

    json_field_object(w, first->schema);
    json_field_string(w, "type", "object");
    json_field_object(w, "properties");
    for (row = first; row < end && strcmp(row->schema, first->schema) == 0; row++)
        put_row(w, row);
    json_end_object(w);
    json_field_array(w, "required");
    for (const struct row *pos = first; pos < row; pos++)
        if (pos->is_always)
            json_put_string(w, pos->name);
    json_end_array(w);
    json_end_object(w);
    return row;
}

void openapi_put_schemas(struct json_writer *w, struct cay *cay)
{
    put_request(w, cay);
    for (const struct row *row = rows; row < rows + ARRAY_LEN(rows);)
        row = put_object(w, row);
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        json_field_object(w, others[i].name);
        others[i].put(w);
        json_end_object(w);
    }
}

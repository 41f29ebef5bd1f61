/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the audit log as text, both ways. What is read may have been written by anybody. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scan.h"
#include "base/strbuf.h"
#include "store/audit.h"
#include "store/record.h"

enum { WORD_MAX = 64, IMAGE_MAX = 160, FINDING_MAX = 126, TEXT_MAX = 400, FINDINGS_MAX = 64 };
enum { PATH_BYTES_MAX = 4096 };

/* ---- writing ---- */

static void put_sum(struct json_writer *w, const char *key, const struct digest_sum *sum)
{
    if (sum->bytes == 0) {
        json_field_null(w, key);
        return;
    }
    json_field_object(w, key);
    json_field_uint(w, "bytes", sum->bytes);
    json_field_string(w, "sha256", sum->sha256);
    json_end_object(w);
}

static void put_note(struct json_writer *w, const struct audit_entry *entry)
{
    json_field_string(w, "text", entry->text);
    if (entry->id)
        json_field_string(w, "id", entry->id);
    if (entry->n_changes > 0)
        json_field_uint(w, "n_changes", entry->n_changes);
    if (!entry->upto_hash)
        return;
    json_field_uint(w, "upto", entry->upto);
    json_field_string(w, "upto_hash", entry->upto_hash);
}

static void put_usage(struct json_writer *w, const struct audit_entry *entry)
{
    if (entry->cpu_ns >= 0)
        json_field_real(w, "cpu", clock_seconds(entry->cpu_ns));
    else
        json_field_null(w, "cpu");
    if (entry->memory_bytes >= 0)
        json_field_int(w, "memory", entry->memory_bytes);
    else
        json_field_null(w, "memory");
    if (entry->n_changes > 0)
        json_field_uint(w, "n_changes", entry->n_changes);
}

static void put_run(struct json_writer *w, const struct audit_entry *entry)
{
    json_field_string(w, "id", entry->id);
    json_field_string(w, "tenant", entry->tenant);
    json_field_string(w, "language", entry->language);
    json_field_string(w, "backend", entry->backend);
    json_field_string(w, "tier", entry->tier);
    json_field_string(w, "start", entry->start);
    if (entry->image)
        json_field_string(w, "image", entry->image);
    json_field_string(w, "cause", entry->cause);
    json_field_int(w, "exit_code", entry->exit_code);
    json_field_real(w, "run", clock_seconds(entry->run_ns));
    json_field_real(w, "total", clock_seconds(entry->total_ns));
    put_usage(w, entry);
    put_sum(w, "code", &entry->code);
    put_sum(w, "stdin", &entry->in);
    put_sum(w, "stdout", &entry->out);
    put_sum(w, "stderr", &entry->err);
    json_field_uint(w, "n_files", entry->n_files);
    put_sum(w, "files", &entry->files);
    json_field_array(w, "findings");
    for (const char *const *finding = entry->findings; finding && *finding; finding++)
        json_put_string(w, *finding);
    json_end_array(w);
    json_field_bool(w, "bypass", entry->bypass);
    if (entry->fallback) {
        json_field_string(w, "asked", entry->asked);
        json_field_string(w, "fallback", entry->fallback);
    }
    if (entry->workspace_rw)
        json_field_string(w, "workspace_rw", entry->workspace_rw);
    if (entry->journal) {
        json_field_string(w, "journal", entry->journal);
        json_field_uint(w, "line", entry->line);
    }
}

void audit_put(struct strbuf *out, const struct audit_entry *entry)
{
    struct json_writer w = { .out = out };

    json_begin_object(&w);
    json_field_string(&w, "time", entry->time);
    json_field_string(&w, "kind", entry->kind);
    if (strcmp(entry->kind, "run") == 0)
        put_run(&w, entry);
    else
        put_note(&w, entry);
    json_end_object(&w);
}

/* ---- reading ---- */

struct reader {
    struct arena *arena;
    json_t *object;
    bool is_bad;
};

static const char *take_text(struct reader *r, const char *key, size_t max, bool may_lack)
{
    json_t *value = json_object_get(r->object, key);

    if (may_lack && (!value || json_is_null(value)))
        return NULL;
    if (!json_is_string(value) || json_string_length(value) > max) {
        r->is_bad = true;
        return "";
    }
    return arena_str(r->arena, json_string_value(value));
}

static uint64_t take_uint(struct reader *r, json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        r->is_bad = true;
        return 0;
    }
    return (uint64_t)json_integer_value(value);
}

static int64_t take_seconds(struct reader *r, const char *key)
{
    double seconds = json_number_value(json_object_get(r->object, key));

    if (!(seconds >= 0 && seconds < 1e9))
        r->is_bad = true;
    return r->is_bad ? 0 : (int64_t)(seconds * 1e9 + 0.5);
}

static bool is_missing(const struct reader *r, const char *key)
{
    json_t *value = json_object_get(r->object, key);
    return !value || json_is_null(value);
}

/* Entries of before have none of it. */
static void take_usage(struct reader *r, struct audit_entry *entry)
{
    r->is_bad |= !is_missing(r, "cpu") && !json_is_number(json_object_get(r->object, "cpu"));
    entry->cpu_ns = is_missing(r, "cpu") ? -1 : take_seconds(r, "cpu");
    entry->memory_bytes = is_missing(r, "memory") ? -1 : (int64_t)take_uint(r, r->object, "memory");
    entry->n_changes = is_missing(r, "n_changes") ? 0 : take_uint(r, r->object, "n_changes");
}

static bool is_hash(const char *text)
{
    return text && strspn(text, "0123456789abcdef") == DIGEST_HEX && !text[DIGEST_HEX];
}

static struct digest_sum take_sum(struct reader *r, const char *key)
{
    json_t *value = json_object_get(r->object, key);
    struct digest_sum sum = { 0 };

    if (!value || json_is_null(value))
        return sum;
    const char *hash = json_string_value(json_object_get(value, "sha256"));
    sum.bytes = take_uint(r, value, "bytes");
    if (!is_hash(hash) || sum.bytes == 0)
        r->is_bad = true;
    else
        memcpy(sum.sha256, hash, DIGEST_HEX);
    return sum;
}

static const char *const *take_findings(struct reader *r)
{
    json_t *list = json_object_get(r->object, "findings"), *word;
    size_t n = json_array_size(list), i;

    if (n == 0)
        return NULL;
    if (n > FINDINGS_MAX) {
        r->is_bad = true;
        return NULL;
    }
    const char **findings = arena_alloc(r->arena, (n + 1) * sizeof *findings);
    json_array_foreach (list, i, word) {
        bool is_word = json_is_string(word) && json_string_length(word) <= FINDING_MAX;
        r->is_bad |= !is_word;
        findings[i] = is_word ? arena_str(r->arena, json_string_value(word)) : "";
    }
    return findings;
}

static void take_run(struct reader *r, struct audit_entry *entry)
{
    json_t *code = json_object_get(r->object, "exit_code");

    entry->id = take_text(r, "id", RECORD_ID_LEN, false);
    r->is_bad |= !record_is_name(entry->id, "");
    entry->tenant = take_text(r, "tenant", WORD_MAX, true);
    entry->language = take_text(r, "language", WORD_MAX, true);
    entry->backend = take_text(r, "backend", WORD_MAX, true);
    entry->image = take_text(r, "image", IMAGE_MAX, true);
    entry->tier = take_text(r, "tier", WORD_MAX, true);
    entry->start = take_text(r, "start", WORD_MAX, true);
    entry->cause = take_text(r, "cause", WORD_MAX, false);
    r->is_bad |= !json_is_integer(code) || json_integer_value(code) < INT32_MIN ||
                 json_integer_value(code) > INT32_MAX;
    entry->exit_code = (int)json_integer_value(code);
    entry->run_ns = take_seconds(r, "run");
    entry->total_ns = take_seconds(r, "total");
    take_usage(r, entry);
    entry->code = take_sum(r, "code");
    entry->in = take_sum(r, "stdin");
    entry->out = take_sum(r, "stdout");
    entry->err = take_sum(r, "stderr");
    entry->n_files = take_uint(r, r->object, "n_files");
    entry->files = take_sum(r, "files");
    entry->findings = take_findings(r);
    entry->bypass = json_is_true(json_object_get(r->object, "bypass"));
    entry->asked = take_text(r, "asked", WORD_MAX, true);
    entry->fallback = take_text(r, "fallback", WORD_MAX, true);
    entry->workspace_rw = take_text(r, "workspace_rw", PATH_BYTES_MAX, true);
    entry->journal = take_text(r, "journal", RECORD_ID_LEN, true);
    if (entry->journal)
        entry->line = take_uint(r, r->object, "line");
}

static void take_note(struct reader *r, struct audit_entry *entry)
{
    entry->text = take_text(r, "text", TEXT_MAX, true);
    entry->id = take_text(r, "id", RECORD_ID_LEN, true);
    r->is_bad |= entry->id && !record_is_name(entry->id, "");
    entry->n_changes = is_missing(r, "n_changes") ? 0 : take_uint(r, r->object, "n_changes");
    entry->upto_hash = take_text(r, "upto_hash", DIGEST_HEX, true);
    if (!entry->upto_hash)
        return;
    entry->upto = take_uint(r, r->object, "upto");
    r->is_bad |= !is_hash(entry->upto_hash);
}

int audit_parse(struct arena *arena, const char *text, size_t len, struct audit_entry *ret)
{
    struct reader r = { .arena = arena };
    struct audit_entry entry = { 0 };

    if (len > AUDIT_LINE_MAX)
        return -EINVAL;
    r.object = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(r.object)) {
        json_decref(r.object);
        return -EINVAL;
    }
    entry.time = take_text(&r, "time", 31, false);
    entry.kind = take_text(&r, "kind", WORD_MAX, false);
    if (strcmp(entry.kind, "run") == 0)
        take_run(&r, &entry);
    else
        take_note(&r, &entry);
    json_decref(r.object);
    if (r.is_bad)
        return -EINVAL;
    *ret = entry;
    return 0;
}

int64_t audit_end_ns(const struct audit_entry *entry)
{
    uint64_t year, month, day, hour, minute, second, ms;
    const char *at = entry->time;

    if (!scan_uint(&at, 4, &year) || !scan_word(&at, "-") || !scan_uint(&at, 2, &month) ||
        !scan_word(&at, "-") || !scan_uint(&at, 2, &day) || !scan_word(&at, "T") ||
        !scan_uint(&at, 2, &hour) || !scan_word(&at, ":") || !scan_uint(&at, 2, &minute) ||
        !scan_word(&at, ":") || !scan_uint(&at, 2, &second) || !scan_word(&at, ".") ||
        !scan_uint(&at, 3, &ms) || !scan_word(&at, "Z") || *at || year < 1970 || year > 2200)
        return 0;
    struct tm tm = {
        .tm_year = (int)year - 1900,
        .tm_mon = (int)month - 1,
        .tm_mday = (int)day,
        .tm_hour = (int)hour,
        .tm_min = (int)minute,
        .tm_sec = (int)second,
    };
    return (int64_t)timegm(&tm) * NS_PER_SEC + (int64_t)ms * NS_PER_MSEC + entry->total_ns;
}

/* ---- the chain's part of a line ---- */

static const char line_start[] = "{\"seq\":";
static const char prev_key[] = ",\"prev\":\"";
static const char hash_key[] = "\",\"hash\":\"";

/* A line ends in ,"prev":"…","hash":"…"} with lengths that are known. */
enum {
    HASH_AT = DIGEST_HEX + 2,
    PREV_AT = HASH_AT + (int)sizeof hash_key - 1 + DIGEST_HEX,
    TAIL = PREV_AT + (int)sizeof prev_key - 1,
};

int audit_check_line(const char *line, size_t len, struct audit_line *ret)
{
    struct audit_line found = { 0 };
    char hash[DIGEST_HEX + 1], *end;

    if (len < sizeof line_start + TAIL || len > AUDIT_LINE_MAX ||
        memcmp(line, line_start, sizeof line_start - 1) != 0)
        return -EINVAL;
    const char *tail = line + len - TAIL, *prev = line + len - PREV_AT, *own = line + len - HASH_AT;
    if (memcmp(tail, prev_key, sizeof prev_key - 1) != 0 ||
        memcmp(prev + DIGEST_HEX, hash_key, sizeof hash_key - 1) != 0 ||
        memcmp(own + DIGEST_HEX, "\"}", 2) != 0 || memchr(line, '\0', len))
        return -EINVAL;
    memcpy(found.prev, prev, DIGEST_HEX);
    memcpy(found.hash, own, DIGEST_HEX);
    errno = 0;
    found.seq = strtoull(line + sizeof line_start - 1, &end, 10); /* a comma comes before the end */
    if (!is_hash(found.prev) || !is_hash(found.hash) || *end != ',' || errno || found.seq == 0 ||
        found.seq > INT64_MAX)
        return -EINVAL;
    /* The text that is hashed ends behind the quote of prev. */
    digest_hex(line, (size_t)(prev - line) + DIGEST_HEX + 1, hash);
    found.is_intact = memcmp(hash, found.hash, DIGEST_HEX) == 0;
    *ret = found;
    return found.is_intact ? 0 : -EINVAL;
}

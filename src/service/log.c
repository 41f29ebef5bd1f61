/* SPDX-License-Identifier: Apache-2.0 */
#include "service/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/utf8.h"

enum { TEXT_MAX = 500, LOG_LEVELS_N = LOG_DEBUG + 1 };

#define BLOT "[redacted]"

static const char *const level_words[] = {
#define LEVEL_WORD(id, word) [LOG_##id] = word,
    LOG_LEVELS(LEVEL_WORD)
#undef LEVEL_WORD
};

/* Tokens of a bucket, in thousandths of a line. */
struct bucket {
    int64_t tokens, at_ns;
};

struct serve_log {
    int fd;
    bool owns_fd; /* opened again, so that it has flags of its own */
    bool is_socket;
    enum log_format format;
    enum log_level level;
    struct bucket buckets[2]; /* of errors and warnings, and of the rest */
    uint64_t dropped, dropped_told;
    struct strbuf rest; /* of a line that a socket took a part of */
};

/* O_NONBLOCK belongs to the open file, which the shell or a service manager shares with us: a file
 * that was opened again through /proc is ours alone. A socket can't be, but has a flag per call; a
 * regular file never blocks, and its position has to stay that of whoever else writes there. */
struct serve_log *log_open(int fd, enum log_format format, enum log_level level)
{
    struct serve_log *log = mem_alloc(sizeof *log);
    char path[64];
    struct stat st;

    log->fd = fd;
    log->format = format;
    log->level = level;
    bool is_known = fstat(fd, &st) == 0;
    log->is_socket = is_known && S_ISSOCK(st.st_mode);
    for (size_t i = 0; i < ARRAY_LEN(log->buckets); i++)
        log->buckets[i] = (struct bucket){ (int64_t)LOG_BURST * 1000, INT64_MIN };
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int own = log->is_socket || (is_known && S_ISREG(st.st_mode))
                  ? -1
                  : open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (own >= 0) {
        log->fd = own;
        log->owns_fd = true;
    }
    return log;
}

void log_close(struct serve_log *log)
{
    if (!log)
        return;
    if (log->owns_fd)
        close(log->fd);
    strbuf_done(&log->rest);
    free(log);
}

bool log_level_parse(const char *word, enum log_level *ret)
{
    for (int i = 0; i < LOG_LEVELS_N; i++)
        if (strcmp(word, level_words[i]) == 0) {
            *ret = (enum log_level)i;
            return true;
        }
    return false;
}

bool log_format_parse(const char *word, enum log_format *ret)
{
    bool is_json = strcmp(word, "json") == 0;

    if (!is_json && strcmp(word, "logfmt") != 0)
        return false;
    *ret = is_json ? LOG_JSON : LOG_LOGFMT;
    return true;
}

bool log_wants(const struct serve_log *log, enum log_level level)
{
    return log && level <= log->level;
}

uint64_t log_dropped(const struct serve_log *log)
{
    return log->dropped;
}

/* ---- what is never shown ---- */

static bool is_secret_key(const char *key)
{
    static const char *const parts[] = { "token",  "secret", "password", "authorization",
                                         "cookie", "apikey", "api_key" };

    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (strcasestr(key, parts[i]))
            return true;
    return false;
}

/* The length of a mark at pos behind which a secret stands, or 0. */
static size_t secret_mark(const char *pos, size_t left)
{
    static const char *const marks[] = { "bearer ", "basic ", "token=", "token:" };

    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        size_t len = strlen(marks[i]);
        if (left >= len && strncasecmp(pos, marks[i], len) == 0)
            return len;
    }
    return 0;
}

/* A copy of a text without secrets, cut where it is too long. */
static void clean_text(struct strbuf *out, const char *data, size_t len)
{
    bool is_cut = len > TEXT_MAX;
    size_t end = is_cut ? TEXT_MAX : len;

    for (size_t i = 0; i < end;) {
        size_t mark = secret_mark(data + i, len - i);
        if (mark == 0) {
            strbuf_putc(out, data[i++]);
            continue;
        }
        strbuf_add(out, data + i, mark);
        strbuf_puts(out, BLOT);
        i += mark;
        while (i < end && (data[i] == ' ' || data[i] == '"'))
            i++;
        while (i < end && !strchr(" \t\r\n\"'&;,", data[i]))
            i++;
    }
    if (is_cut)
        strbuf_puts(out, "…");
}

/* ---- a line ---- */

/* Quoted where a reader of logfmt would stumble; what is no printable UTF-8 is escaped. */
static void put_logfmt(struct strbuf *out, const char *data, size_t len)
{
    bool is_plain = len > 0;

    for (size_t i = 0; i < len && is_plain; i++)
        is_plain =
            data[i] > 0x20 && data[i] < 0x7f && data[i] != '"' && data[i] != '=' && data[i] != '\\';
    if (is_plain) {
        strbuf_add(out, data, len);
        return;
    }
    /* A JSON string is what logfmt's readers take for a quoted one. */
    struct json_writer w = { .out = out };
    json_put_string_len(&w, data, len);
}

static void put_number(struct strbuf *out, const struct log_field *field)
{
    if (field->kind == LOG_FIELD_BOOL)
        strbuf_puts(out, field->number ? "true" : "false");
    else if (field->kind == LOG_FIELD_INT)
        strbuf_printf(out, "%lld", (long long)field->number);
    else
        strbuf_printf(out, "%.6f", clock_seconds(field->number));
}

static void put_field(const struct serve_log *log, struct strbuf *out,
                      const struct log_field *field)
{
    auto_strbuf struct strbuf text = { 0 };

    strbuf_printf(out, log->format == LOG_JSON ? ",\"%s\":" : " %s=", field->key);
    if (field->kind != LOG_FIELD_TEXT) {
        put_number(out, field);
        return;
    }
    if (is_secret_key(field->key))
        strbuf_puts(&text, BLOT);
    else
        clean_text(&text, field->text, field->len == SIZE_MAX ? strlen(field->text) : field->len);
    if (log->format == LOG_LOGFMT) {
        put_logfmt(out, strbuf_str(&text), text.len);
        return;
    }
    struct json_writer w = { .out = out };
    json_put_string_len(&w, strbuf_str(&text), text.len);
}

static void make_line(const struct serve_log *log, enum log_level level, const char *event,
                      const struct log_field *fields, struct strbuf *out)
{
    const struct log_field gap = { .key = "dropped",
                                   .kind = LOG_FIELD_INT,
                                   .number = (int64_t)(log->dropped - log->dropped_told) };
    bool is_json = log->format == LOG_JSON;
    char now[32];

    clock_timestamp(now);
    strbuf_printf(out,
                  is_json ? "{\"time\":\"%s\",\"level\":\"%s\",\"event\":\"%s\""
                          : "time=%s level=%s event=%s",
                  now, level_words[level], event);
    if (gap.number > 0)
        put_field(log, out, &gap);
    for (const struct log_field *field = fields; field && field->key; field++) {
        if (field->kind == LOG_FIELD_TEXT && !field->text)
            continue;
        size_t before = out->len;
        put_field(log, out, field);
        /* A field that does not fit is left out whole, so that the line stays readable. */
        if (out->len > LOG_LINE_MAX - 3)
            out->len = before;
    }
    strbuf_puts(out, is_json ? "}\n" : "\n");
}

/* ---- writing ---- */

static ssize_t send_some(const struct serve_log *log, const char *data, size_t len)
{
    ssize_t n;

    do
        n = log->is_socket ? send(log->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL)
                           : write(log->fd, data, len);
    while (n < 0 && errno == EINTR);
    return n;
}

/* What a line left behind goes first, or the next one would stand in its middle. */
static bool send_rest(struct serve_log *log)
{
    ssize_t n = log->rest.len > 0 ? send_some(log, log->rest.data, log->rest.len) : 0;

    if (n > 0) {
        log->rest.len -= (size_t)n;
        memmove(log->rest.data, log->rest.data + n, log->rest.len);
    }
    return log->rest.len == 0;
}

static bool send_line(struct serve_log *log, const struct strbuf *line)
{
    if (!send_rest(log))
        return false;
    ssize_t n = send_some(log, line->data, line->len);
    if (n > 0 && (size_t)n < line->len)
        strbuf_add(&log->rest, line->data + n, line->len - (size_t)n);
    return n > 0;
}

static bool take_token(struct bucket *bucket, int64_t now_ns)
{
    if (bucket->at_ns == INT64_MIN)
        bucket->at_ns = now_ns;
    int64_t passed_ns = MIN(MAX(now_ns - bucket->at_ns, 0), 3600 * NS_PER_SEC);
    int64_t gained = passed_ns / (NS_PER_SEC / ((int64_t)LOG_LINES_PER_SEC * 1000));
    bucket->tokens = MIN(bucket->tokens + gained, (int64_t)LOG_BURST * 1000);
    if (gained > 0)
        bucket->at_ns = now_ns;
    if (bucket->tokens < 1000)
        return false;
    bucket->tokens -= 1000;
    return true;
}

void log_line(struct serve_log *log, enum log_level level, const char *event, int64_t now_ns,
              const struct log_field *fields)
{
    auto_strbuf struct strbuf line = { 0 };

    if (!log_wants(log, level))
        return;
    if (!take_token(&log->buckets[level > LOG_WARN], now_ns)) {
        log->dropped++;
        return;
    }
    uint64_t dropped = log->dropped;
    make_line(log, level, event, fields, &line);
    if (send_line(log, &line))
        log->dropped_told = dropped;
    else
        log->dropped++;
}

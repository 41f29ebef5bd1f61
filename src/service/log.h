/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The server's log: one line an event, logfmt or JSON, to an fd that is stderr in real life.
 *
 *     LOG(log, INFO, "answered", now_ns, LOG_TEXT("id", id), LOG_INT("status", 200),
 *         LOG_TIME("took", took_ns));
 *
 * gives   time=2026-11-15T19:13:02.123Z level=info event=answered id=… status=200 took=0.000213
 *
 * Whatever bytes a text holds, a line stays one line of printable UTF-8: control characters and
 * what is not UTF-8 are escaped, long texts cut. No token gets in: none of our calls passes one,
 * what a field named like a secret holds is not shown, and what follows "Bearer " or "token=" in
 * any text is blotted out.
 *
 * The log never waits. A line that can't be written at once, or that is past the rate, is dropped
 * and counted; the count comes with the next line that gets through (dropped=N).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* id, word */
#define LOG_LEVELS(X) \
    X(ERROR, "error") \
    X(WARN, "warn")   \
    X(INFO, "info")   \
    X(DEBUG, "debug")

enum log_level {
#define LOG_LEVEL_ENUM(id, word) LOG_##id,
    LOG_LEVELS(LOG_LEVEL_ENUM)
#undef LOG_LEVEL_ENUM
};

enum log_format { LOG_LOGFMT, LOG_JSON };

struct log_field {
    const char *key; /* a word of ours; NULL ends the list */
    enum { LOG_FIELD_TEXT, LOG_FIELD_INT, LOG_FIELD_TIME, LOG_FIELD_BOOL } kind;
    const char *text; /* NULL: the field is left out */
    size_t len;
    int64_t number; /* of TIME: nanoseconds, shown in seconds */
};

#define LOG_TEXT(key, text)          ((struct log_field){ key, LOG_FIELD_TEXT, text, SIZE_MAX, 0 })
#define LOG_BYTES(key, data, length) ((struct log_field){ key, LOG_FIELD_TEXT, data, length, 0 })
#define LOG_INT(key, n)              ((struct log_field){ key, LOG_FIELD_INT, NULL, 0, n })
#define LOG_TIME(key, ns)            ((struct log_field){ key, LOG_FIELD_TIME, NULL, 0, ns })
#define LOG_BOOL(key, yes)           ((struct log_field){ key, LOG_FIELD_BOOL, NULL, 0, yes })

enum {
    LOG_LINE_MAX = 4000,     /* within PIPE_BUF: a write to a pipe is whole or not at all */
    LOG_LINES_PER_SEC = 200, /* on average */
    LOG_BURST = 1000,
};

struct serve_log;

/* fd stays the caller's; its flags are not changed, for others may share it. */
struct serve_log *log_open(int fd, enum log_format format, enum log_level level);
void log_close(struct serve_log *log);

/* By word, as the settings log_level and log_format have them; false: there is no such one. */
bool log_level_parse(const char *word, enum log_level *ret);
bool log_format_parse(const char *word, enum log_format *ret);

/* For callers that would go to some length to make the fields. */
bool log_wants(const struct serve_log *log, enum log_level level);

/* Writes one line; log may be NULL. Errors and warnings have a rate of their own, so that no flood
 * of others takes their place. */
void log_line(struct serve_log *log, enum log_level level, const char *event, int64_t now_ns,
              const struct log_field *fields);

#define LOG(log, level, event, now_ns, ...)   \
    log_line(log, LOG_##level, event, now_ns, \
             (const struct log_field[]){ __VA_ARGS__ __VA_OPT__(, ){ NULL } })

/* Lines dropped since the log was opened. */
uint64_t log_dropped(const struct serve_log *log);

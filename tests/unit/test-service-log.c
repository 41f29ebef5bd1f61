/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "service/log.h"

struct sink {
    int read_fd, write_fd;
    char text[1 << 20];
};

static void sink_open(struct sink *sink)
{
    int fds[2];

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    sink->read_fd = fds[0];
    sink->write_fd = fds[1];
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
}

/* All that came since the last time. */
static const char *sink_read(struct sink *sink)
{
    size_t len = 0;

    for (ssize_t n; (n = read(sink->read_fd, sink->text + len, sizeof sink->text - 1 - len)) > 0;)
        len += (size_t)n;
    sink->text[len] = '\0';
    return sink->text;
}

static void sink_close(struct sink *sink)
{
    close(sink->read_fd);
    close(sink->write_fd);
}

static void check_line(const char *line, const char *level, const char *rest)
{
    char stamp[64];

    if (sscanf(line, "time=%63s", stamp) != 1 || strlen(stamp) != 24)
        fail_msg("%s", line);
    char head[96];
    snprintf(head, sizeof head, "time=%s level=%s ", stamp, level);
    if (strncmp(line, head, strlen(head)) != 0 || strcmp(line + strlen(head), rest) != 0)
        fail_msg("%s: not %s", line, rest);
}

static void test_logfmt(void **state)
{
    struct sink *sink = mem_alloc(sizeof *sink);

    (void)state;
    sink_open(sink);
    struct serve_log *log = log_open(sink->write_fd, LOG_LOGFMT, LOG_INFO);
    LOG(log, INFO, "answered", 0, LOG_TEXT("id", "abc"), LOG_INT("status", 200),
        LOG_TIME("took", 213000), LOG_BOOL("warm", true), LOG_TEXT("none", NULL));
    check_line(sink_read(sink), "info",
               "event=answered id=abc status=200 took=0.000213 warm=true\n");
    LOG(log, WARN, "odd", 0, LOG_TEXT("a", ""), LOG_TEXT("b", "two words"), LOG_TEXT("c", "x=y"),
        LOG_BYTES("d", "\x1b[31m\n\0\xff\"\\", 10));
    check_line(sink_read(sink), "warn",
               "event=odd a=\"\" b=\"two words\" c=\"x=y\" "
               "d=\"\\u001b[31m\\n\\u0000\xef\xbf\xbd\\\"\\\\\"\n");
    LOG(log, DEBUG, "unseen", 0);
    assert_string_equal(sink_read(sink), "");
    LOG(log, ERROR, "plain", 0);
    check_line(sink_read(sink), "error", "event=plain\n");
    LOG((struct serve_log *)NULL, ERROR, "nowhere", 0);
    log_close(log);
    sink_close(sink);
    free(sink);
}

static void test_json(void **state)
{
    struct sink *sink = mem_alloc(sizeof *sink);
    const char *event, *text;
    json_int_t status;

    (void)state;
    sink_open(sink);
    struct serve_log *log = log_open(sink->write_fd, LOG_JSON, LOG_DEBUG);
    LOG(log, DEBUG, "answered", 0, LOG_INT("status", 429),
        LOG_BYTES("text", "a\nb\x9b\"\xe2\x80\xa8", 8));
    const char *line = sink_read(sink);
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    json_t *root = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    assert_int_equal(
        json_unpack(root, "{s:s, s:I, s:s}", "event", &event, "status", &status, "text", &text), 0);
    assert_string_equal(event, "answered");
    assert_int_equal(status, 429);
    assert_string_equal(text, "a\nb\xef\xbf\xbd\"\xe2\x80\xa8");
    json_decref(root);
    log_close(log);
    sink_close(sink);
    free(sink);
}

/* However a token gets into a field, it does not get out. */
static void test_secrets(void **state)
{
    static const struct log_field fields[] = {
        { "token", LOG_FIELD_TEXT, "S3CRET", SIZE_MAX, 0 },
        { "Authorization", LOG_FIELD_TEXT, "S3CRET", SIZE_MAX, 0 },
        { "webhook_secret", LOG_FIELD_TEXT, "S3CRET", SIZE_MAX, 0 },
        { "set-cookie", LOG_FIELD_TEXT, "S3CRET", SIZE_MAX, 0 },
        { "header", LOG_FIELD_TEXT, "Bearer S3CRET", SIZE_MAX, 0 },
        { "header", LOG_FIELD_TEXT, "x bEARER   S3CRET, y", SIZE_MAX, 0 },
        { "path", LOG_FIELD_TEXT, "/?a=1&token=S3CRET&b=2", SIZE_MAX, 0 },
        { "path", LOG_FIELD_TEXT, "token=S3CRET", SIZE_MAX, 0 },
    };
    struct sink *sink = mem_alloc(sizeof *sink);

    (void)state;
    sink_open(sink);
    for (int format = LOG_LOGFMT; format <= LOG_JSON; format++) {
        struct serve_log *log = log_open(sink->write_fd, (enum log_format)format, LOG_INFO);
        for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
            const struct log_field line[] = { fields[i], { NULL } };
            log_line(log, LOG_INFO, "request", 0, line);
            const char *text = sink_read(sink);
            if (strstr(text, "S3CRET") || !strstr(text, "[redacted]"))
                fail_msg("%s", text);
        }
        LOG(log, INFO, "request", 0, LOG_TEXT("path", "/?a=1&token=S3CRET&b=2"));
        assert_non_null(strstr(sink_read(sink), "/?a=1&token=[redacted]&b=2"));
        log_close(log);
    }
    sink_close(sink);
    free(sink);
}

static void test_long_lines(void **state)
{
    struct sink *sink = mem_alloc(sizeof *sink);
    char text[100000];
    struct log_field fields[41] = { 0 };

    (void)state;
    sink_open(sink);
    memset(text, 0x01, sizeof text); /* each is six characters when escaped */
    for (size_t i = 0; i < 40; i++)
        fields[i] = LOG_BYTES("field", text, sizeof text);
    fields[39] = LOG_INT("last", 7);
    for (int format = LOG_LOGFMT; format <= LOG_JSON; format++) {
        struct serve_log *log = log_open(sink->write_fd, (enum log_format)format, LOG_INFO);
        log_line(log, LOG_INFO, "long", 0, fields);
        const char *line = sink_read(sink);
        assert_true(strlen(line) <= LOG_LINE_MAX);
        assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
        assert_non_null(strstr(line, format == LOG_JSON ? ",\"last\":7}\n" : " last=7\n"));
        log_close(log);
    }
    sink_close(sink);
    free(sink);
}

/* A reader that reads nothing: lines are dropped, never waited for, and counted. */
static void check_full(int read_fd, int write_fd)
{
    struct serve_log *log = log_open(write_fd, LOG_LOGFMT, LOG_INFO);
    char *text = mem_alloc(1 << 22);
    char word[400];
    size_t len = 0;

    memset(word, 'x', sizeof word);
    for (int i = 0; i < 2000; i++)
        LOG(log, INFO, "flood", i * NS_PER_SEC, LOG_BYTES("word", word, sizeof word));
    uint64_t dropped = log_dropped(log);
    assert_true(dropped > 0 && dropped < 2000);

    assert_int_equal(fcntl(read_fd, F_SETFL, O_NONBLOCK), 0);
    for (ssize_t n; (n = read(read_fd, text + len, (1 << 22) - 1 - len)) > 0;)
        len += (size_t)n;
    LOG(log, INFO, "after", 3000 * NS_PER_SEC);
    for (ssize_t n; (n = read(read_fd, text + len, (1 << 22) - 1 - len)) > 0;)
        len += (size_t)n;
    text[len] = '\0';

    /* Every line is whole. */
    size_t lines = 0;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1, lines++) {
        assert_non_null(strchr(line, '\n'));
        assert_int_equal(strncmp(line, "time=", 5), 0);
    }
    assert_int_equal(lines, 2001 - dropped);
    char told[64];
    snprintf(told, sizeof told, "event=after dropped=%llu\n", (unsigned long long)dropped);
    assert_non_null(strstr(text, told));
    log_close(log);
    free(text);
}

static void test_full(void **state)
{
    int fds[2];

    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    check_full(fds[0], fds[1]);
    assert_false(fcntl(fds[1], F_GETFL) & O_NONBLOCK); /* others may share it */
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    check_full(fds[0], fds[1]);
    /* Nobody there: no signal. */
    struct serve_log *log = log_open(fds[1], LOG_LOGFMT, LOG_INFO);
    close(fds[0]);
    LOG(log, INFO, "gone", 0);
    assert_int_equal(log_dropped(log), 1);
    log_close(log);
    close(fds[1]);
}

static void test_rate(void **state)
{
    auto_close int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct serve_log *log = log_open(fd, LOG_LOGFMT, LOG_INFO);
    const int64_t start = 1000 * NS_PER_SEC;

    (void)state;
    for (int i = 0; i < LOG_BURST; i++)
        LOG(log, INFO, "burst", start);
    assert_int_equal(log_dropped(log), 0);
    LOG(log, INFO, "burst", start);
    assert_int_equal(log_dropped(log), 1);
    LOG(log, ERROR, "heard all the same", start);
    assert_int_equal(log_dropped(log), 1);
    for (int i = 0; i < LOG_LINES_PER_SEC + 10; i++)
        LOG(log, INFO, "later", start + NS_PER_SEC);
    assert_int_equal(log_dropped(log), 11);
    LOG(log, INFO, "clock went back", start - NS_PER_SEC);
    assert_int_equal(log_dropped(log), 12);
    /* Small steps of the clock add up too. */
    for (int i = 1; i <= 1000; i++)
        LOG(log, INFO, "slow", start + NS_PER_SEC + i * 6 * NS_PER_MSEC);
    assert_int_equal(log_dropped(log), 12);
    log_close(log);
}

static void test_words(void **state)
{
    enum log_level level;
    enum log_format format;

    (void)state;
    assert_true(log_level_parse("warn", &level));
    assert_int_equal(level, LOG_WARN);
    assert_false(log_level_parse("warning", &level));
    assert_true(log_format_parse("json", &format));
    assert_int_equal(format, LOG_JSON);
    assert_true(log_format_parse("logfmt", &format));
    assert_int_equal(format, LOG_LOGFMT);
    assert_false(log_format_parse("", &format));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logfmt),  cmocka_unit_test(test_json),
        cmocka_unit_test(test_secrets), cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_full),    cmocka_unit_test(test_rate),
        cmocka_unit_test(test_words),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/strbuf.h"
#include "net/http-chars.h"
#include "net/http.h"

static const struct {
    int status;
    const char *words;
} statuses[] = {
    { 100, "Continue" },
    { 101, "Switching Protocols" },
    { 200, "OK" },
    { 201, "Created" },
    { 202, "Accepted" },
    { 204, "No Content" },
    { 206, "Partial Content" },
    { 301, "Moved Permanently" },
    { 302, "Found" },
    { 303, "See Other" },
    { 304, "Not Modified" },
    { 307, "Temporary Redirect" },
    { 308, "Permanent Redirect" },
    { 400, "Bad Request" },
    { 401, "Unauthorized" },
    { 403, "Forbidden" },
    { 404, "Not Found" },
    { 405, "Method Not Allowed" },
    { 406, "Not Acceptable" },
    { 408, "Request Timeout" },
    { 409, "Conflict" },
    { 410, "Gone" },
    { 411, "Length Required" },
    { 412, "Precondition Failed" },
    { 413, "Content Too Large" },
    { 414, "URI Too Long" },
    { 415, "Unsupported Media Type" },
    { 416, "Range Not Satisfiable" },
    { 417, "Expectation Failed" },
    { 421, "Misdirected Request" },
    { 422, "Unprocessable Content" },
    { 426, "Upgrade Required" },
    { 428, "Precondition Required" },
    { 429, "Too Many Requests" },
    { 431, "Request Header Fields Too Large" },
    { 500, "Internal Server Error" },
    { 501, "Not Implemented" },
    { 502, "Bad Gateway" },
    { 503, "Service Unavailable" },
    { 504, "Gateway Timeout" },
    { 505, "HTTP Version Not Supported" },
    { 507, "Insufficient Storage" },
};

const char *http_status_words(int status)
{
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        if (statuses[i].status == status)
            return statuses[i].words;
    }
    return "";
}

static void begin(struct http_writer *writer, struct strbuf *out)
{
    *writer = (struct http_writer){ .out = out, .start = out->len };
}

void http_write_response(struct http_writer *writer, struct strbuf *out, int status)
{
    begin(writer, out);
    if (status < 200 || status > 599)
        writer->is_bad = true;
    /* The blank stays, words or none. */
    strbuf_printf(out, "HTTP/1.1 %d %s\r\n", status, http_status_words(status));
}

void http_write_request(struct http_writer *writer, struct strbuf *out, const char *method,
                        const char *target, const char *host)
{
    begin(writer, out);
    if (!http_is_token(method, strlen(method)) ||
        (strcmp(target, "*") != 0 && (*target != '/' || !http_is_target(target))) ||
        (*host && !http_split_host(host, NULL, NULL))) {
        writer->is_bad = true;
        return;
    }
    strbuf_printf(out, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, target, host);
}

static bool is_value(const char *value)
{
    size_t len = strlen(value);

    if (len > 0 && (http_is_blank(value[0]) || http_is_blank(value[len - 1])))
        return false;
    for (size_t i = 0; i < len; i++) {
        if (http_is_control(value[i]))
            return false;
    }
    return true;
}

static bool is_own_field(const char *name)
{
    static const char *const own[] = { "Host", "Content-Length", "Transfer-Encoding" };

    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        if (strcasecmp(name, own[i]) == 0)
            return true;
    }
    return false;
}

void http_write_header(struct http_writer *writer, const char *name, const char *value)
{
    if (!http_is_token(name, strlen(name)) || is_own_field(name) || !is_value(value)) {
        writer->is_bad = true;
        return;
    }
    strbuf_printf(writer->out, "%s: %s\r\n", name, value);
}

void http_write_headerf(struct http_writer *writer, const char *name, const char *fmt, ...)
{
    auto_strbuf struct strbuf value = { 0 };
    va_list ap;

    va_start(ap, fmt);
    strbuf_vprintf(&value, fmt, ap);
    va_end(ap);
    /* A NUL by %c would hide what is behind it. */
    if (strlen(strbuf_str(&value)) != value.len)
        writer->is_bad = true;
    http_write_header(writer, name, strbuf_str(&value));
}

static bool frame(struct http_writer *writer)
{
    if (writer->is_framed)
        writer->is_bad = true;
    writer->is_framed = true;
    return !writer->is_bad;
}

void http_write_length(struct http_writer *writer, uint64_t body_bytes)
{
    if (frame(writer))
        strbuf_printf(writer->out, "Content-Length: %" PRIu64 "\r\n", body_bytes);
}

void http_write_chunked(struct http_writer *writer)
{
    if (frame(writer))
        strbuf_puts(writer->out, "Transfer-Encoding: chunked\r\n");
}

int http_write_end(struct http_writer *writer)
{
    if (writer->is_bad) {
        writer->out->len = writer->start;
        if (writer->out->data)
            writer->out->data[writer->start] = '\0';
        return -EINVAL;
    }
    strbuf_puts(writer->out, "\r\n");
    return 0;
}

void http_write_continue(struct strbuf *out)
{
    strbuf_puts(out, "HTTP/1.1 100 Continue\r\n\r\n");
}

void http_write_chunk(struct strbuf *out, const void *data, size_t len)
{
    if (len == 0)
        return;
    strbuf_printf(out, "%zx\r\n", len);
    strbuf_add(out, data, len);
    strbuf_puts(out, "\r\n");
}

void http_write_last_chunk(struct strbuf *out)
{
    strbuf_puts(out, "0\r\n\r\n");
}

void http_date(char out[static 32], time_t when)
{
    /* strftime would ask the locale for the names. */
    static const char days[7][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
    static const char months[12][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
    struct tm tm = { .tm_mday = 1 };

    gmtime_r(&when, &tm);
    snprintf(out, 32, "%s, %02d %s %d %02d:%02d:%02d GMT", days[tm.tm_wday], tm.tm_mday,
             months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

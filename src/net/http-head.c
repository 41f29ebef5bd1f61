/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http-head.h"

#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "net/http-chars.h"

static const struct http_fault fine = { 0 };

static struct http_fault fault(int status, const char *reason)
{
    return (struct http_fault){ status, reason };
}

static struct http_fault bad(const char *reason)
{
    return fault(400, reason);
}

/* Fields of which a message has one at most: were there two, one reader could take the first and
 * another the last. */
enum single {
    HOST,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    EXPECT,
    AUTHORIZATION,
    ORIGIN,
    CONTENT_TYPE,
    LAST_EVENT_ID,
    SINGLE_MAX,
};

static const struct {
    const char *name;
    const char *twice;
} singles[SINGLE_MAX] = {
    [HOST] = { "Host", "Host twice" },
    [CONTENT_LENGTH] = { "Content-Length", "Content-Length twice" },
    [TRANSFER_ENCODING] = { "Transfer-Encoding", "Transfer-Encoding twice" },
    [EXPECT] = { "Expect", "Expect twice" },
    [AUTHORIZATION] = { "Authorization", "Authorization twice" },
    [ORIGIN] = { "Origin", "Origin twice" },
    [CONTENT_TYPE] = { "Content-Type", "Content-Type twice" },
    [LAST_EVENT_ID] = { "Last-Event-ID", "Last-Event-ID twice" },
};

/* "HTTP/1.0" or "HTTP/1.1", to the given length. */
static struct http_fault parse_version(const char *text, size_t len, int *ret_minor)
{
    if (len != 8 || memcmp(text, "HTTP/", 5) != 0 || !http_is_digit(text[5]) || text[6] != '.' ||
        !http_is_digit(text[7]))
        return bad("the version is not of the form HTTP/1.1");
    if (text[5] != '1' || text[7] > '1')
        return fault(505, "only HTTP/1.1 and HTTP/1.0 are supported");
    *ret_minor = text[7] - '0';
    return fine;
}

/* Past "http://" or "https://", or NULL where it begins otherwise. */
static const char *past_scheme(const char *target)
{
    if (strncasecmp(target, "http://", 7) == 0)
        return target + 7;
    if (strncasecmp(target, "https://", 8) == 0)
        return target + 8;
    return NULL;
}

static struct http_fault check_target(const struct http_head *head)
{
    if (strcmp(head->method, "CONNECT") == 0)
        return fault(501, "CONNECT is not supported");
    if (strcmp(head->target, "*") == 0)
        return strcmp(head->method, "OPTIONS") == 0 ? fine : bad("the target '*' without OPTIONS");
    const char *authority = past_scheme(head->target);
    if (!authority && *head->target != '/')
        return bad("the target is neither a path nor an http address");
    const char *path = authority ? authority + strcspn(authority, "/?#") : head->target;
    if (*path && !http_is_target(path))
        return bad("the target holds characters that must be escaped, or a '#'");
    return fine;
}

static struct http_fault request_line(char *line, struct http_head *head)
{
    char *target = strchr(line, ' ');
    if (!target)
        return bad("the request line has no target");
    *target++ = '\0';
    char *version = strchr(target, ' ');
    if (!version)
        return bad("the request line has no version");
    *version++ = '\0';

    head->method = line;
    head->target = target;
    if (!http_is_token(line, strlen(line)))
        return bad("the method is not a token");
    struct http_fault found = parse_version(version, strlen(version), &head->minor);
    return found.status ? found : check_target(head);
}

static struct http_fault status_line(char *line, struct http_head *head)
{
    struct http_fault found = parse_version(line, strcspn(line, " "), &head->minor);
    if (found.status)
        return found;
    const char *digits = line + 8 + (line[8] == ' ');
    if (!http_is_digit(digits[0]) || !http_is_digit(digits[1]) || !http_is_digit(digits[2]) ||
        digits[0] < '1' || digits[0] > '5')
        return bad("the status is not between 100 and 599");
    /* The blank behind it may be missing: many servers forget it, and nothing depends on it. */
    if (digits[3] != ' ' && digits[3] != '\0')
        return bad("the status is not three digits");
    head->status = (digits[0] - '0') * 100 + (digits[1] - '0') * 10 + digits[2] - '0';
    head->reason = digits[3] ? digits + 4 : digits + 3;
    return fine;
}

struct http_fault http_start_line(enum http_side side, char *line, struct http_head *head)
{
    return side == HTTP_REQUESTS ? request_line(line, head) : status_line(line, head);
}

struct http_fault http_field_line(char *line, struct http_header *ret)
{
    if (http_is_blank(*line))
        return bad("a line begins with a blank (folded lines are not supported)");
    char *colon = strchr(line, ':');
    if (!colon)
        return bad("a field without colon");
    if (!http_is_token(line, (size_t)(colon - line)))
        return bad("the name of a field is not a token");
    *colon = '\0';

    char *value = colon + 1;
    while (http_is_blank(*value))
        value++;
    char *end = value + strlen(value);
    while (end > value && http_is_blank(end[-1]))
        end--;
    *end = '\0';
    *ret = (struct http_header){ line, value };
    return fine;
}

/* 18 digits fit in 64 bits; nobody sends more in earnest. */
static bool parse_length(const char *text, uint64_t *ret)
{
    uint64_t value = 0;
    size_t len = strlen(text);

    if (len < 1 || len > 18 || (text[0] == '0' && len > 1))
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!http_is_digit(text[i]))
            return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    *ret = value;
    return true;
}

/* RFC 9112, 6.1 and 6.3 */
static struct http_fault finish_framing(enum http_side side, bool is_head_answer,
                                        const char *const found[], struct http_head *head)
{
    const char *length = found[CONTENT_LENGTH];
    const char *coding = found[TRANSFER_ENCODING];

    if (length && coding)
        return bad("Content-Length and Transfer-Encoding together");
    if (coding && head->minor == 0)
        return bad("Transfer-Encoding in HTTP/1.0");
    if (coding && strcasecmp(coding, "chunked") != 0)
        return bad("the only Transfer-Encoding supported is chunked");
    if (length && !parse_length(length, &head->body_bytes))
        return bad("Content-Length is not one decimal number");

    head->framing = side == HTTP_RESPONSES ? HTTP_CLOSE : HTTP_NO_BODY;
    if (coding)
        head->framing = HTTP_CHUNKED;
    else if (length)
        head->framing = HTTP_LENGTH;
    if (side == HTTP_RESPONSES &&
        (is_head_answer || head->status < 200 || head->status == 204 || head->status == 304)) {
        head->framing = HTTP_NO_BODY;
        head->body_bytes = 0;
    }
    return fine;
}

static struct http_fault check_host(const char *host, const struct http_head *head)
{
    if (!host && head->minor > 0)
        return bad("Host is missing");
    if (host && *host && !http_split_host(host, NULL, NULL))
        return bad("Host is not of the form NAME or NAME:PORT");
    const char *authority = past_scheme(head->target);
    if (!authority)
        return fine;
    size_t len = strcspn(authority, "/?");
    if (!host || len == 0 || strlen(host) != len || strncasecmp(host, authority, len) != 0)
        return bad("the target's host is not the one in Host");
    return fine;
}

struct http_fault http_head_finish(enum http_side side, bool is_head_answer, struct http_head *head)
{
    const char *found[SINGLE_MAX] = { NULL };

    for (size_t i = 0; i < head->n_headers; i++) {
        for (size_t one = 0; one < SINGLE_MAX; one++) {
            if (strcasecmp(head->headers[i].name, singles[one].name) != 0)
                continue;
            if (found[one])
                return bad(singles[one].twice);
            found[one] = head->headers[i].value;
        }
    }

    struct http_fault wrong = finish_framing(side, is_head_answer, found, head);
    if (wrong.status)
        return wrong;
    head->keep_alive = head->framing != HTTP_CLOSE &&
                       !http_header_has(head, "Connection", "close") &&
                       (head->minor > 0 || http_header_has(head, "Connection", "keep-alive"));
    if (side == HTTP_RESPONSES)
        return fine;

    wrong = check_host(found[HOST], head);
    if (wrong.status)
        return wrong;
    head->host = found[HOST];
    if (found[EXPECT] && head->minor > 0) {
        if (strcasecmp(found[EXPECT], "100-continue") != 0)
            return fault(417, "the only expectation supported is 100-continue");
        head->expect_continue =
            head->framing == HTTP_CHUNKED || (head->framing == HTTP_LENGTH && head->body_bytes > 0);
    }
    return fine;
}

/* Past a quoted string that begins here, or NULL. */
static const char *past_quoted(const char *text)
{
    for (text++; *text && *text != '"'; text++) {
        if (*text == '\\' && !*++text)
            return NULL;
    }
    return *text == '"' ? text + 1 : NULL;
}

static const char *past_token(const char *text)
{
    const char *end = text;

    while (http_is_token_char(*end))
        end++;
    return end > text ? end : NULL;
}

/* ";name", ";name=token", ";name=\"text\"", and so on to the end. No blanks in between: RFC 9112
 * calls them bad, and a reader that takes them is one that can differ from the next. */
static bool is_extensions(const char *text)
{
    while (text && *text == ';') {
        text = past_token(text + 1);
        if (text && *text == '=')
            text = text[1] == '"' ? past_quoted(text + 1) : past_token(text + 1);
    }
    return text && !*text;
}

struct http_fault http_chunk_line(const char *line, uint64_t *ret_size, size_t *ret_extra)
{
    uint64_t size = 0;
    size_t digits = 0;

    for (; http_hex_value(line[digits]) >= 0; digits++) {
        if (digits == 15)
            return bad("the size of a chunk is too long");
        size = size * 16 + (uint64_t)http_hex_value(line[digits]);
    }
    if (digits == 0 || (line[digits] && line[digits] != ';'))
        return bad("the size of a chunk is not one hexadecimal number");
    if (!is_extensions(line + digits))
        return bad("a chunk extension is malformed");
    *ret_size = size;
    *ret_extra = strlen(line + digits);
    return fine;
}

bool http_is_forbidden_trailer(const char *name)
{
    static const char *const more[] = { "Connection", "Trailer", "Upgrade",   "Content-Encoding",
                                        "TE",         "Cookie",  "Set-Cookie" };

    for (size_t i = 0; i < SINGLE_MAX; i++) {
        if (strcasecmp(name, singles[i].name) == 0)
            return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(more); i++) {
        if (strcasecmp(name, more[i]) == 0)
            return true;
    }
    return false;
}

const char *http_header(const struct http_head *head, const char *name)
{
    for (size_t i = 0; i < head->n_headers; i++) {
        if (strcasecmp(head->headers[i].name, name) == 0)
            return head->headers[i].value;
    }
    return NULL;
}

static bool list_has(const char *list, const char *token)
{
    size_t want = strlen(token);

    for (;;) {
        list += strspn(list, " \t,");
        if (!*list)
            return false;
        size_t len = strcspn(list, ",");
        const char *next = list + len;
        while (len > 0 && http_is_blank(list[len - 1]))
            len--;
        if (len == want && strncasecmp(list, token, len) == 0)
            return true;
        list = next;
    }
}

bool http_header_has(const struct http_head *head, const char *name, const char *token)
{
    for (size_t i = 0; i < head->n_headers; i++) {
        if (strcasecmp(head->headers[i].name, name) == 0 && list_has(head->headers[i].value, token))
            return true;
    }
    return false;
}

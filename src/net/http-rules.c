/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "net/http-chars.h"
#include "net/http.h"

#define NAME_MAX_BYTES 253 /* RFC 1035 */

static bool is_port(const char *text, unsigned *ret)
{
    unsigned port = 0;
    size_t len = strlen(text);

    if (len < 1 || len > 5 || text[0] == '0')
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!http_is_digit(text[i]))
            return false;
        port = port * 10 + (unsigned)(text[i] - '0');
    }
    *ret = port;
    return port <= 65535;
}

/* The length of "[IPv6]" at the start, or 0. */
static size_t bracketed(const char *host)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr parsed;
    const char *end = strchr(host, ']');

    if (!end)
        return 0;
    size_t len = (size_t)(end - host) - 1;
    if (len >= sizeof address)
        return 0;
    memcpy(address, host + 1, len);
    address[len] = '\0';
    return inet_pton(AF_INET6, address, &parsed) == 1 ? len + 2 : 0;
}

bool http_split_host(const char *host, size_t *ret_host_len, unsigned *ret_port)
{
    size_t len = 0;
    unsigned port = 0;

    if (*host == '[') {
        len = bracketed(host);
    } else {
        while (http_is_alnum(host[len]) || http_is_one_of(host[len], "-._"))
            len++;
    }
    if (len < 1 || len > NAME_MAX_BYTES)
        return false;
    if (host[len] && (host[len] != ':' || !is_port(host + len + 1, &port)))
        return false;
    if (ret_host_len)
        *ret_host_len = len;
    if (ret_port)
        *ret_port = port;
    return true;
}

static bool same_name(const char *a, size_t a_len, const char *b, size_t b_len)
{
    return a_len == b_len && strncasecmp(a, b, a_len) == 0;
}

bool http_host_allowed(const char *host, const char *const *allowed, size_t n_allowed)
{
    size_t len, entry_len;
    unsigned port, entry_port;

    if (!host || !http_split_host(host, &len, &port))
        return false;
    for (size_t i = 0; i < n_allowed; i++) {
        if (http_split_host(allowed[i], &entry_len, &entry_port) &&
            same_name(host, len, allowed[i], entry_len) && (entry_port == 0 || entry_port == port))
            return true;
    }
    return false;
}

static bool is_own_origin(const char *origin, const char *host, const char *scheme)
{
    static const struct {
        const char *scheme;
        unsigned port;
    } schemes[] = { { "http", 80 }, { "https", 443 } };
    size_t len, host_len;
    unsigned port, host_port;

    if (!host || !http_split_host(host, &host_len, &host_port))
        return false;
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t past = strlen(schemes[i].scheme);
        if (scheme && strcmp(scheme, schemes[i].scheme) != 0)
            continue;
        if (strncasecmp(origin, schemes[i].scheme, past) != 0 ||
            strncmp(origin + past, "://", 3) != 0)
            continue;
        const char *name = origin + past + 3;
        if (http_split_host(name, &len, &port) && same_name(name, len, host, host_len) &&
            (port ? port : schemes[i].port) == (host_port ? host_port : schemes[i].port))
            return true;
    }
    return false;
}

bool http_origin_allowed(const char *origin, const char *host, const char *scheme,
                         const char *const *allowed, size_t n_allowed)
{
    if (!origin || is_own_origin(origin, host, scheme))
        return true;
    for (size_t i = 0; i < n_allowed; i++) {
        if (strcasecmp(origin, allowed[i]) == 0)
            return true;
    }
    return false;
}

int http_bearer(const char *authorization, const char **ret)
{
    if (!authorization)
        return 0;
    if (strncasecmp(authorization, "Bearer ", 7) != 0)
        return -EINVAL;
    const char *token = authorization + 7 + strspn(authorization + 7, " ");
    const char *end = token;
    while (http_is_alnum(*end) || http_is_one_of(*end, "-._~+/"))
        end++;
    if (end == token || end[strspn(end, "=")])
        return -EINVAL;
    *ret = token;
    return 1;
}

bool http_is_media_type(const char *content_type, const char *type)
{
    if (!content_type)
        return false;
    size_t len = strcspn(content_type, ";");
    while (len > 0 && http_is_blank(content_type[len - 1]))
        len--;
    return same_name(content_type, len, type, strlen(type));
}

/* "0.25" in thousandths, or -1. */
static int parse_weight(const char *text, size_t len)
{
    int value;

    if (len < 1 || len > 5 || (text[0] != '0' && text[0] != '1') || (len > 1 && text[1] != '.'))
        return -1;
    value = (text[0] - '0') * 1000;
    for (size_t i = 2, unit = 100; i < len; i++, unit /= 10) {
        if (!http_is_digit(text[i]))
            return -1;
        value += (text[i] - '0') * (int)unit;
    }
    return value <= 1000 ? value : -1;
}

static void trim(const char **text, size_t *len)
{
    while (*len > 0 && http_is_blank(**text))
        (*text)++, (*len)--;
    while (*len > 0 && http_is_blank((*text)[*len - 1]))
        (*len)--;
}

/* Up to the given character outside quotes, or to the end. */
static size_t part_len(const char *text, size_t len, char until)
{
    bool quoted = false;
    size_t i = 0;

    for (; i < len && (quoted || text[i] != until); i++) {
        if (text[i] == '"')
            quoted = !quoted;
        else if (quoted && text[i] == '\\' && i + 1 < len)
            i++;
    }
    return i;
}

enum nearness { ANY_TYPE, KIND_OF_TYPE, ONE_TYPE };

struct range {
    const char *type; /* "text/html", "text/", "" for all */
    size_t len;
    enum nearness nearness;
    int weight;
};

/* One element of Accept. */
static bool parse_range(const char *text, size_t len, struct range *ret)
{
    size_t at = part_len(text, len, ';');
    const char *type = text;
    size_t type_len = at;

    trim(&type, &type_len);
    const char *slash = memchr(type, '/', type_len);
    if (!slash || !http_is_token(type, (size_t)(slash - type)) ||
        !http_is_token(slash + 1, (size_t)(type + type_len - slash - 1)))
        return false;
    *ret = (struct range){ type, type_len, ONE_TYPE, 1000 };
    if (slash[1] == '*' && type + type_len == slash + 2) {
        bool is_any = type[0] == '*' && slash == type + 1;
        ret->nearness = is_any ? ANY_TYPE : KIND_OF_TYPE;
        ret->len = is_any ? 0 : type_len - 1;
    }
    while (at < len) {
        const char *param = text + ++at;
        size_t param_len = part_len(param, len - at, ';');
        at += param_len;
        trim(&param, &param_len);
        if (param_len >= 2 && (param[0] == 'q' || param[0] == 'Q') && param[1] == '=')
            ret->weight = parse_weight(param + 2, param_len - 2);
        if (ret->weight < 0)
            return false;
    }
    return true;
}

static bool is_in_range(const char *type, const struct range *range)
{
    return (range->nearness != ONE_TYPE || strlen(type) == range->len) &&
           strncasecmp(type, range->type, range->len) == 0;
}

/* The range of the fields that is nearest to a type, of equals the heaviest, which says how much it
 * is wanted; a weight of 0 where there is none. False: no range was valid. */
static bool nearest_range(const struct http_head *head, const char *type, struct range *ret)
{
    bool any = false;

    *ret = (struct range){ .nearness = ANY_TYPE };
    for (size_t i = 0; i < head->n_headers; i++) {
        if (strcasecmp(head->headers[i].name, "Accept") != 0)
            continue;
        const char *text = head->headers[i].value;
        size_t left = strlen(text);
        while (left > 0) {
            struct range range;
            size_t len = part_len(text, left, ',');
            if (parse_range(text, len, &range)) {
                any = true;
                if (is_in_range(type, &range) &&
                    (range.nearness > ret->nearness ||
                     (range.nearness == ret->nearness && range.weight > ret->weight)))
                    *ret = range;
            }
            len += len < left;
            text += len;
            left -= len;
        }
    }
    return any;
}

int http_accept(const struct http_head *head, const char *const *types, size_t n_types)
{
    int best = -1;
    struct range best_range = { .weight = 0 };

    for (size_t i = 0; i < n_types; i++) {
        struct range range;
        if (!nearest_range(head, types[i], &range))
            return 0;
        if (range.weight > best_range.weight ||
            (range.weight > 0 && range.weight == best_range.weight &&
             range.nearness > best_range.nearness)) {
            best = (int)i;
            best_range = range;
        }
    }
    return best;
}

int http_last_event_id(const struct http_head *head, uint64_t *ret)
{
    const char *text = http_header(head, "Last-Event-ID");
    uint64_t value = 0;

    if (!text || !*text)
        return 0;
    if (strlen(text) > 18)
        return -EINVAL;
    for (; *text; text++) {
        if (!http_is_digit(*text))
            return -EINVAL;
        value = value * 10 + (uint64_t)(*text - '0');
    }
    *ret = value;
    return 1;
}

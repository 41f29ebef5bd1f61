/* SPDX-License-Identifier: Apache-2.0 */
#include "net/url.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "net/http-chars.h"
#include "net/http.h"

static int refuse(const char **why, const char *words)
{
    *why = words;
    return -EINVAL;
}

/* "7", "0x7f": what is a part of an address to some readers. */
static bool is_number(const char *label, size_t len)
{
    bool is_hex = len >= 2 && label[0] == '0' && label[1] == 'x';
    size_t digits =
        is_hex ? 2 + strspn(label + 2, "0123456789abcdef") : strspn(label, "0123456789");

    return digits == len;
}

/* A name without empty labels, or an address of four decimal numbers. "127.1", "2130706433" and
 * "0177.0.0.1" are one address to one reader, and another or none to the next. */
static bool is_clear(const char *host)
{
    struct in_addr address;
    const char *label = host;
    size_t len;

    while ((len = strcspn(label, ".")) > 0 && label[len] && label[len + 1]) /* a dot may end it */
        label += len + 1;
    return len > 0 && (!is_number(label, len) || inet_pton(AF_INET, host, &address) == 1);
}

static int split_authority(struct url *url, const char **why)
{
    size_t len = 0;
    unsigned port = 0;

    if (!http_split_host(url->authority, &len, &port))
        return refuse(why, "its host is not of the form NAME, NAME:PORT or [IPv6]:PORT");
    bool is_bracketed = url->authority[0] == '[';
    const char *host = url->authority + is_bracketed;
    len -= is_bracketed ? 2 : 0;
    for (size_t i = 0; i < len; i++) {
        bool is_upper = host[i] >= 'A' && host[i] <= 'Z';
        url->host[i] = (char)(is_upper ? host[i] + 'a' - 'A' : host[i]);
    }
    url->host[len] = '\0';
    if (!is_bracketed && !is_clear(url->host))
        return refuse(why, "its host is neither a name nor an address of four decimal numbers");
    if (port)
        url->port = port;
    return 0;
}

int url_parse(const char *text, struct url *ret, const char **why)
{
    struct url url = { 0 };
    size_t len = strlen(text);
    size_t past = 0;

    if (len > URL_MAX)
        return refuse(why, "it is longer than 2048 bytes");
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~')
            return refuse(why, "it holds blanks, control bytes or bytes beyond ASCII");
    }
    if (strncasecmp(text, "http://", 7) == 0) {
        past = 7;
        url.port = 80;
    } else if (strncasecmp(text, "https://", 8) == 0) {
        past = 8;
        url.port = 443;
        url.is_tls = true;
    } else {
        return refuse(why, "it does not begin with http:// or https://");
    }
    const char *authority = text + past;
    size_t authority_len = strcspn(authority, "/?#\\");
    if (memchr(authority, '@', authority_len))
        return refuse(why, "it holds a user name or password");
    if (authority_len >= sizeof url.authority)
        return refuse(why, "its host is too long");
    memcpy(url.authority, authority, authority_len);
    if (split_authority(&url, why) < 0)
        return -EINVAL;

    const char *rest = authority + authority_len;
    if (*rest && !http_is_target(rest))
        return refuse(why, "its path holds characters that must be escaped, or a '#'");
    snprintf(url.target, sizeof url.target, "%s%s", *rest == '/' ? "" : "/", rest);
    *ret = url;
    return 0;
}

bool url_is_listed(const struct url *url, const char *const *list, size_t n_list)
{
    size_t len;
    unsigned port;

    for (size_t i = 0; i < n_list; i++) {
        if (!http_split_host(list[i], &len, &port))
            continue;
        const char *name = list[i];
        if (*name == '[') {
            name++;
            len -= 2;
        }
        if (strlen(url->host) == len && strncasecmp(url->host, name, len) == 0 &&
            (port == 0 || port == url->port))
            return true;
    }
    return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An http or https address as a caller may write it, strictly: no user name or password, no
 * fragment, nothing but visible ASCII, a host that is no number in disguise, so that no two readers
 * see another host in it.
 */

#include <stdbool.h>
#include <stddef.h>

enum { URL_MAX = 2048 };

struct url {
    bool is_tls;
    char host[256];           /* lower case, without brackets: "a.example", "::1" */
    unsigned port;            /* 80 or 443 where none is given */
    char authority[264];      /* for the field Host: "a.example:8080", "[::1]" */
    char target[URL_MAX + 2]; /* "/path?query", at least "/" */
};

/* -EINVAL with *why set to static words. */
int url_parse(const char *text, struct url *ret, const char **why);

/* The host is in the list of HOST or HOST:PORT, case apart. */
bool url_is_listed(const struct url *url, const char *const *list, size_t n_list);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where the token of a request stands: a row for each kind of header that clients have for it. */

#include <stdbool.h>
#include <stddef.h>

struct http_head;

#define AUTH_CHALLENGE "Bearer realm=\"cay\""

struct auth {
    const char *token; /* within the head; NULL: there is none that can be read */
    size_t len;
};

/* Whether any of the headers is there. */
bool auth_find(const struct http_head *head, struct auth *ret);

/* The token in the value "SCHEME TOKEN"; NULL: it is none. */
const char *auth_token(const char *value, const char *scheme, size_t *ret_len);

/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/http/auth.h"

#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "net/http.h"
#include "service/token.h"

static const struct {
    const char *header;
    const char *scheme; /* which stands before the token */
} rows[] = {
    { "Authorization", "Bearer" },
};

const char *auth_token(const char *value, const char *scheme, size_t *ret_len)
{
    size_t n = strlen(scheme), len = strlen(value);

    if (len <= n || strncasecmp(value, scheme, n) != 0 || value[n] != ' ')
        return NULL;
    const char *token = value + n, *end = value + len;
    while (token < end && *token == ' ')
        token++;
    for (const char *pos = token; pos < end; pos++)
        if (*pos <= 0x20 || *pos >= 0x7f)
            return NULL;
    *ret_len = (size_t)(end - token);
    return *ret_len > 0 && *ret_len <= TOKEN_LEN_MAX ? token : NULL;
}

bool auth_find(const struct http_head *head, struct auth *ret)
{
    *ret = (struct auth){ 0 };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *value = http_header(head, rows[i].header);
        if (!value)
            continue;
        ret->token = auth_token(value, rows[i].scheme, &ret->len);
        return true;
    }
    return false;
}

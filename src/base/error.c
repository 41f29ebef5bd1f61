/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

#undef cay_fail /* for the static analyser they are macros */
#undef cay_fail_errno
#undef cay_wrap
#undef cay_hint

static const struct {
    const char *name;
    int exit_status;
    int http_status;
} kinds[] = {
#define KIND_ROW(name, exit_status, http_status, meaning) { #name, exit_status, http_status },
    CAY_ERROR_KINDS(KIND_ROW)
#undef KIND_ROW
};

int cay_error_exit_status(enum cay_errkind kind)
{
    return kinds[kind].exit_status;
}

int cay_error_http_status(enum cay_errkind kind)
{
    return kinds[kind].http_status;
}

const char *cay_error_kind_name(enum cay_errkind kind)
{
    static const char *const lower[] = {
        [CAY_E_OK] = "ok",
        [CAY_E_USAGE] = "usage",
        [CAY_E_UNSUPPORTED] = "unsupported",
        [CAY_E_LIMIT] = "limit",
        [CAY_E_POLICY] = "policy",
        [CAY_E_NOTFOUND] = "notfound",
        [CAY_E_SYSTEM] = "system",
        [CAY_E_UNAUTHORIZED] = "unauthorized",
        [CAY_E_BUSY] = "busy",
    };
    _Static_assert(ARRAY_LEN(lower) == ARRAY_LEN(kinds), "a name is due");
    return lower[kind];
}

int cay_fail(struct cay_error *err, enum cay_errkind kind, const char *fmt, ...)
{
    va_list ap;

    err->kind = kind;
    err->errnum = 0;
    err->hint[0] = '\0';
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    return -1;
}

int cay_fail_errno(struct cay_error *err, int errnum, const char *fmt, ...)
{
    va_list ap;

    err->kind = CAY_E_SYSTEM;
    err->errnum = errnum;
    err->hint[0] = '\0';
    va_start(ap, fmt);
    int len = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    if (len >= 0 && (size_t)len < sizeof err->msg)
        snprintf(err->msg + len, sizeof err->msg - (size_t)len, ": %s", strerror(errnum));
    return -1;
}

int cay_wrap(struct cay_error *err, const char *fmt, ...)
{
    char inner[sizeof err->msg];
    va_list ap;

    memcpy(inner, err->msg, sizeof inner);
    inner[sizeof inner - 1] = 0;
    va_start(ap, fmt);
    int len = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    if (len >= 0 && (size_t)len < sizeof err->msg)
        snprintf(err->msg + len, sizeof err->msg - (size_t)len, ": %s", inner);
    return -1;
}

int cay_hint(struct cay_error *err, const char *fmt, ...)
{
    va_list ap;

    if (err->hint[0] != '\0')
        return -1;
    va_start(ap, fmt);
    vsnprintf(err->hint, sizeof err->hint, fmt, ap);
    va_end(ap);
    return -1;
}

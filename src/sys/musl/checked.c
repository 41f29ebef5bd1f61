/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Debian's archives of jansson and libmd are compiled with glibc's _FORTIFY_SOURCE: three of the
 * functions that they call are glibc's own, which know how large the target is. Here they are for
 * musl, with the same check.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int __snprintf_chk(char *to, size_t max, int flags, size_t room, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
int __vsnprintf_chk(char *to, size_t max, int flags, size_t room, const char *format, va_list args)
    __attribute__((format(printf, 5, 0)));
char *__strncpy_chk(char *to, const char *from, size_t max, size_t room);

int __vsnprintf_chk(char *to, size_t max, int flags, size_t room, const char *format, va_list args)
{
    (void)flags; /* whether %n is allowed, which they don't use */
    if (max > room)
        abort();
    return vsnprintf(to, max, format, args);
}

int __snprintf_chk(char *to, size_t max, int flags, size_t room, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int len = __vsnprintf_chk(to, max, flags, room, format, args);
    va_end(args);
    return len;
}

char *__strncpy_chk(char *to, const char *from, size_t max, size_t room)
{
    if (max > room)
        abort();
    return strncpy(to, from, max); /* the caller ends it */
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "core/libexec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"

void libexec_folder(char *buf, size_t size)
{
    ssize_t len = readlink("/proc/self/exe", buf, size - 1);
    buf[MAX(len, 0)] = '\0';
    char *slash = strrchr(buf, '/');
    if (slash)
        *slash = '\0';
    char beside[4200];
    snprintf(beside, sizeof beside, "%s/cay-full", buf);
    if (!slash || access(beside, X_OK) < 0)
        snprintf(buf, size, "%s", CAY_LIBEXEC);
}

int libexec_find(const char *name, char *buf, size_t size)
{
    char folder[4096];

    libexec_folder(folder, sizeof folder);
    int len = snprintf(buf, size, "%s/%s", folder, name);
    return len >= 0 && (size_t)len < size && access(buf, X_OK) == 0 ? 0 : -ENOENT;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "core/version-cache.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "sys/file.h"

enum { CACHE_BYTES_MAX = 64 * 1024 };

const char *version_in(struct arena *arena, const char *text)
{
    for (const char *pos = text; *pos; pos++) {
        size_t len = strspn(pos, "0123456789.");
        bool starts = pos == text || !(isdigit((unsigned char)pos[-1]) || pos[-1] == '.');
        if (starts && isdigit((unsigned char)*pos) && memchr(pos, '.', len)) {
            while (pos[len - 1] == '.')
                len--;
            return arena_dup(arena, pos, len);
        }
    }
    return NULL;
}

const char *version_cache_get(struct arena *arena, int state_fd, const char *key)
{
    auto_free char *text = mem_alloc(CACHE_BYTES_MAX);
    size_t key_len = strlen(key);

    if (file_read_at(state_fd, "versions", text, CACHE_BYTES_MAX) <= 0)
        return NULL;
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, key_len) == 0)
            return arena_dup(arena, line + key_len, strcspn(line + key_len, "\n"));
    }
    return NULL;
}

void version_cache_put(int state_fd, const char *key, const char *version)
{
    struct stat st;
    auto_close int fd =
        openat(state_fd, "versions", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && st.st_size > CACHE_BYTES_MAX / 2 && ftruncate(fd, 0) < 0)
        return;
    dprintf(fd, "%s%s\n", key, version);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/versions.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/clock.h"
#include "core/language.h"
#include "core/state.h"
#include "core/version-cache.h"

enum { ASK_TIMEOUT_MS = 5000 };

/* What identifies this very program: an upgrade changes it. */
static const char *cache_key(struct arena *arena, const char *program)
{
    struct stat st;

    if (!program || stat(program, &st) < 0) /* none of this host: it is in an image */
        return NULL;
    return arena_printf(arena, "%s %lld %lld.%09ld ", program, (long long)st.st_size,
                        (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

static void read_answer(int fd, char *out, size_t size)
{
    int64_t until = clock_now_ns() + ASK_TIMEOUT_MS * NS_PER_MSEC;
    size_t len = 0;

    while (len < size - 1) {
        struct pollfd ready = { fd, POLLIN, 0 };
        int64_t left = (until - clock_now_ns()) / NS_PER_MSEC;
        if (left <= 0 || poll(&ready, 1, (int)left) <= 0)
            break;
        ssize_t n = read(fd, out + len, size - 1 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    out[len] = '\0';
}

/* The program is the host's own, from a system folder, and is given nothing of the caller's. */
static const char *ask(struct arena *arena, const char *program, const char *const *args)
{
    char *env[] = { (char[]){ "PATH=/usr/bin:/bin" }, (char[]){ "LC_ALL=C" }, NULL };
    char *argv[8] = { (char *)(uintptr_t)program };
    posix_spawn_file_actions_t actions;
    char answer[4096];
    int pair[2];
    pid_t pid;

    for (size_t i = 1; i < ARRAY_LEN(argv) - 1 && args[i]; i++)
        argv[i] = (char *)(uintptr_t)args[i];
    if (pipe2(pair, O_CLOEXEC) < 0)
        return NULL;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, pair[1], 1);
    posix_spawn_file_actions_adddup2(&actions, pair[1], 2);
    int rc = posix_spawn(&pid, program, &actions, NULL, argv, env);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[1]);
    if (rc == 0) {
        read_answer(pair[0], answer, sizeof answer);
        kill(pid, SIGKILL); /* has ended, or does not end */
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    close(pair[0]);
    return rc == 0 ? version_in(arena, answer) : NULL;
}

static const char *look_up(struct arena *arena, int state_fd, const struct language *language,
                           const char *program, const char *key)
{
    const char *version = state_fd >= 0 ? version_cache_get(arena, state_fd, key) : NULL;
    if (version)
        return version;
    version = ask(arena, program, language->version);
    if (version && state_fd >= 0)
        version_cache_put(state_fd, key, version);
    return version;
}

const char *version_of(struct arena *arena, int state_fd, const struct language *language,
                       const char *program)
{
    const char *key = cache_key(arena, program);
    return key ? look_up(arena, state_fd, language, program, key) : NULL;
}

/* A run that ends within this after another does not look whether there was an upgrade. */
#define FRESH_NS NS_PER_SEC

static struct version_row *find_fresh(struct version_memo *memo, const char *program)
{
    int64_t now_ns = clock_now_ns();
    size_t len = program ? strlen(program) : 0;

    for (size_t i = 0; len && i < ARRAY_LEN(memo->rows) && memo->rows[i].key; i++) {
        struct version_row *row = &memo->rows[i];
        if (now_ns < row->fresh_until_ns && strncmp(row->key, program, len) == 0 &&
            row->key[len] == ' ')
            return row;
    }
    return NULL;
}

static struct version_row *find_row(struct version_memo *memo, const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(memo->rows) && memo->rows[i].key; i++)
        if (strcmp(memo->rows[i].key, key) == 0)
            return &memo->rows[i];
    return NULL;
}

static struct version_row *add_row(struct version_memo *memo, const char *key, const char *version)
{
    struct version_row *row = &memo->rows[memo->next++ % ARRAY_LEN(memo->rows)];

    free(row->key);
    free(row->version);
    row->key = str_dup(key);
    row->version = str_dup(version);
    return row;
}

const char *version_remembered(struct version_memo *memo, struct arena *arena,
                               const struct language *language, const char *program)
{
    struct version_row *row = find_fresh(memo, program);
    if (row)
        return arena_str(arena, row->version);
    const char *key = cache_key(arena, program);
    if (!key)
        return NULL;
    row = find_row(memo, key);
    if (!row) {
        auto_close int state_fd = state_open();
        row = add_row(memo, key, look_up(arena, state_fd, language, program, key));
    }
    row->fresh_until_ns = clock_now_ns() + FRESH_NS;
    return arena_str(arena, row->version);
}

void versions_forget(struct version_memo *memo)
{
    for (size_t i = 0; i < ARRAY_LEN(memo->rows); i++) {
        free(memo->rows[i].key);
        free(memo->rows[i].version);
    }
    *memo = (struct version_memo){ 0 };
}

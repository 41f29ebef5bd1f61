/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/prewarm/warm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cay/limits.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "core/language.h"
#include "sandbox/backend.h"

#define WARM_FOLDER "/sandbox"
#define HOOK_FILE   WARM_FOLDER "/.cay-hook"

static void file_path(const struct pool_options *options, const struct language *language,
                      const char *ending, char *buf, size_t size)
{
    snprintf(buf, size, "%s/cay-zygote-%s.%s", options->libexec, language->name, ending);
}

bool warm_is_there(const struct pool_options *options, const struct language *language)
{
    char path[4200];

    file_path(options, language, "node", path, sizeof path);
    if (access(path, R_OK) < 0)
        return false;
    file_path(options, language, "js", path, sizeof path);
    return access(path, R_OK) == 0;
}

/* A word of the language's run, as a request with nothing of its own gets it. */
static char *expand(struct arena *arena, const struct language *language,
                    const struct cay_limits *limits, const char *word)
{
    if (strcmp(word, "{source}") == 0)
        return arena_printf(arena, WARM_FOLDER "/%s", language->source);
    return arena_str(arena, language_fill_memory(arena, word, limits->memory_bytes));
}

static char **make_argv(struct arena *arena, const struct language *language,
                        const struct cay_limits *limits)
{
    size_t n = 0, at = 0;

    while (language->run[n])
        n++;
    char **argv = arena_alloc(arena, (n + 3) * sizeof *argv);
    for (size_t i = 0; i < n; i++) {
        argv[at++] = expand(arena, language, limits, language->run[i]);
        if (i > 0)
            continue;
        argv[at++] = arena_str(arena, "-r");
        argv[at++] = arena_str(arena, WARM_HOOK);
    }
    argv[at] = NULL;
    return argv;
}

static char **make_env(struct arena *arena, const struct language *language)
{
    const char *const *const lists[] = { language_base_env, language->env };
    size_t n = 0, at = 0;

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        for (const char *const *word = lists[i]; *word; word++)
            n++;
    char **env = arena_alloc(arena, (n + 1) * sizeof *env);
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        for (const char *const *word = lists[i]; *word; word++)
            env[at++] = arena_str(arena, *word);
    env[at] = NULL;
    return env;
}

static int open_file(const struct pool_options *options, const struct language *language,
                     const char *ending, int *ret, struct cay_error *err)
{
    char path[4200];

    file_path(options, language, ending, path, sizeof path);
    *ret = open(path, O_RDONLY | O_CLOEXEC);
    return *ret < 0 ? cay_fail_errno(err, errno, "open %s", path) : 0;
}

int warm_make(struct arena *arena, const struct pool_options *options,
              const struct language *language, const struct cay_limits *limits, struct warm *ret,
              struct cay_error *err)
{
    struct warm warm = WARM_INIT;

    if (open_file(options, language, "js", &warm.hook_fd, err) < 0 ||
        open_file(options, language, "node", &warm.addon_fd, err) < 0) {
        warm_done(&warm);
        return -1;
    }
    warm.argv = make_argv(arena, language, limits);
    warm.env = make_env(arena, language);
    *ret = warm;
    return 0;
}

void warm_done(struct warm *warm)
{
    close_fd(&warm->hook_fd);
    close_fd(&warm->addon_fd);
}

/* ---- in pid 1 ---- */

static int put_file(int from, const char *path)
{
    struct stat st;

    auto_close int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    if (to < 0 || fstat(from, &st) < 0)
        return -errno;
    for (off_t left = st.st_size; left > 0;) {
        ssize_t n = sendfile(to, from, NULL, (size_t)left);
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        left -= n;
    }
    return 0;
}

int warm_show(const struct warm *warm)
{
    int rc = put_file(warm->hook_fd, HOOK_FILE);

    if (rc == 0)
        rc = put_file(warm->addon_fd, WARM_ADDON);
    if (rc == 0 && (mount(HOOK_FILE, WARM_HOOK, NULL, MS_BIND, NULL) < 0 || chdir("/") < 0))
        rc = -errno;
    return rc;
}

int warm_hide(void)
{
    if (umount2(WARM_HOOK, MNT_DETACH) < 0 || unlink(HOOK_FILE) < 0 || unlink(WARM_ADDON) < 0 ||
        chdir(WARM_FOLDER) < 0)
        return -errno;
    return 0;
}

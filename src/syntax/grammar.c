/* SPDX-License-Identifier: Apache-2.0 */
#include "syntax/grammar.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "sys/file.h"

#define SYSTEM_FOLDER "/usr/local/lib/cay/grammars"

enum { QUERIES_MAX = 256 << 10 };

/* Which grammar reads a language, and whose highlight queries its own go on from. */
static const struct row {
    const char *language, *grammar, *extends;
} rows[] = {
    { "bash", "bash", NULL },
    { "c", "c", NULL },
    { "cpp", "cpp", "c" },
    { "go", "go", NULL },
    { "java", "java", NULL },
    { "javascript", "javascript", NULL },
    { "json", "json", NULL },
    { "lua", "lua", NULL },
    { "perl", NULL, NULL }, /* by its words: src/syntax/perl-words.h */
    { "php", "php", NULL },
    { "python", "python", NULL },
    { "r", "r", NULL },
    { "ruby", "ruby", NULL },
    { "rust", "rust", NULL },
    { "sql", "sql", NULL },
    { "toml", "toml", NULL },
    { "zsh", "bash", NULL },
    { "typescript", "typescript", "javascript" },
};

static const struct row *find_row(const char *language)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].language, language) == 0)
            return &rows[i];
    return NULL;
}

/* Where `make install` puts them: beside the worker, wherever that is. */
static void own_folder(char *out, size_t size)
{
    char own[2900];
    ssize_t len = readlink("/proc/self/exe", own, sizeof own - 1);
    char *slash = len > 0 ? memrchr(own, '/', (size_t)len) : NULL;

    snprintf(out, size, "%.*s/grammars", slash ? (int)(slash - own) : 0, own);
    if (!slash)
        out[0] = '\0';
}

/* The i-th folder that grammars may be in; false past the last one. */
static bool folder_at(int i, char *out, size_t size)
{
    const char *given = secure_getenv("CAY_GRAMMARS");
    const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");

    out[0] = '\0';
    if (i == 0 && given && given[0] == '/')
        snprintf(out, size, "%s", given);
    else if (i == 1)
        own_folder(out, size);
    else if (i == 2)
        snprintf(out, size, SYSTEM_FOLDER);
    else if (i == 3 && cache && cache[0] == '/')
        snprintf(out, size, "%s/cay/grammars", cache);
    else if (i == 3 && home && home[0] == '/')
        snprintf(out, size, "%s/.cache/cay/grammars", home);
    return i < 4;
}

/* NULL: there is none; or with a path in `ret_bad`, one that is no library of this machine's. */
static void *load(const char *name, char *ret_bad, size_t size)
{
    char folder[3000], path[4096];

    ret_bad[0] = '\0';

    for (int i = 0; folder_at(i, folder, sizeof folder); i++) {
        snprintf(path, sizeof path, "%s/%s.so", folder, name);
        void *handle = folder[0] ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (handle)
            return handle;
        if (folder[0] && !ret_bad[0] && access(path, F_OK) == 0)
            snprintf(ret_bad, size, "%s", path);
    }
    return NULL;
}

int grammar_open(const char *language, struct grammar *ret, struct cay_error *err)
{
    const struct row *row = find_row(language);
    char symbol[64], bad[200];

    if (!row)
        return cay_fail(err, CAY_E_UNSUPPORTED, "there is no grammar for %.40s", language);
    if (!row->grammar) {
        *ret = (struct grammar){ row->language, NULL };
        return 0;
    }
    void *handle = load(row->grammar, bad, sizeof bad);
    if (!handle && bad[0]) {
        cay_fail(err, CAY_E_UNSUPPORTED, "the grammar for %.40s, %s, can't be loaded", language,
                 bad);
        return cay_hint(err, "remove its folder, then tools/install-grammars.sh");
    }
    if (!handle) {
        cay_fail(err, CAY_E_UNSUPPORTED, "the grammar for %.40s is not installed", language);
        return cay_hint(err, "tools/install-grammars.sh installs the grammars");
    }
    snprintf(symbol, sizeof symbol, "tree_sitter_%s", row->grammar);
    const TSLanguage *(*make)(void) = NULL;
    *(void **)&make = dlsym(handle, symbol);
    const TSLanguage *found = make ? make() : NULL;
    uint32_t version = found ? ts_language_version(found) : 0;
    if (version < TREE_SITTER_MIN_COMPATIBLE_LANGUAGE_VERSION ||
        version > TREE_SITTER_LANGUAGE_VERSION)
        return cay_fail(err, CAY_E_UNSUPPORTED, "the grammar for %.40s is of another ABI",
                        language);
    *ret = (struct grammar){ row->grammar, found };
    return 0;
}

static const char *read_queries(struct arena *arena, const char *name)
{
    char folder[3000], path[4096];
    auto_free char *text = mem_alloc(QUERIES_MAX);

    for (int i = 0; folder_at(i, folder, sizeof folder); i++) {
        snprintf(path, sizeof path, "%s/%s.scm", folder, name);
        ssize_t len = folder[0] ? file_read_at(AT_FDCWD, path, text, QUERIES_MAX) : -ENOENT;
        if (len >= 0)
            return arena_dup(arena, text, (size_t)len);
    }
    return "";
}

const char *grammar_highlights(struct arena *arena, const struct grammar *grammar)
{
    const struct row *row = find_row(grammar->name);
    const char *base = row && row->extends ? read_queries(arena, row->extends) : "";

    return arena_printf(arena, "%s\n%s", base, read_queries(arena, grammar->name));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "core/shell.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/suggest.h"
#include "core/language.h"
#include "sys/elf.h"

#if defined(__aarch64__)
#define TRIPLET "aarch64-linux-gnu"
#else
#define TRIPLET "x86_64-linux-gnu"
#endif

/* The root's tmpfs has room for a thousand inodes. */
enum { ROOT_OPS_MAX = 700, NAME_MAX_LEN = 63 };

static const char *const shells[] = { "bash", "zsh" };

static const char *const command_folders[] = { "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin",
                                               "/sbin" };

/* As ld.so(8) has them on Debian and its relatives, and the others'. */
static const char *const library_folders[] = {
    "/usr/lib/" TRIPLET, "/lib/" TRIPLET,  "/usr/lib64", "/lib64", "/usr/local/lib/" TRIPLET,
    "/usr/local/lib64",  "/usr/local/lib", "/usr/lib",   "/lib",
};

static const char *const data_folders[] = { "/usr/share", "/usr/lib/locale", "/usr/lib/terminfo",
                                            "/usr/lib/file" };

/* What some commands load or start beyond what their headers say: folders, the files in them whose
 * own needs count too, and what is hidden again: zsh/files has mkdir, rm and their like built in.
 */
static const struct {
    const char *command, *folders, *files, *hidden;
} extras[] = {
    { "zsh", "/usr/lib/" TRIPLET "/zsh", "/usr/lib/" TRIPLET "/zsh/*/zsh/*.so",
      "/usr/lib/" TRIPLET "/zsh/*/zsh/files.so" },
    { "python3", "/usr/lib/python3*", "/usr/lib/python3*/lib-dynload/*.so" },
    { "perl", "/usr/lib/" TRIPLET "/perl*", NULL },
    { "git", "/usr/lib/git-core", "/usr/lib/git-core/git-remote-http" },
    { "iconv", "/usr/lib/" TRIPLET "/gconv", NULL },
};

/* They make machine code as they run, which is what PR_SET_MDWE refuses. */
static const char *const code_makers[] = { "node", "nodejs", "java", "luajit" };

/* In bash and zsh alike, and with no file of its own everywhere. */
static const char *const built_in[] = {
    ".",        ":",       "[",      "alias",  "bg",      "break",  "builtin", "cd",   "command",
    "continue", "declare", "dirs",   "disown", "echo",    "enable", "eval",    "exec", "exit",
    "export",   "false",   "fc",     "fg",     "getopts", "hash",   "history", "jobs", "kill",
    "let",      "local",   "logout", "popd",   "printf",  "pushd",  "pwd",     "read", "readonly",
    "return",   "set",     "shift",  "source", "suspend", "test",   "times",   "trap", "true",
    "type",     "typeset", "ulimit", "umask",  "unalias", "unset",  "wait",
};

/* Everything that the root is made from. */
struct building {
    struct arena *arena;
    const char *shell;
    const char **names; /* NULL-terminated, the shell's among them */
    struct op_list *list;
    struct cay_error *err;
};

static bool is_among(const char *word, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(words[i], word) == 0)
            return true;
    return false;
}

bool shell_is_language(const struct language *language)
{
    return is_among(language->name, shells, ARRAY_LEN(shells));
}

/* ---- names ---- */

/* A file's name and nothing that leads elsewhere; "." and "[" are builtins with such names. */
static bool is_name(const char *name)
{
    size_t len = strlen(name);
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._+-";

    if (is_among(name, built_in, ARRAY_LEN(built_in)))
        return true;
    return len > 0 && len <= NAME_MAX_LEN && strspn(name, letters) == len && name[0] != '.' &&
           name[0] != '-';
}

static int fail_name(const char *name, struct cay_error *err)
{
    cay_fail(err, CAY_E_USAGE, "shell_allow: '%.60s' is not the name of a command", name);
    return cay_hint(err, "names only, as in cat,ls,grep: no paths and no arguments");
}

/* Where the command's file is, into path; only what the system's folders lead to, through links and
 * /etc/alternatives: not somebody's home. */
static bool find_command(const char *name, char path[static PATH_MAX])
{
    char link[PATH_MAX];
    struct stat st;

    for (size_t i = 0; i < ARRAY_LEN(command_folders); i++) {
        snprintf(link, sizeof link, "%s/%s", command_folders[i], name);
        if (realpath(link, path) && stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
            access(path, X_OK) == 0 &&
            (strncmp(path, "/usr/", 5) == 0 || strncmp(path, "/bin/", 5) == 0 ||
             strncmp(path, "/sbin/", 6) == 0))
            return true;
    }
    return false;
}

bool shell_has_command(const char *name)
{
    char path[PATH_MAX];

    return is_among(name, built_in, ARRAY_LEN(built_in)) ||
           (is_name(name) && find_command(name, path));
}

/* The nearest name of the commands that are there, or NULL. */
static const char *nearest(struct arena *arena, const char *name)
{
    enum { COMMANDS_MAX = 4096 };
    const char **names = arena_alloc(arena, COMMANDS_MAX * sizeof *names);
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(command_folders); i++) {
        DIR *dir = opendir(command_folders[i]);
        for (const struct dirent *entry; dir && n < COMMANDS_MAX && (entry = readdir(dir));)
            if (strlen(entry->d_name) < SUGGEST_MAX && entry->d_name[0] != '.')
                names[n++] = arena_str(arena, entry->d_name);
        if (dir)
            closedir(dir);
    }
    return suggest(name, names, n);
}

static int fail_missing(const struct building *b, const char *name)
{
    const char *near = nearest(b->arena, name);

    cay_fail(b->err, CAY_E_NOTFOUND, "shell_allow: the command '%s' is not installed", name);
    if (near)
        return cay_hint(b->err, "did you mean %s?", near);
    return cay_hint(b->err, "apt-get install its package, or leave it out");
}

int shell_pack(const char *const *names, char ret[static SHELL_ALLOW_BYTES], struct cay_error *err)
{
    size_t len = 0;

    for (; names && *names; names++) {
        size_t n = strlen(*names);
        if (!is_name(*names))
            return fail_name(*names, err);
        if (len + n + 2 > SHELL_ALLOW_BYTES)
            return cay_fail(err, CAY_E_LIMIT, "shell_allow: the names take more than %d bytes",
                            SHELL_ALLOW_BYTES - 1);
        if (len > 0)
            ret[len++] = ',';
        memcpy(ret + len, *names, n);
        len += n;
    }
    ret[len] = '\0';
    return 0;
}

/* The other way round, believing nothing; the shell itself goes first. */
static int unpack(struct building *b, const char *allow)
{
    size_t n = 1;

    b->names = arena_alloc(b->arena, (strlen(allow) / 2 + 3) * sizeof *b->names);
    b->names[0] = b->shell;
    while (*allow) {
        size_t len = strcspn(allow, ",");
        const char *name = arena_dup(b->arena, allow, len);
        if (!is_name(name))
            return fail_name(name, b->err);
        if (!is_among(name, b->names, n))
            b->names[n++] = name;
        allow += len + (allow[len] == ',');
    }
    return 0;
}

static bool is_named(const struct building *b, const char *name)
{
    for (const char **known = b->names; *known; known++)
        if (strcmp(*known, name) == 0)
            return true;
    return false;
}

/* ---- the root ---- */

static bool has_path(const struct op_list *list, const char *path)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->ops[i].path, path) == 0)
            return true;
    return false;
}

/* One bind, and the folders above it; path is absolute. Returns whether it is new. */
static bool add_bind(const struct building *b, const char *path, const char *source, bool noexec)
{
    const char *inside = path + 1;

    if (has_path(b->list, inside) || b->list->n >= ROOT_OPS_MAX)
        return false;
    for (const char *slash = inside; (slash = strchr(slash, '/')); slash++) {
        const char *folder = arena_dup(b->arena, inside, (size_t)(slash - inside));
        if (!has_path(b->list, folder))
            op_add(b->arena, b->list, (struct op){ OP_DIR, folder, NULL, 0755 });
    }
    op_add(b->arena, b->list,
           (struct op){ OP_BIND, arena_str(b->arena, inside), arena_str(b->arena, source),
                        .noexec = noexec });
    return true;
}

/* A file at the place where the host has it, its folder taken without links: /lib leads to /usr/lib
 * here as there. Returns whether there is such a file, and whether it is new. */
static bool add_file(const struct building *b, const char *folder, const char *name,
                     const char **ret_new)
{
    char real[PATH_MAX];

    if (!realpath(folder, real))
        return false;
    const char *path = arena_printf(b->arena, "%s/%s", real, name);
    if (access(path, R_OK) < 0)
        return false;
    *ret_new = add_bind(b, path, path, false) ? path : NULL;
    return true;
}

static void add_needs_of(const struct building *b, const char *path);

/* Searches the file's own run path, then the usual folders, as the loader will. */
static void add_library(const struct building *b, const char *of, const char *run_path,
                        const char *name)
{
    const char *added = NULL;
    bool is_there = false;

    if (strchr(name, '/'))
        return;
    for (const char *pos = run_path; pos && *pos && !is_there;) {
        size_t len = strcspn(pos, ":");
        const char *folder = arena_dup(b->arena, pos, len);
        if (strncmp(folder, "$ORIGIN", 7) == 0)
            folder = arena_printf(b->arena, "%.*s%s", (int)(strrchr(of, '/') - of), of, folder + 7);
        is_there = folder[0] == '/' && add_file(b, folder, name, &added);
        pos += len + (pos[len] == ':');
    }
    for (size_t i = 0; i < ARRAY_LEN(library_folders) && !is_there; i++)
        is_there = add_file(b, library_folders[i], name, &added);
    if (added)
        add_needs_of(b, added);
}

static void add_needs(const struct building *b, const char *path, const struct elf_needs *needs)
{
    const char *slash = needs->interpreter ? strrchr(needs->interpreter, '/') : NULL;
    const char *loader;

    if (slash)
        add_file(
            b,
            arena_printf(b->arena, "%.*s/", (int)(slash - needs->interpreter), needs->interpreter),
            slash + 1, &loader);
    for (size_t i = 0; i < needs->n_libraries; i++)
        add_library(b, path, needs->run_path, needs->libraries[i]);
}

/* Each file is looked at once, so that a circle among libraries ends. */
static void add_needs_of(const struct building *b, const char *path)
{
    struct elf_needs needs;
    char real[PATH_MAX];

    if (realpath(path, real) && elf_read(b->arena, real, &needs) == 0)
        add_needs(b, real, &needs);
}

static void add_folder(const struct building *b, const char *path)
{
    add_bind(b, path, path, false);
}

static void hide(const struct building *b, const char *path)
{
    op_add(b->arena, b->list, (struct op){ OP_MASK, arena_str(b->arena, path + 1), NULL, 0 });
}

static void for_each(const struct building *b, const char *pattern,
                     void (*add)(const struct building *b, const char *path))
{
    glob_t found = { 0 };

    if (pattern && glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            add(b, found.gl_pathv[i]);
    globfree(&found);
}

static void add_extras(const struct building *b, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(extras); i++) {
        if (strcmp(extras[i].command, name) != 0)
            continue;
        for_each(b, extras[i].folders, add_folder);
        for_each(b, extras[i].files, add_needs_of);
        for_each(b, extras[i].hidden, hide);
    }
}

/* A script is not let in without what runs it, which was to be named like everything else. */
static int check_script(const struct building *b, const char *name, const struct elf_needs *needs)
{
    const char *words[] = { needs->interpreter, needs->argument };
    const char *slash = strrchr(words[0], '/');

    words[0] = slash ? slash + 1 : words[0];
    if (strcmp(words[0], "env") != 0)
        words[1] = NULL;
    for (size_t i = 0; i < ARRAY_LEN(words) && words[i]; i++)
        if (!is_named(b, words[i])) {
            cay_fail(b->err, CAY_E_USAGE,
                     "shell_allow: '%s' is a script that %.40s runs, which is not allowed", name,
                     words[i]);
            return cay_hint(b->err, "allow %.40s too, or leave %.30s out", words[i], name);
        }
    return 0;
}

static int add_command(const struct building *b, const char *name)
{
    struct elf_needs needs;
    char path[PATH_MAX];

    if (is_among(name, code_makers, ARRAY_LEN(code_makers)))
        return cay_fail(b->err, CAY_E_UNSUPPORTED,
                        "shell_allow: '%s' makes machine code, which a restricted shell refuses",
                        name);
    if (!find_command(name, path))
        return is_among(name, built_in, ARRAY_LEN(built_in)) ? 0 : fail_missing(b, name);
    int rc = elf_read(b->arena, path, &needs);
    if (rc < 0)
        return cay_fail_errno(b->err, -rc, "shell_allow: read %s", path);
    if (needs.is_script && check_script(b, name, &needs) < 0)
        return -1;
    add_bind(b, arena_printf(b->arena, "/usr/bin/%s", name), path, false);
    add_extras(b, name);
    if (!needs.is_script)
        add_needs(b, path, &needs);
    return 0;
}

/* /lib and /lib64 where the host has links there, so that the loader is found by its old name. */
static void add_links(const struct building *b)
{
    static const char *const names[] = { "lib", "lib64" };
    char target[PATH_MAX];

    op_add(b->arena, b->list, (struct op){ OP_SYMLINK, "bin", "usr/bin", 0 });
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        ssize_t len = readlink(arena_printf(b->arena, "/%s", names[i]), target, sizeof target - 1);
        if (len > 0)
            op_add(
                b->arena, b->list,
                (struct op){ OP_SYMLINK, names[i], arena_dup(b->arena, target, (size_t)len), 0 });
    }
}

int shell_root(struct arena *arena, const struct language *language, const char *allow, uid_t uid,
               gid_t gid, unsigned flags, struct op_list *ret, struct cay_error *err)
{
    struct op_list list = { 0 };
    struct building b = { arena, NULL, NULL, &list, err };

    if (!language || !shell_is_language(language)) {
        cay_fail(err, CAY_E_USAGE, "shell_allow: is for bash and zsh; this is %s",
                 language ? language->title : "a command");
        return cay_hint(err, "leave it out; profile hardened has the limits of restricted");
    }
    b.shell = language->run[0];
    if (unpack(&b, allow) < 0)
        return -1;
    add_links(&b);
    for (const char **name = b.names; *name; name++)
        if (add_command(&b, *name) < 0)
            return -1;
    for (size_t i = 0; i < ARRAY_LEN(data_folders); i++)
        if (access(data_folders[i], R_OK) == 0)
            add_bind(&b, data_folders[i], data_folders[i], true);
    if (list.n >= ROOT_OPS_MAX)
        return cay_fail(err, CAY_E_LIMIT,
                        "shell_allow: these commands need more than %d files and folders",
                        ROOT_OPS_MAX);
    op_add_rest(arena, language, uid, gid, flags | ROOT_NOEXEC, &list);
    *ret = list;
    return 0;
}

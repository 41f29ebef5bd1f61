/* SPDX-License-Identifier: Apache-2.0 */
#include "explain/errors-missing.h"

#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/suggest.h"
#include "base/toml.h"

/* "boost" of "boost/any.hpp"; the name itself where it has no parts. Of "numpy.x" and "JSON::X" it
 * is the part that is missing, and not what it is a part of. */
static const char *top_part(struct arena *arena, const struct errors_data *data, const char *name)
{
    bool is_path = data->separator && strcmp(data->separator, "/") == 0;
    const char *end = is_path ? strchr(name, '/') : NULL;
    return end && end > name ? arena_dup(arena, name, (size_t)(end - name)) : name;
}

const char *missing_package(struct arena *arena, const struct errors_data *data, const char *name)
{
    const char *const names[] = { name, top_part(arena, data, name) };

    for (size_t n = 0; n < ARRAY_LEN(names); n++)
        for (size_t i = 0; i < ARRAY_LEN(data->packages); i++) {
            const char *package = errors_data_word(data->packages[i], names[n]);
            if (package)
                return package;
        }
    return NULL;
}

const char *missing_near(struct arena *arena, const struct errors_data *data, const char *name)
{
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(data->modules); i++)
        n += (data->modules[i] ? data->modules[i]->count : 0) +
             (data->packages[i] ? data->packages[i]->count : 0);
    const char **names = arena_alloc(arena, (n + 1) * sizeof *names);
    n = 0;
    for (size_t i = 0; i < ARRAY_LEN(data->modules); i++) {
        for (const struct toml_value *item = data->modules[i] ? data->modules[i]->first : NULL;
             item; item = item->next)
            names[n++] = item->text;
        for (const struct toml_value *row = data->packages[i] ? data->packages[i]->first : NULL;
             row; row = row->next)
            names[n++] = row->key;
    }
    const char *near = suggest(name, names, n);
    return near && strcmp(near, name) != 0 ? near
                                           : NULL; /* it is there, and something else is not */
}

/* ---- beside the code ---- */

/* The name stands in a command that the reader may copy. */
static bool is_plain(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._-+/";
    return name[0] != '\0' && name[0] != '-' && name[0] != '/' && !strstr(name, "..") &&
           name[strspn(name, letters)] == '\0';
}

/* A program can claim to miss any file: none that is likely to be secret is proposed. */
static bool may_be_secret(const char *path)
{
    static const char *const words[] = { "secret", "credential", "passw", "token", "private",
                                         ".pem",   ".key",       ".p12",  "id_",   ".env" };

    if (path[0] == '.' || strstr(path, "/."))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcasestr(path, words[i]))
            return true;
    return false;
}

static bool has_name(const struct errors_beside *beside, const char *name, size_t len)
{
    for (size_t i = 0; i < beside->n; i++)
        if (strlen(beside->names[i]) == len && memcmp(beside->names[i], name, len) == 0)
            return true;
    return false;
}

/* Only what is right there was listed: of a path below it, that its first folder is there. */
static const char *file_sentence(struct arena *arena, const struct errors_beside *beside,
                                 const char *path)
{
    const char *slash = strchr(path, '/');
    size_t len = slash ? (size_t)(slash + 1 - path) : strlen(path);
    const char *folder = beside->folder, *code = beside->code;

    if (!has_name(beside, path, len))
        return NULL;
    if (slash && code)
        return arena_printf(arena, "%.*s is beside %s: run with --workspace %s", (int)len, path,
                            code, folder);
    if (slash)
        return arena_printf(arena, "%.*s is in this folder: pass what is needed of it with --file",
                            (int)len, path);
    if (!code) /* --workspace does not make a module of what has no file in it */
        return arena_printf(arena, "%s is in this folder: pass it with --file %s", path, path);
    if (strcmp(folder, ".") == 0)
        return arena_printf(arena,
                            "%s is beside %s: pass it with --file %s, or run with --workspace .",
                            path, code, path);
    return arena_printf(
        arena, "%s is beside %s: pass it with --file %s=%s%s%s, or run with --workspace %s", path,
        code, path, folder, folder[strlen(folder) - 1] == '/' ? "" : "/", path, folder);
}

/* "Foo::Bar" as a path: "Foo/Bar". */
static const char *name_path(struct arena *arena, const char *separator, const char *name)
{
    size_t len = separator ? strlen(separator) : 0, n = 0;
    char *path = arena_str(arena, name);

    if (len == 0)
        return path;
    for (const char *pos = name; *pos; pos++) {
        bool is_end = strncmp(pos, separator, len) == 0;
        path[n++] = (char)(is_end ? '/' : *pos);
        pos += is_end ? len - 1 : 0;
    }
    path[n] = '\0';
    return path;
}

const char *missing_beside(struct arena *arena, const struct errors_data *data,
                           const struct errors_beside *beside, const char *name)
{
    static const char hole[] = "{name}";

    if (!beside)
        return NULL;
    struct slice own = source_path((struct slice){ name, strlen(name) });
    const char *path = name_path(arena, data->separator, arena_dup(arena, own.data, own.len));
    for (const char *const *form = data->beside; *form; form++) {
        const char *at = strstr(*form, hole);
        const char *file =
            at ? arena_printf(arena, "%.*s%s%s", (int)(at - *form), *form, path, at + strlen(hole))
               : *form;
        bool is_proper = is_plain(file) && !may_be_secret(file);
        const char *sentence = is_proper ? file_sentence(arena, beside, file) : NULL;
        if (sentence)
            return sentence;
    }
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Files that the command carries with it. The build writes the tables (tools/embed.c); a new
 * folder under languages/ is in the next build without an edit.
 *
 *     for (const struct embedded_file *f = language_files; f->name; f++)
 *         ...
 */

#include <stddef.h>

struct embedded_file {
    const char *name; /* "python/language.toml"; NULL in the row behind the last */
    const char *data; /* with a NUL behind it that len does not count */
    size_t len;
};

/* language.toml, errors.toml, modules.toml and driver.* of each language; the errors.toml and
 * installers.toml that are common to all. */
extern const struct embedded_file language_files[];

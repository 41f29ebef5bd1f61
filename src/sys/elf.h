/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a program's file says it needs before it can run: its loader, its libraries, and where else
 * to look for them; or, of a script, its interpreter. It reads only the headers, checks every
 * offset, and loads nothing. Where the names lead to is the caller's to find out (ld.so(8)).
 *
 *     struct elf_needs needs = { 0 };
 *     int rc = elf_read(arena, "/usr/bin/cat", &needs);
 */

#include <stdbool.h>
#include <stddef.h>

struct arena;

enum { ELF_NEEDS_MAX = 128 };

struct elf_needs {
    bool is_script;
    const char *interpreter; /* of a dynamic program the loader, of a script what its #! names */
    const char *argument;    /* of a script: the first word behind that, or NULL */
    const char *run_path;    /* folders with colons between them, $ORIGIN in it, or NULL */
    const char *libraries[ELF_NEEDS_MAX];
    size_t n_libraries;
};

/* Returns 0; -ENOEXEC for what is neither a program of this machine's kind nor a script; or another
 * -errno. Strings are the arena's. */
int elf_read(struct arena *arena, const char *path, struct elf_needs *ret);

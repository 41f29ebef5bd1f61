/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A language is a folder of data, languages/NAME/, embedded at build: how to compile and run a
 * program, and what it needs. Adding one takes no C (docs/adding-a-language.md).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct cay_error;
struct embedded_file;

struct language {
    const char *name;                /* "python" */
    const char *title;               /* "Python", as in messages */
    const char *const *aliases;      /* all lists are NULL-terminated, never NULL */
    const char *const *extensions;   /* ".py" */
    const char *const *interpreters; /* names in a #! line */
    const char *source;              /* the code's file name in /sandbox: "main.py" */
    const char *module_source;       /* its name where the code is a module, or NULL */
    const char *const *module_lines; /* a line that begins with one of these makes it one, … */
    const char *const *script_words; /* … unless one of these is anywhere in it */
    const char *const *programs;     /* what has to be on the host; the first one has the version */
    const char *const *compile;      /* argv, or empty; {TOKEN}s are replaced: plan-program.c */
    const char *const *outputs;      /* what compiling makes, as globs: "main" */
    const char *const *varies;       /* words in code that compiles to something else each time */
    const char *project;             /* a file of the request, or NULL: where it is given, … */
    const char *const *build;        /* … this takes the place of compile */
    const char *const *run;          /* argv; the arguments of the request follow */
    const char *const *version;      /* argv that prints a version */
    const char *const *packages;     /* what to install where the runtime is missing */
    const char *const *etc;          /* files and folders of the host's /etc that it needs */
    const char *const *env;          /* "NAME=value" */
    const char *const
        *syntax_error;        /* what a line of its errors holds when the code is malformed */
    const char *const *types; /* command lines of type checkers, the best first */
    const char *const *types_unknown; /* codes of findings that say only what they don't know */
    const char *types_install;        /* how to get one, or NULL */
    uint64_t memory_bytes;            /* of the run stage; 0: the usual */
};

/* What every program has in its environment, before what its language adds. */
extern const char *const language_base_env[];

/* What package managers have to know where there is no network: npm would try for two minutes, and
 * say nothing until it gives up. */
extern const char *const language_offline_env[];

/* The languages, in alphabetical order, parsed anew at each call into the arena. */
int language_list(struct arena *arena, const struct language **ret, size_t *ret_n,
                  struct cay_error *err);

/* By name, title or alias, in any case, or "name:version" (the version is handed back, or NULL).
 * CAY_E_NOTFOUND with a suggestion of the nearest name. */
int language_find(struct arena *arena, const char *name, const struct language **ret,
                  const char **ret_version, struct cay_error *err);

/* The same among those that were read before; what is found lives as long as they do. */
int language_find_among(const struct language *list, size_t n, struct arena *arena,
                        const char *name, const struct language **ret, const char **ret_version,
                        struct cay_error *err);

/* By file name, else by the #! line at the start of the code; NULL when neither tells. */
int language_guess(struct arena *arena, const char *file_name, const char *code, size_t len,
                   const struct language **ret, struct cay_error *err);

/* The code's usual file name in /sandbox (plan-program.c takes the caller's own where it can):
 * "main" with the extension of the file that it came from, or of the alias that the language was
 * asked by
 * ("mjs"), where that is one of the language's; else its usual name, or that of a module. asked and
 * file_name may be NULL. */
const char *language_source(struct arena *arena, const struct language *language, const char *asked,
                            const char *file_name, const char *code, size_t len);

/* The language's number in the list, by which the warden is told of it; and back. */
int language_index(const char *name);
int language_at(struct arena *arena, int index, const struct language **ret, struct cay_error *err);

/* Its name; "" where there is none of this number. */
void language_name_at(int index, char *buf, size_t size);

/* The file driver.* of its folder, if compile or run have the word {driver}; else NULL. */
const struct embedded_file *language_driver(const struct language *language);

/* A word of a command with the tokens filled in that a stage's memory decides; the word itself
 * where it has none. */
const char *language_fill_memory(struct arena *arena, const char *word, uint64_t memory_bytes);

/* Whether the name of a file ends as those of this language do. */
bool language_has_file(const struct language *language, const char *file_name);

/* Parses one language.toml; for language_list and for tests. */
int language_parse(struct arena *arena, const char *text, size_t len, const char *file,
                   struct language *ret, struct cay_error *err);

/* Where a program of that name is on this host, in fixed system folders and never by the caller's
 * PATH; NULL: nowhere. */
const char *language_program(struct arena *arena, const char *name);

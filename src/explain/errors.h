/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Why a program failed: a pure function of the language's data (errors-data.h), what the program or
 * its compiler wrote, the verdict, and the request's own files.
 *
 *     errors-data    languages/NAME/errors.toml
 *     errors-scan    text ─▶ report: type, message, place, frames
 *     errors-source  places in the request's files: context, columns, what can be found there
 *     errors-case    type and message ─▶ category, suggestion, documentation
 *     errors-missing what a missing module or file may be
 *
 * The text is an attacker's: every pass is linear in it, and what is kept of it is bounded. It
 * explains only; nothing else may depend on what it says.
 */

#include <cay/failure.h>
#include <cay/run.h>

#include "explain/errors-scan.h"

struct arena;

/* A file of the request's. */
struct errors_source {
    const char *name; /* relative to /sandbox, or absolute */
    const char *data;
    size_t len;
    bool is_other; /* not of the language: errors are placed in it, nothing is looked for */
};

/* Where the code comes from on the caller's machine, which a program does not see: of the command
 * line alone, for no other front door has a folder. */
struct errors_beside {
    const char *folder;       /* as the caller would write it: ".", "src" */
    const char *code;         /* the code's own name there, or NULL: it came from no file */
    const char *const *names; /* what is in it; folders with a / at the end */
    size_t n;
};

struct errors_facts {
    const char *language;    /* its name; NULL: a command */
    enum errors_stage stage; /* whose words they are */
    const char *text;        /* stderr, or where that is empty what came on the terminal */
    size_t len;
    const struct errors_source *sources; /* the program's own first */
    size_t n_sources;
    const struct errors_beside *beside; /* or NULL */
    bool is_remote;                     /* the reader sends fields, and has no flags */
    struct errors_cache *cache;         /* or NULL */
    const struct cay_result *result;    /* for verdict, signal, message; NULL: a text by itself */
};

/* NULL where there is no result and no error is found; everything lives in the arena, and nothing
 * in it points into the facts. */
const struct cay_failure *errors_analyse(struct arena *arena, const struct errors_facts *facts);

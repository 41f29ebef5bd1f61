/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rules: data files that say what to look for in code (docs/policy.md describes them). A file:
 *
 *     languages = ["python"]
 *
 *     [[rule]]
 *     id       = "python-os-system"
 *     severity = "block"                     # info, warn, block; off takes a rule of that id away
 *     message  = "{name} runs a command"
 *     remedy   = "…"
 *     use      = ["os.system", "os.exec*"]   # one or more ways to find it
 *
 * Names are full names as names.h resolves them, whatever alias the code has for them. A pattern
 * may have a "*" at its start or its end, for anything. Values (arg, first, path, write) are globs
 * over folded constants. A broken file is CAY_E_USAGE with "FILE:LINE: what is wrong".
 */

#include <stdbool.h>
#include <stddef.h>

#include "syntax/grammar.h"

struct arena;
struct cay_error;

enum severity { SEVERITY_OFF, SEVERITY_INFO, SEVERITY_WARN, SEVERITY_BLOCK };

const char *severity_name(enum severity severity);

/* The ways to find something, each a list of patterns in a rule. */
enum way {
    WAY_IMPORT,  /* import: a module that is taken in */
    WAY_USE,     /* use: a name, called or not */
    WAY_CALL,    /* call: a name that is called; see the conditions */
    WAY_COMMAND, /* command: a program that a shell starts; see the conditions */
    WAY_PIPE,    /* pipe: what a shell pipes into, a program's name */
    WAY_PATH,    /* path: a constant that is an argument, or what is read or written */
    WAY_WRITE,   /* write: what a shell redirects into */
    WAY_WORD,    /* word: in the text, in any case, wherever it stands; for what has no good tree */
    WAY_N,
};

struct rule {
    const char *id, *message, *remedy;
    const char *const *tags; /* lists are NULL-terminated, or NULL */
    enum severity severity;
    const char *const *ways[WAY_N];
    const char *query;
    /* Conditions: all that are there have to hold. */
    const char *const *arg;      /* an argument is one of these */
    const char *const *first;    /* the first argument is */
    const char *const *except;   /* of command: all but these */
    const char *const *ordinary; /* names that everyday code has: docs/policy.md */
    const char *keyword;         /* "shell=True" */
    const char *flags;           /* of command: letters of options that are given */
    bool is_dynamic;             /* the argument (of a command: one of them) is computed */
    bool needs_no_network;       /* only where the run has no network */
    bool needs_no_isolation;     /* only where nothing isolates the run */
    bool is_strict;              /* only when strict */
    bool is_above;               /* of path: only above the folder that the code starts in */
    const char *file;
    unsigned line, query_line;
    struct rule *next;
};

struct rules;

/* One file of rules: those for the language are added; a rule takes the place of an earlier one
 * with its id. */
struct rules *rules_new(struct arena *arena, const char *language);
int rules_add(struct rules *rules, const char *text, size_t len, const char *file,
              struct cay_error *err);

/* Once all files are in: makes the tables, and the query of all rules that have one. Without a
 * grammar, queries are not looked at. */
int rules_finish(struct rules *rules, const struct grammar *grammar, struct cay_error *err);
void rules_done(struct rules *rules);

size_t rules_count(const struct rules *rules);

/* Calls fn for each rule that looks for this name in this way. */
typedef void rules_fn(void *arg, const struct rule *rule);
void rules_find(const struct rules *rules, enum way way, const char *name, rules_fn *fn, void *arg);

/* The same for values, by glob. */
void rules_match(const struct rules *rules, enum way way, const char *value, rules_fn *fn,
                 void *arg);

bool rules_is_in(const char *const *globs, const char *value);

/* The query of all rules, or NULL; and whose pattern it is. */
const TSQuery *rules_query(const struct rules *rules);
const struct rule *rules_of_pattern(const struct rules *rules, uint32_t pattern);

/* All of them, in order. */
const struct rule *rules_first(const struct rules *rules);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How a language reports errors: languages/NAME/errors.toml, and languages/errors.toml for what is
 * common to all; which modules it has, and which packages have more: languages/NAME/modules.toml.
 * docs/errors.md explains each key to authors.
 */

#include "base/arena.h"
#include "core/template.h"

struct toml_value;

#define ERRORS_KINDS(X)     \
    X(TRACE, "trace")       \
    X(FRAME, "frame")       \
    X(FUNCTION, "function") \
    X(ERROR, "error")       \
    X(AT, "at")             \
    X(CARET, "caret")       \
    X(MESSAGE, "message")   \
    X(HINT, "hint")         \
    X(SYMBOL, "symbol")     \
    X(CALLS, "calls")       \
    X(DROP, "drop")         \
    X(SKIP, "skip")         \
    X(END, "end")

enum errors_kind {
#define ERRORS_KIND_ENUM(name, word) ERRORS_##name,
    ERRORS_KINDS(ERRORS_KIND_ENUM)
#undef ERRORS_KIND_ENUM
};

/* A [[line]]: what a line of the text can be. The first that matches is it. */
struct errors_line {
    enum errors_kind kind;
    struct template match;
    bool is_awaited;   /* an error only where a trace has begun */
    bool is_blank;     /* … and the line before is empty */
    bool is_first;     /* once there, no other error counts */
    bool is_final;     /* … but this: only what ends a program is said so */
    bool has_more;     /* lines behind it that match nothing belong to its message */
    bool has_echo;     /* the next line is one of the source's, and not looked at */
    bool has_causes;   /* the same right behind it is its cause */
    bool is_whole;     /* all of the line is the message */
    bool in_function;  /* the line is counted from the function's own */
    bool is_statement; /* the line is where a statement begins; the fault may be further down */
    bool is_behind;    /* a place by itself, of the error before it and of no other */
    bool is_library;   /* a call that is not the user's, whatever its file is called */
    bool is_last;      /* only as the last line of the text */
    bool is_command;   /* a shell's line, which may be wrong inside of a substitution */
    bool is_redirect;  /* … or where a compound command begins whose end redirects */
    bool is_compile, is_run; /* only in this stage */
    const char *type;        /* where the line has none */
    const char *category;    /* or NULL */
    const char *const *find; /* texts by which the line is found in the source */
};

/* A [[case]]: what an error that is known by type or message means. Each part is taken from the
 * first case that matches and has it. */
struct errors_case {
    const char *type; /* or NULL: any */
    bool has_message;
    struct template message;
    int near;       /* the hole whose nearest name in the source is {near}; -1: none */
    const char *as; /* a better type */
    const char *category;
    const char *const *suggestions; /* the first whose holes all have something is it */
    const char *doc;
    const char *const *find;
};

struct errors_data {
    const char *extends;       /* a language whose lines and cases come behind these, or NULL */
    bool is_deepest_first;     /* the first frame of a trace is the innermost */
    bool is_relative_own;      /* libraries have absolute paths: all others are the user's */
    bool has_inner_place;      /* a message that begins with a place was said there */
    const char *doc;           /* where errors are explained */
    const char *type_doc;      /* where a type of [types] is; {type}, {path}, {lower} */
    const char *const *strip;  /* what may stand before a line and is no part of it */
    const char *const *names;  /* names that are always there, for suggestions */
    const char *const *beside; /* files that a missing {name} may be */
    const char *separator;     /* between the parts of a module's name, or NULL */
    const struct errors_line *lines;
    size_t n_lines;
    const struct errors_case *cases;
    size_t n_cases;
    const struct toml_value *types; /* type = "category", or NULL */
    /* languages/NAME/modules.toml, and that of the language it extends; NULL each. */
    const struct toml_value *modules[2];  /* names of the language's own modules */
    const struct toml_value *packages[2]; /* module = "package" */
};

/* Parses one file; for errors_data_of and tests. */
int errors_data_parse(struct arena *arena, const char *text, size_t len, const char *file,
                      struct errors_data *ret, struct cay_error *err);

/* The same for modules.toml, into what the other file gave. */
int errors_modules_parse(struct arena *arena, const char *text, size_t len, const char *file,
                         struct errors_data *ret, struct cay_error *err);

/* That of a language, or with NULL what is common; NULL where there is none. What is embedded is
 * right (a test reads it all). */
const struct errors_data *errors_data_of(struct arena *arena, const char *language);

/* languages/installers.toml: the words of package managers; NULL where it is not there. */
#define ERRORS_INSTALLERS "installers"

/* Whether there is one, without reading it. */
bool errors_data_has(const char *language);

/* What was parsed once, for a caller that analyses many times: reading a language's patterns takes
 * longer than using them. Zeroed at first. */
struct errors_cache {
    struct arena arena;
    struct {
        const char *language; /* "": what is common */
        const struct errors_data *data;
    } entries[32];
    size_t n;
};

/* The same as errors_data_of, out of the cache; that may be NULL, and then it is in the arena. */
const struct errors_data *errors_data_cached(struct errors_cache *cache, struct arena *arena,
                                             const char *language);
void errors_cache_done(struct errors_cache *cache);

/* A string of a table, or NULL. */
const char *errors_data_word(const struct toml_value *table, const char *key);

bool errors_is_category(const char *word);

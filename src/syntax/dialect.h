/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the nodes of each grammar mean, as rows: which are names, calls, strings, assignments. With
 * these, names (names.h), constants (fold.h) and facts (facts.h) are found by the same code in all
 * languages. A new language is a table here and a folder in rules/.
 */

#include <stdbool.h>
#include <stdint.h>

#include "syntax/grammar.h"

struct arena;

enum role {
    ROLE_NONE,
    ROLE_NAME,     /* an identifier */
    ROLE_STRING,   /* a literal; what is within may be ROLE_WITHIN */
    ROLE_RAW,      /* the same, without escapes */
    ROLE_WITHIN,   /* an expression in a string */
    ROLE_JOIN,     /* literals side by side */
    ROLE_BINARY,   /* a: left, b: right */
    ROLE_PAREN,    /* means its last child */
    ROLE_CAST,     /* means its first child */
    ROLE_MEMBER,   /* a: the whole, b: the part's name */
    ROLE_INDEX,    /* a: the whole, b: the index */
    ROLE_CALL,     /* a: what is called, b: arguments */
    ROLE_METHOD,   /* a: receiver, b: method name; arguments in the field "arguments" */
    ROLE_NEW,      /* a: class; arguments in the field "arguments" */
    ROLE_KEYWORD,  /* an argument by name; a: name, b: value */
    ROLE_ARGUMENT, /* an argument's wrapping: means its last child */
    ROLE_ASSIGN,   /* a: name or names, b: value or values */
    ROLE_DEFINE,   /* a: a name that is the code's own from here on */
    ROLE_BIND,     /* each name in it (in the field a, if there is one) is the code's own */
    ROLE_LIST,     /* names or values side by side */
    ROLE_IMPORT,   /* by the language's own function */
    ROLE_MACRO,    /* b: text that stands for code, and is no node of it */
    ROLE_SHELL,    /* a string that is run as a command */
    ROLE_COMMAND,  /* of a shell */
    ROLE_PIPELINE,
    ROLE_REDIRECT,
    ROLE_SUBSTITUTION, /* of a command, in a shell */
    ROLE_VARIABLE,     /* $NAME of a shell */
    ROLE_WORD,         /* of a shell, with backslashes */
    ROLE_ANSI_C,       /* $'…' */
};

struct node_role {
    uint8_t role; /* enum role */
    TSFieldId a, b;
};

struct names;

struct dialect {
    const char *name;
    const char *concat;            /* operator that joins strings, or NULL */
    const char *separator;         /* between the parts of a name as it is written: ".", "::" */
    const char *const *importers;  /* functions whose first argument is a module */
    const char *const *prefixes;   /* ways to say "the global one": cut off a name's start */
    const char *const *suffixes;   /* ways to call it: cut off a name's end */
    const char *const *getters;    /* functions (object, name) that give a part */
    const char *const *evaluators; /* functions that run a text; "*.x": of whatever */
    const char *evaluated;         /* what has to stand before such a text, or NULL */
    bool names_by_string;          /* a variable that holds a name can be called: $f() */
    bool is_caseless;              /* SYSTEM() is system() */
    bool has_flat_imports;         /* a/b is no part of a */
    bool is_by_words; /* its rules need no tree, and broken code is none of their matter */
    bool is_shell;
    void (*import)(struct names *names, TSNode node, enum role role);
};

struct roles {
    const struct dialect *dialect;
    struct node_role *rows; /* by symbol */
    uint32_t n;
    TSFieldId arguments;
};

/* Fills in the roles of a grammar's symbols: none, where there is no dialect of that name. */
void roles_make(struct arena *arena, const struct grammar *grammar, struct roles *ret);

static inline const struct node_role *role_of(const struct roles *roles, TSNode node)
{
    static const struct node_role none = { 0 };
    TSSymbol symbol = ts_node_symbol(node);
    return symbol < roles->n ? &roles->rows[symbol] : &none;
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shell commands as they will be run, as far as reading alone can tell: quotes and backslashes
 * taken off (r\m, "r"m, $'\x72m'), variables that are assigned once put in, sudo and its like left
 * out, paths cut from the program's name.
 */

#include "syntax/names.h"

enum { SHELL_WORDS_MAX = 256 };

struct shell_command {
    const char *name; /* "rm"; NULL: computed, not known */
    const char *args[SHELL_WORDS_MAX];
    unsigned n;              /* of args; NULL in it: not known */
    bool has_unknown;        /* one of args is NULL */
    const char *wrappers[8]; /* sudo and its like, which it goes through */
    unsigned n_wrappers;
    const char *input; /* what a here-string gives it, or NULL */
    TSNode node;
};

/* Reads a command node, from its child number *at on. The grammar may take the commands of the next
 * lines for arguments: *at is then where the next one starts, else past the last child. */
void shell_read(struct names *names, TSNode node, uint32_t *at, struct shell_command *ret);

/* Whether the program of that name runs code from its input or its arguments: sh, bash, … */
bool shell_is_shell(const char *name);
bool shell_is_interpreter(const char *name);

/* The code that the command would have a shell run (bash -c CODE, eval CODE), or NULL. */
const char *shell_code_of(struct names *names, const struct shell_command *command);

/* Part of fold_node: words, $'…', $NAME, $(echo …). */
const char *shell_fold(struct names *names, TSNode node, enum role role, int depth);

/* fold.c: appends a text with its escapes undone. */
struct strbuf;
void fold_unescape(struct strbuf *out, const char *text, size_t len);

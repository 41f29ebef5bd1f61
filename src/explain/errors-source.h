/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The request's own files, as far as errors need them. */

#include "core/template.h"
#include "explain/errors.h"

enum { ERRORS_SOURCE_MAX = 1 << 20 /* bytes of a file that are looked at */ };

struct errors_sources {
    const struct errors_source *list;
    size_t n;
    bool by_last_part;    /* a path's last part tells which, wherever it leads */
    bool is_relative_own; /* a relative path is the user's, also of no file that is known here */
    const struct errors_beside *beside; /* or NULL */
};

/* A path as users write it: without file://, /sandbox/ and ./ before it. */
struct slice source_path(struct slice path);

/* The file at that path; by its last part alone where the path has no more. NULL: none of the
 * request's. */
const struct errors_source *source_find(const struct errors_sources *sources, struct slice path);

/* Whether a path is the user's: one of the request's files, or in /sandbox or /workspace and not a
 * library there. Without any files, or where the language says so, whatever is no system path. */
bool source_is_user(const struct errors_sources *sources, struct slice path);

/* The line's text, counted from 1; data is NULL past the end. */
struct slice source_line(const struct errors_source *source, unsigned line);

/* The column, from 1, of a mark below a line as it was shown; both count from 1. 0 where what was
 * shown is not that line. */
unsigned source_column(const struct errors_source *source, unsigned line, struct slice echo,
                       size_t mark);

/* The only line that holds a text, blanks apart; or with may_repeat the last. 0: none. */
unsigned source_line_with(const struct errors_source *source, const char *text, bool may_repeat);

/* The line with this word and, behind it, a quoted text that is part of the message: the one that
 * stands first in the message, and of those the longest. 0: none. */
unsigned source_line_saying(const struct errors_source *source, const char *word,
                            const char *message);

/* The last of the lines that the message has in double quotes, one below the other, cut at both
 * ends. 0: none. */
unsigned source_lines_quoted(const struct errors_source *source, const char *message);

/* The line behind the last one: where a parser is at the end of the input. */
unsigned source_end_line(const struct errors_source *source);

/* The first line from `line` on, to the end of the statement there, that holds a word; its column
 * too. 0: none. */
unsigned source_word_from(const struct errors_source *source, unsigned line, struct slice word,
                          unsigned *ret_column);

/* Where the mark below a statement stands that was shown in one line: the line, from `line` on, and
 * its column. 0: what was shown is not there. */
unsigned source_shown_line(const struct errors_source *source, unsigned line, struct slice echo,
                           size_t mark, unsigned *ret_column);

/* The line that starts a command by its name in a shell: the nearest to `line`, unless that one has
 * the name in it. 0: none. */
unsigned source_command_line(const struct errors_source *source, unsigned line, struct slice name);

/* The line that redirects a shell's loop, condition or function, which begins at `line`, at its
 * end; 0: there is none, or none begins there. */
unsigned source_redirect_line(const struct errors_source *source, unsigned line);

/* Where a shell function begins; 0: there is none of that name. */
unsigned source_function_line(const struct errors_source *source, struct slice name);

/* The place that a message begins with, "FILE:LINE: …", where the file is one of these; returns
 * what follows it, or NULL. */
const char *source_place(const struct errors_sources *sources, const char *message,
                         const struct errors_source **ret, unsigned *ret_line);

/* The names in all files of at least two letters, each once, without `but`. */
const char *const *source_names(struct arena *arena, const struct errors_sources *sources,
                                const char *but, size_t *ret_n);

/* Lines around an error. */
const struct cay_context_line *source_context(struct arena *arena,
                                              const struct errors_source *source, unsigned line,
                                              size_t *ret_n);

/* A copy without blanks at its ends, of at most `max` bytes and whole characters; NUL is a blank.
 */
char *source_copy(struct arena *arena, struct slice text, size_t max);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What all commands say in the same way. cay's own words go to stderr, what was asked for to
 * stdout. */

#include <stdbool.h>
#include <stddef.h>

struct cay_error;
struct opt;
struct strbuf;

/* "cay: MESSAGE" and the hint on stderr; returns the exit status that fits. Where errors are wanted
 * as JSON and nothing has gone to stdout yet, stdout gets the error as JSON as well. */
int print_error(const struct cay_error *err);

/* A command line that makes no sense: an error of that kind, with a hint or NULL. */
int print_usage_error(const char *hint, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Said once, by main: whether errors are wanted as JSON, and --no-color is among the options. */
void print_set_form(bool wants_json, bool no_color);

/* {"error": {"kind", "message", "hint"}} on stdout. */
void print_error_json(const struct cay_error *err);

/* What begins each line of cay's own on stderr: "cay: ", on a terminal with the sign that programs
 * can't print (sanitize.h), coloured where colours are on. In a pipe it stays plain, for scripts.
 */
const char *print_prefix(void);

/* A line "cay: …" on stderr; control bytes in it are made visible. */
void print_message(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The same for a text that has lines of its own, a compiler's for example: "cay: " and what leads
 * up to it before the first, and each of the others behind "cay:   ". */
void print_lines(const char *lead, const char *text);

/* A warning each; the list ends with NULL. */
void print_warnings(const char *const *list);

/* Adds a text with every control byte in it, but for line feed and tab, made visible. */
void sanitize_text(struct strbuf *out, const char *text);

/* The same, with blanks behind it to fill a column. */
void sanitize_text_padded(struct strbuf *out, const char *text, size_t width);

/* Says that a command takes no such word; returns the exit status. */
int print_unexpected_argument(const char *command, const char *word);

/* Help of a command: usage line, what it does, options, examples. Returns 0. */
int print_help(const char *usage, const char *about, const struct opt *opts, const char *examples);

/* Writes a text to stdout. Returns 0, or the exit status when that failed. */
int print_text(const char *text);

/* Columns of the terminal, or 80. */
int terminal_width(void);

/* Whether colours may be used on this fd: a terminal, no NO_COLOR, and not switched off. */
bool use_color(int fd, bool no_color);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Command-line options as rows. The same rows drive parsing, help, completion and the check that
 * every option is in its man page.
 *
 *     const char *lang = NULL;
 *     bool json = false, help = false;
 *     const struct opt opts[] = {
 *         { OPT_HEADING, .help = "Program" },
 *         { OPT_STR, 'l', "language", "NAME", "language of the source", &lang },
 *         { OPT_CALL, 0, "env", "K=V", "set a variable; repeatable", &request, add_env },
 *         { OPT_BOOL, 0, "json", NULL, "print the result as JSON", &json },
 *         { OPT_BOOL, 'h', "help", NULL, "show this help", &help },
 *         { OPT_INCLUDE, .rows = limit_opts },
 *         { 0 },
 *     };
 *     int first;
 *     if (opt_parse(opts, argc, argv, 0, &first, NULL, err) < 0)
 *         return -1;
 *     for (int i = first; i < argc; i++)
 *         ... argv[i] is an operand ...
 *
 * Understood as GNU programs do: --name value, --name=value, -n value, -nvalue, flags in a bundle
 * (-vq, -vql lua), options after operands, and -- as the end of options. An option that takes a
 * value takes the next argument whatever it looks like. "-" alone is an operand.
 *
 * Not understood: abbreviated names, for a script that relies on one breaks when the next option is
 * added; optional values; -abc as --abc. --help is a row like any other, nothing is printed here,
 * and words that are not options are the caller's to judge.
 */

#include <stdbool.h>

struct cay_error;
struct opt;
struct strbuf;

enum opt_kind {
    OPT_END,     /* the row of zeros behind the last one */
    OPT_BOOL,    /* target is a bool */
    OPT_STR,     /* target is a const char *, which will point into argv; the last one given wins */
    OPT_CALL,    /* call is called for each time it is given */
    OPT_HEADING, /* help is the heading of the rows that follow */
    OPT_INCLUDE, /* rows is an array of more rows that stand here */
};

struct opt {
    enum opt_kind kind;
    char letter;      /* 'l' for -l, or 0 */
    const char *name; /* "language" for --language, or NULL if there is a letter */
    const char *arg;  /* what the value is called in the help; NULL for a flag */
    const char *help; /* one sentence; '\n' starts a new line; NULL hides the row */
    void *target;     /* where the value goes, or what call is handed */

    /*
     * Of OPT_CALL: takes the value, which points into argv; NULL for a row without arg. On failure
     * it fills in err with what is wrong with the value, and opt_parse() puts the option's name
     * before that.
     */
    int (*call)(void *target, const struct opt *opt, const char *value, struct cay_error *err);

    const struct opt *rows; /* of OPT_INCLUDE */
};

/* Flags of opt_parse(). */
enum {
    OPT_STOP_AT_OPERAND = 1 << 0, /* the first operand and all behind it are left alone */
};

/*
 * Parses argv[1] to argv[argc - 1] and fills in the rows' targets. argv is put in order, options
 * first, operands behind them, each in the order given; the strings are not changed.
 *
 * An OPT_BOOL row NAME is set by --NAME and cleared by --no-NAME; a row called no-NAME is set by
 * --no-NAME and cleared by --NAME.
 *
 * ret_first      index of the first operand, argc if there is none
 * ret_dashdash   index of the first operand that stood behind --, argc if there is none; what is
 *                between ret_first and this stood before it. May be NULL.
 *
 * On failure (CAY_E_USAGE, or what a call set) argv and results are untouched, but targets of
 * options before the faulty one are set.
 */
int opt_parse(const struct opt *opts, int argc, char **argv, unsigned flags, int *ret_first,
              int *ret_dashdash, struct cay_error *err);

/* Whether a word stands among the options of a command line, before any "--". For what has to be
 * known before it can be parsed. */
bool opt_is_given(int argc, char *const *argv, const char *word);

/* Adds the help in two columns, wrapped to width (0: 80) where words allow. */
void opt_help(struct strbuf *out, const struct opt *opts, int width);

/* Adds the words to complete, one a line: "--json", "--language=" when a value follows, "-l". A
 * letter has no = behind it, since -l=lua would mean the value "=lua". */
void opt_list_words(struct strbuf *out, const struct opt *opts);

/* Whether a value belongs to this option. */
bool opt_takes_value(const struct opt *opt);

/*
 * Walks the rows, included ones in their place: options and headings, hidden ones too.
 *
 *     struct opt_iter it = { { opts } };
 *     for (const struct opt *opt; (opt = opt_next(&it));)
 *         ...
 */
#define OPT_DEPTH 8

struct opt_iter {
    const struct opt *at[OPT_DEPTH]; /* the next row of each array that is being walked */
    int depth;
};

const struct opt *opt_next(struct opt_iter *it);

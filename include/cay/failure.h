/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FAILURE_H
#define CAY_FAILURE_H

/*
 * Why a program failed, read from what its runtime or its compiler wrote: `error` of the result.
 *
 *     if (result->failure)
 *         printf("%s in line %u\n", result->failure->type, result->failure->line);
 *
 * It explains; it decides nothing. A program can write whatever it likes, so nothing but a reader's
 * time may depend on it: the verdict is what counts. docs/errors.md has the categories and types.
 */

#include <stdbool.h>
#include <stddef.h>

#include <cay/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One call of a trace; in the order that the runtime printed them. */
struct cay_frame {
    const char *file;
    unsigned line, column; /* 0: not known; columns count from 1 */
    const char *function;  /* or NULL */
    bool is_user;          /* a file of the request's or of its workspace, no library's */
};

struct cay_context_line {
    unsigned line;
    const char *text;
    bool is_error;
};

/* Texts are NULL and numbers 0 where there is nothing to say; category and message always are. */
struct cay_failure {
    const char *type;      /* "ValueError" */
    const char *full_type; /* as it was printed: "json.decoder.JSONDecodeError" */
    const char *category;  /* one of cay_failure_category_at() */
    const char *message;
    const char *file; /* relative to /sandbox: "main.py" */
    unsigned line, column;
    const struct cay_frame *frames;
    size_t n_frames;
    const struct cay_context_line *context;
    size_t n_context;
    const char *suggestion;
    const char *doc; /* a link into the language's documentation */
};

/* The i-th category there is, or NULL past the last one. */
CAY_API const char *cay_failure_category_at(size_t i);

/* What is to be explained. */
struct cay_explain {
    const char *language; /* a name or alias */
    const char *text;     /* what came on stderr */
    size_t len;
    const char *code; /* the program, for context and suggestions; or NULL */
    size_t code_len;
    const char *code_name; /* its file name as in the text; NULL: the language's usual one */
};

/* Analyses a text that some run left, as JSON like `error` of a result, or "null" where no error
 * was found in it. The caller frees it. */
CAY_API int cay_explain_json(const struct cay_explain *explain, char **ret, struct cay_error *err);

#ifdef __cplusplus
}
#endif
#endif

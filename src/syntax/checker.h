/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The static check: code in, the report of contract.md section 5 out.
 *
 *     struct checker *checker;
 *     checker_open("python", &checker, &err);        loads grammar and rules: needs files
 *     checker_run(checker, &ask, &out, &is_safe);     needs none
 *
 * A tripwire before the run, never the wall. What could not be read (no grammar, broken code, too
 * long, too slow) is reported as a finding and is not safe.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cay_error;
struct checker;
struct grammar;
struct strbuf;

struct check_ask {
    const char *code;
    size_t len;
    unsigned flags;   /* SYNTAX_STRICT and the others of core/syntax-wire.h */
    const char *list; /* "+MODULE" to block, "-MODULE" to let be; each with a NUL behind */
    size_t list_len;
    int64_t deadline_ns;
};

/* CAY_E_UNSUPPORTED: no grammar; CAY_E_USAGE: a rule file is broken. */
int checker_open(const char *language, struct checker **ret, struct cay_error *err);
void checker_close(struct checker *checker);

/* Adds the report as JSON. */
void checker_run(struct checker *checker, const struct check_ask *ask, struct strbuf *out,
                 bool *ret_safe);

const struct grammar *checker_grammar(const struct checker *checker);
size_t checker_rules(const struct checker *checker);

/* Whether it holds memory that only the end of the process gives back. */
bool checker_is_spent(const struct checker *checker);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the engine and the syntax worker (cay-syntax) say to each other over a socket pair: one ask,
 * one answer, each a fixed head with its bytes behind.
 *
 *     ask     head, lists (each entry with a NUL behind), code
 *     answer  head, text: a report (JSON) or what else the verb gives
 *
 * Both sides bound everything before they take it: neither trusts the other.
 *
 * A caller that can start no processes later has a keeper started: cay-syntax without a language.
 * It is sent a language's name with one end of a socket pair (struct syntax_keep), and makes a
 * worker on it.
 */

#include <stdint.h>

#define SYNTAX_MAGIC UINT32_C(0x79617331) /* "1say" */

enum {
    SYNTAX_CODE_MAX = 4 << 20,   /* longer code is answered "unknown" without being sent */
    SYNTAX_LISTS_MAX = 64 << 10, /* all entries together */
    SYNTAX_TEXT_MAX = 32 << 20,  /* of an answer */
    SYNTAX_TIMEOUT_MAX_MS = 60000,
    SYNTAX_FINDINGS_MAX = 1000, /* of a report: there may be more where it has as many */
};

enum syntax_verb {
    SYNTAX_CHECK = 1, /* the report of contract.md section 5 */
    SYNTAX_HIGHLIGHT, /* the code with colours for a terminal */
    SYNTAX_COMPLETE,  /* "complete", "incomplete" or "invalid" */
    SYNTAX_VERBS,
};

/* Flags of an ask. */
enum {
    SYNTAX_STRICT = 1 << 0,       /* warnings block too; shell commands by an allow list */
    SYNTAX_NO_NETWORK = 1 << 1,   /* the run has no network: say so of code that wants it */
    SYNTAX_NO_ISOLATION = 1 << 2, /* nothing is between the run and the host */
};

/* Flags of an answer. */
enum {
    SYNTAX_SAFE = 1 << 0, /* nothing blocks, and all of it could be read */
};

enum syntax_status {
    SYNTAX_DONE,
    SYNTAX_NO_GRAMMAR,   /* there is none for the language, or it is not installed */
    SYNTAX_BROKEN_RULES, /* a rule file is at fault; the text says where */
    SYNTAX_BAD_ASK,
    SYNTAX_STATUSES,
};

struct syntax_keep {
    char language[32]; /* a-z and digits, ended by a NUL */
};

struct syntax_ask {
    uint32_t magic, verb, flags, timeout_ms, lists_len, code_len;
};

struct syntax_answer {
    uint32_t magic, status, flags, len;
};

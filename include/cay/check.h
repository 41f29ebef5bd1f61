/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CHECK_H
#define CAY_CHECK_H

/*
 * The static check, and what else can be found out about code without running it.
 *
 *     struct cay_check_request req = { .language = "python", .code = code, .len = len };
 *     char *report;
 *     bool is_safe;
 *     if (cay_check(cay, &req, &report, &is_safe, &err) == 0)
 *         puts(report);
 *
 * The report is {"safe", "language", "findings": [{"rule", "severity", "line", "column", "code",
 * "message", "remedy", "ordinary"}], "blocked_imports"}. What could not be read (no grammar for the
 * language, broken code, too long) is a finding too, and is not safe. It is a tripwire before a
 * run, never the wall: what it can't see is listed in docs/policy.md.
 *
 * The code is read by a worker process, which is kept for the next time. These calls wait for it,
 * four seconds at most; where it is warm, small code takes less than a millisecond.
 */

#include <stdbool.h>
#include <stddef.h>

#include <cay/run.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CAY_CHECK_STRICT = 1 << 0,      /* warnings block too; shell commands by an allow list */
    CAY_CHECK_NETWORK = 1 << 1,     /* the code will have a network */
    CAY_CHECK_STRIP_FENCE = 1 << 2, /* check what is inside the Markdown fence around the code */
};

struct cay_check_request {
    const char *language;  /* a name or an alias; NULL: by the file name or the #! line */
    const char *file_name; /* or NULL */
    const char *code;
    size_t len;
    unsigned flags;
    unsigned timeout_ms; /* what takes longer is unknown; 0: two seconds */
    const char *tenant;  /* those of several take turns; NULL: "" */
};

/* The caller frees the report. Failure: no such language, or a file of rules is broken. */
CAY_API int cay_check(struct cay *cay, const struct cay_check_request *req, char **ret_report,
                      bool *ret_safe, struct cay_error *err);

/* The same, and what a type checker of the language says (rules "types/…"), where this host has
 * one: it runs in a sandbox, as a run of its own, and is waited for. What it calls an error is not
 * safe. Failure, too: CAY_E_USAGE: there is none for the language; CAY_E_NOTFOUND: none is
 * installed. */
CAY_API int cay_check_types(struct cay *cay, const struct cay_check_request *req, char **ret_report,
                            bool *ret_safe, struct cay_error *err);

/*
 * The same for a loop that has others to serve (cay_fd, cay_dispatch in <cay/run.h>):
 *
 *     cay_check_begin(cay, &req, &checking, &err);       req is not needed any more
 *     ... after each cay_dispatch, and some time later in any case ...
 *     int rc = cay_check_end(checking, &report, &is_safe, &err);     never waits
 *
 * 0: it is not done yet; 1: there is a report, which the caller frees; -1: there is none, as for
 * cay_check. cay_check_drop frees it, done or not. cay_check_begin fails with CAY_E_BUSY where
 * others or the tenant's own keep all workers busy.
 */
struct cay_checking;
CAY_API int cay_check_begin(struct cay *cay, const struct cay_check_request *req,
                            struct cay_checking **ret, struct cay_error *err);
CAY_API int cay_check_end(struct cay_checking *checking, char **ret_report, bool *ret_safe,
                          struct cay_error *err);
CAY_API void cay_check_drop(struct cay_checking *checking);

/*
 * Of an engine with start_warden: the process that starts its workers. cay_syntax_launcher makes
 * one, as the caller is, and gives its socket; helper is as in struct cay_options.
 * cay_syntax_supervise has another one started (start_checker) where it has died, and says how
 * often that was; -1: it can't be had, and nothing is checked meanwhile.
 */
CAY_API int cay_syntax_launcher(const char *helper, int *ret_pid, struct cay_error *err);
CAY_API int cay_syntax_supervise(struct cay *cay, unsigned *ret_restarts, struct cay_error *err);

/* The code with colours for a terminal, control bytes as they are; the caller frees it. Where there
 * is no grammar it is the code itself. */
CAY_API char *cay_highlight(struct cay *cay, const char *language, const char *code, size_t len);

/* Whether the code needs more lines before it can be run, for a program that reads line by line.
 * Where that is not known: complete. */
enum cay_completeness { CAY_COMPLETE, CAY_INCOMPLETE, CAY_INVALID };
CAY_API enum cay_completeness cay_complete(struct cay *cay, const char *language, const char *code,
                                           size_t len);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_ERROR_H
#define CAY_ERROR_H

/*
 * Errors are plain values: nothing to allocate, nothing to free. A function that can fail returns
 * an int, >= 0 for success and < 0 for failure, and takes a struct cay_error as its last
 * parameter. On success the error is untouched; on failure the results are.
 */

#ifdef __cplusplus
extern "C" {
#endif

#define CAY_API __attribute__((visibility("default")))

/* name, exit status, HTTP status, meaning: the only place where an error kind is declared */
#define CAY_ERROR_KINDS(X)                                        \
    X(OK, 0, 200, "no error")                                     \
    X(USAGE, 2, 400, "the request is malformed")                  \
    X(UNSUPPORTED, 125, 501, "this host or backend cannot do it") \
    X(LIMIT, 125, 413, "a configured limit was reached")          \
    X(POLICY, 126, 403, "refused by policy")                      \
    X(NOTFOUND, 127, 404, "no such language, session or run")     \
    X(SYSTEM, 125, 500, "a system call failed")                   \
    X(UNAUTHORIZED, 125, 401, "no valid token")                   \
    X(BUSY, 125, 429, "too much at once; try again later")

enum cay_errkind {
#define CAY_ERROR_ENUM(name, exit_status, http_status, meaning) CAY_E_##name,
    CAY_ERROR_KINDS(CAY_ERROR_ENUM)
#undef CAY_ERROR_ENUM
};

/* 504 bytes: one atomic pipe write carries it from one process to another. */
struct cay_error {
    enum cay_errkind kind;
    int errnum;    /* errno behind CAY_E_SYSTEM, or why a program can't be executed; ENODEV: the
                    * backend is not available; ENOMEDIUM: an image is missing, and the hint has the
                    * command that builds it in backticks; else 0 */
    char msg[400]; /* "native: mount proc: Operation not permitted" */
    char hint[96]; /* what the user can do about it, or "" */
};

/* The exit status with which the command ends on an error of this kind. */
CAY_API int cay_error_exit_status(enum cay_errkind kind);

/* The HTTP status that fits an error of this kind. */
CAY_API int cay_error_http_status(enum cay_errkind kind);

/* The kind's name in lower case: "usage", "notfound", … */
CAY_API const char *cay_error_kind_name(enum cay_errkind kind);

#ifdef __cplusplus
}
#endif
#endif

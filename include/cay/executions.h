/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EXECUTIONS_H
#define CAY_EXECUTIONS_H

/*
 * What is kept of a run after its end: its result, its streams, and the change set of its
 * workspace, which can be looked at, applied to the host's folder, or thrown away.
 *
 *     struct cay_execution *run;
 *     if (cay_execution_open(result->id, &run, &err) == 0) {
 *         struct cay_apply_options options = { 0 };
 *         size_t n = cay_execution_changes(run, &changes);
 *         ...
 *         cay_execution_apply(run, &options, &err);
 *         cay_execution_close(run);
 *     }
 *
 * Records lie in the caller's state folder and are pruned by count, age and size (keep_executions,
 * keep_days, keep_bytes).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cay/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- files of a result ---- */

enum cay_change_kind { CAY_UNCHANGED, CAY_CREATED, CAY_CHANGED, CAY_DELETED };
enum cay_file_type { CAY_NOTHING, CAY_FILE, CAY_DIRECTORY, CAY_SYMLINK, CAY_SPECIAL };

/* "created", "changed", "deleted", "unchanged"; "file", "directory", "symlink", "special". */
CAY_API const char *cay_change_name(enum cay_change_kind change);
CAY_API const char *cay_file_type_name(enum cay_file_type type);

/* A path that a run created, changed or deleted, or a file that was collected. */
struct cay_file {
    const char *path; /* "/workspace/a.txt"; may hold any byte but NUL */
    enum cay_change_kind change;
    enum cay_file_type type; /* of what was deleted: its old one */
    uint64_t size;           /* of a file; of what was deleted: its old one */
    unsigned mode;           /* permission bits */
    const char *target;      /* of a symlink, or NULL */
    bool is_collected;
    const char *data; /* of a collected file, size bytes; NULL where it was left out */
};

/* One path of a change set: what is there, and what was. */
struct cay_change {
    const char *path; /* below the workspace: "src/a.c"; may hold any byte but NUL */
    enum cay_change_kind change;
    enum cay_file_type type, old_type; /* CAY_NOTHING: deleted, created */
    uint64_t size, old_size;
    unsigned mode, old_mode;
    const char *target, *old_target; /* of symlinks */
    bool is_conflict;                /* the host's was changed while the program ran */
    bool has_data;                   /* false: a file that was too large to be kept */
    bool is_applied;
};

struct cay_change_sums {
    size_t created, changed, deleted, conflicts;
    size_t deleted_files;   /* those that are files or links, which hold */
    uint64_t deleted_bytes; /* this much */
};

/* ---- finding ---- */

struct cay;
struct cay_execution;

/* Opens one by its id, by a prefix of at least 4 characters that no other id has, or "last" for
 * the newest. CAY_E_NOTFOUND hints at the nearest id. */
CAY_API int cay_execution_open(const char *id, struct cay_execution **ret, struct cay_error *err);
CAY_API void cay_execution_close(struct cay_execution *run);

/* Whether there is something to open under a whole id; quick. */
CAY_API bool cay_execution_is_kept(const char *id);

/* The newest executions, at most max of them, as a JSON array: id, timestamp, language, exit_code,
 * cause, changes ("pending", "applied", "discarded" or null). The caller frees it. */
CAY_API int cay_executions_json(size_t max, char **ret, struct cay_error *err);

/* ---- looking ---- */

CAY_API const char *cay_execution_id(const struct cay_execution *run);

/* The result as the run gave it, as JSON; owned by the execution. */
CAY_API const char *cay_execution_json(const struct cay_execution *run);

/* The code or command that ran, where it was stored (store_code); else NULL. Owned too. */
CAY_API const char *cay_execution_code(const struct cay_execution *run, size_t *ret_len);

typedef int cay_data_fn(void *arg, const char *data, size_t len);

/* Hands out a whole stream ("stdout" or "stderr", as far as output_cap goes) piece by piece; ends
 * early where fn returns a negative number. */
CAY_API int cay_execution_stream(const struct cay_execution *run, const char *stream,
                                 cay_data_fn *fn, void *arg, struct cay_error *err);

/* The file that holds a whole stream, for a caller that reads it at its own pace: an fd, which the
 * caller closes. CAY_E_NOTFOUND: there is no file, because the result holds all of the stream. */
CAY_API int cay_execution_stream_fd(const struct cay_execution *run, const char *stream,
                                    int *ret_fd, struct cay_error *err);

/* The same for a file: one of the change set ("/workspace/PATH") or a collected one. */
CAY_API int cay_execution_file(const struct cay_execution *run, const char *path, cay_data_fn *fn,
                               void *arg, struct cay_error *err);

/* The change set, sorted by path, owned by the execution; 0 when there is none. */
CAY_API size_t cay_execution_changes(const struct cay_execution *run,
                                     const struct cay_change **ret);
CAY_API void cay_execution_sums(const struct cay_execution *run, struct cay_change_sums *ret);

/* Whether a list of globs asks for this change, or for a folder that it is in; NULL: it does. Globs
 * are as in `collect`; "/workspace/" before them can be left out. */
CAY_API bool cay_change_matches(const struct cay_change *change, const char *const *only);

/* The host's folder that the changes are for, or NULL; and "pending", "applied", "discarded". */
CAY_API const char *cay_execution_workspace(const struct cay_execution *run);
CAY_API const char *cay_execution_state(const struct cay_execution *run);

/* The differences to the folder as it is now, a call for each path, in unified form. `only` is a
 * list of globs (NULL: all). Names in headers are made visible; the lines of files are as they
 * are. */
CAY_API int cay_execution_diff(const struct cay_execution *run, const char *const *only,
                               cay_data_fn *fn, void *arg, struct cay_error *err);

/* ---- doing ---- */

struct cay_apply_options {
    const char *const *only; /* globs, NULL-terminated; NULL: everything */
    bool dry_run;            /* check everything, write nothing */
    /* Called for each path that stands in the way, before the call fails, and for each that is left
     * out: a fifo or socket, which is never copied. May be NULL. */
    void (*on_obstacle)(void *arg, const char *path, const char *why);
    void *arg;
};

/*
 * Writes the change set to the folder: all of it, or nothing where anything stands in the way
 * (CAY_E_POLICY): the folder is another one, a path was changed meanwhile, data was not kept. Each
 * file is either the old or the new one at any time; a call that was interrupted can be repeated.
 * A change set that was applied or discarded is refused.
 */
CAY_API int cay_execution_apply(struct cay_execution *run, const struct cay_apply_options *options,
                                struct cay_error *err);

/* Removes everything that is kept of an execution, by its whole id, also where that is nothing any
 * more: it is in no list from here on. What the audit log says of it stays, and this with it.
 * CAY_E_POLICY while it is being applied. */
CAY_API int cay_execution_remove(struct cay *cay, const char *id, struct cay_error *err);

/* Throws the change set away; result and streams stay. */
CAY_API int cay_execution_discard(struct cay_execution *run, struct cay_error *err);

#ifdef __cplusplus
}
#endif
#endif

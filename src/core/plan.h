/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A plan: the request with nothing left open. It is a pure function of request, configuration,
 * language and host: making one needs no privilege and starts nothing, so it can be printed
 * (`cay run --plan`) and tested anywhere.
 */

#include <sys/types.h>

#include "base/arena.h"
#include "core/backend-kind.h"
#include "core/op.h"
#include "core/payload.h"
#include "core/request.h"
#include "core/spec.h"

struct config;
struct path_cache;
struct language;

/* What a plan asks of the host. */
struct plan_host {
    /* Where a runtime's program is, or NULL; language_program() but for tests. */
    const char *(*find_program)(struct arena *arena, const char *name);
    /* The version of the program at that path, or NULL; only asked where the request names a
     * version that no program's name tells. May be NULL itself. */
    const char *(*version_of)(struct arena *arena, const struct language *language,
                              const char *program);
    /* The path without links and dots, or NULL; realpath() but for tests. */
    const char *(*real_path)(struct arena *arena, const char *path);
    /* The most that programs started here can have, whatever is asked for; 0: not known. */
    uint32_t max_cpus_milli, max_open_files;
    /* The languages, where somebody has read them already; NULL: they are read for each plan. */
    const struct language *languages;
    size_t n_languages;
    struct path_cache
        *path_cache; /* remembers what find_program said; NULL: it is asked each time */
    /* Backends that were tried and can't be had here, by their place in the list; and what stood in
     * the way of the first. */
    uint32_t unavailable;
    const char *unavailable_why;
};

/* A folder of the host's that is shown inside, read-only. */
struct plan_folder {
    const char *source;
    const char *path;
};

/* That another backend was taken than the one asked for. */
struct plan_fallback {
    const char *asked; /* NULL: it is the one; "auto" too, which goes on by itself */
    const char *how;   /* "auto", "isolated", "unsafe" */
    const char *why;
};

/* A program of the plan's. */
struct plan_exec {
    struct exec_spec spec; /* without its fds and number */
    const char *const *argv;
};

enum policy_mode { POLICY_OFF, POLICY_WARN, POLICY_BLOCK };

struct plan {
    struct arena arena;
    const struct backend_kind *backend;
    enum tier tier; /* the backend's, or the runtime's that it takes */
    struct plan_fallback fallback;
    bool has_next; /* where the backend can't be had, there is another to be tried */
    const struct language *language; /* NULL for a command */
    const char *version;             /* the one asked for, or NULL */
    const char *source_name;         /* the code's file name in /sandbox, or NULL for a command */
    const char *program;             /* the runtime's path on the host, or in the image, or NULL
                                        for a command */
    const char *image;               /* its name; NULL: the host's own runtimes */
    const char *image_digest;        /* what the image holds, "sha256:…" */
    const char *image_ref;           /* both, for records: "NAME@sha256:…" */
    const char *profile;
    const char *const *network;
    struct sandbox_spec sandbox; /* without its fds and id */
    bool has_compile;
    struct plan_exec compile, run;
    const char *const *env;           /* of both */
    const char *const *globs;         /* what to collect when the last one has ended */
    const struct payload_file *files; /* there before the first one starts */
    size_t n_files;
    bool is_strict; /* nothing of an earlier run is used */
    struct bytes input;
    struct bytes code;          /* for the record, where that may hold it */
    const char *source;         /* the code's path inside, from where the program starts; or NULL */
    bool is_source_there;       /* it is a file of the workspace */
    const char *workspace;      /* the host's folder, or NULL; with sandbox.writes for good: */
    const char *workspace_rw;   /* as it was named, or NULL */
    const char *writes_note;    /* the warning that says so */
    const char *workspace_link; /* a second path of it inside, the host's own; or NULL */
    struct plan_folder *folders;
    size_t n_folders;
    const char *const *folder_paths; /* of these, and of workspace_link */
    enum policy_mode policy;
    bool is_policy_explicit; /* somebody said so, and has to be told where it can't be kept */
    bool policy_bypass;
    bool policy_strict;
    bool has_network;
    struct bytes import_lists; /* "+MODULE" to block, "-MODULE" to let be; a NUL behind each */
    struct op_list root;       /* for printing: the warden makes its own */
    bool has_host_root;        /* it is this machine's, and listed when it is printed */
    struct value warnings;     /* a list */
};

int plan_make(const struct cay_request *req, const struct config *config,
              const struct plan_host *host, struct plan *ret, struct cay_error *err);

/* The limits of the program: those of plan_make, and where that fails for what is no limit, those
 * that its plan would have had. */
int plan_limits(const struct cay_request *req, const struct config *config,
                const struct plan_host *host, struct cay_limits *ret, struct cay_error *err);

/* What records tell of a request that no plan could be made of: no backend, and the rest as far as
 * it is known. */
void plan_of_refused(const struct cay_request *req, const struct config *config,
                     const struct plan_host *host, struct plan *ret);

/* Part of plan_make, in plan-backend.c: which backend, and what there is to be told of it. */
struct backend_request {
    const char *name, *min, *fallback;
    const char *runtime;       /* or NULL */
    bool is_fallback_explicit; /* the request itself says so */
    bool is_min_explicit;      /* somebody said so */
    bool is_sandbox_on;        /* nothing runs without */
};

int plan_backend(struct plan *plan, const struct backend_request *request,
                 const struct plan_host *host, struct cay_error *err);
void plan_warn_of_backend(struct plan *plan);

/* Part of plan_make, in plan-folders.c: the host's folders that the run may see, what it should
 * bring back, and where its code is; then the variables that point to what a workspace has. */
struct folders_request {
    const struct value *workspace, *workspace_rw, *ro, *collect;
    const char *file_name; /* of the code, or NULL */
};

int plan_folders(struct plan *plan, const struct folders_request *request,
                 const struct plan_host *host, struct cay_error *err);
void plan_workspace_env(struct plan *plan, const struct plan_host *host, struct value *env);

/* The one that what the request brings is there for: the compiler, or the program. */
static inline const struct plan_exec *plan_first(const struct plan *plan)
{
    return plan->has_compile ? &plan->compile : &plan->run;
}

/* What one of them gets: what the request brings goes to the first. */
struct payload_source plan_payload(const struct plan *plan, const struct plan_exec *exec);

void plan_done(struct plan *plan);

/* block_imports and allow_imports of the configuration, as the static check is told of them. */
struct bytes plan_import_lists(struct arena *arena, const struct config *config);

/* As JSON; the environment's values, the code and the files' contents are left out. The caller
 * frees it. */
char *plan_json(const struct plan *plan);

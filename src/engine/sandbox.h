/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An open sandbox, from the side of whoever asked the warden for it.
 *
 *     sandbox_open(&sandbox, cay, &options, &err);
 *     exec_start(&exec, &sandbox, …);                 at once, or whenever; several may live
 *     …
 *     sandbox_close(&sandbox, STOP_NONE);             SANDBOX_CLOSED comes; or:
 *     sandbox_done(&sandbox);                         nobody wants to know
 *
 * Reports come from cay_dispatch (or a cay_run that waits), never from within these calls. The last
 * one is CLOSED or LOST; the sandbox may be opened anew then.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/spec.h"
#include "core/verdict.h"
#include "engine/loop.h"

struct backend_kind;
struct cay;
struct cay_error;
struct exec;
struct payload_source;
struct warden_reply;

enum sandbox_report_kind {
    SANDBOX_OPENED, /* not where an exec waits for it: its start says so */
    SANDBOX_FAILED, /* error; CLOSED follows */
    SANDBOX_CLOSED, /* with all that was in there: none of its execs reports any more */
    SANDBOX_LOST,   /* the warden is gone, and the sandbox with it: error */
};

struct sandbox_report {
    enum sandbox_report_kind kind;
    uint32_t layers;       /* OPENED */
    enum stop_reason stop; /* CLOSED */
    int64_t teardown_ns;   /* CLOSED */
    bool was_server;       /* LOST: it was a server's warden */
    struct cay_error error;
};

struct open_sandbox;
typedef void sandbox_fn(void *arg, const struct sandbox_report *report);

struct open_sandbox {
    struct loop_entry entry; /* its number is the warden's for it; 0: it is not open */
    struct cay *cay;
    sandbox_fn *on_report;
    void *arg;
    struct exec *execs; /* those that were started in it and have not ended */
    uint32_t last_exec;
    bool is_queued;     /* the warden has not been asked for it yet */
    unsigned n_lost;    /* wardens that died before they were asked */
    bool is_closing;    /* the warden was asked for that */
    bool survives_loss; /* of the end of the last one */
};

struct sandbox_options {
    const struct backend_kind *backend;
    const struct sandbox_spec *spec;
    const char *id;            /* 32 hexadecimal digits */
    const char *const *places; /* where the folders are shown, NULL-terminated, or NULL */
    int *folder_fds;           /* SANDBOX_FOLDERS, or -1 */
    bool keeps_folders;        /* they stay the caller's; else they are closed */
    bool is_watched;           /* by epoll; else run-follow.c sees to it */
    sandbox_fn *on_report;
    void *arg;
};

int sandbox_open(struct open_sandbox *sandbox, struct cay *cay,
                 const struct sandbox_options *options, struct cay_error *err);

static inline bool sandbox_is_open(const struct open_sandbox *sandbox)
{
    return sandbox->entry.number != 0;
}

/* Has it closed; what still lives in there ends, for STOP_CANCELLED as what it is. */
void sandbox_close(struct open_sandbox *sandbox, enum stop_reason reason);

/* The same, and no report comes any more. */
void sandbox_done(struct open_sandbox *sandbox);

/* For loop.c: a reply for it, or for one of its execs; and that its warden is gone, before or after
 * it was asked. */
void sandbox_on_reply(struct cay *cay, const struct warden_reply *reply);
void sandboxes_on_lost(struct cay *cay, const struct cay_error *err, bool was_server);
bool sandboxes_are_open(const struct cay *cay, const struct open_sandbox *but);
void sandbox_on_sent(struct cay *cay, uint32_t number);
void sandbox_on_unsent(struct cay *cay, uint32_t number, const struct cay_error *err);

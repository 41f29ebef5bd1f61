/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A request: what a client wants run. Only what was said explicitly is in it; what was left open is
 * filled in by the plan. Its public face is <cay/run.h>.
 */

#include <stdbool.h>

#include <cay/run.h>

#include "base/arena.h"
#include "core/field.h"
#include "core/payload.h"

struct bytes {
    const char *data; /* NULL: not given */
    size_t len;
};

struct file_list {
    struct payload_file *items;
    size_t n, room;
};

/* A file of the caller's that is in memory by mapping, until the request is freed. */
struct mapping {
    void *data;
    size_t len;
    struct mapping *next;
};

struct setting;

struct json_long;

struct cay_request {
    struct arena arena;
    const struct setting *caps; /* of the engine that errors tell of, or NULL */
    unsigned holders;           /* runs that still need it, beside its owner */
    struct value values[FIELD_N];
    struct bytes code, input;
    struct value args, command, env; /* lists; env as "NAME=value" */
    struct file_list files;
    struct mapping *mappings;
    const char *file_name;       /* of the code, for guessing the language */
    struct json_long *long_ones; /* while JSON is read: its long strings */
    const char *beside;    /* the caller's folder that the code is from, for explaining; or NULL */
    bool is_remote;        /* it is somebody else's, who knows fields and no flags */
    const char *rows_auto; /* what rows = auto is where the result goes; NULL: list */
};

/* Keeps what it holds until a cay_request_free more. Nobody changes it meanwhile. */
struct cay_request *request_hold(const struct cay_request *req);

/* Bounds of what a request may hold. */
#define REQUEST_BYTES_MAX (UINT64_C(256) << 20)

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a plan has to know of the backends: their names, tiers and abilities. What they do is in
 * sandbox/backend.h.
 */

#include <stdbool.h>
#include <stdint.h>

#include <cay/error.h>

enum tier { TIER_NONE, TIER_KERNEL, TIER_GVISOR, TIER_VM };

/* What a backend can do beyond running programs; a request for what it can't is refused. */
enum {
    BACKEND_FOLDERS = 1 << 0,       /* workspace, ro, collect */
    BACKEND_TERMINAL = 1 << 1,      /* tty */
    BACKEND_SHELL = 1 << 2,         /* shell_allow */
    BACKEND_IMAGES = 1 << 3,        /* has no root but an image: runtimes are those in it */
    BACKEND_RUNTIMES = 1 << 4,      /* takes an OCI runtime */
    BACKEND_STORED_IMAGES = 1 << 5, /* takes those of the state folder (core/image.h) */
    BACKEND_WRITES = 1 << 6,        /* workspace_rw */
};

struct backend_kind {
    const char *name;
    enum tier tier;
    unsigned abilities;
    uint32_t layers; /* what a run requires that does not say (core/layer.h) */
};

/* All of this build in order of preference, NULL-terminated; generated. */
extern const struct backend_kind *const backend_kinds[];

const struct backend_kind *backend_find(const char *name);

/* A number for where the container engine is, so that a front whose configuration names another
 * than its warden's finds out. 0 for NULL. */
uint32_t backend_engine(const char *docker_host);

/* Marks the error of a start that failed for want of what the host has to give, whatever is asked
 * of it: no layer, no engine. Only that is a reason to take another backend (core/plan-backend.c);
 * no other failure is, for a program could bring it about. Returns -1. */
int backend_mark_unavailable(struct cay_error *err);
bool backend_is_unavailable(const struct cay_error *err);

const char *tier_name(enum tier tier);

/* TIER_* by name, or -1. */
int tier_find(const char *name);

/* "cold", "spare", "fork", "warm", as meta.start has it. */
const char *start_kind_name(unsigned start_kind);

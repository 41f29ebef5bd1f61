/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Programs that were compiled before. Where code, files, variables, flags, compiler and tenant are
 * the same, what the compiler made is the same, and the plan needs no compiler:
 *
 *     compiled_find(&compiled, config, -1, tenant, plan);      found: the plan has one exec less
 *     compiled_put(&compiled, plan, &payload);                 what was made; else the wish for it
 *     compiled_keep(&compiled, config, products_fd);           not found, and now it is compiled
 *     compiled_done(&compiled);
 *
 * A language's `outputs` says which files these are. The compiler's messages are kept with them,
 * and become warnings again.
 *
 * Entries are files of the state folder (compiled/TENANT/KEY) that only the front writes: what
 * comes out of a sandbox is read with distrust, as every harvest is, and nothing of the folder is
 * ever shown inside. A sandbox gets a copy. Tenants share nothing, and each has `compile_cache`
 * bytes: what was used least lately goes first.
 *
 * Not used for a run that is strict, that sees folders of the host, or whose code holds a word that
 * makes compiling depend on something else (a language's `varies`). Whatever fails here costs one
 * more compilation, and is never an error.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/digest.h"
#include "core/request.h"

struct cay_stream;
struct config;
struct payload_file;
struct payload_source;
struct plan;

enum { COMPILED_STREAMS = 2 };

struct compiled {
    int folder_fd;               /* where entries are; -1: in the state folder */
    char key[DIGEST_HEX + 1];    /* "": not for this run */
    char tenant[DIGEST_HEX + 1]; /* the name of its folder */
    bool is_found;
    /* What the compiler said. */
    struct bytes said[COMPILED_STREAMS];
    /* Of one that was found: */
    void *map;
    size_t len;
    struct payload_file *files; /* in the plan's arena */
    size_t n_files;
};

/* Looks for it; where it is found, takes the compiler out of the plan. folder_fd may be -1. */
void compiled_find(struct compiled *ret, const struct config *config, int folder_fd,
                   const char *tenant, struct plan *plan);

/* A folder of its own for a server, which may be another user then: who takes that over shall have
 * no say in what `cay run` runs. Returns its fd, or -errno. */
int compiled_open_for(uid_t uid, gid_t gid);

/* Whether the compiler's exec is to report what it made. */
bool compiled_is_wanted(const struct compiled *compiled);

/* Adds what there is, or what is wanted, to what the plan's first exec gets. */
void compiled_put(const struct compiled *compiled, struct plan *plan,
                  struct payload_source *payload);

/* Keeps the harvest of a compiler, if it is one; and `said` with it, which is set by then. */
void compiled_keep(struct compiled *compiled, const struct config *config, int products_fd);
void compiled_done(struct compiled *compiled);

/* ---- the entries, in compiled-store.c ---- */

/* Maps the entry and fills said and files. False: there is none, or it is not whole. */
bool compiled_load(struct compiled *compiled, struct arena *arena);

/* Writes one of these files, within that many bytes in the tenant's folder. Returns -errno. */
int compiled_store(const struct compiled *compiled, const struct payload_file *files, size_t n,
                   uint64_t max);

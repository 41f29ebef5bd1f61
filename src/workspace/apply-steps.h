/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The steps of one apply: apply-verify.c finds out which are due and whether they are possible;
 * apply.c does them. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "workspace/apply.h"
#include "workspace/changes.h"

/* What becomes of a path in this call. */
enum step_state {
    STEP_NOT, /* not asked for, or applied before */
    STEP_DUE,
    STEP_DONE, /* is so already: an apply that was interrupted got so far */
};

struct step {
    enum step_state state;
    uid_t uid; /* of what is replaced */
    gid_t gid;
    ino_t made; /* a folder that was made: which one */
};

struct apply {
    struct changes *changes;
    const struct cay_apply_options *options;
    apply_note_fn *note; /* or NULL */
    void *note_arg;
    struct step *steps; /* one for each change */
    int folder_fd, data_fd, staging_fd;
    bool is_root;
    bool resumes; /* an apply before this one did a part of the work */
    size_t obstacles, todo;
    bool is_too_large, is_closed; /* among the obstacles, for the hint */
    char parent[4096];            /* the last parent that was opened */
    int parent_fd;
    struct cay_error *err;
};

/* Marks what is asked for, and the new folders that it needs to be in. */
void apply_select(struct apply *apply);

/* Looks at each path that is due, and writes nothing. -1: something is in the way, and err says so.
 */
int apply_verify(struct apply *apply);

/* The change of the folder that path is in, or NULL. */
struct change *apply_change_above(const struct changes *changes, const char *path);

/* A folder of the caller's own that is itself deleted can be opened for that, as rm -r would not
 * but chmod and rm -r have done inside. */
bool apply_goes_with(const struct apply *apply, const struct change *above, int fd);

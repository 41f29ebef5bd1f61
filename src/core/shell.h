/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The restricted shell (`shell_allow`): a root that holds a shell, the commands that were named,
 * the libraries these say they need, and data. Everything else of the system is not hidden but
 * absent, so there is no list of forbidden things to get wrong. What holds besides:
 *
 *   - nothing in a place that can be written, and no data, can be started or mapped as code
 *     (noexec), neither by itself nor through the loader, LD_PRELOAD or `enable -f`;
 *   - memory that was written can't become code (PR_SET_MDWE, put on by the child), which a forged
 *     file could otherwise have the loader's relocations do.
 *
 * The names come from the front, so the warden checks each again and looks them up in the system's
 * own folders only. What an allowed command can do itself is the business of who allows it: an
 * interpreter runs what it is given.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "core/op.h"

struct arena;
struct cay_error;
struct language;

/* Of the list in a job: "cat,ls", its NUL included. */
enum { SHELL_ALLOW_BYTES = 1024 };

/* Whether programs of this language are a shell's. */
bool shell_is_language(const struct language *language);

/* Whether the command is there to be allowed: a file in the system's folders, or built into every
 * shell. */
bool shell_has_command(const char *name);

/* Writes the list that travels in a job. Fails for a name that is none, and for too many. */
int shell_pack(const char *const *names, char ret[static SHELL_ALLOW_BYTES], struct cay_error *err);

/* The root for such a list. Fails for a name that is none, not installed, a script whose
 * interpreter is not named, or that can't work there. */
int shell_root(struct arena *arena, const struct language *language, const char *allow, uid_t uid,
               gid_t gid, unsigned flags, struct op_list *ret, struct cay_error *err);

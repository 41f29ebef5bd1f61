/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_SETUP_H
#define CAY_SETUP_H

/* Delegation: giving an ordinary user a part of the cgroup tree, so that their runs are limited by
 * the kernel's own counters instead of a watcher. Needs root. */

#include <stddef.h>
#include <sys/types.h>

#include <cay/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the user's subtree and gives it to them. Doing it twice does no harm. */
CAY_API int cay_delegate(uid_t uid, gid_t gid, struct cay_error *err);

/* Takes it back; nothing may be running in it. */
CAY_API int cay_undelegate(uid_t uid, struct cay_error *err);

/* Has systemd see to it at each boot: returns 1, and the name of the file that says so, or 0 where
 * it is not systemd that runs here. On cgroup v2 that is the delegation of user@UID.service. */
CAY_API int cay_delegate_at_boot(uid_t uid, gid_t gid, char *ret_path, size_t size,
                                 struct cay_error *err);

/* Takes that back: returns how many files there were. */
CAY_API int cay_undelegate_at_boot(uid_t uid, struct cay_error *err);

/* The command that gives the calling user a cgroup subtree of their own, by their name. */
CAY_API void cay_setup_command(char *out, size_t size);

/* Moves the calling process into the user's subtree where the kernel asks for it (cgroup v2). */
CAY_API int cay_enter_delegated(uid_t uid, struct cay_error *err);

#ifdef __cplusplus
}
#endif
#endif

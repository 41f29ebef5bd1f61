/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Showing a folder of the host's with other owners: what belongs to one user on disk belongs to
 * another in this one mount. For root only; the file system has to know of
 * it (ext4, xfs, btrfs, tmpfs and others do; overlayfs, NFS do not).
 */

#include <stdbool.h>
#include <sys/types.h>

/* A detached copy of the folder's mount in which the ids from_uid and from_gid are to_uid and
 * to_gid. Mounts below it are left out. It can only be read, unless `writes`: then what the one
 * makes there belongs to the other. Returns its fd or -errno; -EINVAL where the file system can't.
 */
int idmap_clone(int folder_fd, uid_t from_uid, gid_t from_gid, uid_t to_uid, gid_t to_gid,
                bool writes);

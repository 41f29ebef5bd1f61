/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A user's part of the cgroup tree at each boot, where systemd is what boots: a file which it
 * acts upon whether or not cay is there still.
 *
 * cgroup v1: etc/systemd/system/cay-user-UID.service makes the folders that cgroup_delegate makes.
 * cgroup v2: only processes that are in a user's part already can use it, so a folder made at boot
 * is of no use. etc/systemd/system/user@UID.service.d/cay.conf hands down cpu as well to what
 * systemd delegates to that user anyway, and `systemd-run --user --scope -p Delegate=yes` has all.
 */

#include <stddef.h>
#include <sys/types.h>

/* Both look at the host below root_fd, and write there; ret_path, of 128 bytes, gets the file's
 * name from "/" on. */

/* Returns 1 when the file is there, 0 where systemd is not what runs, or -errno. */
int cgroup_boot_keep(int root_fd, uid_t uid, gid_t gid, char ret_path[static 128]);

/* Removes what either kind has written. Returns how many there were, or -errno. */
int cgroup_boot_forget(int root_fd, uid_t uid);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * User namespaces: which host identity a sandbox gets, and how it is mapped.
 *
 *     struct identity who;
 *     identity_take(state_dir_fd, false, &who);   a uid of its own, where root or a subuid range
 *                                                 allows it
 *     ... clone with CLONE_NEWUSER ...
 *     userns_map(pid, &who);
 *     identity_release(&who);
 *
 * Slots are byte-range locks on one file: root's is in the state folder. An ordinary user can have
 * several such folders or none, so theirs is in /run/user/UID, /tmp/cay-UID or the home that
 * /etc/passwd names, and there are names in the network namespace as well. Two runs at once never
 * have the same uid, and lock and name go with their holder. Names are anybody's to take: where
 * others have them, the lock is enough.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The user inside, in every sandbox that has a user namespace. */
#define SANDBOX_UID 1000
#define SANDBOX_GID 1000

enum identity_kind {
    IDENTITY_ROOT_SLOT, /* root gives a uid from a range that nobody else uses */
    IDENTITY_SUBUID,    /* a uid of the user's /etc/subuid range, by newuidmap */
    IDENTITY_OWN,       /* the caller's own uid */
};

struct identity {
    enum identity_kind kind;
    uid_t uid; /* on the host */
    gid_t gid;
    int lock_fd; /* -1 for IDENTITY_OWN, and where a user has no place for it */
    int name_fd; /* -1 but for IDENTITY_SUBUID */
};

/* state_fd is the folder that holds root's slot file. own: an ordinary user's own uid, although
 * others may be available, for a program that is to use the user's files. Returns -errno (-EBUSY:
 * all slots taken). */
int identity_take(int state_fd, bool own, struct identity *ret);
void identity_release(struct identity *who);

/* How many runs of the caller at once can have a uid each; 0: they have the caller's own uid, and
 * there may be any number. */
uint32_t identity_count(void);

/* Writes one line of a new namespace's map: file is "uid_map" or "gid_map". */
int userns_write_map(pid_t pid, const char *file, unsigned inside, unsigned outside);

/* How many ids /etc/subuid and /etc/subgid give to this user; 0: none. */
void subids_count(uid_t uid, uint32_t *ret_uids, uint32_t *ret_gids);

/* The user's name by /etc/passwd alone; false: there is none, or no room for it. */
bool user_name(uid_t uid, char *out, size_t size);

/* Who root's namespaces call root: a uid and gid that nobody has, for what is the network
 * namespace's. Beyond the slots. */
#define USERNS_ROOT_UID 0x70010002U

/* Maps SANDBOX_UID and SANDBOX_GID of the new namespace of pid to that identity, and where it is
 * IDENTITY_ROOT_SLOT, 0 to USERNS_ROOT_UID. */
int userns_map(pid_t pid, const struct identity *who);

/* Whose the user namespace of a run is, besides: nobody's, other runs' of an ordinary user, or
 * other tenants'. */
enum userns_owner { OWNER_OF_ONE, OWNER_OF_OWN, OWNER_OF_ALL };

/* In a user namespace of one's own, while the host's /proc is there: bounds what the kernel counts
 * for the user who made it together with all else of that user, so that one run can't use it up.
 * Skipped where it is not possible: a container may have /proc/sys read-only. Async-signal-safe. */
void userns_bound_own(enum userns_owner owner);

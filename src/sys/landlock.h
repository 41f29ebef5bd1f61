/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Landlock: a rule set over file hierarchies that a process puts on itself and can never take off.
 * Put on last, after all mounts, for it forbids mounting. Everything here is async-signal-safe and
 * returns -errno; -ENOSYS or -EOPNOTSUPP where the kernel has no landlock.
 */

enum landlock_access {
    LANDLOCK_READ,  /* read, list, execute */
    LANDLOCK_USE,   /* read and write what is there, make nothing (devices) */
    LANDLOCK_TTY,   /* the same for terminals, which are nothing without ioctl */
    LANDLOCK_WRITE, /* everything, renames between folders included */
};

struct landlock_rule {
    const char *path;
    enum landlock_access access;
};

/* The kernel's ABI version, or -errno. */
int landlock_abi(void);

/* Restricts the calling thread to these rules. Needs no_new_privs. */
int landlock_restrict(const struct landlock_rule *rules, unsigned n);

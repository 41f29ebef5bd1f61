/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the front gives up once everything is open: its user where that was root, its capabilities,
 * all files but its own (landlock), and with a filter (front.rows) nearly all of the kernel.
 *
 *     struct confine_user user;
 *     confine_find_user(&user);         what must belong to it can be given to it now
 *     ...
 *     if (confine(&user, cay, max_files, &no_landlock, &err) < 0) ...
 *
 * Nothing of it can be taken back.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cay;
struct cay_error;

/* Where there is no user `cay`: a uid right behind those of the sandboxes, which nobody has; that
 * of zygotes is the next one (backends/native/prewarm/zygote-host.h). */
#define FRONT_UID 0x70010000U

struct confine_user {
    uid_t uid;
    gid_t gid;
    bool is_changed; /* root becomes somebody else */
};

/* The user `cay` or FRONT_UID for root, the caller itself for others. */
void confine_find_user(struct confine_user *ret);

/* As many open files as may be had, up to max_files. Where there is no landlock, which is reported
 * apart, files are as open to it as to its user. */
int confine(const struct confine_user *user, const struct cay *cay, uint64_t max_files,
            struct cay_error *ret_no_landlock, struct cay_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A zygote from the warden's side: started, ordered, ended. zygote.h has the picture. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct language;
struct native;
struct pool_options;

/* The user that zygotes are, and that owns the user namespaces of sandboxes which they fork into,
 * where the warden is root: next to the range of the sandboxes' users, not in it, and not that of a
 * server's front either (service/confine.h), which could look into what is its own user's. */
#define ZYGOTE_UID 0x70010001U

struct zygote {
    int fd;
    pid_t pid;
    bool is_up;
    unsigned n_orders; /* without an answer yet */
    unsigned n_made, failures;
    int64_t started_ns;
};

/* Whether there is one for this language: a program cay-zygote-NAME, which is not the caller's own
 * file where the caller is an ordinary user. */
bool zygote_is_there(const struct pool_options *options, const struct language *language);

/* NULL when it can't be started; is_up comes later. */
struct zygote *zygote_start(const struct pool_options *options, const struct language *language,
                            int32_t number);

/* Takes in what it says. Returns -1 when it is of no use any more. */
int zygote_listen(struct zygote *zygote);

/* Lets it fork into this sandbox, whose pid 1 waits for that. Returns -errno. */
int zygote_order_one(struct zygote *zygote, struct native *native);

void zygote_end(struct zygote *zygote);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A runtime that can't be forked is started ahead in its sandbox, all layers on, and waits for its
 * job before it has read any code of it. Node:
 *
 *     pid 1 ─vfork─▶ node -r /dev/null /sandbox/main.js, in /, where for this while /dev/null is
 *                    cay-zygote-NAME.js that loads cay-zygote-NAME.node, which says hello on its
 *                    one extra fd and waits in C
 *     pid 1: /dev/null is /dev/null again, both files are gone; READY
 *     the job comes: streams, variables, argv; the fd is closed; node goes on to its main file
 *
 * In /, because Node remembers which folders it found no package.json in, and looks around itself
 * for what -r names.
 *
 * A name that is there later as well, and empty, because each thread that a program starts loads
 * what -r names once more.
 */

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct cay_error;
struct cay_limits;
struct language;
struct pool_options;

/* Where the runtime finds the socket that its job comes by: past all that it opens itself. */
enum { WARM_FD = 900 };

#define WARM_HOOK  "/dev/null"
#define WARM_ADDON "/sandbox/.cay-addon" /* until it is loaded */

/* For pid 1; files are -1 where this is none. */
struct warm {
    int hook_fd, addon_fd;
    char **argv, **env;
};

#define WARM_INIT                      \
    {                                  \
        .hook_fd = -1, .addon_fd = -1, \
    }

/* Whether there is such a way to start this language ahead. */
bool warm_is_there(const struct pool_options *options, const struct language *language);

/* Opens the files and makes the words in the arena. */
int warm_make(struct arena *arena, const struct pool_options *options,
              const struct language *language, const struct cay_limits *limits, struct warm *ret,
              struct cay_error *err);
void warm_done(struct warm *warm);

/* In pid 1, async-signal-safe: the files are put where the runtime will look for them; and are
 * taken away. Return -errno. */
int warm_show(const struct warm *warm);
int warm_hide(void);

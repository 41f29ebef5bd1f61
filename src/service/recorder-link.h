/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The front's side of its recorder, which starts itself again when it fails. Where all of it is
 * gone, the monitor starts another: at once, and ever later if that does not live. What is answered
 * meanwhile waits in the journal.
 */

#include <stdbool.h>
#include <stdint.h>

struct cay_error;
struct server;

/* Answers what it says, from here on. */
int recorder_link_watch(struct server *server, struct cay_error *err);

/* Starts another one, when it is time to. */
void recorder_link_tick(struct server *server, int64_t now_ns);

/* "ok", "restarting", "failing": it can't take in what is answered, or "hung": it says nothing. */
const char *recorder_link_word(const struct server *server);

/* What was lost of records in the last day, as far as the recorder knows. */
unsigned recorder_link_losses(const struct server *server);

bool recorder_link_is_gone(const struct server *server);

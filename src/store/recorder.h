/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The recorder: a server's process that imports its journals, fills the history, and answers what
 * the front asks (history-client.h). It imports as soon as something was written, at most ten times
 * a second, and everything that is left when the front is gone.
 *
 *     front ──one write──▶ journal ──▶ recorder ──▶ audit log, executions, artifacts, history.db
 *       ▲────────────── questions, answers ──▲
 *
 * It is the user that the server was started as, for the state folder is that user's, but has no
 * capability, can reach no file outside the state folder (landlock) and make few system calls
 * (recorder.rows); what the front wrote it can read by the journal's group.
 *
 * A full or slow disk or a damaged database is reported, and tried again; the journal holds what is
 * not imported yet.
 */

struct cay_error;

/* Serves until the socket is closed. on_error is called for what goes wrong, but not repeatedly for
 * the same thing. Returns 0, or -1 where it could not begin. */
int recorder_serve(int socket_fd, void (*on_error)(const struct cay_error *err),
                   struct cay_error *err);

/* The same in a process of its own, which is started anew when it dies by a signal. Returns the
 * exit status of the last. */
int recorder_watch_over(int socket_fd, void (*on_error)(const struct cay_error *err));

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `cay run --server URL`: the request goes to that server over HTTP, and what comes back is shown
 * as if it had run here. The run is detached there, so that a connection that is lost costs
 * nothing: its events are asked for anew behind the last one that came. Stopping the command
 * cancels the run. In cay-full only, which `cay` becomes (exec-full.c).
 */

struct cay_error;
struct run_view;

/* CAY_E_USAGE for what can't be asked for over HTTP, or does not go together with it. */
int remote_check(const struct run_view *view, struct cay_error *err);

/* Runs the view's request there. Bytes of cancel_fd are signals, as of struct cay_run_options.
 * *ret_status is the command's own. -1: there is no result. */
int remote_run(struct run_view *view, int cancel_fd, int *ret_status, struct cay_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What exec.c and exec-streams.c share. */

#include "engine/exec.h"

extern const struct loop_kind exec_kind;

int exec_make_streams(struct exec *exec, const struct exec_options *options, struct cay_error *err);

/* Gives the input that is there already, as far as the pipe takes it. */
void exec_feed_first(struct exec *exec);

/* epoll follows that fd; from now on output is read. */
void exec_watch(struct exec *exec, enum exec_fd which, int fd);
void exec_watch_output(struct exec *exec);

/* It has written more than it may. */
void exec_stop_output(struct exec *exec);

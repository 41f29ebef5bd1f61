/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A change set as people read it: what `cay run`, `cay show` and `cay apply` share. Names and lines
 * of files are a program's doing: nothing in them reaches a terminal raw. */

#include <stdbool.h>
#include <stddef.h>

#include <cay/executions.h>

struct strbuf;

/* "12 bytes", "4.5 kB", "45 MB". */
void changes_bytes_text(char out[static 32], uint64_t bytes);

/* A name, with everything that is not plain text made visible. */
void changes_put_path(struct strbuf *out, const char *path);

/* A line for each path that the globs ask for (NULL: all), at most max (0: all) of them; returns
 * how many are left out. */
size_t changes_put_list(struct strbuf *out, const struct cay_execution *run,
                        const char *const *only, size_t max, bool color);

/* "2 created, 1 changed, 3 deleted". */
void changes_put_sums(struct strbuf *out, const struct cay_change_sums *sums);

/* Writes the differences to an fd, coloured where asked to. Returns the exit status. */
int changes_print_diff(const struct cay_execution *run, const char *const *only, int fd,
                       bool color);

/* Prints an error of apply or discard. If the run has no changes, a hint names the newest run that
 * has some: seldom does the user mean the last one of all. Returns the exit status. */
int changes_print_error(const struct cay_execution *run, const struct cay_error *err);

/* What is said on stderr after a run that changed its workspace: how much, what of it destroys
 * something, and how to go on. */
void changes_print_summary(const struct cay_execution *run);

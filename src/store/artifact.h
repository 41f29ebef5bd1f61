/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Artifacts: code and result of a run as one JSON file, for people and programs that look for what
 * was run rather than for an id. Only where store_code allows to keep the code at all.
 *
 *     artifacts/executions/20261115T191302.123Z-1f0c5a….json      time and hash of the code
 *
 * They are pruned by the same settings as executions.
 */

#include <stddef.h>
#include <stdint.h>

struct record_keep;
struct record_text;

/* The text's extra line holds the code. Returns -errno. */
int artifact_store(int state_fd, const struct record_text *text);

/* Removes those past a number, an age, or a sum of bytes, oldest first. fn (may be NULL) is called
 * for each; a dry run removes none. Returns how many. */
typedef void artifact_fn(void *arg, const char *what, const char *name);
size_t artifact_prune(int state_fd, const struct record_keep *keep, int64_t now_s, int dry_run,
                      artifact_fn *fn, void *arg);

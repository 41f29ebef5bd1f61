/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Files of records that were pruned, emptied and kept for the next ones, up to some hundreds. To
 * make a file ext4 looks at every inode that was freed in the last minutes, one by one: where each
 * run makes a record and another goes, that takes longer than all the rest of writing it down. What
 * somebody asked to be removed is removed.
 */

#include <stdbool.h>

/* Keeps the emptied file of an execution's record. False: it is still there. */
bool record_free_keep(int executions_fd, const char *name, const char *id);

/* An empty file that is not kept any more, open for writing and named temporary (at least 48
 * bytes); -1: there is none at hand, and name is "". */
int record_free_take(int executions_fd, const char *id, char *ret_name);

/* Whether this is such a name, of a writer that died. */
bool record_free_is_lost(const char *name);

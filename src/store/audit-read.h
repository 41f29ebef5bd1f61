/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Going through the lines of the audit log, file by file; what is in them is for others to judge.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cay/record.h>

#include "store/audit.h"

/* The log at one moment. Files `first` to `last` - 1 have numbers, `last` is audit.jsonl. */
struct audit_files {
    uint64_t first, last;
    int log_fd; /* -1: there is none */
    uint64_t log_size;
    int head_rc; /* 0, or why there is no anchor: -ENOENT, -EINVAL, … */
    struct audit_head head;
};

int audit_files_open(int state_fd, struct audit_files *files);
void audit_files_close(struct audit_files *files);

/* A line without its newline; end is the offset behind it; a last one without a newline is not
 * whole. One that is longer than AUDIT_LINE_MAX is given as an empty one. */
typedef int audit_text_fn(void *arg, const char *line, size_t len, uint64_t end, bool is_whole);

/* Reads a file from an offset on; a negative answer ends it and is returned. */
int audit_files_read(int state_fd, const struct audit_files *files, uint64_t number, uint64_t at,
                     audit_text_fn *fn, void *arg);

/* cay_audit_read and cay_audit_verify, in a folder that is given. */
int audit_read_at(int state_fd, struct cay_audit_place *place, cay_audit_fn *fn, void *arg,
                  struct cay_error *err);
int audit_verify_at(int state_fd, cay_audit_finding_fn *fn, void *arg,
                    struct cay_audit_summary *ret, struct cay_error *err);

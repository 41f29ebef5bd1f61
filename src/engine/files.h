/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `files` of the result: what changed in the workspace, and the files that were collected. */

#include <stddef.h>

struct arena;
struct cay_result;
struct changes;
struct harvest;
struct payload_source;
struct value;

/* Bounds of what a result holds; what is past them is left out, with a warning that says so. The
 * change set itself is whole in any case. */
enum { FILES_MAX = 100000, COLLECT_FILES_MAX = 1000, COLLECT_BYTES_MAX = 32 << 20 };

/* Fills in result->files. A collected file of /sandbox is compared with the request's own, one of
 * /workspace with the host's; one that is as it was is listed as unchanged. */
void files_list(struct arena *arena, const struct harvest *harvest, const struct changes *changes,
                const struct payload_source *given, struct cay_result *result,
                struct value *warnings);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How many of the warden's open files may be those of what is made ahead: a quarter of the limit,
 * which is what connections have of the front's (service/service-open.c). The rest is for runs. Where the
 * limit is as high as it mostly is, other bounds are reached first.
 */

#include <stdbool.h>
#include <stdint.h>

/* About as many as a spare holds, in the warden, where it holds the most (cgroup v1). */
enum { FILES_PER_SPARE = 20 };

uint64_t pool_files_max(uint64_t limit);

/* How many spares each of so many classes may have. */
unsigned pool_files_share(uint64_t max, unsigned n_classes);

/* Whether there is room for one more spare beside n. */
bool pool_files_has_room(uint64_t max, unsigned n);

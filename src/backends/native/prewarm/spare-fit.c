/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/prewarm/spare-fit.h"

#include <unistd.h>

#include "backends/native/native.h"

/* What was set ahead can be lowered and not raised; and a runtime that was started has read all of
 * it. */
static bool fits_limits(const struct native *native, const struct cay_limits *wanted)
{
    const struct cay_limits *made = &native->spec.limits;
    bool has_same_time = wanted->cpu_time_ns == made->cpu_time_ns;

    if (native->spare == SPARE_WARM)
        return wanted->memory_bytes == made->memory_bytes && has_same_time &&
               wanted->open_files == made->open_files && wanted->pids == made->pids;
    return wanted->open_files <= made->open_files && wanted->pids <= made->pids &&
           (has_same_time || made->cpu_time_ns == 0 ||
            (wanted->cpu_time_ns > 0 && wanted->cpu_time_ns < made->cpu_time_ns));
}

/* Of one that is ready the disk can be bounded anew from outside, by root. */
static bool fits_disk(const struct native *native, const struct cay_limits *wanted)
{
    const struct cay_limits *made = &native->spec.limits;
    bool can_bound = native->root_fd >= 0 && geteuid() == 0;

    return can_bound || (wanted->disk_bytes == made->disk_bytes && wanted->inodes == made->inodes);
}

bool spare_fits(const struct native *native, const struct sandbox_spec *spec)
{
    enum start_kind kind = native->spare == SPARE_EXEC ? START_SPARE : START_WARM;

    return spec->start >= kind && !(spec->require & ~native->layers) &&
           fits_disk(native, &spec->limits) && fits_limits(native, &spec->limits);
}

bool spare_takes(const struct native *native, const struct exec_spec *exec)
{
    return native->spare != SPARE_NONE && !native->has_run && exec->owns_sandbox &&
           !exec->has_terminal && !exec->is_compiler && fits_limits(native, &exec->limits);
}

bool spare_may_serve(const struct sandbox_spec *spec)
{
    for (int i = 0; i < SANDBOX_FOLDERS; i++)
        if (spec->folder_fds[i] >= 0)
            return false;
    return !spec->has_terminals && !spec->is_restricted && !spec->image[0] &&
           spec->start > START_COLD;
}

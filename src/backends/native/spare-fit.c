/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/spare-fit.h"

#include <unistd.h>

#include "backends/native/native.h"

/* What was set ahead can be lowered and not raised; and a runtime that was started has read all of
 * it. */
static bool fits_limits(const struct native *native, const struct cay_limits *wanted)
{
    const struct cay_limits *made = &native->job.limits[0];
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
    const struct cay_limits *made = &native->job.limits[0];
    bool can_bound = native->root_fd >= 0 && geteuid() == 0;

    return can_bound || (wanted->disk_bytes == made->disk_bytes && wanted->inodes == made->inodes);
}

bool spare_fits(const struct native *native, const struct job *job)
{
    enum start_kind kind = native->spare == SPARE_EXEC ? START_SPARE : START_WARM;

    return job->start >= kind && !(job->require & ~native->layers) &&
           fits_disk(native, &job->limits[job->n_stages - 1]) &&
           fits_limits(native, &job->limits[0]);
}

bool spare_may_serve(const struct job *job)
{
    for (int i = 0; i < JOB_FOLDERS; i++)
        if (job->folder_fds[i] >= 0)
            return false;
    return !job->tty && !job->is_restricted && !job->image[0] && job->start > START_COLD;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/rlimit.h"

#include <sys/resource.h>

#include "base/auto.h"
#include "base/clock.h"
#include "sys/spawn.h"

#define ANY RLIM_INFINITY

enum { STACK_BYTES = 8 << 20, LOCKED_BYTES = 8 << 20, QUEUE_BYTES = 819200, SIGNALS_MAX = 1024 };

_Static_assert(RLIM_NLIMITS == 16, "one of them is in no row");

int rlimit_set_program(const struct rlimit_program *wanted)
{
    uint64_t cpu_s = (uint64_t)((wanted->cpu_time_ns + NS_PER_SEC - 1) / NS_PER_SEC);
    uint64_t data = wanted->data_bytes ? wanted->data_bytes : ANY;
    uint64_t file = wanted->file_bytes ? wanted->file_bytes : ANY;
    const struct {
        int resource;
        bool is_of_user; /* counted for the uid, in all its processes */
        uint64_t soft, hard;
    } rows[] = {
        { RLIMIT_NOFILE, false, wanted->open_files, wanted->open_files },
        { RLIMIT_CORE, false, 0, 0 },
        /* Behind the cgroup and the warden's clock. */
        { RLIMIT_NPROC, true, wanted->tasks, wanted->tasks },
        { RLIMIT_CPU, false, cpu_s ? cpu_s + 1 : ANY, cpu_s ? cpu_s + 2 : ANY },
        { RLIMIT_DATA, false, data, data },
        { RLIMIT_FSIZE, false, file, file },
        { RLIMIT_STACK, false, STACK_BYTES, ANY },
        { RLIMIT_MEMLOCK, false, LOCKED_BYTES, LOCKED_BYTES },
        { RLIMIT_MSGQUEUE, true, QUEUE_BYTES, QUEUE_BYTES },
        /* Counted for the user who made the namespace too, with all that this user has. */
        { RLIMIT_SIGPENDING, true, SIGNALS_MAX, SIGNALS_MAX },
        /* Nobody goes before others. */
        { RLIMIT_NICE, false, 0, 0 },
        { RLIMIT_RTPRIO, false, 0, 0 },
        /* Of no use here, and a caller's would end a program for what it did not do. */
        { RLIMIT_AS, false, ANY, ANY },
        { RLIMIT_RSS, false, ANY, ANY },
        { RLIMIT_LOCKS, false, ANY, ANY },
        { RLIMIT_RTTIME, false, ANY, ANY },
    };
    _Static_assert(ARRAY_LEN(rows) == RLIM_NLIMITS, "each once");

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].is_of_user && !wanted->has_own_uid)
            continue;
        int rc = spawn_rlimit(rows[i].resource, rows[i].soft, rows[i].hard);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static void raise_to_hard(int resource)
{
    struct rlimit limit;

    if (getrlimit(resource, &limit) < 0 || limit.rlim_cur >= limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(resource, &limit);
}

void rlimit_raise_files(void)
{
    raise_to_hard(RLIMIT_NOFILE);
}

void rlimit_raise_sums(void)
{
    static const int sums[] = { RLIMIT_SIGPENDING, RLIMIT_MEMLOCK, RLIMIT_MSGQUEUE };
    const struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY };

    for (unsigned i = 0; i < ARRAY_LEN(sums); i++)
        if (setrlimit(sums[i], &none) < 0)
            raise_to_hard(sums[i]);
}

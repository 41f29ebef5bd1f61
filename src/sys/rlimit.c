/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/rlimit.h"

#include <sys/resource.h>

#include "base/auto.h"

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

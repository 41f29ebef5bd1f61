/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/cpu.h"

void cpu_allowed(cpu_set_t *ret)
{
    if (sched_getaffinity(0, sizeof *ret, ret) < 0)
        CPU_ZERO(ret);
}

void cpu_send_elsewhere(pid_t pid, const cpu_set_t *allowed)
{
    cpu_set_t cpus = *allowed;
    int here = sched_getcpu();

    if (here < 0 || here >= CPU_SETSIZE)
        return;
    CPU_CLR(here, &cpus);
    if (CPU_COUNT(&cpus) > 0)
        sched_setaffinity(pid, sizeof cpus, &cpus);
}

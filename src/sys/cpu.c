/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/cpu.h"

#include <sched.h>

void cpu_send_elsewhere(pid_t pid)
{
    cpu_set_t cpus;
    int here = sched_getcpu();

    if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(0, sizeof cpus, &cpus) < 0)
        return;
    CPU_CLR(here, &cpus);
    if (CPU_COUNT(&cpus) > 0)
        sched_setaffinity(pid, sizeof cpus, &cpus);
}

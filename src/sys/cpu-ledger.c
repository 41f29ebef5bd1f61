/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/cpu-ledger.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"

/* Those behind so many are not remembered. */
enum { LINES_MAX = 4096 };

struct cpu_line {
    pid_t pid;
    int64_t ns;
};

int cpu_ledger_init(struct cpu_ledger *ledger)
{
    struct cpu_line *lines = mmap(NULL, sizeof *lines * 2 * LINES_MAX, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (lines == MAP_FAILED)
        return -errno;
    *ledger = (struct cpu_ledger){ .now = lines, .before = lines + LINES_MAX };
    return 0;
}

void cpu_ledger_clear(struct cpu_ledger *ledger)
{
    ledger->n_now = ledger->n_before = 0;
    ledger->living_ns = ledger->gone_ns = 0;
}

void cpu_ledger_begin(struct cpu_ledger *ledger)
{
    struct cpu_line *lines = ledger->before;

    ledger->before = ledger->now;
    ledger->n_before = ledger->n_now;
    ledger->now = lines;
    ledger->n_now = 0;
    ledger->living_ns = 0;
}

/* Finer than the ticks of /proc/PID/stat, in which a short life leaves no trace. */
void cpu_ledger_add(struct cpu_ledger *ledger, pid_t pid)
{
    clockid_t clock;
    struct timespec used;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) < 0)
        return;
    int64_t ns = used.tv_sec * NS_PER_SEC + used.tv_nsec;
    ledger->living_ns += ns;
    if (ledger->n_now < LINES_MAX)
        ledger->now[ledger->n_now++] = (struct cpu_line){ pid, ns };
}

/* Both are in the order of numbers. Time does not run back: one that has less than before is
 * another one. */
void cpu_ledger_end(struct cpu_ledger *ledger)
{
    unsigned at = 0;

    for (unsigned i = 0; i < ledger->n_before; i++) {
        const struct cpu_line *old = &ledger->before[i];
        while (at < ledger->n_now && ledger->now[at].pid < old->pid)
            at++;
        bool is_there =
            at < ledger->n_now && ledger->now[at].pid == old->pid && ledger->now[at].ns >= old->ns;
        ledger->gone_ns += is_there ? 0 : old->ns;
    }
}

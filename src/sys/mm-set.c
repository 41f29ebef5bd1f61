/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/mm-set.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"

/* Those that come behind so many count each for itself. */
enum { KNOWN_MAX = 4096 };

struct mm_known {
    pid_t thread;
    uint64_t size;
    struct mm_use use;
};

int mm_set_init(struct mm_set *set)
{
    void *list = mmap(NULL, KNOWN_MAX * sizeof *set->list, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (list == MAP_FAILED)
        return -errno;
    *set = (struct mm_set){ .list = list };
    return 0;
}

void mm_set_begin(struct mm_set *set, bool is_by_size)
{
    set->sum = (struct mm_use){ 0 };
    set->n = 0;
    set->is_by_size = is_by_size;
}

/* 0: the same address space; else which comes first. What can't be compared is not the same. */
static int compare(const struct mm_set *set, const struct mm_known *known, pid_t thread,
                   uint64_t size)
{
    enum { SAME = 0, LESS = 1 };

    if (set->is_by_size && known->size != size)
        return known->size < size ? -1 : 1;
    long order = syscall(SYS_kcmp, known->thread, thread, KCMP_VM, 0, 0);
    return order == SAME ? 0 : order == LESS ? -1 : 1;
}

/* Adds what the new figure has more than the one that was counted. */
static void add_rest(uint64_t *sum, uint64_t *counted, uint64_t now)
{
    *sum += now - MIN(now, *counted);
    *counted = MAX(now, *counted);
}

void mm_set_add(struct mm_set *set, pid_t thread, uint64_t size, const struct mm_use *use)
{
    struct mm_known fresh = { .thread = thread, .size = size };
    struct mm_known *known = &fresh;
    unsigned low = 0, high = set->n;

    while (low < high && known == &fresh) {
        unsigned middle = low + (high - low) / 2;
        int order = compare(set, &set->list[middle], thread, size);
        if (order == 0)
            known = &set->list[middle];
        else if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (known == &fresh && set->n < KNOWN_MAX) {
        known = &set->list[low];
        memmove(known + 1, known, (set->n - low) * sizeof *known);
        *known = fresh;
        set->n++;
    }
    add_rest(&set->sum.anon, &known->use.anon, use->anon);
    add_rest(&set->sum.shmem, &known->use.shmem, use->shmem);
    add_rest(&set->sum.tables, &known->use.tables, use->tables);
    add_rest(&set->sum.n_maps, &known->use.n_maps, use->n_maps);
}

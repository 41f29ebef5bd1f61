/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The memory of many processes as one sum, in which each address space counts once. A child of
 * vfork(2) or posix_spawn(3) lives in that of its parent until it executes, and /proc shows all of
 * it for both. Who shares is asked of the kernel (kcmp(2)), never guessed by who is whose parent.
 *
 *     mm_set_begin(&set, true);
 *     for each process
 *         mm_set_add(&set, thread, size, &use);
 *     ... set.sum ...
 *
 * Of those that share one, the largest figures count: a look at /proc is no snapshot, and what came
 * to be mapped in between must not be lost. Where the kernel does not say, each counts.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mm_use {
    uint64_t anon, shmem, tables; /* bytes */
    uint64_t n_maps;              /* mappings */
};

struct mm_known;

struct mm_set {
    struct mm_use sum;
    struct mm_known *list; /* in the order that kcmp has for them */
    unsigned n;
    bool is_by_size;
};

/* Its room; never given back. -errno. */
int mm_set_init(struct mm_set *set);

/* Empties it. By size: only those are compared whose address spaces have the same size, which is
 * quicker, and misses one that just grew. Async-signal-safe, as what follows. */
void mm_set_begin(struct mm_set *set, bool is_by_size);

/* The thread is one that lives: of a process whose first thread has ended, another. */
void mm_set_add(struct mm_set *set, pid_t thread, uint64_t size, const struct mm_use *use);

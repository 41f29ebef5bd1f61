/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which pages a zygote hands on. Each that is mapped costs a fork and an exit some tenths of a
 * microsecond, each that is not a page fault where it is needed: it should be just those that a
 * short program needs. What they are, one tells that was forked to find out:
 *
 *     zygote     pages_list, then forks
 *     profiling run    pages_forget; does what a program does; pages_tell
 *     zygote     pages_keep: has those that were needed, and no others
 *
 * Where there was no profiling run, or it did not get to its end, what the zygote has is what it hands
 * on. Pages can be given back where they are as in their file: code and constants, and by
 * pages_list what the interpreter has made since its start, too, which it turns into private
 * mappings of sealed files in memory. What is written to after that stays; nothing can be lost.
 * Where there are other threads, only what nobody can write to is given back.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pages {
    struct area *areas;
    size_t n_areas;
    unsigned char
        *are_needed; /* a page each; shared with the profiling run. The last: it was told */
    size_t n_pages;
};

/* With an empty list where there is no looking at pages. */
void pages_list(struct pages *pages);

void pages_forget(const struct pages *pages);
void pages_tell(const struct pages *pages);

/* Frees pages. */
void pages_keep(struct pages *pages);

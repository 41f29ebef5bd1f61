/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which pages of files a zygote hands on. Code and constants of its libraries take a page fault
 * each where they are not handed on, and a fork and an exit more, some tenths of a microsecond for
 * each page, where they are: it should be just those that a short program needs. Which these are,
 * one tells that was forked to find out:
 *
 *     zygote     pages_list, then forks
 *     rehearsal    pages_forget; does what a program does; pages_tell
 *     zygote     pages_keep: has those that were needed, and no others
 *
 * Where there was no rehearsal, or it did not get to its end, what the zygote has is what it hands
 * on. Only what is as in its file is ever given back: nothing can be lost by it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pages {
    struct area *areas;
    size_t n_areas;
    unsigned char *are_needed; /* a page each; shared with the rehearsal. The last: it was told */
    size_t n_pages;
};

/* Leaves pages empty where it can't be found out. */
void pages_list(struct pages *pages);

void pages_forget(const struct pages *pages);
void pages_tell(const struct pages *pages);

/* Frees pages. */
void pages_keep(struct pages *pages);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Memory that the warden shares with pid 1 of a spare: a page for each, out of one mapping. A
 * mapping for each would take the kernel longer to make and to end, and every fork of the warden's
 * would have to step over all of them.
 *
 * No child gets any of it along but the page that is open while it is made: between
 * shared_page_open and shared_page_close.
 */

#include <stddef.h>
#include <stdint.h>

enum { SHARED_PAGES = 1024 };

struct shared_pages {
    char *base; /* NULL: there are none */
    size_t page_bytes;
    uint64_t used[SHARED_PAGES / 64];
};

int shared_pages_init(struct shared_pages *pages);
void shared_pages_done(struct shared_pages *pages);

/* Zeroed; NULL: all are taken. */
void *shared_page_take(struct shared_pages *pages);
void shared_page_give(struct shared_pages *pages, void *page);

/* For the next child. -errno. */
int shared_page_open(const struct shared_pages *pages, void *page);
void shared_page_close(const struct shared_pages *pages, void *page);

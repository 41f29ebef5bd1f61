/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/shared-pages.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"

int shared_pages_init(struct shared_pages *pages)
{
    *pages = (struct shared_pages){ .page_bytes = (size_t)sysconf(_SC_PAGESIZE) };
    size_t size = SHARED_PAGES * pages->page_bytes;
    char *base =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (base == MAP_FAILED)
        return -errno;
    if (madvise(base, size, MADV_DONTFORK) < 0) {
        int rc = -errno;
        munmap(base, size);
        return rc;
    }
    pages->base = base;
    return 0;
}

void shared_pages_done(struct shared_pages *pages)
{
    if (pages->base)
        munmap(pages->base, SHARED_PAGES * pages->page_bytes);
    pages->base = NULL;
}

void *shared_page_take(struct shared_pages *pages)
{
    for (size_t i = 0; i < ARRAY_LEN(pages->used) && pages->base; i++) {
        if (pages->used[i] == UINT64_MAX)
            continue;
        unsigned bit = (unsigned)__builtin_ctzll(~pages->used[i]);
        pages->used[i] |= UINT64_C(1) << bit;
        return memset(pages->base + (i * 64 + bit) * pages->page_bytes, 0, pages->page_bytes);
    }
    return NULL;
}

void shared_page_give(struct shared_pages *pages, void *page)
{
    size_t number = (size_t)((char *)page - pages->base) / pages->page_bytes;

    pages->used[number / 64] &= ~(UINT64_C(1) << number % 64);
}

int shared_page_open(const struct shared_pages *pages, void *page)
{
    return madvise(page, pages->page_bytes, MADV_DOFORK) < 0 ? -errno : 0;
}

void shared_page_close(const struct shared_pages *pages, void *page)
{
    madvise(page, pages->page_bytes, MADV_DONTFORK);
}

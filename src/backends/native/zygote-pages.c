/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/zygote-pages.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"

/* Newer than Debian 12's headers (Linux 6.7). */
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif

/* Of an entry of /proc/PID/pagemap. */
#define ENTRY_PRESENT (UINT64_C(1) << 63)
#define ENTRY_SWAPPED (UINT64_C(1) << 62)
#define ENTRY_OF_FILE (UINT64_C(1) << 61)

enum { ENTRIES = 512 };

struct area {
    const char *start;
    size_t n_pages;
    size_t first; /* its place in are_needed */
};

/* ---- what is there ---- */

/* Looks at each page; false where one is the process's own, as what the loader has relocated. */
static bool look_at(int pagemap, const struct area *area, unsigned char *ret_is_there)
{
    uint64_t entries[ENTRIES];

    for (size_t at = 0; at < area->n_pages; at += ENTRIES) {
        size_t n = MIN(area->n_pages - at, (size_t)ENTRIES);
        off_t place =
            (off_t)(((uintptr_t)area->start / (size_t)getpagesize() + at) * sizeof *entries);
        if (pread(pagemap, entries, n * sizeof *entries, place) != (ssize_t)(n * sizeof *entries))
            return false;
        for (size_t i = 0; i < n; i++) {
            bool is_there = entries[i] & ENTRY_PRESENT;
            if ((entries[i] & ENTRY_SWAPPED) || (is_there && !(entries[i] & ENTRY_OF_FILE)))
                return false;
            if (ret_is_there)
                ret_is_there[at + i] = is_there;
        }
    }
    return true;
}

/* One that is mapped from a file to be read only; what can't be read is the gap between two
 * segments. */
static bool parse_area(const char *line, struct area *ret)
{
    unsigned long start, end;
    char rights[5];

    if (!strchr(line, '/') || sscanf(line, "%lx-%lx %4s", &start, &end, rights) != 3 ||
        rights[0] != 'r' || rights[1] == 'w' || rights[3] != 'p')
        return false;
    *ret = (struct area){
        .start = (const char *)start,
        .n_pages = (end - start) / (size_t)getpagesize(),
    };
    return true;
}

void pages_list(struct pages *pages)
{
    auto_close int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    FILE *maps = pagemap < 0 ? NULL : fopen("/proc/self/maps", "re");
    char line[4352];
    struct area area;

    *pages = (struct pages){ 0 };
    while (maps && fgets(line, sizeof line, maps)) {
        if (!parse_area(line, &area) || !look_at(pagemap, &area, NULL))
            continue;
        area.first = pages->n_pages;
        pages->n_pages += area.n_pages;
        pages->areas = mem_resize(pages->areas, (pages->n_areas + 1) * sizeof area);
        pages->areas[pages->n_areas++] = area;
    }
    if (maps)
        fclose(maps);
    void *map =
        mmap(NULL, pages->n_pages + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        pages->n_areas = 0;
    else
        pages->are_needed = map;
}

/* ---- in the rehearsal ---- */

/* The kernel maps fifteen others along with the one that is faulted in, but not where somebody may
 * want to know of each. Without (Linux 6.7 has it) more than what is needed is handed on. */
static void have_single_faults(const struct pages *pages)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC };

    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0)
        return;
    for (size_t i = 0; i < pages->n_areas; i++) {
        struct uffdio_register area = {
            .range = { .start = (uintptr_t)pages->areas[i].start,
                       .len = pages->areas[i].n_pages * (size_t)getpagesize() },
            .mode = UFFDIO_REGISTER_MODE_WP,
        };
        ioctl(fd, UFFDIO_REGISTER, &area);
    }
}

static void give_back(const char *start, size_t n)
{
    madvise((void *)(uintptr_t)start, n * (size_t)getpagesize(), MADV_DONTNEED);
}

void pages_forget(const struct pages *pages)
{
    have_single_faults(pages);
    for (size_t i = 0; i < pages->n_areas; i++)
        give_back(pages->areas[i].start, pages->areas[i].n_pages);
}

void pages_tell(const struct pages *pages)
{
    if (pages->n_areas == 0)
        return;
    auto_close int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

    for (size_t i = 0; i < pages->n_areas; i++) {
        const struct area *area = &pages->areas[i];
        if (!look_at(pagemap, area, pages->are_needed + area->first))
            return;
    }
    pages->are_needed[pages->n_pages] = true;
}

/* ---- what is kept ---- */

/* A fork copies the page tables of what was written to, and leaves the rest to be faulted in. So
 * one byte of one that is needed is written, as what it is. Where the kernel does not let us, it is
 * slower. */
static void have_table_copied(int mem, const volatile char *page)
{
    char byte = *page;

    if (mem >= 0 && pwrite(mem, &byte, 1, (off_t)(uintptr_t)page) < 0)
        return;
}

static void keep_area(const struct area *area, const unsigned char *are_needed, int mem)
{
    const size_t page_bytes = (size_t)getpagesize();
    bool is_copied = false;

    for (size_t i = 0; i < area->n_pages; i++) {
        if (!are_needed[i])
            continue;
        const volatile char *page = area->start + i * page_bytes;
        if (!is_copied)
            have_table_copied(mem, page);
        is_copied = true;
        (void)*page;
    }
    for (size_t i = 0, n; i < area->n_pages; i += n) {
        for (n = 1; i + n < area->n_pages && are_needed[i] == are_needed[i + n];)
            n++;
        if (!are_needed[i])
            give_back(area->start + i * page_bytes, n);
    }
}

void pages_keep(struct pages *pages)
{
    auto_close int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

    if (pages->n_areas > 0 && !pages->are_needed[pages->n_pages])
        pages_tell(pages);
    for (size_t i = 0; i < pages->n_areas; i++)
        keep_area(&pages->areas[i], pages->are_needed + pages->areas[i].first, mem);
    if (pages->are_needed)
        munmap(pages->are_needed, pages->n_pages + 1);
    free(pages->areas);
    *pages = (struct pages){ 0 };
}

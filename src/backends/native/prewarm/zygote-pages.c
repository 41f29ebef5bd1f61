/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/prewarm/zygote-pages.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"

/* Newer than Debian 12's headers (Linux 6.7). */
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif

/* Of an entry of /proc/PID/pagemap. */
#define ENTRY_PRESENT (UINT64_C(1) << 63)
#define ENTRY_OF_FILE (UINT64_C(1) << 61)

enum {
    ENTRIES = 512,
    SETTLE_MIN = 32, /* pages: fewer are not worth a mapping of their own */
    SETTLE_GAP = 4,  /* a hole of as many pages is left one, and what is beyond it is another */
};

struct area {
    char *start;
    size_t n_pages;
    size_t first; /* its place in are_needed */
    bool is_of_file;
    bool is_writable;
    bool is_data; /* writable, with nothing special about it */
};

/* ---- what is there ---- */

/* A private mapping that can be read: what can't is the gap between two segments. */
static bool parse_area(const char *line, struct area *ret)
{
    char *rights;
    unsigned long start = strtoul(line, &rights, 16);
    unsigned long end = *rights == '-' ? strtoul(rights + 1, &rights, 16) : 0;

    if (end <= start || strncmp(rights, " r", 2) != 0 || rights[4] != 'p')
        return false;
    rights++;
    *ret = (struct area){
        .start = (char *)start,
        .n_pages = (end - start) / (size_t)getpagesize(),
        .is_of_file = strchr(line, '/') != NULL,
        .is_writable = rights[1] == 'w',
        .is_data = rights[1] == 'w' && rights[2] != 'x' && !strstr(line, "[stack]"),
    };
    return true;
}

/* What a fork leaves out or wipes, what is locked, and what the kernel may drop. */
static bool has_special_flag(const char *line)
{
    static const char *const flags[] = { " dc", " wf", " lo", " dp" };

    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        if (strstr(line, flags[i]))
            return true;
    return false;
}

static size_t list_areas(struct area **ret)
{
    FILE *maps = fopen("/proc/self/smaps", "re");
    char line[4352];
    struct area area;
    size_t n = 0;
    bool is_in_list = false;

    *ret = NULL;
    while (maps && fgets(line, sizeof line, maps)) {
        if (strncmp(line, "VmFlags:", 8) == 0) {
            if (is_in_list && has_special_flag(line))
                (*ret)[n - 1].is_data = false;
        } else if (line[0] < 'A' || line[0] > 'Z') { /* an address; else more on the last one */
            is_in_list = parse_area(line, &area);
            if (!is_in_list)
                continue;
            *ret = mem_resize(*ret, (n + 1) * sizeof area);
            (*ret)[n++] = area;
        }
    }
    if (maps)
        fclose(maps);
    return n;
}

/* Calls what for each run of pages of which the kernel says the same. */
typedef void run_fn(const struct area *area, size_t at, size_t n, uint64_t entry, void *data);

static int for_each_run(int pagemap, const struct area *area, run_fn *what, void *data)
{
    uint64_t entries[ENTRIES];

    for (size_t at = 0, n; at < area->n_pages; at += n) {
        n = MIN(area->n_pages - at, (size_t)ENTRIES);
        size_t place = ((uintptr_t)area->start / (size_t)getpagesize() + at) * sizeof *entries;
        if (pread(pagemap, entries, n * sizeof *entries, (off_t)place) !=
            (ssize_t)(n * sizeof *entries))
            return -1;
        for (size_t i = 0, end; i < n; i = end) {
            uint64_t entry = entries[i] & (ENTRY_PRESENT | ENTRY_OF_FILE);
            for (end = i + 1; end < n; end++)
                if ((entries[end] & (ENTRY_PRESENT | ENTRY_OF_FILE)) != entry)
                    break;
            what(area, at + i, end - i, entry, data);
        }
    }
    return 0;
}

/* ---- what the interpreter has made, as a file ---- */

/* Puts a private mapping of a sealed file with the same content in the place of pages. */
static void settle(char *start, size_t len)
{
    auto_close int fd = memfd_create("cay-zygote", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    for (size_t done = 0; fd >= 0 && done < len;) {
        ssize_t n = write(fd, start + done, len - done);
        if (n <= 0)
            return;
        done += (size_t)n;
    }
    if (fd < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) < 0)
        return;
    if (mmap(start, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
        _exit(1); /* nothing may be there now */
}

struct extent {
    size_t first, end;
};

/* How many pages are one piece that malloc has mapped apart, if one begins here: what it has before
 * it is its length, and a bit that says so (glibc). realloc lets the kernel make it longer, and
 * beyond the end of a file there is nothing. Others that look the same are left out for nothing. */
static size_t mapped_apart(const char *page, size_t n_left)
{
    enum { IS_MAPPED = 2, BITS = 7 };
    const size_t *head = (const void *)page, page_bytes = (size_t)getpagesize();
    size_t len = head[1] & ~(size_t)BITS;

    return head[0] == 0 && (head[1] & BITS) == IS_MAPPED && len > 0 && len % page_bytes == 0 &&
                   len / page_bytes <= n_left
               ? len / page_bytes
               : 0;
}

static void settle_pages(const struct area *area, size_t first, size_t end)
{
    const size_t page_bytes = (size_t)getpagesize();

    if (end - first >= SETTLE_MIN)
        settle(area->start + first * page_bytes, (end - first) * page_bytes);
}

static void settle_extent(const struct area *area, struct extent *extent)
{
    size_t first = extent->first;

    for (size_t i = first, n; i < extent->end && !area->is_of_file; i += MAX(n, (size_t)1)) {
        n = mapped_apart(area->start + i * (size_t)getpagesize(), area->n_pages - i);
        if (n == 0)
            continue;
        settle_pages(area, first, i);
        first = i + n;
    }
    if (first < extent->end)
        settle_pages(area, first, extent->end);
    *extent = (struct extent){ 0 };
}

static void gather(const struct area *area, size_t at, size_t n, uint64_t entry, void *data)
{
    struct extent *extent = data;

    if (entry != ENTRY_PRESENT)
        return;
    if (at - extent->end >= SETTLE_GAP)
        settle_extent(area, extent);
    if (extent->end == 0)
        extent->first = at;
    extent->end = at + n;
}

/* Who could write meanwhile. */
static bool has_other_threads(void)
{
    struct stat st;

    return stat("/proc/self/task", &st) < 0 || st.st_nlink != 3; /* a folder each, and ., .. */
}

static void settle_all(int pagemap)
{
    struct area *areas;
    size_t n = list_areas(&areas);

    for (size_t i = 0; i < n; i++) {
        struct extent extent = { 0 };
        if (areas[i].is_data && for_each_run(pagemap, &areas[i], gather, &extent) == 0)
            settle_extent(&areas[i], &extent);
    }
    free(areas);
}

/* ---- in the zygote, before ---- */

/* What a program allocates would be put into the gaps of the heap, and each would have its page
 * copied; with the gaps filled, it is side by side at the end. From the largest down, until what
 * is given is past all that was there. */
static void fill_gaps(void)
{
    enum { LARGEST = 16 * 1024, SMALLEST = 24, STEP = 16, ALL_MAX = 8 << 20 };
    size_t left = ALL_MAX;

    for (size_t size = LARGEST + SMALLEST; size >= SMALLEST;
         size -= size > 1024 + SMALLEST ? 1024 : STEP) {
        const char *end = (const char *)sbrk(0) - mallinfo2().keepcost;
        char *block = malloc(size);
        for (; block && block < end && left > size; left -= size)
            block = malloc(size);
        free(block);
    }
}

void pages_list(struct pages *pages)
{
    auto_close int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

    *pages = (struct pages){ 0 };
    if (pagemap < 0)
        return;
    const bool is_alone = !has_other_threads();
    fill_gaps();
    if (is_alone)
        settle_all(pagemap);
    size_t n = list_areas(&pages->areas);
    for (size_t i = 0; i < n; i++) {
        struct area area = pages->areas[i];
        if (!area.is_of_file || (area.is_writable && !(area.is_data && is_alone)))
            continue;
        area.first = pages->n_pages;
        pages->n_pages += area.n_pages;
        pages->areas[pages->n_areas++] = area;
    }
    void *map =
        mmap(NULL, pages->n_pages + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        _exit(1);
    pages->are_needed = map;
}

/* ---- in the profiling run ---- */

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

/* Gives back those that are as in their file and not needed (all, without a list of these). */
static void give_back(const struct area *area, size_t at, size_t n, uint64_t entry, void *data)
{
    const unsigned char *are_needed = data;
    const size_t page_bytes = (size_t)getpagesize();

    if (entry != (ENTRY_PRESENT | ENTRY_OF_FILE))
        return;
    for (size_t i = at, end; i < at + n; i = end) {
        bool is_needed = are_needed && are_needed[area->first + i];
        for (end = i + 1; end < at + n; end++)
            if ((are_needed && are_needed[area->first + end]) != is_needed)
                break;
        if (!is_needed)
            madvise(area->start + i * page_bytes, (end - i) * page_bytes, MADV_DONTNEED);
    }
}

void pages_forget(const struct pages *pages)
{
    auto_close int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

    have_single_faults(pages);
    for (size_t i = 0; i < pages->n_areas; i++)
        for_each_run(pagemap, &pages->areas[i], give_back, NULL);
}

static void note(const struct area *area, size_t at, size_t n, uint64_t entry, void *data)
{
    unsigned char *are_needed = data;

    memset(are_needed + area->first + at, (entry & ENTRY_PRESENT) != 0, n);
}

void pages_tell(const struct pages *pages)
{
    if (pages->n_areas == 0)
        return;
    auto_close int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

    for (size_t i = 0; i < pages->n_areas; i++)
        if (for_each_run(pagemap, &pages->areas[i], note, pages->are_needed) < 0)
            return;
    pages->are_needed[pages->n_pages] = true;
}

/* ---- in the zygote, after ---- */

/* A fork copies the page tables of what was written to, and leaves the rest to be faulted in. So
 * one byte of one that is needed is written, as what it is. Where the kernel does not let us, it is
 * slower. */
static void have_table_copied(int mem, const volatile char *page)
{
    char byte = *page;

    if (mem >= 0 && pwrite(mem, &byte, 1, (off_t)(uintptr_t)page) < 0)
        return;
}

static void take(const struct area *area, const unsigned char *are_needed, int mem)
{
    bool is_first = true;

    for (size_t i = 0; i < area->n_pages; i++) {
        const volatile char *page = area->start + i * (size_t)getpagesize();
        if (!are_needed[area->first + i])
            continue;
        if (is_first)
            have_table_copied(mem, page);
        is_first = false;
        (void)*page;
    }
}

void pages_keep(struct pages *pages)
{
    auto_close int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    auto_close int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

    if (pages->n_areas > 0 && !pages->are_needed[pages->n_pages])
        pages_tell(pages);
    for (size_t i = 0; i < pages->n_areas; i++) {
        take(&pages->areas[i], pages->are_needed, mem);
        for_each_run(pagemap, &pages->areas[i], give_back, pages->are_needed);
    }
    if (pages->are_needed)
        munmap(pages->are_needed, pages->n_pages + 1);
    free(pages->areas);
    *pages = (struct pages){ 0 };
}

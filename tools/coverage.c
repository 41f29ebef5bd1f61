// SPDX-License-Identifier: Apache-2.0
/*
 * Linked into everything that a coverage build (-Db_coverage=true) makes, and into nothing else.
 *
 * gcc's counters are written to a file when a program calls exit(). Hardly any process of cay does:
 * they are killed, leave by _exit, have no files left, or may make no system call. So the counters
 * are moved into a file that all processes of one program share: coverage.ld puts them on pages of
 * their own, and a mapping of the file goes over these before main. What a child does after fork is
 * counted in the same place, whatever became of it: pid 1 of a sandbox, a program-to-be, one that
 * SIGKILL ended. Not counted is a program that is started where this file can't be opened: the init of a
 * container.
 *
 * With CAY_COVERAGE_DUMP in its environment a program does nothing but write what has been counted
 * for it to the .gcda files that gcov reads (tools/coverage.sh).
 */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* The linker's. */
extern const char __ehdr_start[] HIDDEN;
extern char cay_counters_start[] HIDDEN, cay_counters_end[] HIDDEN;

/* libgcov's: nothing is written to any file as long as dumped is set. */
extern struct {
    void *list;
    unsigned int dumped : 1;
    unsigned int run_counted : 1;
} __gcov_root HIDDEN;
void __gcov_dump(void);

/* COUNTERS/BUILD-ID: a copy of a program counts where the program does. */
static int name_file(char *ret, size_t size)
{
    const ElfW(Ehdr) *head = (const void *)__ehdr_start;
    const ElfW(Phdr) *part = (const void *)(__ehdr_start + head->e_phoff);
    const char *base = head->e_type == ET_EXEC ? NULL : __ehdr_start;

    for (int i = 0; i < head->e_phnum; i++, part++) {
        const char *at = base + part->p_vaddr;
        const char *end = at + part->p_memsz;

        while (part->p_type == PT_NOTE && at < end) {
            const ElfW(Nhdr) *note = (const void *)at;
            const unsigned char *id = (const void *)(note + 1) + ((note->n_namesz + 3U) & ~3U);

            if (note->n_type == NT_GNU_BUILD_ID) {
                int length = snprintf(ret, size, "%s/", CAY_COUNTERS);

                for (size_t k = 0; k < note->n_descsz; k++)
                    length += snprintf(ret + length, size - (size_t)length, "%02x", id[k]);
                return 0;
            }
            at = (const char *)id + ((note->n_descsz + 3U) & ~3U);
        }
    }
    return -1;
}

__attribute__((constructor)) static void share_counters(void)
{
    size_t size = (size_t)(cay_counters_end - cay_counters_start);
    char path[4096];

    __gcov_root.dumped = 1;
    if (size == 0 || name_file(path, sizeof path) < 0)
        return;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    /* Whoever comes first may have a mask that leaves others out. Growing it is no matter of order. */
    struct stat st;
    if (fstat(fd, &st) == 0 && (size_t)st.st_size < size) {
        fchmod(fd, 0666);
        if (ftruncate(fd, (off_t)size) < 0)
            size = 0;
    }
    if (size > 0)
        mmap(cay_counters_start, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    close(fd);
    if (getenv("CAY_COVERAGE_DUMP")) {
        __gcov_root.dumped = 0;
        __gcov_dump();
        _exit(0);
    }
}

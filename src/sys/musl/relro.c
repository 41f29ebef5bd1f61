/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tables of pointers are for reading once they are filled in. glibc's start-up code of a static
 * program sees to that, musl's does not: so this does, before main.
 */

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

__attribute__((constructor)) static void protect(void)
{
    enum { PAGE = 4096 }; /* what the linker pads to; a larger page of the kernel's: see below */
    const char *base = (const char *)&__ehdr_start;
    const ElfW(Phdr) *segment = (const void *)(base + __ehdr_start.e_phoff);

    for (unsigned i = 0; i < __ehdr_start.e_phnum; i++) {
        if (segment[i].p_type != PT_GNU_RELRO)
            continue;
        uintptr_t from = (uintptr_t)base + segment[i].p_vaddr, to = from + segment[i].p_memsz;
        from &= -(uintptr_t)PAGE;
        to &= -(uintptr_t)PAGE;
        /* EINVAL: its pages are larger, and not ours alone. */
        mprotect((void *)from, to - from, PROT_READ);
    }
}

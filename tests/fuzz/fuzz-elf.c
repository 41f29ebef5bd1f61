/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a program's file: refused, or names that end where they should. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "sys/elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { 0 };
    struct elf_needs needs = { 0 };
    char path[64];
    int fd = memfd_create("fuzz-elf", MFD_CLOEXEC);

    must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int rc = elf_read(&arena, path, &needs);
    must(rc == 0 || rc == -ENOEXEC);
    must(rc == 0 || (!needs.interpreter && needs.n_libraries == 0));
    must(needs.n_libraries <= ELF_NEEDS_MAX);
    must(!needs.is_script || needs.interpreter[0] != '\0');
    for (size_t i = 0; i < needs.n_libraries; i++)
        must(strlen(needs.libraries[i]) < 1024);
    close(fd);
    arena_done(&arena);
    return 0;
}

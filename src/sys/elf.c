/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#else
#define OWN_MACHINE EM_NONE
#endif

enum { NAME_BYTES = 1024, HEADERS_MAX = 64, DYNAMIC_MAX = 512 };

struct elf_file {
    int fd;
    Elf64_Phdr headers[HEADERS_MAX];
    size_t n_headers;
};

/* Returns how many bytes were there, at most len. */
static ssize_t read_at(int fd, uint64_t offset, void *buf, size_t len)
{
    ssize_t n;

    if (offset > INT64_MAX - len)
        return -ENOEXEC;
    while ((n = pread(fd, buf, len, (off_t)offset)) < 0 && errno == EINTR)
        continue;
    return n < 0 ? -errno : n;
}

/* The text at this place in the file, up to its NUL. */
static int read_text(struct arena *arena, int fd, uint64_t offset, const char **ret)
{
    char buf[NAME_BYTES];
    ssize_t n = read_at(fd, offset, buf, sizeof buf);

    if (n <= 0 || !memchr(buf, '\0', (size_t)n))
        return n < 0 ? (int)n : -ENOEXEC;
    *ret = arena_str(arena, buf);
    return 0;
}

static const Elf64_Phdr *find_header(const struct elf_file *file, uint32_t type)
{
    for (size_t i = 0; i < file->n_headers; i++)
        if (file->headers[i].p_type == type)
            return &file->headers[i];
    return NULL;
}

/* Where an address of the loaded program stands in the file. */
static int offset_of(const struct elf_file *file, uint64_t address, uint64_t *ret)
{
    for (size_t i = 0; i < file->n_headers; i++) {
        const Elf64_Phdr *header = &file->headers[i];
        if (header->p_type != PT_LOAD || address < header->p_vaddr ||
            address - header->p_vaddr >= header->p_filesz)
            continue;
        *ret = header->p_offset + (address - header->p_vaddr);
        return 0;
    }
    return -ENOEXEC;
}

static int read_dynamic(struct arena *arena, const struct elf_file *file, struct elf_needs *ret)
{
    const Elf64_Phdr *header = find_header(file, PT_DYNAMIC);
    Elf64_Dyn entries[DYNAMIC_MAX];
    uint64_t strings = 0;

    if (!header)
        return 0; /* static */
    ssize_t len =
        read_at(file->fd, header->p_offset, entries, MIN(header->p_filesz, sizeof entries));
    if (len < 0)
        return (int)len;
    size_t n = (size_t)len / sizeof *entries;
    for (size_t i = 0; i < n; i++)
        if (entries[i].d_tag == DT_STRTAB && offset_of(file, entries[i].d_un.d_ptr, &strings) < 0)
            return -ENOEXEC;
    for (size_t i = 0; i < n && entries[i].d_tag != DT_NULL && strings; i++) {
        uint64_t at = strings + entries[i].d_un.d_val;
        int rc = 0;
        if (entries[i].d_tag == DT_NEEDED && ret->n_libraries < ELF_NEEDS_MAX)
            rc = read_text(arena, file->fd, at, &ret->libraries[ret->n_libraries++]);
        else if (entries[i].d_tag == DT_RUNPATH || (entries[i].d_tag == DT_RPATH && !ret->run_path))
            rc = read_text(arena, file->fd, at, &ret->run_path);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int read_elf(struct arena *arena, int fd, const Elf64_Ehdr *head, struct elf_needs *ret)
{
    struct elf_file file = { .fd = fd };

    if (head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_machine != OWN_MACHINE ||
        head->e_phentsize != sizeof *file.headers)
        return -ENOEXEC;
    size_t size = MIN((size_t)head->e_phnum, (size_t)HEADERS_MAX) * sizeof *file.headers;
    ssize_t n = read_at(fd, head->e_phoff, file.headers, size);
    if (n < 0)
        return (int)n;
    file.n_headers = (size_t)n / sizeof *file.headers;
    const Elf64_Phdr *interpreter = find_header(&file, PT_INTERP);
    int rc = interpreter ? read_text(arena, fd, interpreter->p_offset, &ret->interpreter) : 0;
    return rc < 0 ? rc : read_dynamic(arena, &file, ret);
}

/* "#!/usr/bin/env python3": two words, of which the second may be missing. */
static int read_script(struct arena *arena, char *line, struct elf_needs *ret)
{
    char *save = NULL;

    ret->is_script = true;
    line[strcspn(line, "\n")] = '\0';
    ret->interpreter = arena_str(arena, strtok_r(line + 2, " \t\r", &save));
    ret->argument = arena_str(arena, strtok_r(NULL, " \t\r", &save));
    return ret->interpreter ? 0 : -ENOEXEC;
}

int elf_read(struct arena *arena, const char *path, struct elf_needs *ret)
{
    union {
        Elf64_Ehdr elf;
        char text[256];
    } head = { 0 };
    struct elf_needs needs = { 0 };

    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    ssize_t n = read_at(fd, 0, &head, sizeof head - 1);
    if (n < 0)
        return (int)n;
    int rc = -ENOEXEC;
    if ((size_t)n >= sizeof head.elf && memcmp(head.elf.e_ident, ELFMAG, SELFMAG) == 0)
        rc = read_elf(arena, fd, &head.elf, &needs);
    else if (n > 2 && head.text[0] == '#' && head.text[1] == '!')
        rc = read_script(arena, head.text, &needs);
    if (rc == 0)
        *ret = needs;
    return rc;
}

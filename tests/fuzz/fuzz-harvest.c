/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a harvest: refused, or everything that is read from it lies within it and is what
 * core/harvest.h promises: names that stay in their folders, each once, nothing below what is no
 * folder.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "core/harvest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_path(const char *path)
{
    auto_free char *copy = str_dup(path);
    char *save = NULL;

    must(strncmp(path, "workspace", 9) == 0 || strncmp(path, "sandbox", 7) == 0 ||
         strncmp(path, "product", 7) == 0);
    must(path[strlen(path) - 1] != '/' && !strstr(path, "//"));
    for (char *part = strtok_r(copy, "/", &save); part; part = strtok_r(NULL, "/", &save))
        must(strcmp(part, ".") != 0 && strcmp(part, "..") != 0 && strlen(part) <= 255);
}

static void check_above(const struct harvest *harvest, const char *path)
{
    auto_free char *copy = str_dup(path);

    for (char *slash; (slash = strrchr(copy, '/'));) {
        *slash = '\0';
        const struct harvest_entry *above = harvest_find(harvest, copy);
        must(!above || above->kind == HARVEST_DIR);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct harvest harvest;
    struct cay_error err = { 0 };
    auto_close int fd = memfd_create("harvest", MFD_CLOEXEC);

    must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    if (harvest_open(fd, &harvest, &err) < 0) {
        must(err.kind == CAY_E_SYSTEM && err.msg[0]);
        return 0;
    }
    must(harvest.n <= HARVEST_RECORDS_MAX);
    for (size_t i = 0; i < harvest.n; i++) {
        const struct harvest_entry *entry = &harvest.entries[i];
        check_path(entry->path);
        check_above(&harvest, entry->path);
        must(harvest_find(&harvest, entry->path) == entry);
        must(entry->mode <= 07777 && entry->kind > HARVEST_END && entry->kind < HARVEST_KIND_N);
        must(!entry->has_data || (entry->data_at <= size && entry->size <= size - entry->data_at));
        must(!entry->has_data || memcmp(entry->data, data + entry->data_at, entry->size) == 0);
        must(entry->kind != HARVEST_LINK || strlen(entry->data) == entry->size);
    }
    harvest_close(&harvest);
    return 0;
}

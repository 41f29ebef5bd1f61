/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an image holds, as a list, and its digest: names, kinds, modes and contents, in the order of
 * the names, whatever order they came in. Times and owners are not part of it: exporting an image
 * and importing it again gives the same.
 */
#include "images/image-make.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

enum { RECORDS_MAX = 1 << 20, DEPTH_MAX = 128 };

const char *image_path(struct arena *arena, const char *path)
{
    size_t len = strlen(path), depth = 0;
    char *out, *end;

    if (len >= PATH_MAX)
        return NULL;
    out = end = arena_alloc(arena, len + 1);
    while (*path) {
        size_t n = strcspn(path, "/");
        bool is_dot = n == 1 && path[0] == '.';
        if ((n == 2 && memcmp(path, "..", 2) == 0) || n > NAME_MAX)
            return NULL;
        if (n > 0 && !is_dot) {
            if (++depth > DEPTH_MAX)
                return NULL;
            if (end > out)
                *end++ = '/';
            memcpy(end, path, n);
            end += n;
        }
        path += n + (path[n] == '/');
    }
    *end = '\0';
    return out;
}

static size_t slot_of(const struct cay_image_maker *maker, const char *path)
{
    size_t slot = (size_t)siphash(&maker->key, path, strlen(path)) & (maker->n_slots - 1);
    while (maker->slots[slot] && strcmp(maker->records[maker->slots[slot] - 1].path, path) != 0)
        slot = (slot + 1) & (maker->n_slots - 1);
    return slot;
}

struct image_record *image_record_find(const struct cay_image_maker *maker, const char *path)
{
    if (maker->n_slots == 0)
        return NULL;
    uint32_t number = maker->slots[slot_of(maker, path)];
    return number ? &maker->records[number - 1] : NULL;
}

static void grow(struct cay_image_maker *maker)
{
    if (maker->room == 0)
        maker->key = siphash_new_key();
    maker->room = MAX(maker->room * 2, (size_t)1024);
    maker->records = mem_resize(maker->records, maker->room * sizeof *maker->records);
    free(maker->slots);
    maker->n_slots = 4 * maker->room;
    maker->slots = mem_alloc(maker->n_slots * sizeof *maker->slots);
    for (size_t i = 0; i < maker->n; i++)
        maker->slots[slot_of(maker, maker->records[i].path)] = (uint32_t)i + 1;
}

struct image_record *image_record_at(struct cay_image_maker *maker, const char *path)
{
    struct image_record *record = image_record_find(maker, path);

    if (record)
        return record;
    if (maker->n >= RECORDS_MAX)
        return NULL;
    if (!maker->records || maker->n == maker->room)
        grow(maker);
    size_t slot = slot_of(maker, path);
    record = &maker->records[maker->n++];
    *record = (struct image_record){ .path = arena_str(&maker->arena, path) };
    maker->slots[slot] = (uint32_t)maker->n;
    return record;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct image_record *)a)->path, ((const struct image_record *)b)->path);
}

void image_record_digest(struct cay_image_maker *maker, char *out)
{
    struct digest digest;
    char head[96];

    if (maker->n > 1)
        qsort(maker->records, maker->n, sizeof *maker->records, by_path);
    free(take_ptr(&maker->slots)); /* the numbers are others now */
    maker->n_slots = 0;
    digest_begin(&digest);
    for (size_t i = 0; i < maker->n; i++) {
        const struct image_record *record = &maker->records[i];
        snprintf(head, sizeof head, "%c %o %s", record->type, record->mode, record->sha256);
        digest_add(&digest, record->path, strlen(record->path) + 1);
        digest_add(&digest, head, strlen(head) + 1);
        if (record->target)
            digest_add(&digest, record->target, strlen(record->target) + 1);
    }
    snprintf(out, 72, "sha256:%s", digest_end(&digest).sha256);
}

void image_records_done(struct cay_image_maker *maker)
{
    free(take_ptr(&maker->records));
    free(take_ptr(&maker->slots));
}

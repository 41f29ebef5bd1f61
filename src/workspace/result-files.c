/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/result-files.h"

#include <stdlib.h>
#include <string.h>

#include <cay/run.h>

#include "base/arena.h"
#include "base/auto.h"
#include "core/field.h"
#include "core/harvest.h"
#include "core/payload.h"
#include "workspace/changes.h"

struct lister {
    struct arena *arena;
    struct cay_file *files;
    size_t n, room;
    size_t left_out; /* past FILES_MAX, or what names may have of bytes */
    const struct files_bounds *bounds;
    uint64_t path_bytes;
    size_t n_collected, n_not_collected;
    uint64_t collected_bytes;
    const char *first_not_collected;
    const struct payload_file **given; /* by name */
    size_t n_given;
};

static struct cay_file *add(struct lister *lister, size_t path_bytes)
{
    if (lister->n == FILES_MAX || path_bytes > lister->bounds->path_bytes - lister->path_bytes) {
        lister->left_out++;
        return NULL;
    }
    lister->path_bytes += path_bytes;
    return &lister->files[lister->n++];
}

/* Its bytes, as far as there is room for them. */
static void collect(struct lister *lister, struct cay_file *file, const struct harvest_entry *entry)
{
    file->is_collected = true;
    if (!entry->has_data || lister->n_collected == COLLECT_FILES_MAX ||
        entry->size > lister->bounds->collect_bytes - lister->collected_bytes) {
        lister->n_not_collected++;
        if (!lister->first_not_collected)
            lister->first_not_collected = file->path;
        return;
    }
    lister->n_collected++;
    lister->collected_bytes += entry->size;
    file->data = arena_dup(lister->arena, entry->data, (size_t)entry->size);
}

static void list_change(struct lister *lister, const struct harvest *harvest,
                        const struct cay_change *shown)
{
    bool is_deleted = shown->change == CAY_DELETED;
    const char *target = is_deleted ? shown->old_target : shown->target;
    struct cay_file *file = add(lister, strlen(shown->path) + (target ? strlen(target) : 0));

    if (!file)
        return;
    *file = (struct cay_file){
        .path = arena_printf(lister->arena, "/workspace/%s", shown->path),
        .change = shown->change,
        .type = is_deleted ? shown->old_type : shown->type,
        .size = is_deleted ? shown->old_size : shown->size,
        .mode = is_deleted ? shown->old_mode : shown->mode,
        .target = arena_str(lister->arena, target),
    };
    const struct harvest_entry *entry = is_deleted ? NULL : harvest_find(harvest, file->path + 1);
    if (entry && (entry->flags & HARVEST_COLLECT))
        collect(lister, file, entry);
}

static int by_name(const void *a, const void *b)
{
    const struct payload_file *const *one = a, *const *other = b;
    return strcmp((*one)->name, (*other)->name);
}

/* Sorted: thousands of files that are given, each compared with thousands that are collected, would
 * hold a server up. */
static void sort_given(struct lister *lister, const struct payload_source *given)
{
    lister->n_given = given->n_files;
    lister->given = arena_alloc(lister->arena, (given->n_files + 1) * sizeof *lister->given);
    for (size_t i = 0; i < given->n_files; i++)
        lister->given[i] = &given->files[i];
    qsort(lister->given, lister->n_given, sizeof *lister->given, by_name);
}

static enum cay_change_kind change_of_given(const struct lister *lister, const char *name,
                                            const struct harvest_entry *entry)
{
    const struct payload_file key = { .name = name }, *const wanted = &key;
    const struct payload_file *const *found =
        bsearch(&wanted, lister->given, lister->n_given, sizeof *lister->given, by_name);

    if (!found)
        return CAY_CREATED;
    const struct payload_file *file = *found;
    bool is_same = entry->has_data && file->len == entry->size &&
                   (file->len == 0 || memcmp(file->data, entry->data, file->len) == 0);
    return is_same ? CAY_UNCHANGED : CAY_CHANGED;
}

/* A collected file that the change set does not have. */
static void list_collected(struct lister *lister, const struct harvest_entry *entry,
                           const struct changes *changes)
{
    static const char sandbox[] = "sandbox/", workspace[] = "workspace/";
    enum cay_change_kind change = CAY_UNCHANGED;

    if (!(entry->flags & HARVEST_COLLECT))
        return;
    if (strncmp(entry->path, workspace, strlen(workspace)) == 0) {
        if (changes_find(changes, entry->path + strlen(workspace)))
            return;
    } else if (strncmp(entry->path, sandbox, strlen(sandbox)) == 0) {
        change = change_of_given(lister, entry->path + strlen(sandbox), entry);
    }
    struct cay_file *file = add(lister, strlen(entry->path));
    if (!file)
        return;
    *file = (struct cay_file){
        .path = arena_printf(lister->arena, "/%s", entry->path),
        .change = change,
        .type = CAY_FILE,
        .size = entry->size,
        .mode = entry->mode & 0777,
    };
    collect(lister, file, entry);
}

void files_list(struct arena *arena, const struct harvest *harvest, const struct changes *changes,
                const struct payload_source *given, const struct files_bounds *bounds,
                struct cay_result *result, struct value *warnings)
{
    size_t room = MIN(changes->n + harvest->n, (size_t)FILES_MAX);
    struct lister lister = { .arena = arena, .room = room, .bounds = bounds };

    lister.files = arena_alloc(arena, (room + 1) * sizeof *lister.files);
    sort_given(&lister, given);
    for (size_t i = 0; i < changes->n; i++)
        list_change(&lister, harvest, &changes->list[i].shown);
    for (size_t i = 0; i < harvest->n; i++)
        list_collected(&lister, &harvest->entries[i], changes);
    result->files = lister.files;
    result->n_files = lister.n;
    if (lister.left_out > 0)
        field_append(arena, warnings,
                     arena_printf(arena,
                                  "files: %zu more paths are not listed; the change set has "
                                  "them all",
                                  lister.left_out));
    if (lister.n_not_collected > 0)
        field_append(arena, warnings,
                     arena_printf(arena,
                                  "collect: %zu file%s left out, %s first: at most %d "
                                  "files and %d MiB in all come back",
                                  lister.n_not_collected,
                                  lister.n_not_collected == 1 ? " was" : "s were",
                                  lister.first_not_collected, COLLECT_FILES_MAX,
                                  (int)(bounds->collect_bytes >> 20)));
}

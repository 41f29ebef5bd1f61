/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a harvest. It comes from a process that untrusted code lived beside: a stream that is not
 * exactly as it should be is refused as a whole.
 */
#include "core/harvest.h"

#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/reader.h"

enum { PART_MAX = 255, LINK_MAX = 4095 };
#define PATHS_BYTES_MAX (UINT64_C(512) << 20)

bool harvest_path_ok(const char *path, size_t len)
{
    size_t part = 0;

    if (len == 0 || len > HARVEST_PATH_MAX || memchr(path, '\0', len))
        return false;
    for (size_t at = 0; at <= len; at += part + 1) {
        const char *slash = at < len ? memchr(path + at, '/', len - at) : NULL;
        part = slash ? (size_t)(slash - path) - at : len - at;
        if (part == 0 || part > PART_MAX)
            return false;
        if (path[at] == '.' && (part == 1 || (part == 2 && path[at + 1] == '.')))
            return false;
    }
    return true;
}

static bool is_below(const char *path, size_t len, const char *top)
{
    size_t top_len = strlen(top);
    return len >= top_len && memcmp(path, top, top_len) == 0 &&
           (len == top_len || path[top_len] == '/');
}

/* What is wrong with a record taken alone; NULL when nothing is. */
static const char *judge_record(const struct harvest_record *record, const char *path)
{
    /* the flags that each kind may have, and whether it may have data */
    static const struct {
        unsigned flags;
        uint64_t size_max;
    } kinds[HARVEST_KIND_N] = {
        [HARVEST_DELETED] = { HARVEST_CHANGE, 0 },
        [HARVEST_DIR] = { HARVEST_CHANGE | HARVEST_OPAQUE, 0 },
        [HARVEST_FILE] = { HARVEST_CHANGE | HARVEST_COLLECT | HARVEST_NO_DATA, INT64_MAX },
        [HARVEST_LINK] = { HARVEST_CHANGE, LINK_MAX },
        [HARVEST_SPECIAL] = { HARVEST_CHANGE, 0 },
    };

    if (!harvest_path_ok(path, record->path_len))
        return "a path is malformed";
    if (!is_below(path, record->path_len, "workspace") &&
        !is_below(path, record->path_len, "sandbox") &&
        !is_below(path, record->path_len, "product"))
        return "a path is in no folder of the run";
    if (record->flags & ~kinds[record->kind].flags)
        return "a flag does not fit";
    if (record->size > kinds[record->kind].size_max || record->mode > 07777)
        return "a number is out of range";
    return NULL;
}

/* ---- finding ---- */

/* The slot that the path, of this hash, is in or belongs into. The program chose the paths, and
 * must not know which of them meet there. */
static uint32_t *slot_of(const struct harvest *harvest, uint64_t hash, const char *path, size_t len)
{
    for (size_t i = (size_t)hash;; i++) {
        uint32_t *slot = &harvest->slots[i & (harvest->n_slots - 1)];
        if (*slot == 0)
            return slot;
        const char *other = harvest->entries[*slot - 1].path;
        if (strncmp(other, path, len) == 0 && other[len] == '\0')
            return slot;
    }
}

const struct harvest_entry *harvest_find(const struct harvest *harvest, const char *path)
{
    if (harvest->n_slots == 0)
        return NULL;
    size_t len = strlen(path);
    uint32_t slot = *slot_of(harvest, siphash(&harvest->key, path, len), path, len);
    return slot ? &harvest->entries[slot - 1] : NULL;
}

/* What is wrong with what is above entry number i, or NULL. All folders of a deep path together are
 * hashed in one pass over it. */
static const char *judge_above(const struct harvest *harvest, size_t i)
{
    const char *path = harvest->entries[i].path, *from = path, *slash;
    struct siphash_state state = siphash_begin(&harvest->key);

    for (; (slash = strchr(from, '/')); from = slash) {
        size_t len = (size_t)(slash - path);
        siphash_add(&state, from, (size_t)(slash - from));
        uint32_t above = *slot_of(harvest, siphash_end(&state), path, len);
        if (above && above - 1 > i)
            return "a folder comes after what is in it";
        if (above && harvest->entries[above - 1].kind != HARVEST_DIR)
            return "a path leads through what is no folder";
        siphash_add(&state, slash++, 1);
    }
    return NULL;
}

/* Every path once, and every listed folder above an entry a folder, listed before it. */
static const char *judge_tree(struct harvest *harvest)
{
    harvest->key = siphash_new_key();
    harvest->n_slots = 16;
    while (harvest->n_slots < harvest->n * 2)
        harvest->n_slots *= 2;
    harvest->slots = mem_alloc(harvest->n_slots * sizeof *harvest->slots);
    for (size_t i = 0; i < harvest->n; i++) {
        const char *path = harvest->entries[i].path;
        size_t len = strlen(path);
        uint32_t *slot = slot_of(harvest, siphash(&harvest->key, path, len), path, len);
        if (*slot)
            return "a path is there twice";
        *slot = (uint32_t)i + 1;
    }
    for (size_t i = 0; i < harvest->n; i++) {
        const char *wrong = judge_above(harvest, i);
        if (wrong)
            return wrong;
    }
    return NULL;
}

/* ---- reading ---- */

static const char cut_short[] = "it was cut short";

static void add_entry(struct harvest *harvest, size_t *room, const struct harvest_record *record,
                      const char *path, const char *data)
{
    if (harvest->n == *room) {
        *room = MAX(*room * 2, (size_t)64);
        harvest->entries = mem_resize(harvest->entries, *room * sizeof *harvest->entries);
    }
    bool is_link = record->kind == HARVEST_LINK;
    harvest->entries[harvest->n++] = (struct harvest_entry){
        .kind = (enum harvest_kind)record->kind,
        .flags = record->flags,
        .mode = record->mode,
        .has_data = data != NULL,
        .path = arena_dup(&harvest->arena, path, record->path_len),
        .size = record->size,
        .mtime_ns = record->mtime_ns,
        .data_at = data ? (uint64_t)(data - harvest->map) : 0,
        .data = is_link ? arena_dup(&harvest->arena, data, (size_t)record->size) : data,
    };
}

/* Returns what is wrong, or NULL. */
static const char *read_all_records(struct harvest *harvest, uint64_t path_bytes_max)
{
    struct reader reader = { harvest->map, harvest->len, 0 };
    uint64_t path_bytes = 0;
    size_t room = 0;

    for (;;) {
        struct harvest_record record;
        const char *bytes = reader_take(&reader, sizeof record);
        if (!bytes)
            return cut_short;
        memcpy(&record, bytes, sizeof record);
        if (record.kind >= HARVEST_KIND_N)
            return "a record is of no kind";
        if (record.kind == HARVEST_END) {
            harvest->errnum = record.mode > INT_MAX ? 0 : (int)record.mode;
            if (record.path_len || record.size || record.flags || record.mode > 4095)
                return "the last record is malformed";
            return reader.at == reader.len ? NULL : "something follows its end";
        }
        if (harvest->n == HARVEST_RECORDS_MAX)
            return "it has too many records";
        const char *path = reader_take(&reader, record.path_len);
        if (!path)
            return cut_short;
        const char *wrong = judge_record(&record, path);
        if (wrong)
            return wrong;
        path_bytes += record.path_len;
        if (path_bytes > path_bytes_max)
            return "its paths are too long in all";
        bool has_data = record.kind == HARVEST_LINK ||
                        (record.kind == HARVEST_FILE && !(record.flags & HARVEST_NO_DATA));
        const char *data = has_data ? reader_take(&reader, record.size) : NULL;
        if (has_data && !data)
            return cut_short;
        if (record.kind == HARVEST_LINK &&
            (record.size == 0 || memchr(data, '\0', (size_t)record.size)))
            return "a link leads nowhere";
        add_entry(harvest, &room, &record, path, data);
    }
}

int harvest_open(int fd, struct harvest *ret, struct cay_error *err)
{
    return harvest_open_max(fd, PATHS_BYTES_MAX, ret, err);
}

int harvest_open_max(int fd, uint64_t path_bytes, struct harvest *ret, struct cay_error *err)
{
    struct harvest harvest = { 0 };
    struct stat st;

    if (fstat(fd, &st) < 0)
        return cay_fail(err, CAY_E_SYSTEM, "harvest: cannot be looked at");
    harvest.len = (size_t)st.st_size;
    if (harvest.len > 0) {
        void *map = mmap(NULL, harvest.len, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED)
            return cay_fail(err, CAY_E_SYSTEM, "harvest: cannot be mapped");
        harvest.map = map;
    }
    const char *wrong = read_all_records(&harvest, path_bytes);
    if (!wrong)
        wrong = judge_tree(&harvest);
    if (wrong) {
        harvest_close(&harvest);
        return cay_fail(err, CAY_E_SYSTEM, "what the sandbox reported of its files is refused: %s",
                        wrong);
    }
    *ret = harvest;
    return 0;
}

void harvest_close(struct harvest *harvest)
{
    if (harvest->map)
        munmap((void *)(uintptr_t)harvest->map, harvest->len);
    free(harvest->entries);
    free(harvest->slots);
    arena_done(&harvest->arena);
    *harvest = (struct harvest){ 0 };
}

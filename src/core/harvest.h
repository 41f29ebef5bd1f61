/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The harvest: what a run left in its folders, as pid 1 of its sandbox tells it to the front by a
 * pipe once nothing else lives inside. Pid 1 writes it (core/harvest-tell.c); the front reads
 * it and trusts nothing: every number, name and order is checked, and it is fuzzed.
 *
 *     record, path, data; record, path, data; …; a record of kind HARVEST_END
 *
 * What a compiler made, of which the front keeps a copy, is told in the same way before the program
 * starts: a harvest of its own, whole, through the same pipe.
 *
 * Paths are relative, "workspace/src/main.c", "sandbox/out.csv" or, of what a compiler made in
 * /sandbox, "product/main"; without ".", ".." or empty parts; names may hold any byte but NUL and
 * '/'. A folder comes before what is in it. A pipe that ends without HARVEST_END was cut short, and
 * what came is worth nothing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/siphash.h"

struct cay_error;

enum harvest_kind {
    HARVEST_END,     /* the last one; size is 0, `mode` an errno if something could not be read */
    HARVEST_DELETED, /* was in the host's folder, is not any more */
    HARVEST_DIR,
    HARVEST_FILE,
    HARVEST_LINK,    /* data is where it leads */
    HARVEST_SPECIAL, /* a fifo, a socket: told of, never carried */
    HARVEST_KIND_N
};

enum {
    HARVEST_CHANGE = 1 << 0,  /* differs from the host's folder, or may: part of the change set */
    HARVEST_COLLECT = 1 << 1, /* a file that one of the globs asks for */
    HARVEST_OPAQUE = 1 << 2, /* a folder: what the host's has in it and is not listed, is deleted */
    HARVEST_NO_DATA = 1 << 3, /* a file that was too large to carry: its data is left out */
    HARVEST_FLAGS = (1 << 4) - 1,
};

struct harvest_record {
    uint32_t kind, flags;
    uint32_t mode; /* permission bits */
    uint32_t path_len;
    uint64_t size; /* of the file; that many bytes of data follow the path, unless NO_DATA */
    int64_t mtime_ns;
};

enum { HARVEST_PATH_MAX = 4095, HARVEST_RECORDS_MAX = 2000000 };

/* ---- reading, in the front ----
 *
 *     struct harvest harvest;
 *     if (harvest_open(spool_fd, &harvest, err) < 0)
 *         return -1;
 *     for (size_t i = 0; i < harvest.n; i++)
 *         ... harvest.entries[i]
 *     harvest_close(&harvest);
 *
 * Everything is checked before the first entry is handed out: kinds, flags, names, sizes, that no
 * path is there twice, that nothing is in what is no folder, that folders come first, that the end
 * is there and nothing behind it.
 */

struct harvest_entry {
    enum harvest_kind kind;
    unsigned flags;
    unsigned mode; /* permission bits, 07777 */
    bool has_data;
    const char *path; /* "workspace/src/main.c" */
    uint64_t size;
    int64_t mtime_ns;
    uint64_t data_at; /* where in the fd its data begins */
    const char *data; /* the same in memory; of a link with a NUL behind */
};

struct harvest {
    struct arena arena;
    struct harvest_entry *entries; /* in the order they came */
    size_t n;
    int errnum; /* something could not be read inside: what came is not all */

    /* The reader's own. */
    const char *map;
    size_t len;
    struct siphash_key key;
    uint32_t *slots; /* a hash table of entries by path; 0: empty, else the entry's number + 1 */
    size_t n_slots;
};

/* Reads a seekable fd, which nobody else may write to, and which must stay open. */
int harvest_open(int fd, struct harvest *ret, struct cay_error *err);

/* The same, refused where its paths have more bytes than this in all: they are held in memory. */
int harvest_open_max(int fd, uint64_t path_bytes, struct harvest *ret, struct cay_error *err);
void harvest_close(struct harvest *harvest);

/* NULL when there is none of that path. */
const struct harvest_entry *harvest_find(const struct harvest *harvest, const char *path);

/* Relative, no ".", "..", empty part or NUL, at most 255 bytes a part. */
bool harvest_path_ok(const char *path, size_t len);

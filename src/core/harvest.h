/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The harvest: what a run left in its folders, as pid 1 of its sandbox tells it to the front by a
 * pipe once nothing else lives inside. Pid 1 writes it (backends/native/harvest.c); the front reads
 * it and trusts nothing: every number, name and order is checked, and it is fuzzed.
 *
 *     record, path, data; record, path, data; …; a record of kind HARVEST_END
 *
 * Paths are relative, "workspace/src/main.c" or "sandbox/out.csv", without ".", ".." or empty
 * parts; names may hold any byte but NUL and '/'. A folder comes before what is in it. A pipe that
 * ends without HARVEST_END was cut short, and what came is worth nothing.
 */

#include <stddef.h>
#include <stdint.h>

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
    HARVEST_OPAQUE = 1 << 2,  /* a folder: what the host's has in it and is not listed, is deleted */
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

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes harvests for tests, good and bad ones, into a file in memory. */

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "core/harvest.h"

struct harvest_writer {
    struct strbuf out;
};

static inline void hw_raw(struct harvest_writer *w, struct harvest_record record, const char *path,
                          const char *data, size_t len)
{
    strbuf_add(&w->out, (const char *)&record, sizeof record);
    strbuf_add(&w->out, path, record.path_len);
    strbuf_add(&w->out, data ? data : "", len);
}

static inline void hw_put(struct harvest_writer *w, enum harvest_kind kind, unsigned flags,
                          unsigned mode, const char *path, const char *data)
{
    size_t len = data ? strlen(data) : 0;

    hw_raw(w,
           (struct harvest_record){ .kind = kind,
                                    .flags = flags,
                                    .mode = mode,
                                    .path_len = (uint32_t)strlen(path),
                                    .size = len,
                                    .mtime_ns = 1000000000 },
           path, data, len);
}

static inline void hw_end(struct harvest_writer *w)
{
    hw_raw(w, (struct harvest_record){ .kind = HARVEST_END }, "", NULL, 0);
}

/* The bytes as an fd; the writer is empty again. */
static inline int hw_fd(struct harvest_writer *w)
{
    int fd = memfd_create("harvest", MFD_CLOEXEC);

    if (fd >= 0 && w->out.len > 0 && write(fd, w->out.data, w->out.len) != (ssize_t)w->out.len) {
        close(fd);
        fd = -1;
    }
    strbuf_done(&w->out);
    w->out = (struct strbuf){ 0 };
    return fd;
}

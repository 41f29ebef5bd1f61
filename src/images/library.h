/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * libarchive, loaded where an archive is read or written: it brings a dozen libraries along, which
 * no other command should pay for at its start.
 */

#include <archive.h>
#include <archive_entry.h>

struct cay_error;

#define ARCHIVE_CALLS(X)                       \
    X(archive_error_string)                    \
    X(archive_format)                          \
    X(archive_read_new)                        \
    X(archive_read_support_format_tar)         \
    X(archive_read_support_filter_gzip)        \
    X(archive_read_support_filter_bzip2)       \
    X(archive_read_support_filter_xz)          \
    X(archive_read_support_filter_zstd)        \
    X(archive_read_open_fd)                    \
    X(archive_read_next_header)                \
    X(archive_read_data)                       \
    X(archive_read_free)                       \
    X(archive_write_new)                       \
    X(archive_write_set_format_pax_restricted) \
    X(archive_write_add_filter_gzip)           \
    X(archive_write_add_filter_bzip2)          \
    X(archive_write_add_filter_xz)             \
    X(archive_write_add_filter_zstd)           \
    X(archive_write_open_fd)                   \
    X(archive_write_header)                    \
    X(archive_write_data)                      \
    X(archive_write_close)                     \
    X(archive_write_free)                      \
    X(archive_entry_new)                       \
    X(archive_entry_free)                      \
    X(archive_entry_pathname)                  \
    X(archive_entry_hardlink)                  \
    X(archive_entry_symlink)                   \
    X(archive_entry_filetype)                  \
    X(archive_entry_perm)                      \
    X(archive_entry_mtime)                     \
    X(archive_entry_size)                      \
    X(archive_entry_set_uid)                   \
    X(archive_entry_set_gid)                   \
    X(archive_entry_copy_stat)                 \
    X(archive_entry_copy_pathname)             \
    X(archive_entry_copy_symlink)              \
    X(archive_entry_linkify)                   \
    X(archive_entry_linkresolver_new)          \
    X(archive_entry_linkresolver_set_strategy) \
    X(archive_entry_linkresolver_free)

/* The same names, to be called through it. */
struct archive_calls {
#define ARCHIVE_MEMBER(name) __typeof__(&name) name;
    ARCHIVE_CALLS(ARCHIVE_MEMBER)
#undef ARCHIVE_MEMBER
};

/* Loads it, for the rest of the process' life. */
int archive_load(struct archive_calls *ret, struct cay_error *err);

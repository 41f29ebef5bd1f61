/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Small files of the kernel (cgroup, proc): read or written whole, relative to a folder's fd. All
 * are async-signal-safe, return -errno and never follow a link at the last step. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Writes text into the file. */
int file_write_at(int dir_fd, const char *path, const char *text, size_t len);

/* Reads at most size - 1 bytes and puts a NUL behind them. Returns the length. */
ssize_t file_read_at(int dir_fd, const char *path, char *buf, size_t size);

/* Writes a decimal number. */
int file_write_uint_at(int dir_fd, const char *path, uint64_t value);

/* Reads a file that holds one decimal number. */
int file_read_uint_at(int dir_fd, const char *path, uint64_t *ret);

/* Finds the number behind "KEY " at the start of one of the lines; an empty key: the text's own. */
int file_find_key(const char *text, const char *key, uint64_t *ret);

/* Sets the mode of what the fd is of, even if that was opened with O_PATH: never by a name, which
 * may be another's by now. Not that of a link. */
int file_set_mode(int fd, mode_t mode);

/* Makes the folders on the way to path, those that are not there, as 0755. Names are trusted. */
int file_make_parents_at(int dir_fd, const char *path);

/* Reads size bytes from offset on, over short reads and EINTR; fewer only where the file ends.
 * Returns how many, or -errno. */
ssize_t pread_all(int fd, void *buf, size_t size, uint64_t offset);

/* Writes all of data, over short writes and EINTR. */
int write_all(int fd, const void *data, size_t len);

/* The number as decimal text in buf (at least 21 bytes); returns where it starts. */
char *uint_text(char buf[static 24], uint64_t value);

/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"

int file_make_parents_at(int dir_fd, const char *path)
{
    char part[1100];
    size_t len = strlen(path);

    if (len >= sizeof part)
        return -ENAMETOOLONG;
    memcpy(part, path, len + 1);
    for (char *slash = strchr(part, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdirat(dir_fd, part, 0755) < 0 && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    return 0;
}

int write_all(int fd, const void *data, size_t len)
{
    const char *pos = data;

    while (len > 0) {
        ssize_t n = write(fd, pos, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        pos += n;
        len -= (size_t)n;
    }
    return 0;
}

int file_write_at(int dir_fd, const char *path, const char *text, size_t len)
{
    auto_close int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    ssize_t n = write(fd, text, len);
    if (n < 0)
        return -errno;
    return (size_t)n == len ? 0 : -EIO;
}

ssize_t pread_all(int fd, void *buf, size_t size, uint64_t offset)
{
    size_t len = 0;

    while (len < size) {
        ssize_t n = pread(fd, (char *)buf + len, size - len, (off_t)(offset + len));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    return (ssize_t)len;
}

ssize_t file_read_at(int dir_fd, const char *path, char *buf, size_t size)
{
    auto_close int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    ssize_t len = pread_all(fd, buf, size - 1, 0);
    if (len >= 0)
        buf[len] = '\0';
    return len;
}

char *uint_text(char buf[static 24], uint64_t value)
{
    char *pos = buf + 23;

    *pos = '\0';
    do {
        *--pos = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return pos;
}

int file_write_uint_at(int dir_fd, const char *path, uint64_t value)
{
    char buf[24];
    char *text = uint_text(buf, value);
    return file_write_at(dir_fd, path, text, strlen(text));
}

int file_set_mode(int fd, mode_t mode)
{
    static const char folder[] = "/proc/self/fd/";
    char path[sizeof folder + 24], digits[24];
    struct stat st;

    if (fchmod(fd, mode) == 0)
        return 0;
    if (errno != EBADF || fstat(fd, &st) < 0)
        return -errno;
    if (S_ISLNK(st.st_mode))
        return -ELOOP;
    const char *number = uint_text(digits, (uint64_t)fd);
    memcpy(mempcpy(path, folder, sizeof folder - 1), number, strlen(number) + 1);
    return chmod(path, mode) < 0 ? -errno : 0;
}

static int parse_leading_uint(const char *text, uint64_t *ret)
{
    uint64_t value = 0;

    if (*text < '0' || *text > '9')
        return -EINVAL;
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return -ERANGE;
    *ret = value;
    return 0;
}

int file_read_uint_at(int dir_fd, const char *path, uint64_t *ret)
{
    char buf[64];
    ssize_t len = file_read_at(dir_fd, path, buf, sizeof buf);
    if (len < 0)
        return (int)len;
    return parse_leading_uint(buf, ret);
}

int file_find_key(const char *text, const char *key, uint64_t *ret)
{
    size_t key_len = strlen(key);

    if (key_len == 0)
        return parse_leading_uint(text, ret);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        if (*line == '\n')
            line++;
        if (strncmp(line, key, key_len) == 0 && line[key_len] == ' ')
            return parse_leading_uint(line + key_len + 1, ret);
    }
    return -ENOENT;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Prints every open file descriptor: "FD KIND LINK", KIND being a letter as in ls -l, and " tty"
 * for a terminal. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char letter(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return 'd';
    case S_IFSOCK:
        return 's';
    case S_IFIFO:
        return 'p';
    case S_IFCHR:
        return 'c';
    case S_IFBLK:
        return 'b';
    case S_IFREG:
        return '-';
    default:
        return '?';
    }
}

int main(void)
{
    char line[16384];
    int used = 0;

    /* All are looked at before the first byte is written: a closed stdout is an answer too. */
    for (int fd = 0; fd < 70000 && used < (int)sizeof line - 400; fd++) {
        struct stat st;
        char path[32], link[256];
        if (fcntl(fd, F_GETFD) < 0)
            continue;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, link, sizeof link - 1);
        link[n < 0 ? 0 : n] = 0;
        char kind = fstat(fd, &st) < 0 ? '?' : letter(st.st_mode);
        used += snprintf(line + used, sizeof line - (size_t)used, "%d %c %s%s\n", fd, kind, link,
                         isatty(fd) ? " tty" : "");
    }
    int tty = open("/dev/tty", O_RDWR);
    used +=
        snprintf(line + used, sizeof line - (size_t)used, "%s\n", tty < 0 ? "no-tty" : "has-tty");
    return write(1, line, (size_t)used) == used ? 0 : 1;
}

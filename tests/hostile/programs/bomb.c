/* SPDX-License-Identifier: Apache-2.0 */
/* Takes one kind of countable thing up to CAP and writes how many it got: "got N errno E". Exits 1
 * when refused. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int report(long got, int reason)
{
    char line[64];
    int n = snprintf(line, sizeof line, "got %ld errno %d\n", got, reason);
    return write(1, line, (size_t)n) == n && reason ? 1 : 0;
}

static int forks(void)
{
    for (long i = 0; i < 400; i++) {
        pid_t pid = fork();
        if (pid < 0)
            return report(i, errno);
        if (pid == 0) {
            alarm(10);
            pause();
            _exit(0);
        }
    }
    return report(400, 0);
}

static void *idle(void *unused)
{
    (void)unused;
    pause();
    return NULL;
}

static int threads(void)
{
    pthread_attr_t attr;
    pthread_t thread;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    for (long i = 0; i < 400; i++) {
        int reason = pthread_create(&thread, &attr, idle, NULL);
        if (reason)
            return report(i, reason);
    }
    return report(400, 0);
}

static int files(void)
{
    struct rlimit more = { 65536, 65536 };
    setrlimit(RLIMIT_NOFILE, &more); /* must not help */
    for (long i = 0; i < 20000; i++)
        if (open("/dev/null", O_RDONLY) < 0)
            return report(i, errno);
    return report(20000, 0);
}

static int inodes_in(const char *const *folders, int n)
{
    long got = 0;
    int reason = 0;

    for (int f = 0; f < n; f++)
        for (long i = 0; i < 3000; i++) {
            char path[64];
            snprintf(path, sizeof path, "%s/%ld", folders[f], i);
            int r = i % 3 == 0   ? mkdir(path, 0700)
                    : i % 3 == 1 ? symlink("x", path)
                                 : mknod(path, S_IFREG | 0600, 0);
            if (r < 0) {
                reason = errno;
                break;
            }
            got++;
        }
    return report(got, reason);
}

static const char *const writable[] = { "/tmp", "/dev/shm", "/sandbox" };

static int inodes(void)
{
    return inodes_in(writable, 3);
}

/* Bytes in every folder that can be written: the limit is one for all. */
static int bytes(void)
{
    static char block[65536];
    long got = 0;
    int reason = 0;

    memset(block, 'y', sizeof block);
    for (int f = 0; f < 3; f++) {
        char path[64];
        snprintf(path, sizeof path, "%s/fill", writable[f]);
        int fd = open(path, O_WRONLY | O_CREAT, 0600);
        for (int i = 0; i < 1024; i++) {
            ssize_t n = write(fd, block, sizeof block);
            if (n <= 0) {
                reason = errno;
                break;
            }
            got += n;
        }
    }
    return report(got, reason);
}

static const struct {
    const char *name;
    int (*run)(void);
} kinds[] = {
    { "forks", forks },   { "threads", threads }, { "files", files },
    { "inodes", inodes }, { "bytes", bytes },
};

int main(int argc, char **argv)
{
    alarm(10);
    for (size_t i = 0; argc > 1 && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(argv[1], kinds[i].name) == 0)
            return kinds[i].run();
    return 2;
}

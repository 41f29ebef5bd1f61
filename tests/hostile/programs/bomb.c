/* SPDX-License-Identifier: Apache-2.0 */
/* Takes one kind of countable thing up to CAP and writes how many it got: "got N errno E". Exits 1
 * when refused. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

enum { TABLES = 40, EACH = 500, OPEN_CAP = 2000, USUAL = 1024 };

/* Opens some, waits until all tables together are past their bound and it is told so, or for ever,
 * and opens as many more as it can. Returns how many it has then, and why no more. */
static int fill_table(int *reason)
{
    struct rlimit now;
    int n = 0;

    while (n < EACH && open("/dev/null", O_RDONLY) >= 0)
        n++;
    for (int i = 0; i < 500; i++) {
        getrlimit(RLIMIT_NOFILE, &now);
        if (now.rlim_max < USUAL)
            break;
        usleep(10000);
    }
    while (n < OPEN_CAP && open("/dev/null", O_RDONLY) >= 0)
        n++;
    *reason = errno;
    return n;
}

static int sum_tables(volatile int (*tables)[2])
{
    for (int done = 0; done < TABLES; usleep(2000)) {
        done = 0;
        for (int i = 0; i < TABLES; i++)
            done += tables[i][0] > 0;
    }
    long sum = 0;
    for (int i = 0; i < TABLES; i++)
        sum += tables[i][0];
    return report(sum, tables[0][1]);
}

static volatile int (*shared_tables(void))[2]
{
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static int all_files(void)
{
    volatile int(*tables)[2] = shared_tables();

    for (int i = 0; i < TABLES; i++)
        if (fork() == 0) {
            int reason;
            alarm(10);
            int n = fill_table(&reason);
            tables[i][1] = reason;
            tables[i][0] = n;
            pause();
        }
    return sum_tables(tables);
}

/* A thread with a table of open files of its own. */
static void *own_table(void *table)
{
    volatile int *mine = table;
    int reason;

    if (syscall(SYS_close_range, ~0U, ~0U, 2) < 0)
        return NULL;
    int n = fill_table(&reason);
    mine[1] = reason;
    mine[0] = n;
    pause();
    return NULL;
}

static int threads_files(void)
{
    volatile int(*tables)[2] = shared_tables();
    pthread_t thread;

    for (int i = 0; i < TABLES; i++)
        if (pthread_create(&thread, NULL, own_table, (void *)tables[i]))
            return 3;
    return sum_tables(tables);
}

/* Many threads and one table: as many files as there are, and none of them twice. */
static int one_table(void)
{
    struct rlimit now;
    pthread_t thread;

    for (int i = 0; i < TABLES; i++)
        if (pthread_create(&thread, NULL, idle, NULL))
            return 3;
    for (int i = 0; i < EACH; i++)
        if (open("/dev/null", O_RDONLY) < 0)
            return report(i, errno);
    usleep(300000); /* a few looks of pid 1's */
    getrlimit(RLIMIT_NOFILE, &now);
    return report((long)now.rlim_max, 0);
}

/* Files that are open by nothing but their mappings. */
static int mapped_files(void)
{
    enum { MAPPERS = 6, MAPPED = 30000 };
    volatile int(*tables)[2] = shared_tables();
    struct rlimit now;

    for (int i = 0; i < MAPPERS; i++)
        if (fork() == 0) {
            int n = 0;
            alarm(10);
            for (int fd; n < MAPPED && (fd = open("/dev/zero", O_RDONLY)) >= 0; n++, close(fd))
                if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
                    break;
            tables[i][0] = n;
            tables[i][1] = 1;
            pause();
        }
    int n_done = 0;
    for (int i = 0; i < 800 && n_done < MAPPERS; i++) {
        usleep(10000);
        getrlimit(RLIMIT_NOFILE, &now);
        n_done = 0;
        for (int j = 0; now.rlim_max == 0 && j < MAPPERS; j++)
            n_done += tables[j][1];
    }
    long sum = 0;
    for (int i = 0; i < MAPPERS; i++)
        sum += tables[i][1] ? tables[i][0] : MAPPED;
    return report(sum, open("/dev/null", O_RDONLY) < 0 ? errno : 0);
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
    { "forks", forks },
    { "threads", threads },
    { "files", files },
    { "inodes", inodes },
    { "bytes", bytes },
    { "all-files", all_files },
    { "threads-files", threads_files },
    { "one-table", one_table },
    { "mapped-files", mapped_files },
};

int main(int argc, char **argv)
{
    alarm(10);
    for (size_t i = 0; argc > 1 && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(argv[1], kinds[i].name) == 0)
            return kinds[i].run();
    return 2;
}

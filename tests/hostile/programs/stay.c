/* SPDX-License-Identifier: Apache-2.0 */
/* Wants to live longer than it may. Says "ready" (unless it is about to close its output), then
 * does not end by itself for LIFE seconds, each kind in its own way. A second argument is only a
 * mark for those who look from outside. */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LIFE = 40 };

/* Some attacks hit everything that can be seen: only where that is no more than a sandbox. */
static int is_alone(void)
{
    int seen = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *e; proc && (e = readdir(proc));)
        seen += e->d_name[0] >= '1' && e->d_name[0] <= '9';
    return proc && seen <= 8;
}

static void ready(void)
{
    if (write(1, "ready\n", 6) != 6)
        _exit(3);
}

static void linger(void)
{
    time_t end = time(NULL) + LIFE;
    while (time(NULL) < end)
        sleep(1);
}

static void spin(void)
{
    time_t end = time(NULL) + LIFE;
    while (time(NULL) < end)
        ;
}

static void ignore_all(void)
{
    for (int i = 1; i < 65; i++)
        signal(i, SIG_IGN);
}

static int ignores(void)
{
    ignore_all();
    ready();
    spin();
    return 0;
}

static int blocks(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    ready();
    linger();
    return 0;
}

static int stops(void)
{
    ready();
    kill(getpid(), SIGSTOP);
    linger();
    return 0;
}

static int stops_all(void)
{
    for (int i = 0; i < 3; i++)
        if (fork() == 0) {
            kill(getpid(), SIGSTOP);
            linger();
            _exit(0);
        }
    ready();
    if (is_alone())
        kill(-1, SIGSTOP);
    kill(getpid(), SIGSTOP);
    linger();
    return 0;
}

static void close_all(void)
{
    for (int fd = 0; fd < 3; fd++)
        close(fd);
}

static int closes(void)
{
    ready();
    close_all();
    linger();
    return 0;
}

/* Out of the session, away from the parent, deaf. */
static void daemon_child(void)
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            ignore_all();
            linger();
        }
        _exit(0);
    }
    wait(NULL);
}

static int daemons(void)
{
    daemon_child();
    ready();
    linger();
    return 0;
}

/* A parent in vfork() sleeps where no signal but a deadly one is heard. */
static int vforks(void)
{
    ready();
    /* By hand: a C compiler may not see what the second return does to the frame. */
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(SYS_vfork) : "rcx", "r11", "memory");
    linger();
    return 0;
}

static int breeds(void)
{
    time_t end = time(NULL) + LIFE;
    signal(SIGCHLD, SIG_IGN);
    ready();
    while (time(NULL) < end) {
        pid_t pid = fork();
        if (pid > 0)
            _exit(0); /* always a new pid, never the one that was looked at */
        setsid();
    }
    return 0;
}

/* Like breeds, but the first process stays, for its end is the end of the run. */
static int runs_away(void)
{
    if (fork() == 0)
        breeds();
    linger();
    return 0;
}

/* Orphans that are dead as soon as they are born: pid 1 has to bury them, and there is no end of
 * them. */
static int sheds(void)
{
    enum { SHEDDERS = 8 };

    for (int i = 0; i < SHEDDERS; i++)
        if (fork() == 0) {
            time_t end = time(NULL) + LIFE;
            if (fork() > 0)
                _exit(0);
            while (time(NULL) < end)
                if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0)
                    _exit(0);
            _exit(0);
        }
    ready();
    linger();
    return 0;
}

/* One of each kind stays behind while the first process leaves with the code of the second
 * argument. */
static int litters(int code)
{
    daemon_child();
    for (int kind = 0; kind < 4; kind++)
        if (fork() == 0) {
            if (kind == 0)
                ignore_all();
            if (kind == 1)
                kill(getpid(), SIGSTOP);
            if (kind == 2)
                setsid();
            if (kind == 3)
                close_all();
            linger();
            _exit(0);
        }
    ready();
    if (code == 1000)
        abort();
    return code;
}

static int burns(void)
{
    if (fork() == 0)
        spin();
    ready();
    spin();
    return 0;
}

/* Its children work for it, one after another, and leave no word of what they used: the kernel
 * reaps them. */
static int hires(void)
{
    enum { SHARE_NS = 50 * 1000 * 1000 };
    time_t end = time(NULL) + LIFE;

    signal(SIGCHLD, SIG_IGN);
    ready();
    while (time(NULL) < end) {
        struct timespec used;
        if (fork() > 0) {
            wait(NULL); /* until none is left */
            continue;
        }
        do
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
        while (used.tv_sec == 0 && used.tv_nsec < SHARE_NS);
        _exit(0);
    }
    return 0;
}

/* Waits for the end of its input: for a look from outside at a quiet process. */
static int waits(void)
{
    char c;
    ready();
    alarm(LIFE);
    while (read(0, &c, 1) > 0)
        ;
    return 0;
}

enum { LOCKS = 8000, FILES = 1 << 20, PROCESSES = 89 };

/* Each file that is closed has the kernel look through all locks of its inode. They are the last
 * one's, who dies after the others. */
static int locks(void)
{
    int fd = open("/tmp/held", O_RDWR | O_CREAT, 0600), left = PROCESSES;

    for (int i = 0; i < FILES && open("/tmp/held", O_RDWR) >= 0; i++)
        continue;
    while (left > 0 && fork() == 0)
        left--;
    for (int i = 0; left == 0 && i < LOCKS; i++) {
        struct flock lock = { .l_type = F_WRLCK, .l_start = 2 * i, .l_len = 1 };
        if (fcntl(fd, F_SETLK, &lock) < 0)
            break;
    }
    if (left == 0)
        ready();
    linger();
    return 0;
}

/* The same, with a lock for each file. */
static int flocks(void)
{
    int fd = open("/tmp/held", O_RDWR | O_CREAT, 0600);
    pid_t self = getpid();

    for (int i = 0; i < PROCESSES && fork() > 0; i++)
        continue;
    while (fd >= 0 && flock(fd, LOCK_SH) == 0)
        fd = open("/tmp/held", O_RDWR);
    if (getpid() == self)
        ready();
    linger();
    return 0;
}

static const struct {
    const char *name;
    int (*run)(void);
} kinds[] = {
    { "ignores", ignores },     { "blocks", blocks },       { "stops", stops },
    { "stops-all", stops_all }, { "closes", closes },       { "daemons", daemons },
    { "vforks", vforks },       { "runs-away", runs_away }, { "burns", burns },
    { "waits", waits },         { "hires", hires },         { "sheds", sheds },
    { "locks", locks },         { "flocks", flocks },
};

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "litters") == 0)
        return litters(atoi(argv[2]));
    for (size_t i = 0; argc > 1 && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(argv[1], kinds[i].name) == 0)
            return kinds[i].run();
    return 2;
}

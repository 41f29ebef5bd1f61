/* SPDX-License-Identifier: Apache-2.0 */
/* What programs do every day; run bare and in a sandbox, its output has to be the same. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <netdb.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long sum;
static volatile sig_atomic_t hits;
static sigjmp_buf back;
static int listener;

static void *add(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&lock);
        sum += (long)arg;
        pthread_mutex_unlock(&lock);
    }
    return arg;
}

static void threads(void)
{
    pthread_t all[40];

    for (long i = 0; i < 40; i++)
        pthread_create(&all[i], NULL, add, (void *)i);
    for (int i = 0; i < 40; i++)
        pthread_join(all[i], NULL);
    printf("threads %ld\n", sum);
}

static void on_signal(int number)
{
    hits++;
    if (number == SIGSEGV)
        siglongjmp(back, 1);
}

static void signals(void)
{
    sigset_t alarms, none;

    sigemptyset(&none);
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarms, NULL); /* until it is waited for */
    signal(SIGUSR1, on_signal);
    signal(SIGALRM, on_signal);
    signal(SIGSEGV, on_signal);
    raise(SIGUSR1);
    alarm(1);
    sigsuspend(&none);
    if (!sigsetjmp(back, 1))
        *(volatile int *)8 = 1;
    signal(SIGSEGV, SIG_DFL);
    printf("signals %d\n", hits);
    fflush(stdout);
}

static void processes(void)
{
    int status;
    pid_t child = fork();

    if (child == 0)
        execlp("sh", "sh", "-c", "echo from sh; exit 5", (char *)NULL);
    waitpid(child, &status, 0);
    printf("exit %d\n", WEXITSTATUS(status));
    child = fork();
    if (child == 0)
        for (;;)
            pause();
    kill(child, SIGTERM);
    waitpid(child, &status, 0);
    printf("signal %d\n", WTERMSIG(status));
    fflush(stdout);
    FILE *tr = popen("tr a-z A-Z", "w");
    fputs("through a pipe\n", tr);
    printf("pclose %d\n", pclose(tr));
}

static void files(void)
{
    char folder[] = "/tmp/everyday-XXXXXX", text[16] = "";
    struct stat st;
    int n = 0;

    chdir(mkdtemp(folder));
    close(open("grüße 世界", O_CREAT | O_RDWR, 0640));
    int fd = open("map", O_CREAT | O_RDWR, 0600);
    ftruncate(fd, 1 << 20);
    char *map = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    strcpy(map + 4096, "mapped");
    pread(fd, text, 7, 4096);
    symlink("map", "link");
    DIR *dir = opendir(".");
    while (readdir(dir))
        n++;
    stat("grüße 世界", &st);
    printf("files %s %d %o %d\n", text, n, st.st_mode & 0777,
           open("/nope", O_RDONLY) < 0 ? errno : 0);
    printf("shm %d\n", shm_open("/everyday", O_CREAT | O_RDWR, 0600) >= 0);
    shm_unlink("/everyday");
    sem_t *sem = sem_open("/everyday", O_CREAT, 0600, 1);
    printf("sem %d\n", sem_wait(sem));
    sem_unlink("/everyday");
    int ends[2];
    char name[32], back_text[16] = "";
    pipe(ends);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[1]);
    write(open(name, O_WRONLY), "by /dev/fd", 10);
    read(ends[0], back_text, 10);
    puts(back_text);
}

static void *echo(void *arg)
{
    char text[64];
    int fd = accept(listener, NULL, NULL);
    ssize_t n;

    while ((n = read(fd, text, sizeof text)) > 0)
        write(fd, text, (size_t)n);
    close(fd);
    return arg;
}

static void sockets(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t len = sizeof address;
    struct addrinfo *found = NULL;
    char text[64] = "";
    pthread_t server;

    listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&address, len);
    getsockname(listener, (struct sockaddr *)&address, &len);
    listen(listener, 1);
    pthread_create(&server, NULL, echo, NULL);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    connect(fd, (struct sockaddr *)&address, len);
    write(fd, "echo", 4);
    shutdown(fd, SHUT_WR);
    while (read(fd, text + strlen(text), 8) > 0)
        continue;
    pthread_join(server, NULL);
    printf("sockets %s %d\n", text, getaddrinfo("localhost", "80", NULL, &found));
}

static void words(int argc, char **argv)
{
    time_t when = 1700000000;
    wchar_t wide[32];
    char line[64], date[64];

    setlocale(LC_ALL, "");
    printf("wide %zu\n", mbstowcs(wide, "Grüße 世界 😀", 32));
    setenv("TZ", "Europe/Berlin", 1);
    tzset();
    strftime(date, sizeof date, "%F %T %Z", localtime(&when));
    puts(date);
    while (fgets(line, sizeof line, stdin))
        printf("in: %s", line);
    for (int i = 1; i < argc; i++)
        printf("[%s]", argv[i]);
    printf("%s\n", getenv("EVERYDAY"));
}

static int deep(int n)
{
    volatile char room[64] = { (char)n };
    return n == 0 ? 0 : deep(n - 1) + (room[0] == (char)n);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    threads();
    signals();
    processes();
    files();
    sockets();
    words(argc, argv);
    printf("deep %d\n", deep(50000));
    fwrite("\0\1\xff\xfe\n", 1, 5, stdout);
    for (int i = 0; i < 50000; i++)
        printf("line %d\n", i);
    abort();
}

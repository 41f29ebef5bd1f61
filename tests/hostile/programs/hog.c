/* SPDX-License-Identifier: Apache-2.0 */
/* Takes memory of one kind, a mebibyte at a time, up to CAP, and writes a letter for each one that
 * it really holds. Ends with "-- refused ERRNO" when the kernel says no, "-- NOT CONTAINED" when it
 * got everything. CAP keeps a host without a working limit alive; so does the alarm. */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, CAP = 256, MANY = 16 };

/* What one mebibyte is written as: an x, or the letter of the one in a crew who took it. */
static char unit[2] = "x";

static void say(const char *text)
{
    if (write(1, text, strlen(text)) < 0)
        _exit(3);
}

static int refused(void)
{
    char line[64];
    snprintf(line, sizeof line, "\n-- refused %d\n", errno);
    say(line);
    return 1;
}

static int contained_by_nothing(void)
{
    say("\n-- NOT CONTAINED\n");
    return 0;
}

static int map_some(int count, int flags)
{
    for (int i = 0; i < count; i++) {
        char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return refused();
        memset(p, i | 1, MIB);
        say(unit);
    }
    return 0;
}

static int heap(void)
{
    for (int i = 0; i < CAP; i++) {
        char *p = malloc(MIB);
        if (!p)
            return refused();
        memset(p, i | 1, MIB);
        say(unit);
    }
    return contained_by_nothing();
}

static int anon(void)
{
    return map_some(CAP, MAP_PRIVATE) ? 1 : contained_by_nothing();
}

static int shared(void)
{
    return map_some(CAP, MAP_SHARED) ? 1 : contained_by_nothing();
}

/* One call that takes everything: a watcher has no second look. */
static int populate(void)
{
    size_t size = (size_t)CAP * MIB;
    char *p =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (p == MAP_FAILED)
        return refused();
    unsigned char *resident = calloc(1, size / 4096);
    size_t pages = 0;
    if (!resident || mincore(p, size, resident) < 0)
        return refused();
    for (size_t i = 0; i < size / 4096; i++)
        pages += resident[i] & 1;
    for (size_t i = 0; i < pages / 256; i++)
        say(unit);
    return contained_by_nothing();
}

static int fill_file(int fd, int count)
{
    static char block[MIB];
    memset(block, 'y', sizeof block);
    for (int i = 0; i < count; i++) {
        for (size_t done = 0; done < sizeof block;) {
            ssize_t n = write(fd, block + done, sizeof block - done);
            if (n <= 0)
                return refused();
            done += (size_t)n;
        }
        say(unit);
    }
    return 0;
}

static int memory_file(void)
{
    int fd = memfd_create("hog", 0);
    return fd < 0 ? refused() : fill_file(fd, CAP) ? 1 : contained_by_nothing();
}

static int named_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    return fd < 0 ? refused() : fill_file(fd, CAP) ? 1 : contained_by_nothing();
}

static int tmp(void)
{
    return named_file("/tmp/hog");
}

static int dev_shm(void)
{
    return named_file("/dev/shm/hog");
}

static int sysv_some(int count, int keep)
{
    for (int i = 0; i < count; i++) {
        int id = shmget(IPC_PRIVATE, MIB, IPC_CREAT | 0600);
        char *p = id < 0 ? MAP_FAILED : shmat(id, NULL, 0);
        if (p == MAP_FAILED)
            return refused();
        memset(p, i | 1, MIB);
        if (!keep)
            shmdt(p);
        say(unit);
    }
    return 0;
}

static int sysv(void)
{
    return sysv_some(CAP, 1) ? 1 : contained_by_nothing();
}

/* Segments that nobody has mapped: no process' counters show them. */
static int sysv_detached(void)
{
    return sysv_some(CAP, 0) ? 1 : contained_by_nothing();
}

static int sysv_messages(void)
{
    static struct {
        long type;
        char text[8192];
    } message = { 1, "m" };
    size_t bytes = 0, told = 0;

    while (bytes < (size_t)CAP * MIB) {
        int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
        if (id < 0)
            return refused();
        while (msgsnd(id, &message, sizeof message.text, IPC_NOWAIT) == 0)
            bytes += sizeof message.text;
        for (; told < bytes / MIB; told++)
            say(unit);
    }
    return contained_by_nothing();
}

static size_t told_bytes;

static void tell(size_t bytes)
{
    told_bytes += bytes;
    for (; told_bytes >= MIB; told_bytes -= MIB)
        say(unit);
}

/* As many socket pairs as one process may open, both directions full. */
static int fill_sockets(size_t cap)
{
    static char block[16384];
    size_t bytes = 0;

    for (;;) {
        int pair[2], size = 1 << 20;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) < 0)
            return errno;
        for (int side = 0; side < 2; side++) {
            setsockopt(pair[side], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
            for (ssize_t n; (n = write(pair[side], block, sizeof block)) > 0; bytes += (size_t)n)
                tell((size_t)n);
            if (bytes >= cap)
                return 0;
        }
    }
}

static int fill_pipes(size_t cap)
{
    static char block[65536];
    for (size_t bytes = 0; bytes < cap;) {
        int ends[2];
        if (pipe2(ends, O_NONBLOCK) < 0)
            return errno;
        fcntl(ends[1], F_SETPIPE_SZ, MIB);
        for (ssize_t n; (n = write(ends[1], block, sizeof block)) > 0; bytes += (size_t)n)
            tell((size_t)n);
    }
    return 0;
}

static int pipes(void)
{
    errno = fill_pipes((size_t)CAP * MIB);
    return errno ? refused() : contained_by_nothing();
}

/* A little of each kind, none near the limit alone: the sum is what counts. Kinds that are not to
 * be had are left out. */
static int sum(void)
{
    int fd = open("/tmp/hog", O_WRONLY | O_CREAT, 0600), memory = memfd_create("hog", 0);
    int id = shmget(IPC_PRIVATE, MIB, IPC_CREAT | 0600);

    if (fd >= 0 && fill_file(fd, 20))
        return 1;
    if (memory >= 0 && fill_file(memory, 20))
        return 1;
    if (id >= 0 && sysv_some(20, 0))
        return 1;
    fill_sockets((size_t)20 * MIB);
    if (map_some(20, MAP_PRIVATE))
        return 1;
    return map_some(CAP - 100, MAP_SHARED) ? 1 : contained_by_nothing();
}

/* Pipe buffers beside everything that a process may map. */
static int pipes_and_heap(void)
{
    fill_pipes((size_t)CAP * MIB / 2);
    return map_some(CAP / 2, MAP_PRIVATE) ? 1 : contained_by_nothing();
}

/* Runs job(n) in n processes at once; each keeps what it has until all are done or one is killed.
 */
static int crew(int n, int (*job)(int))
{
    int *answers = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (answers == MAP_FAILED)
        return refused();
    for (int i = 0; i < n; i++) {
        pid_t pid = fork();
        if (pid < 0)
            return refused();
        if (pid == 0) {
            alarm(15); /* not inherited */
            unit[0] = (char)('a' + i);
            answers[i] = 1 + job(n);
            pause();
            _exit(0);
        }
    }
    for (;;) {
        int done = 0, reason = 0, status;
        if (waitpid(-1, &status, WNOHANG) > 0)
            return 9; /* nobody leaves of his own will */
        for (int i = 0; i < n; i++) {
            done += *(volatile int *)&answers[i] != 0;
            reason = answers[i] > 1 ? answers[i] - 1 : reason;
        }
        if (done == n) {
            errno = reason;
            return reason ? refused() : contained_by_nothing();
        }
        usleep(2000);
    }
}

static int share_of_sockets(int n)
{
    return fill_sockets((size_t)CAP * MIB / (size_t)n);
}

/* A few processes, for one alone may run out of descriptors first. */
static int sockets(void)
{
    return crew(4, share_of_sockets);
}

static int share_of_private(int n)
{
    return map_some(CAP / n, MAP_PRIVATE);
}

static int share_of_shared(int n)
{
    return map_some(CAP / n, MAP_SHARED);
}

static int many_private(void)
{
    return crew(MANY, share_of_private);
}

static int many_shared(void)
{
    return crew(MANY, share_of_shared);
}

static void *private_in_thread(void *n)
{
    map_some(CAP / *(int *)n, MAP_PRIVATE);
    for (;;)
        pause();
    return NULL;
}

/* The first thread, in whose name a process is listed, is gone before any memory is taken. */
static int share_without_leader(int n)
{
    static int count;
    pthread_t thread;

    count = n;
    errno = pthread_create(&thread, NULL, private_in_thread, &count);
    if (errno)
        return errno;
    syscall(SYS_exit, 0);
    return 0;
}

static int many_without_leader(void)
{
    return crew(4, share_without_leader);
}

static int anon_in_child(void *unused)
{
    (void)unused;
    _exit(anon());
}

/* Two processes with one address space, neither of which waits for the other. */
static int one_space(void)
{
    static char stack[65536] __attribute__((aligned(16)));
    int status;
    pid_t pid = clone(anon_in_child, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);

    if (pid < 0)
        return refused();
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 9;
}

/* Whose sender is gone: what he sent is charged to nobody who is left. */
static size_t one_left_stream(void)
{
    static char block[32768];
    int pair[2], size = 1 << 30;
    size_t bytes = 0;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) < 0)
        return 0;
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    for (ssize_t n; (n = write(pair[0], block, sizeof block)) > 0;)
        bytes += (size_t)n;
    close(pair[0]);
    return bytes;
}

/* A queue of a few large messages, each from another sender, behind an empty one. */
static size_t one_left_datagrams(void)
{
    static char block[180000];
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    socklen_t len = sizeof(sa_family_t);
    int to = socket(AF_UNIX, SOCK_DGRAM, 0);
    size_t bytes = 0;

    if (to < 0 || bind(to, (struct sockaddr *)&address, len) < 0)
        return 0;
    len = sizeof address;
    getsockname(to, (struct sockaddr *)&address, &len);
    for (int i = 0; i < 10; i++) {
        int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
        if (from < 0)
            return 0;
        ssize_t n =
            sendto(from, block, i > 0 ? sizeof block : 0, 0, (struct sockaddr *)&address, len);
        bytes += n > 0 ? (size_t)n : 0;
        close(from);
    }
    return bytes;
}

/* What came before a reset can still be read, by a socket that is in no list any more. */
static size_t one_reset(void)
{
    static char block[65536];
    struct sockaddr_in address = { .sin_family = AF_INET };
    const struct linger at_once = { .l_onoff = 1 };
    socklen_t len = sizeof address;
    int size = 1 << 30, to = socket(AF_INET, SOCK_STREAM, 0);
    int from = socket(AF_INET, SOCK_STREAM, 0);
    size_t bytes = 0;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(to, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    if (bind(to, (struct sockaddr *)&address, len) < 0 || listen(to, 1) < 0)
        return 0;
    getsockname(to, (struct sockaddr *)&address, &len);
    if (connect(from, (struct sockaddr *)&address, len) < 0 || accept(to, NULL, NULL) < 0)
        return 0;
    close(to);
    for (ssize_t n; (n = send(from, block, sizeof block, MSG_DONTWAIT)) > 0;)
        bytes += (size_t)n;
    int waiting = 0;
    if (ioctl(from, TIOCOUTQ, &waiting) == 0)
        bytes -= (size_t)waiting;
    setsockopt(from, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(from);
    return bytes;
}

/* The answer to a request that makes no sense quotes all of it. */
static size_t one_netlink(void)
{
    static struct {
        struct nlmsghdr header;
        char rest[100000];
    } request;
    int size = 1 << 30, fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    size_t bytes = 0;

    request.header = (struct nlmsghdr){ .nlmsg_len = sizeof request,
                                        .nlmsg_type = RTM_NEWLINK,
                                        .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK };
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    for (int i = 0; i < 4; i++) {
        ssize_t n = send(fd, &request, sizeof request, MSG_DONTWAIT);
        bytes += n > 0 ? (size_t)n : 0;
    }
    return bytes;
}

static int connected_udp(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(9) };
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0 ? -1 : fd;
}

/* A datagram that more is to be added to. */
static size_t one_corked(void)
{
    static char block[65000];
    int fd = connected_udp();
    ssize_t n = fd < 0 ? -1 : send(fd, block, sizeof block, MSG_MORE);

    return n > 0 ? (size_t)n : 0;
}

/* Each comes back with the time at which it was sent, and nobody reads that. */
static size_t one_error_queue(void)
{
    enum { TIMESTAMPING = 37, AT_SENDING = 2, TIMES = 3 };
    static char block[60000];
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = { .header = { .cmsg_level = SOL_SOCKET,
                              .cmsg_type = TIMESTAMPING,
                              .cmsg_len = CMSG_LEN(sizeof(int)) } };
    struct iovec part = { block, sizeof block };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };
    int fd = connected_udp();
    size_t bytes = 0;

    memcpy(CMSG_DATA(&control.header), &(int){ AT_SENDING }, sizeof(int));
    for (int i = 0; fd >= 0 && i < TIMES * 2; i++) /* every other one is refused: nobody listens */
        bytes += sendmsg(fd, &message, MSG_DONTWAIT) > 0 ? sizeof block : 0;
    return bytes;
}

/* A connection that nobody accepts, whose other end is gone. */
static size_t one_unaccepted(void)
{
    static char block[65536];
    static struct sockaddr_in address = { .sin_family = AF_INET };
    static int listener = -1;
    socklen_t len = sizeof address;
    int size = 4 << 20, waiting = 0;
    size_t bytes = 0;

    if (listener < 0) {
        listener = socket(AF_INET, SOCK_STREAM, 0);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
        if (bind(listener, (struct sockaddr *)&address, len) < 0 || listen(listener, 4096) < 0)
            return 0;
        getsockname(listener, (struct sockaddr *)&address, &len);
    }
    int from = socket(AF_INET, SOCK_STREAM, 0);
    if (from < 0 || connect(from, (struct sockaddr *)&address, len) < 0)
        return 0;
    for (ssize_t n; (n = send(from, block, sizeof block, MSG_DONTWAIT)) > 0;)
        bytes += (size_t)n;
    if (ioctl(from, TIOCOUTQ, &waiting) == 0)
        bytes -= (size_t)waiting;
    close(from);
    return bytes;
}

static int one_by_one(size_t (*one)(void))
{
    for (size_t bytes = 0, n; bytes < (size_t)CAP * MIB; bytes += n) {
        n = one();
        if (n == 0)
            return refused();
        tell(n);
    }
    return contained_by_nothing();
}

static int left_streams(void)
{
    return one_by_one(one_left_stream);
}

static int left_datagrams(void)
{
    return one_by_one(one_left_datagrams);
}

static int resets(void)
{
    return one_by_one(one_reset);
}

static int netlink(void)
{
    return one_by_one(one_netlink);
}

static int corked(void)
{
    return one_by_one(one_corked);
}

static int share_of_corked(int n)
{
    for (size_t bytes = 0, one; bytes < (size_t)n * MIB; bytes += one) {
        one = one_corked();
        if (one == 0)
            return refused();
        tell(one);
    }
    return 0;
}

static int corked_by_many(void)
{
    return crew(MANY, share_of_corked);
}

static int error_queues(void)
{
    return one_by_one(one_error_queue);
}

static int unaccepted(void)
{
    return one_by_one(one_unaccepted);
}

/* A routing header for what a socket sends. The kernel keeps it in a page, rounded up. */
static int share_of_options(int n)
{
    enum { HEADER = 2040, PAGE = 4096, IPV6_ROUTING = 57 };
    static unsigned char header[HEADER] = { 0, HEADER / 8 - 1, 4, 126, 126 };

    for (size_t bytes = 0; bytes < (size_t)CAP * MIB / (size_t)n; bytes += PAGE) {
        int fd = socket(AF_INET6, SOCK_DGRAM, 0);
        if (fd < 0 || setsockopt(fd, IPPROTO_IPV6, IPV6_ROUTING, header, sizeof header) < 0)
            return errno;
        tell(PAGE);
    }
    return 0;
}

static int options(void)
{
    return crew(MANY, share_of_options);
}

/* What one of the calls below keeps while it waits: half as much as was refused. */
static volatile size_t kept_bytes;

/* What a call that waits for room in a socket has copied of its control data. The first, which does
 * not wait, tells whether the kernel takes it. */
static void *wait_with_control(void *ret_errno)
{
    static char room[120000];
    char letter = 0;
    struct iovec part = { &letter, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = room };
    int pair[2], size = 1;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0) {
        *(volatile int *)ret_errno = errno;
        return NULL;
    }
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    while (send(pair[0], &letter, 1, MSG_DONTWAIT) == 1)
        continue;
    for (size_t most = sizeof room; kept_bytes == 0 || errno == ENOBUFS; most /= 2) {
        kept_bytes = message.msg_controllen = most;
        ((struct cmsghdr *)room)->cmsg_len = most; /* of no protocol: it is passed over */
        sendmsg(pair[0], &message, MSG_DONTWAIT);
    }
    message.msg_controllen = kept_bytes;
    *(volatile int *)ret_errno = errno;
    sendmsg(pair[0], &message, 0);
    return NULL;
}

/* Mappings that hold nothing, each with rights other than its neighbour's, in many processes. */
static int mappings(void)
{
    enum { EACH = 60000, BYTES = 200, PAGE = 4096 };
    char *p = mmap(NULL, (size_t)EACH * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return refused();
    for (int i = 0; i < EACH; i += 2)
        if (mprotect(p + (size_t)i * PAGE, PAGE, PROT_READ) < 0)
            return refused();
    tell((size_t)EACH * BYTES);
    for (int i = 1; i < CAP * (MIB / BYTES) / EACH; i++) {
        pid_t pid = fork();
        if (pid < 0)
            return refused();
        if (pid == 0) {
            alarm(15);
            pause();
            _exit(0);
        }
        tell((size_t)EACH * BYTES);
    }
    return contained_by_nothing();
}

/* Locks of one byte each, in many files. */
static int share_of_locks(int n)
{
    enum { FILES = 900, BYTES = 192 };
    int fds[FILES];

    for (int i = 0; i < FILES; i++) {
        fds[i] = open("/tmp", O_TMPFILE | O_RDWR, 0600); /* gone with us */
        if (fds[i] < 0)
            return errno;
    }
    for (int i = 0; i < CAP * (MIB / BYTES) / n; i++) {
        struct flock lock = { .l_type = F_WRLCK, .l_start = i / FILES * 2L, .l_len = 1 };
        if (fcntl(fds[i % FILES], F_SETLK, &lock) < 0)
            return errno;
        tell(BYTES);
    }
    return 0;
}

static int locks(void)
{
    return crew(MANY, share_of_locks);
}

/* Names of mappings, a text each. */
static int share_of_names(int n)
{
    enum { EACH = 60000, BYTES = 96, PAGE = 4096 };
    char *p = mmap(NULL, (size_t)EACH * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
         name[80];

    if (p == MAP_FAILED)
        return errno;
    for (int i = 0; i < EACH && i < CAP * (MIB / BYTES) / n; i++) {
        snprintf(name, sizeof name, "%079d", i);
        if (prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, p + (size_t)i * PAGE, PAGE, name) < 0)
            return errno;
        tell(BYTES);
    }
    return 0;
}

static int names(void)
{
    return crew(MANY, share_of_names);
}

/* What a call that waits for many files keeps of each; one can be named as often as one likes. */
static void *wait_for_many(void *ret_errno)
{
    enum { ENTRIES = 16000, BYTES = 72 };
    static struct pollfd list[ENTRIES];
    static int pair[2];

    if (pair[1] == 0 && pipe(pair) < 0)
        return NULL;
    for (int i = 0; i < ENTRIES && list[i].events == 0; i++)
        list[i] = (struct pollfd){ .fd = pair[0], .events = POLLIN };
    for (nfds_t most = ENTRIES; kept_bytes == 0 || errno == EINVAL; most /= 2) {
        errno = EAGAIN;
        poll(list, most, 0);
        kept_bytes = most * BYTES;
    }
    *(volatile int *)ret_errno = EAGAIN;
    poll(list, kept_bytes / BYTES, -1);
    return NULL;
}

/* Threads that wait in a call. They say EAGAIN just before. */
static int in_threads(void *(*wait)(void *))
{
    for (size_t bytes = 0; bytes < (size_t)CAP * MIB; bytes += kept_bytes) {
        pthread_attr_t small;
        pthread_t thread;
        volatile int answer = 0;

        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 16384);
        errno = pthread_create(&thread, &small, wait, (void *)&answer);
        if (errno)
            return refused();
        while (answer == 0)
            sched_yield();
        errno = answer;
        if (answer != EAGAIN)
            return refused();
        tell(kept_bytes);
    }
    return contained_by_nothing();
}

static int control(void)
{
    return in_threads(wait_with_control);
}

static int polls(void)
{
    return in_threads(wait_for_many);
}

static const struct {
    const char *name;
    int (*run)(void);
} kinds[] = {
    { "heap", heap },
    { "anon", anon },
    { "shared", shared },
    { "populate", populate },
    { "memfd", memory_file },
    { "tmp", tmp },
    { "dev-shm", dev_shm },
    { "sysv", sysv },
    { "sysv-detached", sysv_detached },
    { "sysv-messages", sysv_messages },
    { "sockets", sockets },
    { "pipes", pipes },
    { "pipes-and-heap", pipes_and_heap },
    { "sum", sum },
    { "many", many_private },
    { "many-shared", many_shared },
    { "many-without-leader", many_without_leader },
    { "one-space", one_space },
    { "left-streams", left_streams },
    { "left-datagrams", left_datagrams },
    { "resets", resets },
    { "netlink", netlink },
    { "corked", corked },
    { "corked-by-many", corked_by_many },
    { "error-queues", error_queues },
    { "unaccepted", unaccepted },
    { "options", options },
    { "control", control },
    { "mappings", mappings },
    { "names", names },
    { "locks", locks },
    { "polls", polls },
};

int main(int argc, char **argv)
{
    alarm(15);
    for (size_t i = 0; argc > 1 && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(argv[1], kinds[i].name) == 0)
            return kinds[i].run();
    return 2;
}

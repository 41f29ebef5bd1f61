/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter, asked from inside: each test forks a child that loads it and makes the calls
 * themselves. No privilege is needed. That the tables agree with the rows for every number and
 * border value is proved by the generator; here it is the kernel that answers.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/fdpass.h"
#include "sys/seccomp.h"
#include "sys/spawn.h"

#define HIGH_BITS 0xffffffff00000000UL
#define NAME      (uintptr_t) "x"

/* Any value that is not negative will do. */
#define WORKS (-1)
/* The call reached the kernel, which may have refused it by itself. */
#define REACHES (-2)

struct call {
    const char *what;
    int want; /* errno, 0 for the value 0, WORKS or REACHES */
    long nr;
    unsigned long args[6];
};

/* Ends the child with a message that cmocka's output shows. */
__attribute__((noreturn, format(printf, 1, 2))) static void fail_child(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    _exit(1);
}

static void no_core(void)
{
    struct rlimit none = { 0, 0 };
    setrlimit(RLIMIT_CORE, &none);
}

/* Runs body under the filter in a child, and gives its wait status. */
static int run_filtered(enum seccomp_profile profile, void (*body)(const void *), const void *arg)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        no_core();
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
            fail_child("no_new_privs: %s", strerror(errno));
        int r = seccomp_load(profile);
        if (r < 0)
            fail_child("seccomp_load: %s", strerror(-r));
        body(arg);
        _exit(0);
    }

    int status = 0;
    pid_t got;
    do
        got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    assert_int_equal(got, pid);
    return status;
}

static bool answer_fits(const struct call *call, long value, int errnum)
{
    if (call->want == WORKS)
        return value >= 0;
    if (call->want == REACHES)
        return value >= 0 || (errnum != EPERM && errnum != ENOSYS);
    if (call->want == 0)
        return value == 0;
    return value < 0 && errnum == call->want;
}

static void make_calls(const void *arg)
{
    for (const struct call *call = arg; call->what; call++) {
        const unsigned long *a = call->args;
        errno = 0;
        long value = syscall(call->nr, a[0], a[1], a[2], a[3], a[4], a[5]);
        int errnum = errno;
        if (!answer_fits(call, value, errnum))
            fail_child("%s: gave %ld (%s)", call->what, value, strerror(errnum));
        if (call->nr == SYS_clone && value == 0)
            _exit(0);
    }
}

static void check_calls(enum seccomp_profile profile, const struct call *calls)
{
    assert_int_equal(run_filtered(profile, make_calls, calls), 0);
}

static void test_supported(void **state)
{
    (void)state;
    assert_true(seccomp_supported());
    assert_in_range(seccomp_allowed_count(), 200, 300);
}

static void load_without_no_new_privs(void)
{
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        _exit(77);
    if (seccomp_load(SECCOMP_PROFILE_DEFAULT) != -EACCES)
        _exit(1);
    /* and nothing was loaded */
    _exit(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2);
}

static void test_needs_no_new_privs(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        load_without_no_new_privs();
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip(); /* the whole test run has it already */
    assert_int_equal(status, 0);
}

/* A cay inside cay has to find out that this layer can not be had, not believe it is there. */
static void load_again(const void *arg)
{
    (void)arg;
    if (seccomp_supported())
        fail_child("supported under its own filter");
    int r = seccomp_load(SECCOMP_PROFILE_DEFAULT);
    if (r != -ENOSYS)
        fail_child("a second seccomp_load gave %d", r);
}

static void test_nested(void **state)
{
    (void)state;
    assert_int_equal(run_filtered(SECCOMP_PROFILE_DEFAULT, load_again, NULL), 0);
}

static void ignore(int number)
{
    (void)number;
}

/* Passes the notice on, is under the list, and ends, as programs do or as cay's own code does. */
static void be_noticed(int sock, enum seccomp_profile profile, bool leaves)
{
    int fd;
    struct sigaction action = { .sa_handler = ignore }; /* and no SA_RESTART */

    no_core();
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* where the test fails it would be held for good */
    sigaction(SIGUSR1, &action, NULL);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    int r = seccomp_load_notif(profile, &fd);
    if (r < 0)
        fail_child("seccomp_load_notif: %s", strerror(-r));
    if (fdpass_send(sock, "x", 1, &fd, 1) < 0)
        fail_child("pass the fd on");
    load_again(NULL);
    if (leaves)
        spawn_leave(7);
    syscall(SYS_exit_group, 7);
    _exit(99); /* a signal has ended the call */
}

static void check_noticed(enum seccomp_profile profile, bool leaves)
{
    int pair[2], status, list[FDPASS_MAX];
    unsigned n = 0;
    char word;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        be_noticed(pair[1], profile, leaves);
    close(pair[1]);
    assert_int_equal(fdpass_recv(pair[0], &word, 1, list, &n), 0);
    close(pair[0]);
    if (n == 1) { /* else this kernel can't, and it just ends */
        struct pollfd told = { .fd = list[0], .events = POLLIN };
        assert_int_equal(poll(&told, 1, -1), 1);
        assert_int_equal(told.revents, leaves ? POLLIN : POLLHUP);
    }
    if (n == 1 && leaves) {
        struct seccomp_event event;
        kill(pid, SIGUSR1); /* it waits for being received, which a signal would end */
        assert_int_equal(seccomp_notif_recv(list[0], &event), 0);
        assert_int_equal(event.pid, pid);
        assert_int_equal(event.status, 7 << 8);
        assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
        seccomp_notif_continue(list[0], &event);
    }
    if (n == 1)
        close(list[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 7 << 8);
}

static void test_noticed(void **state)
{
    (void)state;
    for (int leaves = 0; leaves < 2; leaves++) {
        check_noticed(SECCOMP_PROFILE_DEFAULT, leaves);
        check_noticed(SECCOMP_PROFILE_WATCHED, leaves);
    }
}

static void test_ordinary_calls(void **state)
{
    (void)state;
    static const struct call calls[] = {
        { "getppid", WORKS, SYS_getppid },
        { "openat", WORKS, SYS_openat, { (unsigned long)AT_FDCWD, (uintptr_t) "/", O_RDONLY } },
        { "getrandom", WORKS, SYS_getrandom, { 0, 0, 0 } },
        { "memfd_create", WORKS, SYS_memfd_create, { (uintptr_t) "x", MFD_CLOEXEC } },
        { "shmget", REACHES, SYS_shmget, { IPC_PRIVATE, 0, 0 } },
        { "PR_GET_SECCOMP", WORKS, SYS_prctl, { PR_GET_SECCOMP } },
        { "PR_SET_NAME", 0, SYS_prctl, { PR_SET_NAME, (uintptr_t) "x" } },
        { "personality, read", WORKS, SYS_personality, { 0xffffffff } },
        { "mmap", WORKS, SYS_mmap, { 0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1UL, 0 } },
        { "sync", 0, SYS_sync },
        { "fsync", 0, SYS_fsync, { -1UL } },
        { "fdatasync", 0, SYS_fdatasync, { -1UL } },
        { "sync_file_range", 0, SYS_sync_file_range, { -1UL, 0, 0, 7 } },
        { "MS_SYNC", 0, SYS_msync, { 1, 1, HIGH_BITS | MS_SYNC } },
        { "MS_ASYNC", EINVAL, SYS_msync, { 1, 1, MS_ASYNC } },
        { "POSIX_FADV_DONTNEED", 0, SYS_fadvise64, { -1UL, 0, 0, POSIX_FADV_DONTNEED } },
        { "POSIX_FADV_WILLNEED", EBADF, SYS_fadvise64, { -1UL, 0, 0, POSIX_FADV_WILLNEED } },
        { "ppoll", EFAULT, SYS_ppoll, { 0, 4095, 1 } },
        { "ppoll of many", EINVAL, SYS_ppoll, { 0, 4096, 1 } },
        { "pselect6", EFAULT, SYS_pselect6, { 4095, 0, 0, 0, 1 } },
        { "pselect6 of many", EINVAL, SYS_pselect6, { 4096, 0, 0, 0, 1 } },
        { NULL },
    };
    check_calls(SECCOMP_PROFILE_DEFAULT, calls);
}

static void *return_arg(void *arg)
{
    return arg;
}

/* Threads and children by way of libc, which tries clone3 first. */
static void threads_and_children(const void *arg)
{
    (void)arg;
    pthread_t thread;
    void *value = NULL;
    int mark;
    if (pthread_create(&thread, NULL, return_arg, &mark) != 0)
        fail_child("pthread_create");
    if (pthread_join(thread, &value) != 0 || value != &mark)
        fail_child("pthread_join");

    auto_close int fd = memfd_create("out", MFD_CLOEXEC);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fd, STDOUT_FILENO);
        execl("/bin/sh", "sh", "-c", "echo a | tr a b; grep ^Seccomp: /proc/self/status", NULL);
        _exit(127);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        fail_child("sh ended with %#x", status);
    char text[64] = "";
    if (pread(fd, text, sizeof(text) - 1, 0) < 0 || strcmp(text, "b\nSeccomp:\t2\n") != 0)
        fail_child("sh said: %s", text);
}

static void test_threads_and_children(void **state)
{
    (void)state;
    assert_int_equal(run_filtered(SECCOMP_PROFILE_DEFAULT, threads_and_children, NULL), 0);
}

static void test_namespaces(void **state)
{
    (void)state;
    static const struct call calls[] = {
        { "clone3", ENOSYS, SYS_clone3, { 0, 0 } },
        { "unshare(CLONE_NEWUSER)", EPERM, SYS_unshare, { CLONE_NEWUSER } },
        { "unshare(0)", EPERM, SYS_unshare, { 0 } },
        { "setns", EPERM, SYS_setns, { -1UL, 0 } },
        { "clone(CLONE_NEWUSER)", EPERM, SYS_clone, { CLONE_NEWUSER | SIGCHLD } },
        { "clone(CLONE_NEWNS)", EPERM, SYS_clone, { CLONE_NEWNS | SIGCHLD } },
        { "clone(CLONE_NEWPID)", EPERM, SYS_clone, { CLONE_NEWPID | SIGCHLD } },
        { "clone(CLONE_NEWNET)", EPERM, SYS_clone, { CLONE_NEWNET | SIGCHLD } },
        { "clone(CLONE_NEWIPC)", EPERM, SYS_clone, { CLONE_NEWIPC | SIGCHLD } },
        { "clone(CLONE_NEWUTS)", EPERM, SYS_clone, { CLONE_NEWUTS | SIGCHLD } },
        { "clone(CLONE_NEWCGROUP)", EPERM, SYS_clone, { CLONE_NEWCGROUP | SIGCHLD } },
        { "clone(0x80)", EPERM, SYS_clone, { 0x80 } },
        { "clone, high bits", EPERM, SYS_clone, { HIGH_BITS | CLONE_NEWUSER | SIGCHLD } },
        { "clone(SIGCHLD)", WORKS, SYS_clone, { SIGCHLD } },
        { NULL },
    };
    check_calls(SECCOMP_PROFILE_DEFAULT, calls);
}

static void test_sockets(void **state)
{
    (void)state;
    static const struct call calls[] = {
        { "unix", WORKS, SYS_socket, { AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0 } },
        { "unix seqpacket", WORKS, SYS_socket, { AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0 } },
        { "tcp", WORKS, SYS_socket, { AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0 } },
        { "tcp, named", WORKS, SYS_socket, { AF_INET, SOCK_STREAM, IPPROTO_TCP } },
        { "udp", WORKS, SYS_socket, { AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, IPPROTO_UDP } },
        { "tcp6", REACHES, SYS_socket, { AF_INET6, SOCK_STREAM, 0 } },
        { "netlink route", WORKS, SYS_socket, { AF_NETLINK, SOCK_RAW, NETLINK_ROUTE } },
        { "netlink audit", EAFNOSUPPORT, SYS_socket, { AF_NETLINK, SOCK_RAW, NETLINK_AUDIT } },
        { "netfilter", EAFNOSUPPORT, SYS_socket, { AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER } },
        { "AF_ALG", EAFNOSUPPORT, SYS_socket, { AF_ALG, SOCK_SEQPACKET, 0 } },
        { "AF_ALG, high bits", EAFNOSUPPORT, SYS_socket, { HIGH_BITS | AF_ALG, SOCK_SEQPACKET } },
        { "AF_PACKET", EAFNOSUPPORT, SYS_socket, { AF_PACKET, SOCK_RAW, 0 } },
        { "AF_VSOCK", EAFNOSUPPORT, SYS_socket, { AF_VSOCK, SOCK_STREAM, 0 } },
        { "AF_XDP", EAFNOSUPPORT, SYS_socket, { 44, SOCK_RAW, 0 } },
        { "raw", EPERM, SYS_socket, { AF_INET, SOCK_RAW, IPPROTO_ICMP } },
        { "raw6", EPERM, SYS_socket, { AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW } },
        { "raw, high bits", EPERM, SYS_socket, { AF_INET, HIGH_BITS | SOCK_RAW, IPPROTO_RAW } },
        { "SOCK_PACKET", EPERM, SYS_socket, { AF_INET, SOCK_PACKET, 0 } },
        { "sctp", EPROTONOSUPPORT, SYS_socket, { AF_INET, SOCK_STREAM, IPPROTO_SCTP } },
        { "mptcp", EPROTONOSUPPORT, SYS_socket, { AF_INET, SOCK_STREAM, 262 } },
        { NULL },
    };
    check_calls(SECCOMP_PROFILE_DEFAULT, calls);
}

static void socket_options(const void *arg)
{
    (void)arg;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        fail_child("socketpair: %s", strerror(errno));
    if (socketpair(AF_INET, SOCK_STREAM, 0, (int[2]){ -1, -1 }) == 0 || errno != EAFNOSUPPORT)
        fail_child("an INET socketpair: %s", strerror(errno));
    if (send(pair[0], "x", 1, 0) != 1)
        fail_child("send: %s", strerror(errno));
    if (send(pair[0], "x", 1, MSG_OOB) == 1 || errno != EOPNOTSUPP)
        fail_child("out-of-band data: %s", strerror(errno));

    int one = 1;
    if (setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) < 0)
        fail_child("SO_PASSCRED: %s", strerror(errno));
    if (setsockopt(pair[0], SOL_SOCKET, SO_ATTACH_FILTER, &one, sizeof(one)) == 0 || errno != EPERM)
        fail_child("SO_ATTACH_FILTER: %s", strerror(errno));

    auto_close int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (setsockopt(tcp, IPPROTO_TCP, TCP_ULP, "tls", 3) == 0 || errno != ENOENT)
        fail_child("TCP_ULP: %s", strerror(errno));
    if (setsockopt(tcp, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0)
        fail_child("TCP_NODELAY: %s", strerror(errno));
}

static void test_socket_options(void **state)
{
    (void)state;
    static const struct call calls[] = {
        { "IP_ADD_MEMBERSHIP", ENODEV, SYS_setsockopt, { -1UL, 0, IP_ADD_MEMBERSHIP } },
        { "IP_ADD_SOURCE_MEMBERSHIP", ENODEV, SYS_setsockopt, { -1UL, 0, 39 } },
        { "high bits", ENODEV, SYS_setsockopt, { -1UL, HIGH_BITS, HIGH_BITS | 35 } },
        { "MCAST_JOIN_GROUP", ENODEV, SYS_setsockopt, { -1UL, 0, MCAST_JOIN_GROUP } },
        { "IPV6_JOIN_GROUP", ENODEV, SYS_setsockopt, { -1UL, IPPROTO_IPV6, IPV6_JOIN_GROUP } },
        { "MCAST_JOIN_GROUP, 6", ENODEV, SYS_setsockopt, { -1UL, IPPROTO_IPV6, 42 } },
        { "MCAST_JOIN_SOURCE_GROUP, 6", ENODEV, SYS_setsockopt, { -1UL, IPPROTO_IPV6, 46 } },
        { "IPV6_2292PKTOPTIONS", EPERM, SYS_setsockopt, { -1UL, IPPROTO_IPV6, 6 } },
        { "IPV6_RTHDR", EPERM, SYS_setsockopt, { -1UL, IPPROTO_IPV6, IPV6_RTHDR } },
        { "IPV6_DSTOPTS", EPERM, SYS_setsockopt, { -1UL, IPPROTO_IPV6, IPV6_DSTOPTS } },
        { "IPV6_RECVRTHDR", EBADF, SYS_setsockopt, { -1UL, IPPROTO_IPV6, IPV6_RECVRTHDR } },
        { "IP_TTL", EBADF, SYS_setsockopt, { -1UL, 0, IP_TTL } },
        { "UDP_ENCAP", ENOPROTOOPT, SYS_setsockopt, { -1UL, IPPROTO_UDP, 100 } },
        { "UDP_SEGMENT", EBADF, SYS_setsockopt, { -1UL, IPPROTO_UDP, 103 } },
        { "TCP_ZEROCOPY_RECEIVE", ENOPROTOOPT, SYS_getsockopt, { -1UL, IPPROTO_TCP, 35 } },
        { "TCP_INFO", EBADF, SYS_getsockopt, { -1UL, IPPROTO_TCP, TCP_INFO } },
        { "IPV6_V6ONLY", EBADF, SYS_setsockopt, { -1UL, IPPROTO_IPV6, IPV6_V6ONLY } },
        { NULL },
    };

    assert_int_equal(run_filtered(SECCOMP_PROFILE_DEFAULT, socket_options, NULL), 0);
    check_calls(SECCOMP_PROFILE_DEFAULT, calls);
}

/* fd -1: a request that gets past the filter answers EBADF. */
static void test_ioctl(void **state)
{
    (void)state;
    static const struct call calls[] = {
        { "TIOCSTI", EPERM, SYS_ioctl, { -1UL, TIOCSTI, 0 } },
        { "TIOCSTI, high bits", EPERM, SYS_ioctl, { -1UL, HIGH_BITS | TIOCSTI, 0 } },
        { "TIOCSTI, one high bit", EPERM, SYS_ioctl, { -1UL, (1UL << 32) | TIOCSTI, 0 } },
        { "TIOCLINUX, high bits", EPERM, SYS_ioctl, { -1UL, HIGH_BITS | TIOCLINUX, 0 } },
        { "TIOCSETD", EPERM, SYS_ioctl, { -1UL, TIOCSETD, 0 } },
        { "FS_IOC_SETFLAGS", EPERM, SYS_ioctl, { -1UL, 0x40086602, 0 } },
        { "FIFREEZE", EPERM, SYS_ioctl, { -1UL, 0xc0045877, 0 } },
        { "TIOCGWINSZ", EBADF, SYS_ioctl, { -1UL, TIOCGWINSZ, 0 } },
        { "FIONREAD, high bits", EBADF, SYS_ioctl, { -1UL, HIGH_BITS | FIONREAD, 0 } },
        { "FS_IOC_GETFLAGS", EBADF, SYS_ioctl, { -1UL, 0x80086601, 0 } },
        { "FICLONE", EBADF, SYS_ioctl, { -1UL, 0x40049409, 0 } },
        { NULL },
    };
    check_calls(SECCOMP_PROFILE_DEFAULT, calls);
}

static void test_other_checks(void **state)
{
    (void)state;
    static const struct call calls[] = {
        { "ADDR_NO_RANDOMIZE", EPERM, SYS_personality, { ADDR_NO_RANDOMIZE } },
        { "mknod of a device", EPERM, SYS_mknodat, { -1UL, (uintptr_t) "x", S_IFCHR | 0600, 259 } },
        { "mknod of a device, high bits",
          EPERM,
          SYS_mknodat,
          { -1UL, (uintptr_t) "x", HIGH_BITS | S_IFBLK, 259 } },
        { "mknod of a FIFO", EBADF, SYS_mknodat, { -1UL, (uintptr_t) "x", S_IFIFO | 0600, 0 } },
        { "MADV_MERGEABLE", EINVAL, SYS_madvise, { 0, 0, MADV_MERGEABLE } },
        { "MADV_DONTNEED", 0, SYS_madvise, { 0, 0, MADV_DONTNEED } },
        { "MAP_HUGETLB",
          ENOMEM,
          SYS_mmap,
          { 0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1UL, 0 } },
        { "MFD_HUGETLB", EINVAL, SYS_memfd_create, { (uintptr_t) "x", MFD_HUGETLB } },
        /* Of a key that nobody has. */
        { "SHM_HUGETLB", ENOMEM, SYS_shmget, { 0x7abe11ed, 4096, SHM_HUGETLB } },
        { "shmget", ENOENT, SYS_shmget, { 0x7abe11ed, 4096, 0 } },
        { "RENAME_WHITEOUT", EINVAL, SYS_renameat2, { -1UL, NAME, -1UL, NAME, 4 } },
        { "RENAME_WHITEOUT, high bits",
          EINVAL,
          SYS_renameat2,
          { -1UL, NAME, -1UL, NAME, HIGH_BITS | 5 } },
        { "RENAME_NOREPLACE", EBADF, SYS_renameat2, { -1UL, NAME, -1UL, NAME, 1 } },
        { "PR_SET_MM", EPERM, SYS_prctl, { PR_SET_MM, 0 } },
        { "PR_SET_SECCOMP", EINVAL, SYS_prctl, { PR_SET_SECCOMP, 1 } },
        { "PR_SET_PTRACER", EINVAL, SYS_prctl, { PR_SET_PTRACER, 0 } },
        { "F_OFD_SETLK", EINVAL, SYS_fcntl, { -1UL, F_OFD_SETLK, 0 } },
        { "F_OFD_SETLKW", EINVAL, SYS_fcntl, { -1UL, HIGH_BITS | F_OFD_SETLKW, 0 } },
        { "F_SETLEASE", EINVAL, SYS_fcntl, { -1UL, F_SETLEASE, F_RDLCK } },
        { "F_NOTIFY", EINVAL, SYS_fcntl, { -1UL, F_NOTIFY, DN_CREATE } },
        { "F_SETPIPE_SZ", EBADF, SYS_fcntl, { -1UL, F_SETPIPE_SZ, 1 << 20 } },
        { "F_SETPIPE_SZ of more", EPERM, SYS_fcntl, { -1UL, F_SETPIPE_SZ, (1 << 20) + 1 } },
        { "F_SETLK", EBADF, SYS_fcntl, { -1UL, F_SETLK, 0 } },
        { "flock", EBADF, SYS_flock, { -1UL, LOCK_EX } },
        { NULL },
    };
    check_calls(SECCOMP_PROFILE_DEFAULT, calls);
}

static void test_denied(void **state)
{
    (void)state;
    static const struct call calls[] = {
        { "mount", EPERM, SYS_mount },
        { "umount2", EPERM, SYS_umount2 },
        { "pivot_root", EPERM, SYS_pivot_root },
        { "chroot", EPERM, SYS_chroot },
        { "fsopen", EPERM, SYS_fsopen },
        { "open_tree", EPERM, SYS_open_tree },
        { "move_mount", EPERM, SYS_move_mount },
        { "mount_setattr", EPERM, SYS_mount_setattr },
        { "bpf", EPERM, SYS_bpf },
        { "perf_event_open", EPERM, SYS_perf_event_open },
        { "userfaultfd", EPERM, SYS_userfaultfd },
        { "keyctl", EPERM, SYS_keyctl },
        { "add_key", EPERM, SYS_add_key },
        { "ptrace", EPERM, SYS_ptrace },
        { "process_vm_readv", EPERM, SYS_process_vm_readv },
        { "pidfd_getfd", EPERM, SYS_pidfd_getfd },
        { "open_by_handle_at", EPERM, SYS_open_by_handle_at },
        { "clock_settime", EPERM, SYS_clock_settime },
        { "reboot", EPERM, SYS_reboot },
        { "swapon", EPERM, SYS_swapon },
        { "init_module", EPERM, SYS_init_module },
        { "seccomp", ENOSYS, SYS_seccomp, { SECCOMP_SET_MODE_STRICT } },
        { "landlock", ENOSYS, SYS_landlock_create_ruleset },
        { "io_uring_setup", ENOSYS, SYS_io_uring_setup },
        { "io_uring_enter", ENOSYS, SYS_io_uring_enter },
        { "io_setup", ENOSYS, SYS_io_setup },
        { "memfd_secret", ENOSYS, SYS_memfd_secret },
        { "splice", EINVAL, SYS_splice },
        { "vmsplice", EINVAL, SYS_vmsplice },
        { "tee", EINVAL, SYS_tee },
        { NULL },
    };
    check_calls(SECCOMP_PROFILE_DEFAULT, calls);
    check_calls(SECCOMP_PROFILE_WATCHED, calls);
}

static void test_unknown_numbers(void **state)
{
    (void)state;
    static const struct call calls[] = {
        { "1000", ENOSYS, 1000 },
        { "1023", ENOSYS, 1023 },
        { "1024", ENOSYS, 1024 },
        { "500", ENOSYS, 500 },
        { "0x3fffffff", ENOSYS, 0x3fffffff },
        { "-1", ENOSYS, -1 },
        { NULL },
    };
    check_calls(SECCOMP_PROFILE_DEFAULT, calls);
}

static void test_watched(void **state)
{
    (void)state;
    static const struct call calls[] = {
        { "memfd_create", ENOSYS, SYS_memfd_create, { (uintptr_t) "x", MFD_CLOEXEC } },
        { "shmget", ENOSYS, SYS_shmget, { IPC_PRIVATE, 4096, 0600 } },
        { "msgget", ENOSYS, SYS_msgget, { IPC_PRIVATE, 0600 } },
        { "semget", ENOSYS, SYS_semget, { IPC_PRIVATE, 1, 0600 } },
        { "mq_open", ENOSYS, SYS_mq_open, { (uintptr_t) "x", O_RDWR | O_CREAT, 0600, 0 } },
        { "getppid", WORKS, SYS_getppid },
        { NULL },
    };
    check_calls(SECCOMP_PROFILE_WATCHED, calls);
}

#ifdef __x86_64__
static void enter_by_int80(const void *arg)
{
    (void)arg;
    long value = 20; /* getpid for i386, writev for x86_64: either would give a number back */
    __asm__ volatile("int $0x80" : "+a"(value) : : "memory", "r8", "r9", "r10", "r11");
}

static void call_x32_getpid(const void *arg)
{
    (void)arg;
    syscall(0x40000000 | SYS_getpid);
}

static void call_x32_unknown(const void *arg)
{
    (void)arg;
    syscall(0x40000000 | 1000);
}

/* The signal that ended body under the filter; 0 if it came back. */
static int killed_by(void (*body)(const void *))
{
    int status = run_filtered(SECCOMP_PROFILE_DEFAULT, body, NULL);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void test_foreign_entries(void **state)
{
    (void)state;
    /* a kernel without IA32 emulation has no such entry, and faults */
    int sig = killed_by(enter_by_int80);
    if (sig != SIGSEGV)
        assert_int_equal(sig, SIGSYS);
    assert_int_equal(killed_by(call_x32_getpid), SIGSYS);
    assert_int_equal(killed_by(call_x32_unknown), SIGSYS);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_supported),       cmocka_unit_test(test_needs_no_new_privs),
        cmocka_unit_test(test_nested),          cmocka_unit_test(test_noticed),
        cmocka_unit_test(test_ordinary_calls),  cmocka_unit_test(test_threads_and_children),
        cmocka_unit_test(test_namespaces),      cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_socket_options),  cmocka_unit_test(test_ioctl),
        cmocka_unit_test(test_other_checks),    cmocka_unit_test(test_denied),
        cmocka_unit_test(test_unknown_numbers), cmocka_unit_test(test_watched),
#ifdef __x86_64__
        cmocka_unit_test(test_foreign_entries),
#endif
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("seccomp", tests, NULL, NULL);
}

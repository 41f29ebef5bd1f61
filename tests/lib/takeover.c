/* SPDX-License-Identifier: Apache-2.0 */
/*
 * takeover PID {ATTACK ARGUMENT}…: what somebody could do who has taken this process over. Makes
 * its system calls for it, by ptrace, and prints a line each: "done", or the error's name.
 *
 *     connect PATH    to a unix socket
 *     datagrams -     makes a pair of unix sockets, of which each could connect
 *     read PATH       opens it; list, make, setuid: as a folder, as a new file, as a set-uid one
 *     signal PID      sends no signal, but asks whether it could; "self": its own
 *     own PID         has the kernel send signals there for it
 *     exec PATH
 *
 * Exits with 77 where there is nothing for this machine.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __x86_64__

enum { SCRATCH = 8192 }; /* below its stack: more than the red zone */

struct victim {
    pid_t pid;
    struct user_regs_struct regs;
    unsigned long scratch, insn, mode;
};

static int fail(const char *what)
{
    fprintf(stderr, "takeover: %s: %s\n", what, strerror(errno));
    return 1;
}

/* It waits in a system call: just before where it goes on is the instruction for one. */
static int begin(struct victim *victim)
{
    unsigned char insn[2];
    struct iovec here = { insn, sizeof insn };

    if (ptrace(PTRACE_SEIZE, victim->pid, 0, 0) < 0 ||
        ptrace(PTRACE_INTERRUPT, victim->pid, 0, 0) < 0 || waitpid(victim->pid, NULL, __WALL) < 0 ||
        ptrace(PTRACE_GETREGS, victim->pid, 0, &victim->regs) < 0)
        return fail("attach");
    victim->scratch = (victim->regs.rsp - SCRATCH) & ~15UL;
    victim->insn = victim->regs.rip - sizeof insn;
    struct iovec there = { (void *)victim->insn, sizeof insn };
    if (process_vm_readv(victim->pid, &here, 1, &there, 1, 0) < 0 || insn[0] != 0x0f ||
        insn[1] != 0x05)
        return fail("find a system call");
    return 0;
}

static long call(const struct victim *victim, long nr, long a, long b, long c)
{
    struct user_regs_struct regs = victim->regs;

    regs.rax = (unsigned long)nr;
    regs.orig_rax = -1UL; /* nothing to be begun again */
    regs.rip = victim->insn;
    regs.rdi = (unsigned long)a;
    regs.rsi = (unsigned long)b;
    regs.rdx = (unsigned long)c;
    regs.r10 = victim->mode; /* of a new file */
    if (ptrace(PTRACE_SETREGS, victim->pid, 0, &regs) < 0 ||
        ptrace(PTRACE_SINGLESTEP, victim->pid, 0, 0) < 0 ||
        waitpid(victim->pid, NULL, __WALL) < 0 || ptrace(PTRACE_GETREGS, victim->pid, 0, &regs) < 0)
        exit(fail("make a call"));
    return (long)regs.rax;
}

static long put(const struct victim *victim, const void *data, size_t len)
{
    struct iovec here = { (void *)(uintptr_t)data, len };
    struct iovec there = { (void *)victim->scratch, len };

    if (process_vm_writev(victim->pid, &here, 1, &there, 1, 0) != (ssize_t)len)
        exit(fail("write its memory"));
    return (long)victim->scratch;
}

static long put_path(const struct victim *victim, const char *path)
{
    return put(victim, path, strlen(path) + 1);
}

static long and_close(const struct victim *victim, long fd)
{
    if (fd >= 0)
        call(victim, SYS_close, fd, 0, 0);
    return fd;
}

static long try_connect(const struct victim *victim, const char *path)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    long fd = call(victim, SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return fd;
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    long rc = call(victim, SYS_connect, fd, put(victim, &name, sizeof name), sizeof name);
    and_close(victim, fd);
    return rc;
}

/* Where its fds would go is no place for them (call): one that passes the filter answers EFAULT. */
static long try_datagrams(const struct victim *victim, const char *arg)
{
    (void)arg;
    return call(victim, SYS_socketpair, AF_UNIX, SOCK_DGRAM, 0);
}

static long open_as(const struct victim *victim, const char *path, int flags)
{
    return and_close(victim, call(victim, SYS_openat, AT_FDCWD, put_path(victim, path), flags));
}

static long try_read(const struct victim *victim, const char *path)
{
    return open_as(victim, path, O_RDONLY);
}

static long try_list(const struct victim *victim, const char *path)
{
    return open_as(victim, path, O_RDONLY | O_DIRECTORY);
}

static long try_make(const struct victim *victim, const char *path)
{
    return open_as(victim, path, O_WRONLY | O_CREAT);
}

static long try_setuid(const struct victim *victim, const char *path)
{
    struct victim other = *victim;

    other.mode = 04755;
    return open_as(&other, path, O_WRONLY | O_CREAT);
}

static long try_signal(const struct victim *victim, const char *who)
{
    long pid = strcmp(who, "self") == 0 ? victim->pid : strtol(who, NULL, 10);
    return call(victim, SYS_tgkill, pid, pid, 0);
}

static long try_own(const struct victim *victim, const char *who)
{
    return call(victim, SYS_fcntl, 0, F_SETOWN, strtol(who, NULL, 10));
}

static long try_exec(const struct victim *victim, const char *path)
{
    return call(victim, SYS_execve, put_path(victim, path), 0, 0);
}

static const struct {
    const char *name;
    long (*run)(const struct victim *victim, const char *arg);
} attacks[] = {
    { "connect", try_connect }, { "datagrams", try_datagrams }, { "read", try_read },
    { "list", try_list },       { "make", try_make },           { "signal", try_signal },
    { "own", try_own },         { "exec", try_exec },           { "setuid", try_setuid },
};

static long attack(const struct victim *victim, const char *name, const char *arg)
{
    for (size_t i = 0; i < sizeof attacks / sizeof attacks[0]; i++)
        if (strcmp(attacks[i].name, name) == 0)
            return attacks[i].run(victim, arg);
    exit(2);
}

int main(int argc, char **argv)
{
    struct victim victim = { .pid = argc > 1 ? (pid_t)strtol(argv[1], NULL, 10) : 0, .mode = 0644 };

    if (argc < 4)
        return 2;
    if (begin(&victim) != 0)
        return 1;
    for (int i = 2; i + 1 < argc; i += 2) {
        long rc = attack(&victim, argv[i], argv[i + 1]);
        printf("%s\n", rc < 0 ? strerrorname_np((int)-rc) : "done");
    }
    if (ptrace(PTRACE_SETREGS, victim.pid, 0, &victim.regs) < 0 ||
        ptrace(PTRACE_DETACH, victim.pid, 0, 0) < 0)
        return fail("let it go");
    return 0;
}

#else

int main(void)
{
    return 77;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Makes calls that must not reach the kernel, with arguments that mean something. Prints a line
 * each: NAME ANSWER, as an errno, 0 when it worked, or sN when the child was killed by signal N. */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define P(x) ((long)(intptr_t)(x))

static char bytes[4096];
static struct iovec iov = { bytes, 16 }, other = { bytes + 64, 16 };
static struct timex tx;
static struct timespec now;
static struct perf_event_attr perf = { .type = PERF_TYPE_SOFTWARE,
                                       .size = sizeof perf,
                                       .exclude_kernel = 1 };
static int pipes[2];

struct row {
    const char *name;
    long nr, a, b, c, d, e;
};

static int ask(const struct row *row)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(5);
        long r = syscall(row->nr, row->a, row->b, row->c, row->d, row->e, 0);
        _exit(r < 0 ? errno : 0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status))
        printf("%s s%d\n", row->name, WTERMSIG(status));
    else
        printf("%s %d\n", row->name, WEXITSTATUS(status));
    return 0;
}

int main(void)
{
    if (pipe(pipes) < 0)
        return 1;
    long me = getpid(), high = 1L << 32;
    const struct row rows[] = {
        { "ptrace", SYS_ptrace, PTRACE_TRACEME },
        { "personality", SYS_personality, 0x0040000 },
        { "process_vm_readv", SYS_process_vm_readv, me, P(&iov), 1, P(&other), 1 },
        { "process_vm_writev", SYS_process_vm_writev, me, P(&iov), 1, P(&other), 1 },
        { "keyctl", SYS_keyctl, 0, -3, 1 },
        { "add_key", SYS_add_key, P("user"), P("cay"), P("x"), 1, -2 },
        { "request_key", SYS_request_key, P("user"), P("cay"), 0, 0 },
        { "io_uring_setup", SYS_io_uring_setup, 1, P(bytes) },
        { "io_uring_enter", SYS_io_uring_enter, -1 },
        { "io_uring_register", SYS_io_uring_register, -1 },
        { "userfaultfd", SYS_userfaultfd, 1 },
        { "perf_event_open", SYS_perf_event_open, P(&perf), 0, -1, -1, 0 },
        { "bpf", SYS_bpf, 0, P(bytes), 64 },
        { "pidfd_getfd", SYS_pidfd_getfd, -1, 0, 0 },
        { "open_by_handle_at", SYS_open_by_handle_at, -1, P(bytes), 0 },
        { "vmsplice", SYS_vmsplice, pipes[1], P(&iov), 1, 0 },
        { "kexec_load", SYS_kexec_load, 0, 0, 0, 0 },
        { "kexec_file_load", SYS_kexec_file_load, -1, -1, 0, 0, 0 },
        { "init_module", SYS_init_module, 0, 0, 0 },
        { "finit_module", SYS_finit_module, -1, 0, 0 },
        { "delete_module", SYS_delete_module, P("cay"), 0 },
        { "swapon", SYS_swapon, P("/nowhere"), 0 },
        { "swapoff", SYS_swapoff, P("/nowhere") },
        { "reboot", SYS_reboot, 0, 0, 0, 0 },
        { "settimeofday", SYS_settimeofday, 0, 0 },
        { "clock_settime", SYS_clock_settime, -1, P(&now) },
        { "clock_adjtime", SYS_clock_adjtime, 0, P(&tx) },
        { "adjtimex", SYS_adjtimex, P(&tx) },
        { "iopl", SYS_iopl, 0 },
        { "ioperm", SYS_ioperm, 0, 1, 0 },
        { "mount", SYS_mount, P("none"), P("/tmp"), P("tmpfs"), 0, 0 },
        { "mount-remount", SYS_mount, 0, P("/usr"), 0, MS_REMOUNT | MS_BIND, 0 },
        { "umount2", SYS_umount2, P("/tmp"), 2 },
        { "pivot_root", SYS_pivot_root, P("/tmp"), P("/tmp") },
        { "chroot", SYS_chroot, P("/tmp") },
        { "fsopen", SYS_fsopen, P("tmpfs"), 0 },
        { "fsconfig", SYS_fsconfig, -1, 0, 0, 0, 0 },
        { "fsmount", SYS_fsmount, -1, 0, 0 },
        { "fspick", SYS_fspick, AT_FDCWD, P("/tmp"), 0 },
        { "open_tree", SYS_open_tree, AT_FDCWD, P("/"), 0 },
        { "open_tree-clone", SYS_open_tree, AT_FDCWD, P("/"), 1 },
        { "move_mount", SYS_move_mount, -1, P(""), AT_FDCWD, P("/tmp"), 4 },
        { "mount_setattr", SYS_mount_setattr, AT_FDCWD, P("/"), 0, P(bytes), 32 },
        { "unshare-nothing-new", SYS_unshare, 0x10000000 },
        { "setns", SYS_setns, -1, 0 },
        { "setpgid-of-init", SYS_setpgid, 0, 1 },
        { "quotactl", SYS_quotactl, 0x800001L << 8, 0, 0, P(bytes) },
        { "acct", SYS_acct, P("/nowhere") },
        { "syslog", SYS_syslog, 10, P(bytes), 64 },
        { "sethostname", SYS_sethostname, P("cay"), 3 },
        { "setdomainname", SYS_setdomainname, P("cay"), 3 },
        { "kcmp", SYS_kcmp, me, me, 0, 0, 0 },
        { "fanotify_init", SYS_fanotify_init, 0x200, 0 },
        { "clone3", SYS_clone3, P(bytes), 64 },
        { "ioctl-TIOCSTI", SYS_ioctl, pipes[0], 0x5412, P(bytes) },
        { "ioctl-TIOCSTI-high", SYS_ioctl, pipes[0], 0x5412 | high, P(bytes) },
        { "ioctl-TIOCLINUX", SYS_ioctl, pipes[0], 0x541c, P(bytes) },
        { "ioctl-TIOCLINUX-high", SYS_ioctl, pipes[0], 0x541c | high, P(bytes) },
        { "number-600", 600 },
        { "number-1000", 1000 },
        { "number-4095", 4095 },
        { "number-0x3fffffff", 0x3fffffff },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ask(&rows[i]);
    return 0;
}

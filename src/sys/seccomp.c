/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs between fork and exec: async-signal-safe calls only, and the tables stay in read-only
 * memory.
 */
#include "sys/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/exit-mark.h"

/* x32 (ILP32) is not x86_64 for the kernel, and big-endian arm has its arguments' halves swapped.
 */
#if defined(__x86_64__) && defined(__LP64__)
#include "seccomp-x86_64.h"
#define TABLE         seccomp_x86_64
#define TABLE_WATCHED seccomp_x86_64_watched
#define TABLE_NOTICED seccomp_x86_64_noticed
#define TABLE_ZYGOTE  seccomp_x86_64_zygote
#define TABLE_FORKED  seccomp_x86_64_forked
#define TABLE_ALLOWED SECCOMP_X86_64_ALLOWED
#elif defined(__aarch64__) && defined(__LP64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include "seccomp-aarch64.h"
#define TABLE         seccomp_aarch64
#define TABLE_WATCHED seccomp_aarch64_watched
#define TABLE_NOTICED seccomp_aarch64_noticed
#define TABLE_ZYGOTE  seccomp_aarch64_zygote
#define TABLE_FORKED  seccomp_aarch64_forked
#define TABLE_ALLOWED SECCOMP_AARCH64_ALLOWED
#endif

#ifdef TABLE

_Static_assert(sizeof(TABLE) / sizeof(TABLE[0]) <= BPF_MAXINSNS, "the kernel takes no more");
_Static_assert(sizeof(TABLE_WATCHED) / sizeof(TABLE_WATCHED[0]) <= BPF_MAXINSNS,
               "the kernel takes no more");
_Static_assert(sizeof(TABLE_NOTICED) / sizeof(TABLE_NOTICED[0]) <= BPF_MAXINSNS,
               "the kernel takes no more");

/* -errno, or what the kernel gave back: 0, or the fd that was asked for. */
static int load(const struct sock_filter *table, size_t len, unsigned flags)
{
    /* The kernel lets CAP_SYS_ADMIN load a filter without; then a setuid file could be executed
     * under it, which is a hole of its own (calls that fail where they never do). */
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        return -EACCES;

    /* The kernel only reads the instructions; its struct has no const. */
    struct sock_fprog prog = {
        .len = (unsigned short)len,
        .filter = (struct sock_filter *)(uintptr_t)table,
    };
    /* No SECCOMP_FILTER_FLAG_SPEC_ALLOW: kernels before 5.16 put their speculation mitigations on
     * for a filtered process, and against neighbours they are wanted. */
    long rc = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
    return rc < 0 ? -errno : (int)rc;
}

int seccomp_load(enum seccomp_profile profile)
{
    if (profile == SECCOMP_PROFILE_WATCHED)
        return load(TABLE_WATCHED, sizeof(TABLE_WATCHED) / sizeof(TABLE_WATCHED[0]), 0);
    return load(TABLE, sizeof(TABLE) / sizeof(TABLE[0]), 0);
}

int seccomp_load_table(const struct sock_filter *table, size_t n)
{
    return load(table, n, 0);
}

#define NOTIF_FLAGS (SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)

/* Filters of their own, below the list, which forbids to load another. The constant answers of all
 * other calls stay constant for the kernel (seccomp_is_const_allow), so that they cost nothing. */
static int load_notif(bool tells_exits, unsigned flags)
{
    enum { MAND = 32 }; /* LOCK_MAND: a lock before Linux 5.16 */
    struct sock_filter table[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, EXIT_MARK_1, 0, 10),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, EXIT_MARK_2, tells_exits ? 7 : 8, 8),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_flock, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, LOCK_SH | LOCK_EX | MAND, 4, 5),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETLK, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETLKW, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return load(table, sizeof table / sizeof table[0], flags);
}

int seccomp_load_flock_notif(void)
{
    int fd = load_notif(false, NOTIF_FLAGS);

    /* Before Linux 5.19 a signal ends the wait, and the call is made once more. */
    return fd == -EINVAL ? load_notif(false, SECCOMP_FILTER_FLAG_NEW_LISTENER) : fd;
}

int seccomp_load_notif(enum seccomp_profile profile, int *ret_fd)
{
    /* Most are of this kind, and a second filter takes the kernel a seventh as long as this one.
     */
    if (profile == SECCOMP_PROFILE_DEFAULT) {
        int fd = load(TABLE_NOTICED, sizeof(TABLE_NOTICED) / sizeof(TABLE_NOTICED[0]), NOTIF_FLAGS);
        *ret_fd = fd;
        if (fd >= 0)
            return 0;
    } else {
        *ret_fd = load_notif(true, NOTIF_FLAGS);
    }
    if (*ret_fd == -EINVAL)
        *ret_fd = seccomp_load_flock_notif();
    return seccomp_load(profile);
}

int seccomp_load_zygote(void)
{
    return load(TABLE_ZYGOTE, sizeof(TABLE_ZYGOTE) / sizeof(TABLE_ZYGOTE[0]), 0);
}

int seccomp_load_forked(int *ret_fd)
{
    *ret_fd = load(TABLE_FORKED, sizeof(TABLE_FORKED) / sizeof(TABLE_FORKED[0]), NOTIF_FLAGS);
    if (*ret_fd >= 0)
        return 0;
    if (*ret_fd == -EINVAL)
        *ret_fd = seccomp_load_flock_notif();
    return seccomp_load(SECCOMP_PROFILE_DEFAULT);
}

/* The call's mode has none of these bits, or it is refused. */
enum { SETID_BITS = 06000, MAKES_FILE = O_CREAT | (O_TMPFILE & ~O_DIRECTORY) };
#define LOAD(field)   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define REFUSE(errno) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (errno))
#define ALLOW         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define MODE_IS_IN(nr, mode)                                         \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 4), LOAD(args[mode]), \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SETID_BITS, 0, 1), REFUSE(EPERM), ALLOW
#define MODE_IS_IN_IF_MADE(nr, flags, mode)                                       \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 6), LOAD(args[flags]),             \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAKES_FILE, 0, 3), LOAD(args[mode]), \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SETID_BITS, 0, 1), REFUSE(EPERM), ALLOW

/* Calls of foreign architectures end the process by the list. */
static const struct sock_filter no_setid[] = {
    LOAD(nr),
#ifdef SYS_chmod /* not on aarch64 */
    MODE_IS_IN(SYS_chmod, 1),
    MODE_IS_IN(SYS_creat, 1),
    MODE_IS_IN(SYS_mknod, 1),
    MODE_IS_IN_IF_MADE(SYS_open, 1, 2),
#endif
    MODE_IS_IN(SYS_fchmod, 1),
    MODE_IS_IN(SYS_fchmodat, 2),
    MODE_IS_IN(SYS_mknodat, 2),
    MODE_IS_IN_IF_MADE(SYS_openat, 2, 3),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
    REFUSE(ENOSYS),
    ALLOW,
};

int seccomp_load_no_setid(void)
{
    return seccomp_load_table(no_setid, sizeof no_setid / sizeof *no_setid);
}

int seccomp_notif_recv(int fd, struct seccomp_event *ret)
{
    struct seccomp_notif event = { 0 };

    if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &event) < 0)
        return -errno; /* it was killed meanwhile, or has a signal to see to first */
    *ret = (struct seccomp_event){
        .id = event.id,
        .pid = (pid_t)event.pid,
        .is_exit = event.data.nr == SYS_exit_group,
        .is_flock = event.data.nr == SYS_flock,
        .status = (int)((event.data.args[0] & 0xff) << 8),
    };
    return 0;
}

void seccomp_notif_continue(int fd, const struct seccomp_event *event)
{
    struct seccomp_notif_resp go_on = { .id = event->id,
                                        .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };

    /* Linux 5.0 to 5.4 can only refuse, and it would wait for ever. */
    if (ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &go_on) < 0 && errno == EINVAL)
        seccomp_notif_refuse(fd, event, ENOLCK);
}

void seccomp_notif_refuse(int fd, const struct seccomp_event *event, int errnum)
{
    struct seccomp_notif_resp refusal = { .id = event->id, .error = -errnum };

    ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &refusal);
}

bool seccomp_supported(void)
{
    /* Asked for the newest thing the tables use, of Linux 4.14. */
    uint32_t action = SECCOMP_RET_KILL_PROCESS;
    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

size_t seccomp_allowed_count(void)
{
    return TABLE_ALLOWED;
}

#else

int seccomp_load_table(const struct sock_filter *table, size_t n)
{
    (void)table;
    (void)n;
    return -ENOTSUP;
}

int seccomp_load(enum seccomp_profile profile)
{
    (void)profile;
    return -ENOTSUP;
}

int seccomp_load_notif(enum seccomp_profile profile, int *ret_fd)
{
    (void)profile;
    *ret_fd = -ENOTSUP;
    return -ENOTSUP;
}

int seccomp_load_flock_notif(void)
{
    return -ENOTSUP;
}

int seccomp_load_zygote(void)
{
    return -ENOTSUP;
}

int seccomp_load_forked(int *ret_fd)
{
    *ret_fd = -ENOTSUP;
    return -ENOTSUP;
}

int seccomp_load_no_setid(void)
{
    return -ENOTSUP;
}

int seccomp_notif_recv(int fd, struct seccomp_event *ret)
{
    (void)fd;
    (void)ret;
    return -ENOTSUP;
}

void seccomp_notif_continue(int fd, const struct seccomp_event *event)
{
    (void)fd;
    (void)event;
}

void seccomp_notif_refuse(int fd, const struct seccomp_event *event, int errnum)
{
    (void)fd;
    (void)event;
    (void)errnum;
}

bool seccomp_supported(void)
{
    return false;
}

size_t seccomp_allowed_count(void)
{
    return 0;
}

#endif

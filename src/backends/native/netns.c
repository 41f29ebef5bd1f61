/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a network namespace takes the kernel most of a millisecond, and so does building the root.
 * A helper that shares pid 1's memory and fds makes the one while pid 1 does the other; pid 1 then
 * joins it by an fd. The helper runs none but these lines.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/native/child.h"
#include "base/auto.h"
#include "sys/file.h"

enum { HELPER_STACK = 32 * 1024 };

/* What a socket may keep beside its buffers, in options and in control data of calls that wait, is
 * charged to no cgroup. The largest that programs need is a message with 253 fds, which is a
 * kilobyte. Kernels before 6.8 have one bound for all, which comes as 20 KiB. */
static void bound_options(int proc_fd)
{
    file_write_at(proc_fd, "sys/net/core/optmem_max", "4096", 4);
}

/* What the kernel shows of the whole host in the folder of a network namespace. Each process has
 * that folder, so no mount covers it; but these belong to the namespace's root, if its user
 * namespace has one. Pid 1 reads two of them still (sockmem_prepare). */
static void hide_host(int proc_fd)
{
    static const char *const names[] = { "self/net/sockstat", "self/net/protocols",
                                         "self/net/softnet_stat", "self/net/stat" };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (fchmodat(proc_fd, names[i], 0, 0) < 0)
            return;
}

/* By a socket in the namespace, which it returns. */
static int raise_lo(void)
{
    struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
    auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    return fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 ? -errno : take_fd(&fd);
}

/* Returns an fd of the namespace, by the socket: /proc is about to change under the helper's feet.
 */
static int make_netns(int proc_fd, bool has_root)
{
    if (unshare(CLONE_NEWNET) < 0)
        return -errno;
    bound_options(proc_fd);
    if (has_root)
        hide_host(proc_fd);
    auto_close int fd = raise_lo();
    if (fd < 0)
        return fd;
    int netns_fd = ioctl(fd, SIOCGSKNS);
    return netns_fd < 0 ? -errno : netns_fd;
}

static int helper_main(void *arg)
{
    struct netns_maker *maker = arg;
    const uint64_t one = 1;

    maker->netns_fd = make_netns(maker->proc_fd, maker->has_root);
    return write(maker->ready_fd, &one, sizeof one) < 0;
}

int netns_begin(struct netns_maker *maker, bool has_root)
{
    maker->has_root = has_root;
    maker->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    maker->ready_fd = eventfd(0, EFD_CLOEXEC);
    if (maker->ready_fd < 0)
        return -errno;
    maker->stack =
        mmap(NULL, HELPER_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (maker->stack == MAP_FAILED)
        return -errno;
    maker->pid =
        clone(helper_main, maker->stack + HELPER_STACK, CLONE_VM | CLONE_FILES | SIGCHLD, maker);
    if (maker->pid < 0)
        return -errno;
    return 0;
}

int netns_join(struct netns_maker *maker)
{
    uint64_t one;

    while (read(maker->ready_fd, &one, sizeof one) < 0)
        if (errno != EINTR)
            return -errno;
    int fd = maker->netns_fd;
    int rc = fd < 0 ? fd : setns(fd, CLONE_NEWNET) < 0 ? -errno : 0;
    while (waitpid(maker->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    munmap(maker->stack, HELPER_STACK);
    if (fd >= 0)
        close(fd);
    close_fd(&maker->ready_fd);
    close_fd(&maker->proc_fd);
    return rc;
}

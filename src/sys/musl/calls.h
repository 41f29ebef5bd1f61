/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The system calls that glibc has functions for and musl 1.2.3 has not, under glibc's names. Where
 * `cay` is linked with musl, every file of it is compiled with this before its first line (-include
 * in ../../meson.build): so no other file knows which library it is for.
 */

#include <linux/close_range.h>
#include <linux/mount.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in linux/fs.h, which would bring much else along. */
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE  2

static inline int close_range(unsigned first, unsigned last, int flags)
{
    return (int)syscall(SYS_close_range, first, last, flags);
}

static inline int fsconfig(int fd, unsigned command, const char *key, const void *value, int aux)
{
    return (int)syscall(SYS_fsconfig, fd, command, key, value, aux);
}

static inline int fsmount(int fd, unsigned flags, unsigned attributes)
{
    return (int)syscall(SYS_fsmount, fd, flags, attributes);
}

static inline int fsopen(const char *name, unsigned flags)
{
    return (int)syscall(SYS_fsopen, name, flags);
}

static inline int fspick(int fd, const char *path, unsigned flags)
{
    return (int)syscall(SYS_fspick, fd, path, flags);
}

static inline int mount_setattr(int fd, const char *path, unsigned flags, struct mount_attr *attr,
                                size_t size)
{
    return (int)syscall(SYS_mount_setattr, fd, path, flags, attr, size);
}

static inline int move_mount(int from_fd, const char *from, int to_fd, const char *to,
                             unsigned flags)
{
    return (int)syscall(SYS_move_mount, from_fd, from, to_fd, to, flags);
}

static inline int open_tree(int fd, const char *path, unsigned flags)
{
    return (int)syscall(SYS_open_tree, fd, path, flags);
}

static inline int renameat2(int from_fd, const char *from, int to_fd, const char *to,
                            unsigned flags)
{
    return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
}

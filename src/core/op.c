/* SPDX-License-Identifier: Apache-2.0 */
#include "core/op.h"

#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "core/language.h"

static const char *const kind_names[OP_KIND_N] = {
    [OP_DIR] = "mkdir",   [OP_FILE] = "file",     [OP_SYMLINK] = "symlink", [OP_BIND] = "bind",
    [OP_IMAGE] = "image", [OP_SYSTEM] = "system", [OP_DEVICE] = "device",   [OP_PROC] = "proc",
    [OP_PTS] = "devpts",  [OP_MASK] = "mask",     [OP_SCRATCH] = "scratch",
};

const char *op_kind_name(enum op_kind kind)
{
    return kind_names[kind];
}

/* clang-format off */
static const struct op host_system[] = {
    { OP_BIND,    "usr", "/usr" },
    { OP_SYSTEM,  "bin", "/bin" },
    { OP_SYSTEM,  "sbin", "/sbin" },
    { OP_SYSTEM,  "lib", "/lib" },
    { OP_SYSTEM,  "lib32", "/lib32" },
    { OP_SYSTEM,  "lib64", "/lib64" },
    { OP_SYSTEM,  "libx32", "/libx32" },
};

static const struct op host_etc[] = {
    { OP_DIR,     "etc", NULL, 0755 },
    { OP_FILE,    "etc/hosts", OP_HOSTS, 0644 },
    { OP_FILE,    "etc/hostname", OP_HOSTNAME, 0644 },
    { OP_FILE,    "etc/nsswitch.conf", OP_NSSWITCH, 0644 },
    { OP_FILE,    "etc/resolv.conf", OP_RESOLV_CONF, 0644 },
    { OP_SYSTEM,  "etc/ld.so.cache", "/etc/ld.so.cache" },
    { OP_SYSTEM,  "etc/localtime", "/etc/localtime" },
    /* Public tables: getservbyname, getprotobyname, types by extension, the distribution's name. */
    { OP_SYSTEM,  "etc/services", "/etc/services" },
    { OP_SYSTEM,  "etc/protocols", "/etc/protocols" },
    { OP_SYSTEM,  "etc/mime.types", "/etc/mime.types" },
    { OP_SYSTEM,  "etc/os-release", "/etc/os-release" },
    /* What Debian's packages keep there for their libraries and interpreters, which any program may
     * load or start: without it they complain, have no text, or do not work at all. Nothing of it
     * is secret: of /etc/ssl only what everybody reads. */
    { OP_SYSTEM,  "etc/fonts", "/etc/fonts" },
    { OP_SYSTEM,  "etc/ImageMagick-6", "/etc/ImageMagick-6" },
    { OP_SYSTEM,  "etc/ImageMagick-7", "/etc/ImageMagick-7" },
    { OP_SYSTEM,  "etc/matplotlibrc", "/etc/matplotlibrc" },
    { OP_SYSTEM,  "etc/OpenCL", "/etc/OpenCL" },
    { OP_SYSTEM,  "etc/papersize", "/etc/papersize" },
    { OP_SYSTEM,  "etc/perl", "/etc/perl" },
    { OP_SYSTEM,  "etc/php", "/etc/php" },
    { OP_SYSTEM,  "etc/python3", "/etc/python3" },
    { OP_SYSTEM,  "etc/R", "/etc/R" },
    { OP_DIR,     "etc/ssl", NULL, 0755 },
    { OP_SYSTEM,  "etc/ssl/openssl.cnf", "/etc/ssl/openssl.cnf" },
    { OP_SYSTEM,  "etc/ssl/certs", "/etc/ssl/certs" },
    { OP_SYMLINK, "etc/mtab", "/proc/self/mounts" },

    { OP_DIR,     "var", NULL, 0755 },
    { OP_SYMLINK, "var/tmp", "/tmp" },
};

static const struct op every_root[] = {
    { OP_DIR,     "proc", NULL, 0555 },
    { OP_PROC,    "proc" },
    /* Readable by anybody on most kernels, and about the host rather than about the program. */
    { OP_MASK,    "proc/keys" },
    { OP_MASK,    "proc/interrupts" },
    /* Passwords have been seen there. And the names of shares that the host has mounted, and of who
     * did, where there is SMB. */
    { OP_MASK,    "proc/cmdline" },
    { OP_MASK,    "proc/fs/cifs/DebugData" },
    { OP_MASK,    "proc/fs/cifs/Stats" },
    { OP_MASK,    "proc/fs/cifs/open_files" },
    /* Locks of an open file are listed whosever they are: runs could write to each other by them.
     */
    { OP_MASK,    "proc/locks" },

    { OP_DIR,     "dev", NULL, 0755 },
    { OP_DEVICE,  "dev/null", "/dev/null" },
    { OP_DEVICE,  "dev/zero", "/dev/zero" },
    { OP_DEVICE,  "dev/full", "/dev/full" },
    { OP_DEVICE,  "dev/random", "/dev/random" },
    { OP_DEVICE,  "dev/urandom", "/dev/urandom" },
    { OP_SYMLINK, "dev/fd", "/proc/self/fd" },
    { OP_SYMLINK, "dev/stdin", "/proc/self/fd/0" },
    { OP_SYMLINK, "dev/stdout", "/proc/self/fd/1" },
    { OP_SYMLINK, "dev/stderr", "/proc/self/fd/2" },

    { OP_DIR,     "run", NULL, 0755 },
    { OP_SCRATCH, "tmp", NULL, 01777 },
    { OP_SCRATCH, "dev/shm", NULL, 01777 },
    { OP_SCRATCH, "sandbox", NULL, 0755 },
};

static const struct op terminal_devices[] = {
    /* Whichever terminal the opener's session has: one of its own below, or none. */
    { OP_DEVICE,  "dev/tty", "/dev/tty" },
    { OP_DIR,     "dev/pts", NULL, 0755 },
    { OP_PTS,     "dev/pts" },
    { OP_SYMLINK, "dev/ptmx", "pts/ptmx" },
};
/* clang-format on */

void op_add(struct arena *arena, struct op_list *list, struct op op)
{
    if (list->n == list->room) {
        list->room = MAX(list->room * 2, (size_t)64);
        struct op *ops = arena_alloc(arena, list->room * sizeof *ops);
        if (list->n > 0)
            memcpy(ops, list->ops, list->n * sizeof *ops);
        list->ops = ops;
    }
    list->ops[list->n++] = op;
}

/* Whether every sandbox has it, by itself or as a part. */
static bool is_shown(const struct op_list *list, const char *path)
{
    for (size_t i = 0; i < list->n; i++) {
        size_t len = strlen(list->ops[i].path);
        if (list->ops[i].kind == OP_SYSTEM && strncmp(list->ops[i].path, path, len) == 0 &&
            (path[len] == '\0' || path[len] == '/'))
            return true;
    }
    return false;
}

/* A language names files and folders of the host's /etc ("java-17-openjdk", "ssl/certs"); the
 * folders above them are made first. */
static void add_etc(struct arena *arena, struct op_list *list, const char *name)
{
    if (is_shown(list, arena_printf(arena, "etc/%s", name)))
        return;
    for (const char *slash = name; (slash = strchr(slash, '/')); slash++)
        op_add(arena, list,
               (struct op){ OP_DIR, arena_printf(arena, "etc/%.*s", (int)(slash - name), name),
                            NULL, 0755 });
    op_add(arena, list,
           (struct op){ OP_SYSTEM, arena_printf(arena, "etc/%s", name),
                        arena_printf(arena, "/etc/%s", name), 0 });
}

void op_add_own(struct arena *arena, unsigned flags, struct op_list *list)
{
    for (size_t i = 0; i < ARRAY_LEN(every_root); i++)
        op_add(arena, list, every_root[i]);
    for (size_t i = 0; (flags & ROOT_TERMINAL) && i < ARRAY_LEN(terminal_devices); i++)
        op_add(arena, list, terminal_devices[i]);
}

const char *op_passwd_line(struct arena *arena, uid_t uid, gid_t gid)
{
    return arena_printf(arena, "sandbox:x:%u:%u:sandbox:/sandbox:/bin/bash\n", uid, gid);
}

const char *op_group_line(struct arena *arena, gid_t gid)
{
    return arena_printf(arena, "sandbox:x:%u:\n", gid);
}

void op_add_rest(struct arena *arena, const struct language *language, uid_t uid, gid_t gid,
                 unsigned flags, struct op_list *list)
{
    size_t first = list->n;

    for (size_t i = 0; i < ARRAY_LEN(host_etc); i++)
        op_add(arena, list, host_etc[i]);
    op_add_own(arena, flags, list);
    op_add(arena, list,
           (struct op){ OP_FILE, "etc/passwd",
                        arena_printf(arena,
                                     "root:x:0:0:root:/:/usr/sbin/nologin\n"
                                     "%s"
                                     "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
                                     op_passwd_line(arena, uid, gid)),
                        0644 });
    op_add(arena, list,
           (struct op){
               OP_FILE, "etc/group",
               arena_printf(arena, "root:x:0:\n%snogroup:x:65534:\n", op_group_line(arena, gid)),
               0644 });
    for (const char *const *etc = language ? language->etc : NULL; etc && *etc; etc++)
        add_etc(arena, list, *etc);
    for (size_t i = first; i < list->n; i++)
        list->ops[i].noexec = flags & ROOT_NOEXEC;
}

void op_list_host(struct arena *arena, const struct language *language, uid_t uid, gid_t gid,
                  unsigned flags, struct op_list *ret)
{
    struct op_list list = { 0 };

    for (size_t i = 0; i < ARRAY_LEN(host_system); i++)
        op_add(arena, &list, host_system[i]);
    op_add_rest(arena, language, uid, gid, flags, &list);
    op_add(arena, &list, (struct op){ OP_SYSTEM, "etc/alternatives", "/etc/alternatives", 0 });
    *ret = list;
}

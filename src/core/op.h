/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The sandbox's root file system as data: a list of operations that the warden makes from trusted
 * configuration only, that `--plan` prints, and that the child walks. Paths are inside the new
 * root, relative; sources are on the host.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct arena;
struct language;

enum op_kind {
    OP_DIR,     /* a folder */
    OP_FILE,    /* a file that holds `source` as its text */
    OP_SYMLINK, /* a link to `source` */
    OP_BIND,    /* the host's `source`, read-only, with what is mounted below it */
    OP_IMAGE,   /* the image's `source`, read-only */
    OP_SYSTEM,  /* as on the host: a link where the host has a link, else a bind, else nothing */
    OP_DEVICE,  /* one of the host's device nodes */
    OP_PROC,    /* procfs of the new pid namespace, read-only */
    OP_PTS,     /* devpts of its own: terminals that nobody outside can open */
    OP_MASK,    /* hides what is there, if it is there */
    OP_SCRATCH, /* a folder that can be written, on the root's own bounded tmpfs */
    OP_KIND_N
};

struct op {
    enum op_kind kind;
    const char *path;
    const char *source;
    mode_t mode;
    bool noexec; /* of binds and scratch: nothing in it can be started, or mapped as code */
};

struct op_list {
    struct op *ops;
    size_t n;
    size_t room;
};

/* The word that `--plan` and error messages use: "bind", "proc", … */
const char *op_kind_name(enum op_kind kind);

/* Files of every root's /etc. */
#define OP_HOSTS    "127.0.0.1 localhost cay\n::1 localhost ip6-localhost ip6-loopback\n"
#define OP_HOSTNAME "cay\n"
#define OP_NSSWITCH "passwd: files\ngroup: files\nhosts: files dns\n"
/* A documentation address (RFC 5737): there is no way to it, so that a lookup fails at once, and is
 * counted as what it is, an attempt to reach the network. */
#define OP_RESOLV_CONF "nameserver 192.0.2.1\noptions attempts:1 timeout:1\n"

/* What a root may have beside the usual: nothing that can be written can be executed; terminals of
 * its own, for runs that ask for one: others have the five devices only. */
enum { ROOT_NOEXEC = 1 << 0, ROOT_TERMINAL = 1 << 1 };

/* The root of image "host": this machine's own runtimes, read-only, and a minimal /etc. language
 * may be NULL; it names what else it needs in /etc. */
void op_list_host(struct arena *arena, const struct language *language, uid_t uid, gid_t gid,
                  unsigned flags, struct op_list *ret);

/* For those that make a root of their own: one more operation; and all but the system's programs
 * and libraries: /etc, /proc, /dev, and what can be written, flags as above. */
void op_add(struct arena *arena, struct op_list *list, struct op op);
void op_add_rest(struct arena *arena, const struct language *language, uid_t uid, gid_t gid,
                 unsigned flags, struct op_list *list);

/* What no root brings along: /proc, /dev, /run, and what can be written. Part of op_add_rest. */
void op_add_own(struct arena *arena, unsigned flags, struct op_list *list);

/* The user's lines in /etc/passwd and /etc/group. */
const char *op_passwd_line(struct arena *arena, uid_t uid, gid_t gid);
const char *op_group_line(struct arena *arena, gid_t gid);

/* SPDX-License-Identifier: Apache-2.0 */
/* Why a sandbox can't be had, in words, with the remedy where there is one. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "backends/native/native.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/signals.h"
#include "core/layer.h"

static const char *const remedies[LAYER_N] = {
    [LAYER_USER_NS] = "allow user namespaces (sysctl user.max_user_namespaces), or run as root",
    [LAYER_PID_NS] = "raise user.max_pid_namespaces; in a container, give it CAP_SYS_ADMIN",
    [LAYER_MOUNT_NS] = "raise user.max_mnt_namespaces; a container must not mask /proc",
    [LAYER_NET_NS] = "raise user.max_net_namespaces",
    [LAYER_IPC_NS] = "raise user.max_ipc_namespaces",
    [LAYER_UTS_NS] = "raise user.max_uts_namespaces, or leave uts_ns out of require",
    [LAYER_CGROUP_NS] = "raise user.max_cgroup_namespaces, or leave cgroup_ns out of require",
    [LAYER_SECCOMP] = "use a kernel with CONFIG_SECCOMP_FILTER on x86-64 or aarch64",
    [LAYER_LANDLOCK] =
        "boot with landlock in lsm= (Linux 5.13 or later), or leave it out of require",
    [LAYER_NONROOT] = "map the ids: install uidmap, or check /etc/subuid",
};

#define SHORTAGE "this host is short of memory, processes or open files: try again"

/* A host that is short of something has the layer all the same: who fills it up must not get a run
 * into a weaker place (backend_mark_unavailable). */
static bool is_shortage(int errnum)
{
    return errnum == ENOMEM || errnum == EAGAIN || errnum == EMFILE || errnum == ENFILE;
}

/* What an ordinary user has no cgroup for is one command of root's. */
static int hint_setup(struct cay_error *err)
{
    char command[sizeof err->hint];

    cgroup_setup_command(geteuid(), command, sizeof command);
    return cay_hint(err, "run `%s`, or leave cgroup out of require", command);
}

int native_fail_layer(struct cay_error *err, unsigned layer, int errnum, const char *what)
{
    if (is_shortage(errnum)) {
        cay_fail_errno(err, errnum, "layer %s: %s", layer_name((enum layer)layer), what);
        return cay_hint(err, SHORTAGE);
    }
    cay_fail(err, CAY_E_UNSUPPORTED, "layer %s is not available on this host: %s%s%s",
             layer_name((enum layer)layer), what, errnum ? ": " : "",
             errnum ? strerror(errnum) : "");
    backend_mark_unavailable(err);
    if ((UINT32_C(1) << layer & LAYER_CGROUP_BITS) && geteuid() != 0)
        return hint_setup(err);
    return cay_hint(err, "%s%s" SEE_DOCTOR, remedies[layer] ? remedies[layer] : "",
                    remedies[layer] ? "; " : "");
}

int native_fail_dead(struct cay_error *err)
{
    cay_fail(err, CAY_E_SYSTEM, "native: pid 1 died before the program started");
    return cay_hint(err, SHORTAGE);
}

/* A dead one's files in /proc are root's, which looks like a refusal; what it died of is a
 * shortage. It may be dying still, and on a busy host that takes its time. */
static bool is_dead(const struct native *native)
{
    enum { DYING_MS = 500 };
    struct pollfd end = { .fd = native->base.fds[FD_PID], .events = POLLIN };

    return poll(&end, 1, DYING_MS) > 0;
}

int native_fail_map(struct cay_error *err, const struct native *native, int errnum)
{
    if (is_dead(native))
        return native_fail_dead(err);
    if (native->who.kind != IDENTITY_SUBUID || is_shortage(errnum))
        return native_fail_layer(err, LAYER_USER_NS, errnum, "write the id map");
    native_fail_layer(err, LAYER_USER_NS, 0, "newuidmap refuses this user's range in /etc/subuid");
    return cay_hint(err, "check the user's name and lines there, or remove them; " SEE_DOCTOR);
}

int native_fail_folder(struct cay_error *err, const struct native *native, unsigned number,
                       int errnum)
{
    bool writes = number == 0 && native->spec.writes;
    const char *field = writes ? "workspace_rw" : number == 0 ? "workspace" : "ro";

    cay_fail_errno(err, errnum, "%s: can't be shown in the sandbox", field);
    if (writes && errnum == EOPNOTSUPP)
        cay_hint(err, "this file system has no id-mapped mounts: run as the folder's owner, or use "
                      "--workspace");
    else if (errnum == ENOSPC)
        cay_hint(err, "this one must be copied in: raise disk and inodes, or use a smaller one");
    else if (errnum == ENODEV)
        cay_hint(err, "the kernel lacks overlayfs (modprobe overlay)");
    else if (errnum == EEXIST)
        cay_hint(err, "the image has a folder of its own there: use another place, DIR=/PATH");
    else if (errnum == EINVAL)
        cay_hint(err, "something is mounted inside the folder: use one below or beside it");
    else if (errnum == EACCES || errnum == ENOENT || errnum == ESTALE)
        cay_hint(err, "every folder on the way to it must be open to you (x for the user)");
    return -1;
}

static const struct {
    const char *words;
    unsigned layer;
} step_rows[STEP_N] = {
#define STEP_ROW(name, words, layer) { words, LAYER_##layer },
    CHILD_STEPS(STEP_ROW)
#undef STEP_ROW
};

void native_fail_step(const struct native *native, const struct child_report *from,
                      struct cay_error *err)
{
    int errnum = from->value;
    uint32_t step = MIN(from->step, (uint32_t)STEP_N - 1);

    if (errnum < 0) {
        cay_fail(err, CAY_E_SYSTEM,
                 "native: ended by signal %d (%s) before the program was executed", -errnum,
                 signal_text(-errnum, (char[SIGNAL_TEXT_MAX]){ 0 }));
    } else if (step == STEP_EXEC && (errnum == ENOENT || errnum == ENOTDIR)) {
        bool has_image = native->spec.image[0];
        cay_fail(err, CAY_E_NOTFOUND, "command not found in %s%s",
                 has_image ? "image " : "the sandbox", native->spec.image);
        cay_hint(err, "the sandbox shows %s, and --file puts a program into /sandbox",
                 has_image ? "that image alone" : "this machine's /usr");
    } else if (step == STEP_EXEC) {
        cay_fail(err, CAY_E_UNSUPPORTED, "the program cannot be executed: %s", strerror(errnum));
        err->errnum = errnum == ENODEV ? EINVAL : errnum; /* that would say something else */
    } else if (step == STEP_FILES && errnum == ENOSPC) {
        cay_fail(err, CAY_E_LIMIT, "the request's files do not fit into the disk or inodes limit");
        cay_hint(err, "raise disk (and memory: disk is at most half of it) or inodes");
    } else if (step == STEP_FOLDERS) {
        native_fail_folder(err, native, from->op, errnum);
    } else if (step == STEP_ROOT && from->op < native->root.n) {
        const struct op *op = &native->root.ops[from->op];
        cay_fail_errno(err, errnum, "native: %s: %s /%s", step_rows[step].words,
                       op_kind_name(op->kind), op->path);
        if (op->kind == OP_PROC)
            native_fail_layer(err, LAYER_MOUNT_NS, errnum, "mount a new /proc");
    } else if (step_rows[step].layer != LAYER_N) {
        native_fail_layer(err, step_rows[step].layer, errnum, step_rows[step].words);
    } else {
        cay_fail_errno(err, errnum, "native: %s", step_rows[step].words);
    }
    if (err->kind == CAY_E_SYSTEM)
        cay_hint(err, SEE_DOCTOR);
}

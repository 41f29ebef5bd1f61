/* SPDX-License-Identifier: Apache-2.0 */
/* Findings: how a row and the facts make one; and the rows about the kernel. Pure functions. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/strbuf.h"
#include "doctor/doctor.h"

static char *arena_format(struct arena *arena, const char *fmt, va_list ap)
{
    auto_strbuf struct strbuf text = { 0 };

    strbuf_vprintf(&text, fmt, ap);
    return arena_str(arena, strbuf_str(&text));
}

void finding_say(const struct facts *f, struct finding *out, enum finding_status status,
                 const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    out->status = status;
    out->fact = arena_format(f->arena, fmt, ap);
    va_end(ap);
}

void finding_fix(const struct facts *f, struct finding *out, const char *text, const char *fmt, ...)
{
    va_list ap;

    if (out->n_fixes == FIXES_MAX)
        return;
    va_start(ap, fmt);
    out->fixes[out->n_fixes++] = (struct fix){
        .text = arena_str(f->arena, text),
        .command = fmt ? arena_format(f->arena, fmt, ap) : NULL,
    };
    va_end(ap);
}

const char *facts_sudo(const struct facts *f)
{
    return f->uid == 0 ? "" : "sudo ";
}

/* By what a system says it is or is like; the first that fits. */
static const struct {
    const char *id;
    const char *command;
    const char *uidmap;
} installers[] = {
    { "debian", "apt-get install", "uidmap" },   { "ubuntu", "apt-get install", "uidmap" },
    { "fedora", "dnf install", "shadow-utils" }, { "rhel", "dnf install", "shadow-utils" },
    { "suse", "zypper install", "shadow" },      { "arch", "pacman -S", "shadow" },
    { "alpine", "apk add", "shadow-subids" },
};

const char *facts_install(const struct facts *f, const char *package)
{
    for (size_t i = 0; i < ARRAY_LEN(installers); i++) {
        if (!strstr(f->os_id, installers[i].id))
            continue;
        bool is_debian = strcmp(installers[i].uidmap, "uidmap") == 0;
        if (!is_debian && strcmp(package, "uidmap") != 0)
            return NULL;
        return arena_printf(f->arena, "%s%s %s", facts_sudo(f), installers[i].command,
                            is_debian ? package : installers[i].uidmap);
    }
    return NULL;
}

void finding_fix_boot(const struct facts *f, struct finding *out, const char *text,
                      const char *words)
{
    const char *sudo = facts_sudo(f);

    if (f->places & PLACE_BIT(WSL2))
        finding_fix(f, out,
                    arena_printf(f->arena,
                                 "%s: in %%UserProfile%%\\.wslconfig, section [wsl2], then `wsl "
                                 "--shutdown`",
                                 text),
                    "kernelCommandLine = %s", words);
    else if (strstr(f->os_id, "debian") || strstr(f->os_id, "ubuntu"))
        finding_fix(f, out, arena_printf(f->arena, "%s, and boot again", text),
                    "echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX %s\"' | %stee -a "
                    "/etc/default/grub && %supdate-grub",
                    words, sudo, sudo);
    else if (strstr(f->os_id, "fedora") || strstr(f->os_id, "rhel"))
        finding_fix(f, out, arena_printf(f->arena, "%s, and boot again", text),
                    "%sgrubby --update-kernel=ALL --args='%s'", sudo, words);
    else
        finding_fix(f, out, arena_printf(f->arena, "%s, on the kernel's command line", text), "%s",
                    words);
}

/* ---- a try, judged ---- */

/* What is the matter where a check has nothing of its own to say. */
static void fix_usual(const struct facts *f, const struct check *check, struct finding *out)
{
    int errnum = f->tried[check->probe].errnum;
    bool is_denial = errnum == EPERM || errnum == EACCES;

    if (f->places & (PLACE_BIT(WSL1) | PLACE_BIT(GVISOR))) {
        finding_fix_place(f, out);
    } else if (f->version < check->since) {
        finding_fix(f, out,
                    arena_printf(f->arena, "boot Linux %u.%u or later (this is %s)",
                                 check->since / 100, check->since % 100, f->release),
                    NULL);
    } else if (finding_fix_place(f, out)) {
        return;
    } else if (f->seccomp_mode == 2) {
        finding_fix(f, out,
                    "a seccomp filter is on cay itself: whoever started it (a service, a "
                    "container, another sandbox) must allow the call; for a systemd service",
                    "%ssystemctl edit <service>   # SystemCallFilter= and RestrictNamespaces=no",
                    facts_sudo(f));
    } else if (check->config && !is_denial) {
        finding_fix(f, out,
                    arena_printf(f->arena, "use a kernel that is built with %s", check->config),
                    NULL);
    } else {
        finding_fix(f, out,
                    "nothing that shows denies it: see which call is refused, and what the kernel "
                    "says of it",
                    "strace -f -o cay.trace cay exec -- true; %sdmesg | tail", facts_sudo(f));
    }
}

void doctor_judge(const struct facts *f, const struct check *check, struct finding *ret)
{
    *ret = (struct finding){
        .id = check->id,
        .group = check->group,
        .title = check->title,
        .why = check->why,
        .status = FINDING_SKIP,
        .fact = "",
    };
    if (check->probe == PROBE_N) {
        check->judge(f, ret);
        return;
    }
    const struct probe_result *tried = &f->tried[check->probe];
    if (tried->errnum == PROBE_UNTRIED)
        finding_say(f, ret, FINDING_SKIP, "not tried: %s", tried->what);
    else if (tried->errnum == 0)
        finding_say(f, ret, FINDING_OK, "works");
    else
        finding_say(f, ret, check->bad, "%s: %s", tried->what, strerror(tried->errnum));
    if (check->judge)
        check->judge(f, ret);
    bool is_bad = ret->status == FINDING_WARN || ret->status == FINDING_FAIL;
    if (is_bad && ret->n_fixes == 0)
        fix_usual(f, check, ret);
}

/* ---- namespaces ---- */

static bool failed(const struct facts *f, enum probe probe)
{
    return f->tried[probe].errnum > 0;
}

static void set_sysctl(const struct facts *f, struct finding *out, const char *name,
                       const char *value)
{
    finding_fix(f, out, "until the next boot", "%ssysctl -w %s=%s", facts_sudo(f), name, value);
    finding_fix(f, out, "for good", "echo %s=%s | %stee /etc/sysctl.d/60-cay.conf", name, value,
                facts_sudo(f));
}

static void fix_apparmor(const struct facts *f, struct finding *out)
{
    finding_fix(f, out, "allow them to cay alone, by an AppArmor profile",
                "printf '%%s\\n' 'abi <abi/4.0>,' 'include <tunables/global>' "
                "'profile cay %s flags=(unconfined) {' '  userns,' '}' | "
                "%stee /etc/apparmor.d/cay && %sapparmor_parser -r /etc/apparmor.d/cay",
                f->exe, facts_sudo(f), facts_sudo(f));
    finding_fix(f, out, "or to everybody, until the next boot",
                "%ssysctl -w kernel.apparmor_restrict_unprivileged_userns=0", facts_sudo(f));
}

static void judge_user_ns(const struct facts *f, struct finding *out)
{
    const struct probe_result *tried = &f->tried[PROBE_USER_NS];

    if (!failed(f, PROBE_USER_NS))
        return;
    if (f->places & (PLACE_BIT(WSL1) | PLACE_BIT(GVISOR)))
        return;
    if (f->max_user_ns == 0 || tried->errnum == ENOSPC) {
        finding_say(f, out, FINDING_FAIL, "user.max_user_namespaces is %lld%s",
                    (long long)f->max_user_ns, f->max_user_ns ? ", and all are in use" : "");
        set_sysctl(f, out, "user.max_user_namespaces", "15000");
        if (f->places & PLACE_BIT(USER_NS))
            finding_fix(f, out,
                        "this is a user namespace itself: the limit of the one around it counts",
                        NULL);
    } else if (f->uid != 0 && f->userns_clone == 0) {
        finding_say(f, out, FINDING_FAIL, "kernel.unprivileged_userns_clone is 0: for root only");
        set_sysctl(f, out, "kernel.unprivileged_userns_clone", "1");
    } else if (f->uid != 0 && f->apparmor_userns == 1) {
        finding_say(f, out, FINDING_FAIL,
                    "AppArmor restricts them to programs with a profile (Ubuntu 23.10 and later): "
                    "%s: %s",
                    tried->what, strerror(tried->errnum));
        fix_apparmor(f, out);
    } else if (f->seccomp_mode != 2 && f->selinux == 1) {
        finding_say(f, out, FINDING_FAIL, "%s: %s, and SELinux is enforcing", tried->what,
                    strerror(tried->errnum));
        finding_fix(f, out, "see what SELinux denied, and allow it",
                    "%sausearch -m avc -ts recent | audit2allow -M cay && %ssemodule -i cay.pp",
                    facts_sudo(f), facts_sudo(f));
    }
}

static void judge_id_map(const struct facts *f, struct finding *out)
{
    const struct probe_result *tried = &f->tried[PROBE_ID_MAP];
    static const char *const words[] = {
        [IDENTITY_ROOT_SLOT] = "each run has a uid of its own, from a range that nobody uses",
        [IDENTITY_SUBUID] = "each run has a uid of its own, from this user's /etc/subuid",
        [IDENTITY_OWN] = "runs have this user's own uid",
    };

    if (tried->errnum == 0) {
        finding_say(f, out, FINDING_OK, "%s", words[f->identity]);
    } else if (failed(f, PROBE_USER_NS)) {
        finding_say(f, out, FINDING_SKIP, "not tried: needs a user namespace first");
    } else if (f->state_errnum && f->uid == 0) {
        finding_fix(f, out, "make the state folder writable (see there)", NULL);
    } else if (f->identity == IDENTITY_SUBUID) {
        finding_fix(f, out, "give the helpers their privilege back",
                    "%schmod u+s /usr/bin/newuidmap /usr/bin/newgidmap", facts_sudo(f));
    } else if (f->places & PLACE_BIT(USER_NS) && f->uid == 0) {
        finding_say(f, out, FINDING_FAIL,
                    "root of a user namespace can map only the ids in /proc/self/uid_map: %s",
                    strerror(tried->errnum));
        finding_fix(f, out, "run cay as an ordinary user in here (any uid that is mapped)",
                    "setpriv --reuid 1000 --regid 1000 --clear-groups cay ...");
    }
}

/* A container's seccomp filter and a limit of the kernel look different: EPERM, ENOSPC. */
static void judge_namespace(const struct facts *f, struct finding *out)
{
    static const struct {
        const char *id;
        enum probe probe;
        const char *sysctl;
    } limits[] = {
        { "pid_ns", PROBE_PID_NS, "user.max_pid_namespaces" },
        { "mount_ns", PROBE_MOUNT_NS, "user.max_mnt_namespaces" },
        { "net_ns", PROBE_NET_NS, "user.max_net_namespaces" },
        { "ipc_ns", PROBE_IPC_NS, "user.max_ipc_namespaces" },
        { "uts_ns", PROBE_UTS_NS, "user.max_uts_namespaces" },
        { "cgroup_ns", PROBE_CGROUP_NS, "user.max_cgroup_namespaces" },
    };

    for (size_t i = 0; i < ARRAY_LEN(limits); i++)
        if (strcmp(out->id, limits[i].id) == 0 && f->tried[limits[i].probe].errnum == ENOSPC) {
            finding_say(f, out, FINDING_FAIL, "%s is used up", limits[i].sysctl);
            set_sysctl(f, out, limits[i].sysctl, "15000");
        }
}

/* ---- files ---- */

static void judge_proc(const struct facts *f, struct finding *out)
{
    if (!failed(f, PROBE_PROC) || f->proc_masks == 0)
        return;
    finding_say(f, out, FINDING_FAIL,
                "%u mount%s over parts of /proc (%s …): the kernel gives no new one, for it would "
                "show what they hide",
                f->proc_masks, f->proc_masks == 1 ? " lies" : "s lie", f->proc_mask);
    if (!finding_fix_place(f, out))
        finding_fix(f, out, "take the mounts off, or start cay where they are not there",
                    "grep ' /proc/' /proc/self/mountinfo");
}

static void judge_overlay(const struct facts *f, struct finding *out)
{
    if (failed(f, PROBE_OVERLAY) && f->version < 606)
        finding_say(
            f, out, FINDING_WARN,
            "%s: %s (a tmpfs keeps user attributes from Linux 6.6 on): a workspace is copied",
            f->tried[PROBE_OVERLAY].what, strerror(f->tried[PROBE_OVERLAY].errnum));
}

/* ---- filters ---- */

static void judge_landlock(const struct facts *f, struct finding *out)
{
    int errnum = f->tried[PROBE_LANDLOCK].errnum;

    if (errnum == 0) {
        finding_say(f, out, FINDING_OK, "ABI %d", f->landlock_abi);
        return;
    }
    bool is_off = errnum == EOPNOTSUPP || (f->lsm && !strstr(f->lsm, "landlock"));
    if (f->version < 513 || !is_off || (f->places & (PLACE_BIT(WSL1) | PLACE_BIT(GVISOR))))
        return;
    finding_say(f, out, FINDING_FAIL, "built into this kernel or not, it is not switched on%s%s",
                f->lsm ? "; these are: " : "", f->lsm ? f->lsm : "");
    finding_fix_boot(
        f, out, "add it to the list",
        arena_printf(f->arena, "lsm=landlock,%s",
                     f->lsm ? f->lsm : "lockdown,yama,integrity,apparmor,selinux,bpf"));
}

/* ---- calls ---- */

static void judge_clone3(const struct facts *f, struct finding *out)
{
    if (!failed(f, PROBE_CLONE3))
        return;
    if (f->cgroup_version != 2) {
        finding_say(f, out, FINDING_OK, "refused (%s): clone does as well",
                    strerror(f->tried[PROBE_CLONE3].errnum));
        return;
    }
    finding_say(f, out, FINDING_FAIL,
                "refused (%s), and on cgroup v2 a program can be born in its group by it only",
                strerror(f->tried[PROBE_CLONE3].errnum));
}

#define NS "namespaces"

const struct check checks_kernel[] = {
    { "user_ns", NS, "user namespaces", "an ordinary user can isolate nothing without them",
      PROBE_USER_NS, FINDING_FAIL, 308, "CONFIG_USER_NS", judge_user_ns },
    { "id_map", NS, "identity of a run", "a program has no user's rights, nor another run's",
      PROBE_ID_MAP, FINDING_FAIL, 308, NULL, judge_id_map },
    { "pid_ns", NS, "pid namespaces", "a program sees and signals only its own; all of it ends",
      PROBE_PID_NS, FINDING_FAIL, 308, "CONFIG_PID_NS", judge_namespace },
    { "mount_ns", NS, "mount namespaces", "a program has a root of its own", PROBE_MOUNT_NS,
      FINDING_FAIL, 308, "CONFIG_NAMESPACES", judge_namespace },
    { "net_ns", NS, "network namespaces", "a program reaches no service of the host", PROBE_NET_NS,
      FINDING_FAIL, 308, "CONFIG_NET_NS", judge_namespace },
    { "ipc_ns", NS, "ipc namespaces", "no shared memory or queues of others", PROBE_IPC_NS,
      FINDING_FAIL, 308, "CONFIG_IPC_NS", judge_namespace },
    { "uts_ns", NS, "uts namespaces", "a host name of its own", PROBE_UTS_NS, FINDING_FAIL, 308,
      "CONFIG_UTS_NS", judge_namespace },
    { "cgroup_ns", NS, "cgroup namespaces", "a program does not see where the host put it",
      PROBE_CGROUP_NS, FINDING_FAIL, 406, "CONFIG_CGROUPS", judge_namespace },

    { "mount_api", "files", "mounting a tmpfs", "the root is built by them, detached",
      PROBE_MOUNT_API, FINDING_FAIL, 512, "CONFIG_TMPFS" },
    { "pivot_root", "files", "pivot_root", "the host's root is left behind", PROBE_PIVOT,
      FINDING_FAIL, 206, NULL },
    { "proc", "files", "a new /proc", "runtimes read /proc/self; the host's shows others",
      PROBE_PROC, FINDING_FAIL, 308, "CONFIG_PROC_FS", judge_proc },
    { "devpts", "files", "a new /dev/pts", "terminals inside (`-t`)", PROBE_DEVPTS, FINDING_WARN,
      407, "CONFIG_UNIX98_PTYS" },
    { "overlay", "files", "overlayfs on tmpfs", "workspaces (`--workspace`) are copy-on-write",
      PROBE_OVERLAY, FINDING_WARN, 606, "CONFIG_OVERLAY_FS and CONFIG_TMPFS_XATTR", judge_overlay },
    { "idmapped_mounts", "files", "id-mapped mounts", "root's workspaces keep their owners",
      PROBE_IDMAP, FINDING_WARN, 512, NULL },

    { "seccomp", "filters", "seccomp", "the list of allowed system calls", PROBE_SECCOMP,
      FINDING_FAIL, 317, "CONFIG_SECCOMP_FILTER" },
    { "seccomp_notify", "filters", "seccomp notification", "answers of warm runs before their end",
      PROBE_NOTIFY, FINDING_WARN, 500, "CONFIG_SECCOMP_FILTER" },
    { "landlock", "filters", "landlock", "a second wall around files", PROBE_LANDLOCK, FINDING_FAIL,
      513, "CONFIG_SECURITY_LANDLOCK", judge_landlock },
    { "no_new_privs", "filters", "no_new_privs", "no setuid program gives anything",
      PROBE_NO_NEW_PRIVS, FINDING_FAIL, 305, NULL },
    { "capabilities", "filters", "dropping capabilities", "a program has none, in any set",
      PROBE_CAPS, FINDING_FAIL, 206, NULL },

    { "rlimits", "filters", "rlimits", "a second bound of files, processes and core dumps",
      PROBE_RLIMITS, FINDING_FAIL, 206, NULL },

    { "pidfd", "calls", "pidfd", "a run is killed by a handle, never by a number", PROBE_PIDFD,
      FINDING_FAIL, 503, NULL },
    { "clone3", "calls", "clone3", "a program is born in its cgroup (v2)", PROBE_CLONE3,
      FINDING_FAIL, 507, NULL, judge_clone3 },
    { "close_range", "calls", "close_range", "no fd of the caller's gets in", PROBE_CLOSE_RANGE,
      FINDING_FAIL, 509, NULL },
    { "memfd", "calls", "sealed memory files", "code and variables go in by one", PROBE_MEMFD,
      FINDING_FAIL, 317, "CONFIG_MEMFD_CREATE" },
    { "openat2", "calls", "openat2", "files are collected without following links out",
      PROBE_OPENAT2, FINDING_WARN, 506, NULL },
    { NULL },
};

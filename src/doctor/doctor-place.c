/* SPDX-License-Identifier: Apache-2.0 */
/* Containers, virtual machines, and kernels that are not Linux: how to recognise them, and what cay
 * needs of their administrator. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "doctor/doctor.h"

/* In the order of the enum. */
static const char *const names[PLACE_N] = {
#define PLACE_WORD(name, word) word,
    PLACES(PLACE_WORD)
#undef PLACE_WORD
};

const char *place_name(enum place place)
{
    return names[place];
}

/* A file that is there, or a text in one that can be read: what gives a place away. */
static const struct {
    enum place place;
    const char *path;
    const char *text; /* NULL: the file is enough */
} signs[] = {
    { PLACE_DOCKER, ".dockerenv", NULL },
    { PLACE_PODMAN, "run/.containerenv", NULL },
    { PLACE_KUBERNETES, "run/secrets/kubernetes.io", NULL },
    { PLACE_KUBERNETES, "var/run/secrets/kubernetes.io", NULL },
    { PLACE_KUBERNETES, "proc/1/cgroup", "/kubepods" },
    { PLACE_DOCKER, "proc/1/cgroup", "/docker/" },
    { PLACE_LXC, "proc/1/cgroup", "/lxc" },
    { PLACE_DOCKER, "run/systemd/container", "docker" },
    { PLACE_PODMAN, "run/systemd/container", "podman" },
    { PLACE_LXC, "run/systemd/container", "lxc" },
    { PLACE_NSPAWN, "run/systemd/container", "systemd-nspawn" },
    { PLACE_LXC, "dev/lxd/sock", NULL },
    { PLACE_LXC, "dev/.lxc", NULL },
    { PLACE_WSL2, "proc/version", "microsoft-standard" }, /* its own kernel, in lower case */
    { PLACE_WSL2, "proc/version", "WSL2" },
    { PLACE_GVISOR, "proc/version", "gVisor" },
    /* What every gVisor says it was built at. */
    { PLACE_GVISOR, "proc/version", "#1 SMP Sun Jan 10 15:06:54 PST 2016" },
    { PLACE_VM, "sys/hypervisor/type", NULL },
    { PLACE_VM, "proc/cpuinfo", " hypervisor" },
};

static const struct {
    const char *text;
    enum place place;
} container_words[] = {
    { "docker", PLACE_DOCKER }, { "podman", PLACE_PODMAN },         { "oci", PLACE_CONTAINER },
    { "lxc", PLACE_LXC },       { "systemd-nspawn", PLACE_NSPAWN },
};

#define CONTAINERS                                                                    \
    (PLACE_BIT(DOCKER) | PLACE_BIT(PODMAN) | PLACE_BIT(KUBERNETES) | PLACE_BIT(LXC) | \
     PLACE_BIT(NSPAWN) | PLACE_BIT(CONTAINER))

static uint32_t bit(enum place place)
{
    return UINT32_C(1) << place;
}

/* An image of Docker's that was made into a machine's disk keeps the file, and is no container: an
 * engine lays files of its own over /etc, or has a layered root. */
static bool has_engine_mounts(struct facts *f, int root_fd)
{
    const char *mounts = facts_text(f, root_fd, "proc/self/mounts");
    return !mounts || strstr(mounts, " /etc/hosts ") || strstr(mounts, " /etc/hostname ") ||
           strstr(mounts, " /etc/resolv.conf ") || strstr(mounts, " / overlay ") ||
           strstr(mounts, " / fuse.fuse-overlayfs ");
}

static void read_machine(struct facts *f, int root_fd)
{
    const char *version = facts_text(f, root_fd, "proc/version");
    const char *vendor = facts_text(f, root_fd, "sys/class/dmi/id/sys_vendor");
    const char *product = facts_text(f, root_fd, "sys/class/dmi/id/product_name");
    const char *cmdline = facts_text(f, root_fd, "proc/cmdline");

    /* The first WSL has no Linux in it: "4.4.0-19041-Microsoft", in capitals. */
    if (version && strstr(version, "Microsoft") && !(f->places & PLACE_BIT(WSL2)))
        f->places |= PLACE_BIT(WSL1);
    if (f->places & PLACE_BIT(VM) && vendor)
        f->vm = arena_printf(f->arena, "%s %s", vendor, product ? product : "");
    /* It has no firmware that could name itself, and hands its devices over by the command line. */
    if (f->places & PLACE_BIT(VM) && !vendor && cmdline &&
        (strstr(cmdline, "virtio_mmio.device=") || strstr(cmdline, "pci=off") ||
         strstr(cmdline, "firecracker")))
        f->places |= PLACE_BIT(FIRECRACKER);
}

void facts_read_place(struct facts *f, int root_fd, const char *const *environment)
{
    const char *container = facts_variable(environment, "container");
    const char *map = facts_text(f, root_fd, "proc/self/uid_map");

    for (size_t i = 0; i < ARRAY_LEN(signs); i++) {
        const char *text = signs[i].text ? facts_text(f, root_fd, signs[i].path) : NULL;
        if (signs[i].text ? text && strstr(text, signs[i].text)
                          : faccessat(root_fd, signs[i].path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            f->places |= bit(signs[i].place);
    }
    if (!has_engine_mounts(f, root_fd))
        f->places &= ~(PLACE_BIT(DOCKER) | PLACE_BIT(PODMAN));
    if (facts_variable(environment, "KUBERNETES_SERVICE_HOST"))
        f->places |= PLACE_BIT(KUBERNETES);
    for (size_t i = 0; container && i < ARRAY_LEN(container_words); i++)
        if (strstr(container, container_words[i].text))
            f->places |= bit(container_words[i].place);
    if (map && !strstr(map, "4294967295"))
        f->places |= PLACE_BIT(USER_NS);
    read_machine(f, root_fd);
}

/* ---- what to do about it ---- */

/* In this order: a pod's own settings count where its engine shows as well. */
static const struct {
    enum place place;
    const char *text;
    const char *command;
} remedies[] = {
    { PLACE_WSL1, "WSL 1 has no Linux kernel: move the distribution to WSL 2 (in PowerShell)",
      "wsl --set-version <distribution> 2" },
    { PLACE_GVISOR,
      "gVisor is no Linux kernel and lacks this: run cay beside it, or this container with runc",
      "docker run --runtime=runc ..." },
    { PLACE_KUBERNETES,
      "in the pod's spec (its namespace must allow the privileged Pod Security level)",
      "hostUsers: false, and in the container's securityContext: {procMount: Unmasked, "
      "seccompProfile: {type: Unconfined}, appArmorProfile: {type: Unconfined}}" },
    { PLACE_PODMAN, "start a container for cay alone without podman's own filters",
      "podman run --security-opt seccomp=unconfined --security-opt unmask=ALL "
      "--security-opt label=disable ..." },
    { PLACE_DOCKER, "start a container for cay alone without Docker's own filters",
      "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
      "--security-opt systempaths=unconfined ..." },
    { PLACE_LXC, "allow the container to nest others (on its host)",
      "lxc config set <container> security.nesting=true && lxc restart <container>" },
    { PLACE_NSPAWN, "start the container with user namespaces and an unmasked /proc",
      "SYSTEMD_NSPAWN_API_VFS_WRITABLE=yes systemd-nspawn --capability=all "
      "--system-call-filter=@known ..." },
    { PLACE_CONTAINER,
      "start the container without a seccomp filter of its own, and with an unmasked /proc", NULL },
};

bool finding_fix_place(const struct facts *f, struct finding *out)
{
    for (size_t i = 0; i < ARRAY_LEN(remedies); i++) {
        if (!(f->places & bit(remedies[i].place)))
            continue;
        finding_fix(f, out, remedies[i].text, remedies[i].command ? "%s" : NULL,
                    remedies[i].command);
        return true;
    }
    return false;
}

/* ---- checks ---- */

static void judge_place(const struct facts *f, struct finding *out)
{
    char *list = arena_str(f->arena, "");

    for (unsigned i = 0; i < PLACE_N; i++)
        if (f->places & bit((enum place)i))
            list = arena_printf(f->arena, "%s%s%s", list, *list ? ", " : "", names[i]);
    if (f->places & PLACE_BIT(WSL1)) {
        finding_say(f, out, FINDING_FAIL, "%s: system calls without a Linux kernel", list);
        finding_fix_place(f, out);
    } else if (f->places & PLACE_BIT(GVISOR)) {
        finding_say(f, out, FINDING_WARN, "%s: another program answers the system calls", list);
        finding_fix_place(f, out);
    } else if (f->places & CONTAINERS) {
        finding_say(f, out, FINDING_OK,
                    "in a container (%s): its own filters come before cay's, and what they deny is "
                    "found below",
                    list);
    } else if (f->places & PLACE_BIT(USER_NS)) {
        finding_say(f, out, FINDING_OK,
                    "in a user namespace: only the ids that were mapped into it can be used");
    } else if (*list) {
        finding_say(f, out, FINDING_OK, "%s%s%s%s: all as on bare metal", list, f->vm ? " (" : "",
                    f->vm ? f->vm : "", f->vm ? ")" : "");
    } else {
        finding_say(f, out, FINDING_OK, "no container and no virtual machine that would show");
    }
}

static void judge_system(const struct facts *f, struct finding *out)
{
    bool is_known = strcmp(f->machine, "x86_64") == 0 || strcmp(f->machine, "aarch64") == 0;

    finding_say(f, out, is_known ? FINDING_OK : FINDING_FAIL, "%s%s", f->machine,
                is_known ? "" : ": cay has no list of system calls for it");
    if (!is_known)
        finding_fix(f, out, "use a machine with a 64-bit x86 or ARM processor and a 64-bit system",
                    NULL);
}

static void judge_kernel(const struct facts *f, struct finding *out)
{
    enum { OLDEST = 513 }; /* landlock; everything else is older */

    if (f->version >= OLDEST) {
        finding_say(f, out, FINDING_OK, "Linux %s", f->release);
        return;
    }
    finding_say(f, out, FINDING_FAIL, "Linux %s: 5.13 or later is needed", f->release);
    if (!(f->places & (PLACE_BIT(WSL1) | PLACE_BIT(GVISOR))) || !finding_fix_place(f, out))
        finding_fix(f, out, "boot a newer kernel", NULL);
}

static void judge_clock(const struct facts *f, struct finding *out)
{
    enum { YEAR_2024 = 1704067200 };

    if (f->clock_s >= YEAR_2024) {
        finding_say(f, out, FINDING_OK, "set");
        return;
    }
    finding_say(f, out, FINDING_WARN, "not set: it is before 2024 by it");
    finding_fix(f, out, "set the clock", "%stimedatectl set-ntp true", facts_sudo(f));
}

const struct check checks_host[] = {
    { "architecture", "host", "processor", "the list of system calls is made for each", PROBE_N,
      .judge = judge_system },
    { "kernel", "host", "kernel version", "the layers are the kernel's", PROBE_N,
      .judge = judge_kernel },
    { "place", "host", "container, machine", "what is around cay may take things away from it",
      PROBE_N, .judge = judge_place },
    { "clock", "host", "clock", "results carry the time; certificates and builds look at it",
      PROBE_N, .judge = judge_clock },
    { NULL },
};

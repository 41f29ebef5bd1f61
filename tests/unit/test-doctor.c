/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts as data: files that a made-up host has, what trying gave there, and what has to be said.
 * The tries themselves, and the run, are tests/e2e/test-doctor.py's. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../lib/tmp-folder.h"
#include "base/arena.h"
#include "base/auto.h"
#include "doctor/doctor.h"

struct file {
    const char *path, *text;
};

struct wanted {
    const char *id;
    enum finding_status status;
    const char *fact;    /* in the finding's fact, or the text of a fix; NULL: anything */
    const char *command; /* in one of the commands; NULL: none is looked for */
};

struct host {
    const char *name;
    struct file files[10];
    const char *env[4];
    uint32_t uid;
    struct {
        enum probe probe;
        int errnum;
        const char *what;
    } tried[4]; /* the others work */
    int cgroup_version;
    uint32_t places;
    struct wanted wanted[6];
};

#define DOCKER_MOUNTS                                                            \
    "overlay / overlay rw,relatime 0 0\nproc /proc proc rw,nosuid 0 0\n"         \
    "cgroup /sys/fs/cgroup cgroup2 ro,nosuid,nodev,noexec,relatime 0 0\n"        \
    "/dev/sda1 /etc/resolv.conf ext4 rw 0 0\n/dev/sda1 /etc/hosts ext4 rw 0 0\n" \
    "proc /proc/bus proc ro,nosuid 0 0\ntmpfs /proc/kcore tmpfs rw,nosuid,size=65536k 0 0\n"

#define V2_MOUNT "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime 0 0\n"
#define V1_MOUNTS                                                                           \
    "tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0\n"                                          \
    "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\ncgroup /sys/fs/cgroup/pids cgroup " \
    "rw,pids 0 0\ncgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n"
#define ALL_CONTROLLERS             \
    "#subsys_name\thierarchy\tnum_" \
    "cgroups\tenabled\ncpu\t1\t1\t1\nmemory\t4\t18\t1\npids\t8\t1\t1\n"
#define RELEASE "proc/sys/kernel/osrelease"
#define MODERN                        \
    {                                 \
        RELEASE, "6.8.0-31-generic\n" \
    }
#define IN_A_FILTER                                                     \
    {                                                                   \
        "proc/self/status", "Name:\tcay\nNoNewPrivs:\t0\nSeccomp:\t2\n" \
    }

static const struct host hosts[] = {
    {
        .name = "a plain Debian",
        .files = { MODERN,
                   { "usr/lib/os-release", "PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\n" },
                   { "proc/self/mounts", V2_MOUNT },
                   { "sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n" } },
        .cgroup_version = 2,
        .wanted = { { "user_ns", FINDING_OK, "works", NULL },
                    { "kernel", FINDING_OK, "Linux 6.8.0", NULL },
                    { "place", FINDING_OK, "no container", NULL },
                    { "cgroup_controllers", FINDING_OK, NULL, NULL },
                    { "cgroup_delegation", FINDING_OK, "version 2", NULL } },
    },
    {
        .name = "Ubuntu 24.04: AppArmor, an ordinary user",
        .files = { MODERN,
                   { "proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n" },
                   { "proc/sys/kernel/unprivileged_userns_clone", "1\n" },
                   { "proc/sys/user/max_user_namespaces", "127234\n" } },
        .uid = 1000,
        .tried = { { PROBE_USER_NS, EPERM, "write the id map" } },
        .wanted = { { "user_ns", FINDING_FAIL, "AppArmor", "profile cay /usr/bin/cay" },
                    { "user_ns", FINDING_FAIL, "write the id map", "sudo apparmor_parser -r" },
                    { "user_ns", FINDING_FAIL, NULL,
                      "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0" } },
    },
    {
        .name = "a switch that is on explains nothing where they work",
        .files = { MODERN, { "proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n" } },
        .uid = 1000,
        .wanted = { { "user_ns", FINDING_OK, NULL, NULL } },
    },
    {
        .name = "Debian's own switch",
        .files = { MODERN, { "proc/sys/kernel/unprivileged_userns_clone", "0\n" } },
        .uid = 1000,
        .tried = { { PROBE_USER_NS, EPERM, "unshare" },
                   { PROBE_ID_MAP, EPERM, "write the id map" },
                   { PROBE_PID_NS, PROBE_UNTRIED, "needs a user namespace first" } },
        .wanted = { { "user_ns", FINDING_FAIL, "for root only",
                      "sudo sysctl -w kernel.unprivileged_userns_clone=1" },
                    { "pid_ns", FINDING_SKIP, "needs a user namespace", NULL },
                    { "id_map", FINDING_SKIP, "needs a user namespace", NULL } },
        .cgroup_version = 0,
    },
    {
        .name = "no user namespaces by their number, root",
        .files = { MODERN, { "proc/sys/user/max_user_namespaces", "0\n" } },
        .tried = { { PROBE_USER_NS, ENOSPC, "unshare" } },
        .wanted = { { "user_ns", FINDING_FAIL, "max_user_namespaces is 0",
                      "sysctl -w user.max_user_namespaces=15000" } },
    },
    {
        .name = "SELinux",
        .files = { MODERN, { "sys/fs/selinux/enforce", "1" } },
        .uid = 1000,
        .tried = { { PROBE_USER_NS, EACCES, "unshare" } },
        .wanted = { { "user_ns", FINDING_FAIL, "SELinux", "audit2allow" } },
    },
    {
        .name = "a service with a filter of its own",
        .files = { MODERN, IN_A_FILTER },
        .uid = 1000,
        .tried = { { PROBE_NET_NS, EPERM, "unshare" } },
        .wanted = { { "net_ns", FINDING_FAIL, "unshare: ", "systemctl edit" } },
    },
    {
        .name = "a namespace that is used up",
        .files = { MODERN },
        .tried = { { PROBE_NET_NS, ENOSPC, "unshare" } },
        .wanted = { { "net_ns", FINDING_FAIL, "user.max_net_namespaces",
                      "sysctl -w user.max_net_namespaces=15000" },
                    { "pid_ns", FINDING_OK, NULL, NULL } },
    },
    {
        .name = "Docker",
        .files = { MODERN,
                   IN_A_FILTER,
                   { ".dockerenv", "" },
                   { "proc/self/mounts", DOCKER_MOUNTS },
                   { "sys/fs/cgroup/cgroup.controllers", "cpu memory pids" } },
        .tried = { { PROBE_USER_NS, EPERM, "unshare" },
                   { PROBE_PROC, EPERM, "fsmount" },
                   { PROBE_CLONE3, ENOSYS, "clone3" } },
        .places = PLACE_BIT(DOCKER),
        .wanted = { { "user_ns", FINDING_FAIL,
                      "unshare: ", "docker run --security-opt seccomp=unconfined" },
                    { "proc", FINDING_FAIL, "2 mounts lie over parts of /proc (/proc/bus",
                      "systempaths=unconfined" },
                    { "clone3", FINDING_OK, "clone does as well", NULL },
                    { "cgroup_delegation", FINDING_WARN, "read-only", "--cgroupns=private" },
                    { "place", FINDING_OK, "in a container (docker)", NULL } },
    },
    {
        .name = "a disk that was an image of Docker's",
        .files = { MODERN,
                   { ".dockerenv", "" },
                   { "proc/self/mounts", "/dev/vda / ext4 rw 0 0\n" V2_MOUNT } },
        .wanted = { { "place", FINDING_OK, "no container", NULL } },
    },
    {
        .name = "Kubernetes",
        .files = { MODERN, IN_A_FILTER, { "proc/self/mounts", DOCKER_MOUNTS } },
        .env = { "KUBERNETES_SERVICE_HOST=10.0.0.1" },
        .tried = { { PROBE_USER_NS, EPERM, "unshare" } },
        .places = PLACE_BIT(KUBERNETES),
        .wanted = { { "user_ns", FINDING_FAIL, NULL, "procMount: Unmasked" },
                    { "cgroup_delegation", FINDING_WARN, NULL, "privileged: true" } },
    },
    {
        .name = "Podman, rootless",
        .files = { MODERN,
                   { "run/.containerenv", "engine=\"podman-4.3.1\"\n" },
                   { "proc/self/uid_map", "         0       1000          1\n" },
                   { "proc/self/mounts", DOCKER_MOUNTS } },
        .env = { "container=podman" },
        .tried = { { PROBE_ID_MAP, EPERM, "write the id map" }, { PROBE_PROC, EPERM, "fsmount" } },
        .places = PLACE_BIT(PODMAN) | PLACE_BIT(USER_NS),
        .wanted = { { "proc", FINDING_FAIL, NULL, "podman run --security-opt" },
                    { "id_map", FINDING_FAIL, "/proc/self/uid_map", "setpriv --reuid" },
                    { "cgroup_delegation", FINDING_WARN, NULL, "podman run --cgroupns=private" } },
    },
    {
        .name = "LXC",
        .files = { MODERN, { "run/systemd/container", "lxc\n" } },
        .tried = { { PROBE_PROC, EPERM, "fsmount" } },
        .places = PLACE_BIT(LXC),
        .wanted = { { "proc", FINDING_FAIL, "fsmount", "security.nesting=true" } },
    },
    {
        .name = "systemd-nspawn",
        .files = { MODERN },
        .env = { "container=systemd-nspawn" },
        .tried = { { PROBE_MOUNT_API, EPERM, "fsopen" } },
        .places = PLACE_BIT(NSPAWN),
        .wanted = { { "mount_api", FINDING_FAIL, "fsopen", "systemd-nspawn" } },
    },
    {
        .name = "WSL 1",
        .files = { { RELEASE, "4.4.0-19041-Microsoft\n" },
                   { "proc/version",
                     "Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com) "
                     "(gcc version 5.4.0 (GCC) ) #1237-Microsoft\n" } },
        .uid = 1000,
        .tried = { { PROBE_USER_NS, EINVAL, "unshare" } },
        .places = PLACE_BIT(WSL1),
        .wanted = { { "place", FINDING_FAIL, "wsl1", "wsl --set-version" },
                    { "user_ns", FINDING_FAIL, NULL, "wsl --set-version" },
                    { "kernel", FINDING_FAIL, "5.13 or later", "wsl --set-version" } },
    },
    {
        .name = "WSL 2",
        .files = { { RELEASE, "5.15.153.1-microsoft-standard-WSL2\n" },
                   { "proc/version", "Linux version 5.15.153.1-microsoft-standard-WSL2 "
                                     "(root@941d701f84f1) (gcc (GCC) 11.2.0)\n" },
                   { "sys/kernel/security/lsm", "capability" } },
        .uid = 1000,
        .tried = { { PROBE_LANDLOCK, EOPNOTSUPP, "create a rule set" },
                   { PROBE_OVERLAY, EINVAL, "fsconfig" } },
        .places = PLACE_BIT(WSL2),
        .wanted = { { "landlock", FINDING_FAIL, "capability",
                      "kernelCommandLine = lsm=landlock,capability" },
                    { "overlay", FINDING_WARN, "6.6", NULL },
                    { "cgroup", FINDING_WARN, "none is mounted", "/etc/wsl.conf" } },
    },
    {
        .name = "gVisor",
        .files = { { RELEASE, "4.4.0\n" },
                   { "proc/version",
                     "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n" } },
        .tried = { { PROBE_LANDLOCK, ENOSYS, "create a rule set" } },
        .places = PLACE_BIT(GVISOR),
        .wanted = { { "place", FINDING_WARN, "gvisor", "--runtime=runc" },
                    { "landlock", FINDING_FAIL, NULL, "--runtime=runc" } },
    },
    {
        .name = "Firecracker",
        .files = { { RELEASE, "5.10.0\n" },
                   { "proc/cpuinfo", "flags\t\t: fpu vme hypervisor lahf_lm\n" },
                   { "proc/cmdline", "console=ttyS0 reboot=k panic=1 pci=off" } },
        .tried = { { PROBE_LANDLOCK, ENOSYS, "create a rule set" } },
        .places = PLACE_BIT(VM) | PLACE_BIT(FIRECRACKER),
        .wanted = { { "place", FINDING_OK, "firecracker", NULL },
                    { "landlock", FINDING_FAIL, "create a rule set", NULL },
                    { "kernel", FINDING_FAIL, "5.10.0", NULL } },
    },
    {
        .name = "a virtual machine that names itself",
        .files = { MODERN,
                   { "proc/cpuinfo", "flags\t\t: fpu vme hypervisor lahf_lm\n" },
                   { "sys/class/dmi/id/sys_vendor", "QEMU\n" },
                   { "sys/class/dmi/id/product_name", "Standard PC (Q35)\n" } },
        .places = PLACE_BIT(VM),
        .wanted = { { "place", FINDING_OK, "QEMU Standard PC (Q35)", NULL } },
    },
    {
        .name = "landlock is not in the list",
        .files = { MODERN, { "sys/kernel/security/lsm", "lockdown,capability,yama,apparmor" } },
        .uid = 1000,
        .tried = { { PROBE_LANDLOCK, EOPNOTSUPP, "create a rule set" } },
        .wanted = { { "landlock", FINDING_FAIL, "yama",
                      "lsm=landlock,lockdown,capability,yama,apparmor" } },
    },
    {
        .name = "the same on Ubuntu, by GRUB",
        .files = { MODERN,
                   { "usr/lib/os-release", "ID=ubuntu\nID_LIKE=debian\n" },
                   { "sys/kernel/security/lsm", "capability,apparmor" } },
        .uid = 1000,
        .tried = { { PROBE_LANDLOCK, EOPNOTSUPP, "create a rule set" } },
        .wanted = { { "landlock", FINDING_FAIL, NULL,
                      "lsm=landlock,capability,apparmor\"' | sudo tee -a /etc/default/grub" } },
    },
    {
        .name = "cgroup v2 with systemd, an ordinary user",
        .files = { MODERN,
                   { "proc/self/mounts", V2_MOUNT },
                   { "run/user/1000/systemd/private", "" },
                   { "sys/fs/cgroup/cgroup.controllers", "cpu memory pids" } },
        .uid = 1000,
        .wanted = { { "cgroup_delegation", FINDING_WARN, "delegated to this user",
                      "systemd-run --user --scope -p Delegate=yes" },
                    { "cgroup_delegation", FINDING_WARN, NULL,
                      "sudo cay setup alice -- su - alice" },
                    { "cgroup_delegation", FINDING_WARN, "at each boot",
                      "sudo cay setup alice && sudo systemctl daemon-reload" } },
    },
    {
        .name = "cgroup v1, an ordinary user",
        .files = { MODERN, { "proc/self/mounts", V1_MOUNTS }, { "proc/cgroups", ALL_CONTROLLERS } },
        .uid = 1000,
        .wanted = { { "cgroup", FINDING_OK, "version 1", NULL },
                    { "cgroup_controllers", FINDING_OK, NULL, NULL },
                    { "cgroup_delegation", FINDING_WARN, NULL, "sudo cay setup alice" } },
    },
    {
        .name = "cgroup v1 with systemd, an ordinary user",
        .files = { MODERN,
                   { "proc/self/mounts", V1_MOUNTS },
                   { "proc/cgroups", ALL_CONTROLLERS },
                   { "run/systemd/system/x", "" } },
        .uid = 1000,
        .wanted = { { "cgroup_delegation", FINDING_WARN, "now and at each boot",
                      "sudo cay setup alice" } },
    },
    {
        .name = "hybrid, without the memory controller; swap",
        .files = { MODERN,
                   { "proc/self/mounts",
                     V1_MOUNTS "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n" },
                   { "proc/cgroups", "cpu\t1\t1\t1\nmemory\t0\t1\t0\npids\t8\t1\t1\n" },
                   { "proc/swaps", "Filename\tType\n/dev/sda2 partition 1 0 -2\n" } },
        .cgroup_version = 1,
        .wanted = { { "cgroup", FINDING_OK, "systemd.unified_cgroup_hierarchy=1", NULL },
                    { "cgroup_controllers", FINDING_WARN, "switched off at boot",
                      "cgroup_enable=memory" },
                    { "swap", FINDING_WARN, "not counted", "swapaccount=1" } },
    },
    {
        .name = "something lies over the cgroups",
        .files = { MODERN, { "proc/self/mounts", V1_MOUNTS "none /sys/fs/cgroup tmpfs rw 0 0\n" } },
        .wanted = { { "cgroup", FINDING_WARN, "none is mounted",
                      "mount -t cgroup2 none /sys/fs/cgroup" },
                    { "cgroup_delegation", FINDING_SKIP, NULL, NULL } },
    },
    {
        .name = "no helpers for ids, on Fedora",
        .files = { MODERN,
                   { "usr/lib/os-release", "NAME=\"Fedora Linux\"\nID=fedora\n" },
                   { "etc/subuid", "bob:100000:65536\ncarol:165536:65536\n" },
                   { "etc/subgid", "bob:100000:65536\n" } },
        .uid = 1000,
        .wanted = { { "subids", FINDING_WARN, "not installed", "sudo dnf install shadow-utils" },
                    { "subids", FINDING_WARN, NULL, "echo alice:231072:65536 | sudo tee -a" } },
    },
    {
        .name = "helpers without their privilege, on Ubuntu",
        .files = { MODERN,
                   { "usr/lib/os-release", "ID=ubuntu\nID_LIKE=debian\n" },
                   { "usr/bin/newuidmap", "" },
                   { "usr/bin/newgidmap", "" } },
        .uid = 1000,
        .wanted = { { "subids", FINDING_WARN, "no privilege", "sudo chmod u+s" } },
    },
    {
        .name = "binfmt_misc hides nothing",
        .files = { MODERN,
                   { "proc/self/mounts",
                     "systemd-1 /proc/sys/fs/binfmt_misc autofs rw 0 0\n" V2_MOUNT } },
        .tried = { { PROBE_PROC, EPERM, "fsmount" } },
        .wanted = { { "proc", FINDING_FAIL, "fsmount: ", "strace" } },
    },
    {
        .name = "a host that shows no file at all",
        .files = { { "nothing", "" } },
        .uid = 1000,
        .wanted = { { "kernel", FINDING_FAIL, NULL, NULL },
                    { "cgroup", FINDING_WARN, NULL, NULL } },
    },
};

static const struct check *find_check(const char *id)
{
    const struct check *const lists[] = { checks_host, checks_kernel, checks_cgroup, checks_user,
                                          checks_tools };

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        for (const struct check *check = lists[i]; check->id; check++)
            if (strcmp(check->id, id) == 0)
                return check;
    return NULL;
}

static void init_facts(struct facts *f, struct arena *arena, const struct host *host)
{
    *f = (struct facts){
        .arena = arena,
        .uid = host->uid,
        .user = host->uid ? "alice" : "root",
        .exe = "/usr/bin/cay",
        .machine = "x86_64",
        .release = "0.0",
        .clock_s = 1900000000,
        .nproc = UINT64_MAX,
        .nofile = UINT64_MAX,
        .fsize = UINT64_MAX,
        .state_path = "/var/lib/cay",
        .state_free = UINT64_MAX,
        .cgroup_version = host->cgroup_version,
        .cgroup_cpu = true,
    };
    for (size_t i = 0; i < ARRAY_LEN(host->tried); i++) {
        if (!host->tried[i].what)
            continue;
        struct probe_result *result = &f->tried[host->tried[i].probe];
        result->errnum = host->tried[i].errnum;
        snprintf(result->what, sizeof result->what, "%s", host->tried[i].what);
    }
}

static bool has_command(const struct finding *finding, const char *command)
{
    for (unsigned i = 0; i < finding->n_fixes; i++)
        if (finding->fixes[i].command && strstr(finding->fixes[i].command, command))
            return true;
    return false;
}

static bool has_text(const struct finding *finding, const char *text)
{
    for (unsigned i = 0; i < finding->n_fixes; i++)
        if (finding->fixes[i].text && strstr(finding->fixes[i].text, text))
            return true;
    return strstr(finding->fact, text);
}

static void expect(const struct host *host, const struct facts *f, const struct wanted *wanted)
{
    struct finding finding;
    const struct check *check = find_check(wanted->id);

    assert_non_null(check);
    doctor_judge(f, check, &finding);
    bool is_right = finding.status == wanted->status &&
                    (!wanted->fact || has_text(&finding, wanted->fact)) &&
                    (!wanted->command || has_command(&finding, wanted->command));
    if (!is_right) {
        print_error("%s: %s: status %d, %s\n", host->name, wanted->id, (int)finding.status,
                    finding.fact);
        for (unsigned i = 0; i < finding.n_fixes; i++)
            print_error("  %s: %s\n", finding.fixes[i].text, finding.fixes[i].command);
    }
    assert_true(is_right);
}

/* Whatever is wrong, something is said to do about it; what is well needs nothing. */
static void expect_fixes(const struct host *host, const struct facts *f)
{
    const struct check *const lists[] = { checks_host, checks_kernel, checks_cgroup, checks_user,
                                          checks_tools };

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        for (const struct check *check = lists[i]; check->id; check++) {
            struct finding finding;
            doctor_judge(f, check, &finding);
            bool is_bad = finding.status == FINDING_WARN || finding.status == FINDING_FAIL;
            if (finding.fact[0] == '\0' || (is_bad && finding.n_fixes == 0) ||
                (!is_bad && finding.n_fixes > 0)) {
                print_error("%s: %s: status %d, %u fixes\n", host->name, check->id,
                            (int)finding.status, finding.n_fixes);
                fail();
            }
        }
}

static void test_hosts(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        const struct host *host = &hosts[i];
        struct tmp_folder root;
        struct arena arena = { 0 };
        struct facts f;

        tmp_folder_make(&root);
        for (size_t j = 0; j < ARRAY_LEN(host->files) && host->files[j].path; j++)
            tmp_folder_put(&root, host->files[j].path, host->files[j].text);
        init_facts(&f, &arena, host);
        facts_read(&f, root.fd, host->env);
        tmp_folder_remove(&root);
        if (f.places != host->places)
            print_error("%s: places are %#x, not %#x\n", host->name, f.places, host->places);
        assert_int_equal(f.places, host->places);
        for (size_t j = 0; j < ARRAY_LEN(host->wanted) && host->wanted[j].id; j++)
            expect(host, &f, &host->wanted[j]);
        expect_fixes(host, &f);
        arena_done(&arena);
    }
}

/* What is asked of the process itself, and not read from files. */
static void test_caller(void **state)
{
    static const struct host root = { .name = "root" }, user = { .name = "user", .uid = 1000 };
    const struct {
        const struct host *host;
        const char *state_path;
        int state_errnum;
        uint64_t state_free, nofile, nproc;
        struct wanted wanted;
    } rows[] = {
        { &root, "/s", 0, 1 << 30, 4096, 9999, { "state", FINDING_OK, "1024 MiB", NULL } },
        { &root, "/s", EROFS, 0, 4096, 9999, { "state", FINDING_FAIL, "/s: ", "mount -t tmpfs" } },
        { &user,
          "/s",
          EACCES,
          0,
          4096,
          9999,
          { "state", FINDING_WARN, "Permission", "sudo chown alice: /s" } },
        { &user, NULL, ENOENT, 0, 4096, 9999, { "state", FINDING_WARN, "HOME", "export HOME=" } },
        { &user, "/s", 0, 4096, 4096, 9999, { "state", FINDING_WARN, "4 KiB", "df -h /s" } },
        { &user,
          "/s",
          0,
          1 << 30,
          64,
          9999,
          { "limits", FINDING_FAIL, "64 open files", "ulimit -Hn 1024" } },
        { &user, "/s", 0, 1 << 30, 512, 9999, { "limits", FINDING_WARN, "512 open files", NULL } },
        { &user,
          "/s",
          0,
          1 << 30,
          4096,
          20,
          { "limits", FINDING_WARN, "20 processes", "alice - nproc" } },
        { &root, "/s", 0, 1 << 30, 4096, 20, { "limits", FINDING_OK, NULL, NULL } },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct arena arena = { 0 };
        struct facts f;
        init_facts(&f, &arena, rows[i].host);
        f.state_path = rows[i].state_path;
        f.state_errnum = rows[i].state_errnum;
        f.state_free = rows[i].state_free;
        f.nofile = rows[i].nofile;
        f.nproc = rows[i].nproc;
        expect(rows[i].host, &f, &rows[i].wanted);
        arena_done(&arena);
    }
}

/* The container engine, as data: what asking it gave, and what has to be said. */
static void test_engine(void **state)
{
    static const struct host root = { .name = "root" }, user = { .name = "user", .uid = 1000 };
    const struct engine_programs all = { true, true, false }, client = { true, false, false };
    const struct engine_facts there = { .answers = true,
                                        .name = "Docker",
                                        .version = "20.10.24",
                                        .api = "1.41",
                                        .address = "unix:///var/run/docker.sock" };
    struct engine_facts rootless = there, with_runsc = there, wants_runsc = there;
    rootless.is_rootless = true;
    with_runsc.has_runsc = true;
    wants_runsc.is_wanted = wants_runsc.wants_runsc = true;
    const struct {
        const struct host *host;
        struct engine_facts engine;
        bool has_systemd;
        struct wanted wanted;
    } rows[] = {
        { &user,
          there,
          true,
          { "docker", FINDING_OK, "Docker 20.10.24 (API 1.41) at unix", NULL } },
        { &user, rootless, true, { "docker", FINDING_OK, "without root", NULL } },
        { &user, with_runsc, true, { "runsc", FINDING_OK, "--runtime runsc", NULL } },
        { &root,
          wants_runsc,
          true,
          { "runsc", FINDING_WARN, "not installed", "apt-get install runsc" } },
        { &root, wants_runsc, true, { "runsc", FINDING_WARN, NULL, "/etc/docker/daemon.json" } },
        { &user, there, true, { "runsc", FINDING_SKIP, "not installed", NULL } },
        /* Nobody asked for it: no obstacle. */
        { &user,
          { .errnum = ENOENT, .message = "Error: Docker not found" },
          true,
          { "docker", FINDING_SKIP, "cay doctor --backend docker", NULL } },
        { &user,
          { .is_wanted = true, .errnum = ENOENT, .message = "Error: Docker not found" },
          true,
          { "docker", FINDING_WARN, "Docker not found", "apt-get install docker.io" } },
        { &user,
          { .is_wanted = true, .errnum = ENOENT, .message = "m" },
          true,
          { "docker", FINDING_WARN, NULL, "systemctl enable --now docker" } },
        { &user,
          { .is_wanted = true, .errnum = ENOENT, .message = "m" },
          true,
          { "docker", FINDING_WARN, NULL, "sudo usermod -aG docker alice" } },
        { &user,
          { .is_wanted = true, .errnum = ENOENT, .message = "m" },
          true,
          { "docker", FINDING_WARN, NULL, "systemctl --user enable --now podman.socket" } },
        { &root,
          { .is_wanted = true, .errnum = ENOENT, .message = "m", .programs = client },
          false,
          { "docker", FINDING_WARN, NULL, "apt-get install docker.io" } },
        { &root,
          { .is_wanted = true, .errnum = ENOENT, .message = "m", .programs = all },
          false,
          { "docker", FINDING_WARN, NULL, "dockerd" } },
        { &user,
          { .is_wanted = true, .errnum = EACCES, .message = "permission denied" },
          true,
          { "docker", FINDING_WARN, "permission denied", "sudo usermod -aG docker alice" } },
        { &user,
          { .is_wanted = true, .errnum = EACCES, .message = "m", .in_group = true },
          true,
          { "docker", FINDING_WARN, NULL, "newgrp docker" } },
        { &user,
          { .is_wanted = true, .errnum = ECONNREFUSED, .message = "m" },
          true,
          { "docker", FINDING_WARN, NULL, "sudo systemctl enable --now docker" } },
        { &user,
          { .is_wanted = true, .errnum = ETIMEDOUT, .message = "m" },
          true,
          { "docker", FINDING_WARN, NULL, "cay config" } },
        { &user,
          { .is_wanted = true, .message = "it does not answer" },
          true,
          { "docker", FINDING_WARN, "does not answer", "cay config" } },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct arena arena = { 0 };
        struct facts f;
        init_facts(&f, &arena, rows[i].host);
        f.os_id = "debian ";
        f.engine = rows[i].engine;
        f.engine.is_asked = true;
        f.has_systemd = rows[i].has_systemd;
        expect(rows[i].host, &f, &rows[i].wanted);
        expect_fixes(rows[i].host, &f);
        arena_done(&arena);
    }
}

/* Members of the group docker, by the file. */
static void test_group(void **state)
{
    static const struct {
        const char *text;
        bool has, in;
    } rows[] = {
        { "root:x:0:\ndocker:x:999:bob,alice\nadm:x:4:eve\n", true, true },
        { "docker:x:999:alice\n", true, true },
        { "docker:x:999:alice2,malice\nx:x:1:alice\n", true, false },
        { "docker:x:999:\nalice:x:1000:\n", true, false },
        { "dockers:x:999:alice\n", false, false },
        { "docker\nalice\n", false, false },
        { "docker:", true, false },
        { "", false, false },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        static const struct host user = { .name = "user", .uid = 1000 };
        struct tmp_folder root;
        struct arena arena = { 0 };
        struct facts f;
        tmp_folder_make(&root);
        tmp_folder_put(&root, "etc/group", rows[i].text);
        init_facts(&f, &arena, &user);
        facts_read_group(&f, root.fd);
        tmp_folder_remove(&root);
        assert_int_equal(f.engine.has_group, rows[i].has);
        assert_int_equal(f.engine.in_group, rows[i].in);
        arena_done(&arena);
    }
}

/* An architecture without a list of system calls; a clock that was never set. */
static void test_odd(void **state)
{
    static const struct host host = { .name = "odd" };
    struct arena arena = { 0 };
    struct facts f;

    (void)state;
    init_facts(&f, &arena, &host);
    f.machine = "riscv64";
    f.clock_s = 0;
    expect(&host, &f, &(struct wanted){ "architecture", FINDING_FAIL, "riscv64", NULL });
    expect(&host, &f, &(struct wanted){ "clock", FINDING_WARN, "not set", "timedatectl" });
    expect(&host, &f, &(struct wanted){ "ahead", FINDING_SKIP, "not tried", NULL });
    f.prewarm_missing = "";
    expect(&host, &f, &(struct wanted){ "ahead", FINDING_OK, "Python", NULL });
    f.prewarm_missing = "php, ruby";
    expect(&host, &f,
           &(struct wanted){ "ahead", FINDING_WARN, "without php, ruby", "install-packages.sh" });
    arena_done(&arena);
}

/* Names are promised: no two rows have the same. */
static void test_names(void **state)
{
    const struct check *const lists[] = { checks_host, checks_kernel, checks_cgroup, checks_user,
                                          checks_tools };
    unsigned seen[PROBE_N] = { 0 };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        for (const struct check *check = lists[i]; check->id; check++) {
            assert_ptr_equal(find_check(check->id), check);
            assert_true(check->title && check->why && check->group);
            assert_true(check->probe != PROBE_N || check->judge);
            if (check->probe != PROBE_N)
                seen[check->probe]++;
        }
    for (int i = 0; i < PROBE_N; i++)
        assert_int_equal(seen[i], i != PROBE_CGROUP); /* which is judged with what was read */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts), cmocka_unit_test(test_caller), cmocka_unit_test(test_engine),
        cmocka_unit_test(test_group), cmocka_unit_test(test_odd),    cmocka_unit_test(test_names),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups: what is mounted, what it counts, and whether this user may use it. Without them a
 * run goes on under a watcher, so nothing here is worse than a warning. */
#include <string.h>

#include "base/auto.h"
#include "base/scan.h"
#include "doctor/doctor.h"

static const char *const layout_words[] = {
    [CGROUPS_NONE] = "none is mounted at /sys/fs/cgroup",
    [CGROUPS_V1] = "version 1",
    [CGROUPS_HYBRID] = "hybrid: version 1 has the controllers, version 2 is beside it",
    [CGROUPS_V2] = "version 2",
};

static void judge_hierarchy(const struct facts *f, struct finding *out)
{
    const char *words = layout_words[f->cgroup_layout];

    if (f->cgroup_layout == CGROUPS_NONE) {
        finding_say(f, out, FINDING_WARN, "%s", words);
        if (f->places & PLACE_BIT(WSL2))
            finding_fix(f, out, "switch systemd on, then `wsl --shutdown` in PowerShell",
                        "printf '[boot]\\nsystemd=true\\n' | %stee -a /etc/wsl.conf",
                        facts_sudo(f));
        else if (f->places & (PLACE_BIT(DOCKER) | PLACE_BIT(PODMAN)))
            finding_fix(f, out, "give the container a cgroup tree of its own",
                        "docker run --cgroupns=private ...");
        else
            finding_fix(f, out, "mount version 2", "%smount -t cgroup2 none /sys/fs/cgroup",
                        facts_sudo(f));
        return;
    }
    finding_say(f, out, FINDING_OK, "%s%s", words,
                f->cgroup_layout == CGROUPS_HYBRID
                    ? " (systemd.unified_cgroup_hierarchy=1 on the kernel's command line makes it "
                      "version 2 alone)"
                    : "");
}

static void judge_controllers(const struct facts *f, struct finding *out)
{
    static const char *const wanted[] = { "memory", "pids", "cpu" };
    char *missing = arena_str(f->arena, "");

    if (f->cgroup_layout == CGROUPS_NONE) {
        finding_say(f, out, FINDING_SKIP, "no cgroups");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        if (!scan_has_word(f->cgroup_controllers, wanted[i]))
            missing = arena_printf(f->arena, "%s%s%s", missing, *missing ? ", " : "", wanted[i]);
    if (!*missing) {
        finding_say(f, out, FINDING_OK, "memory, pids, cpu");
        return;
    }
    finding_say(f, out, FINDING_WARN, "missing: %s%s", missing,
                f->cgroup_memory_off ? " (memory was switched off at boot)" : "");
    if (!scan_has_word(f->cgroup_controllers, "memory"))
        finding_fix_boot(f, out,
                         "switch the memory controller on (Raspberry Pi: in "
                         "/boot/firmware/cmdline.txt)",
                         "cgroup_enable=memory");
    else
        finding_fix(f, out, "hand them down from the top of the tree",
                    "for c in memory pids cpu; do echo +$c | %stee "
                    "/sys/fs/cgroup/cgroup.subtree_control; done",
                    facts_sudo(f));
}

static void fix_root(const struct facts *f, struct finding *out)
{
    if (f->places & PLACE_BIT(KUBERNETES))
        finding_fix(f, out,
                    "a pod's cgroups are read-only unless its container is privileged; the pod's "
                    "own limits hold all runs together",
                    "securityContext: {privileged: true}");
    else if (f->places & PLACE_BIT(PODMAN))
        finding_fix(f, out, "give the container a cgroup tree of its own, to write in",
                    "podman run --cgroupns=private --security-opt unmask=/sys/fs/cgroup ...");
    else if (f->places & PLACE_BIT(DOCKER))
        finding_fix(f, out, "give the container a cgroup tree of its own, to write in",
                    "docker run --cgroupns=private --privileged ...");
    else if (f->cgroup_read_only)
        finding_fix(f, out, "mount it for writing", "mount -o remount,rw /sys/fs/cgroup");
    else if (f->cgroup_layout == CGROUPS_V2)
        finding_fix(f, out,
                    "a group that holds processes can't hand controllers down: move them out first",
                    "cat /sys/fs/cgroup/cgroup.procs");
}

static void fix_user(const struct facts *f, struct finding *out)
{
    bool is_v2 = f->cgroup_layout == CGROUPS_V2;

    if (is_v2 && f->has_systemd_user) {
        finding_fix(f, out, "run cay in a scope that systemd delegates to this user",
                    "systemd-run --user --scope -p Delegate=yes -- cay run ...");
        finding_fix(f, out,
                    "and for `cpus` to be exact, once (systemd keeps to it at each boot), then log "
                    "in anew",
                    "sudo cay setup %s && sudo systemctl daemon-reload", f->user);
    }
    if (is_v2)
        finding_fix(f, out,
                    f->has_systemd_user ? "or a shell inside a subtree of its own"
                                        : "a shell inside a subtree of its own",
                    "sudo cay setup %s -- su - %s", f->user, f->user);
    else
        finding_fix(f, out,
                    f->has_systemd ? "delegate a subtree, now and at each boot"
                                   : "delegate a subtree (gone after a reboot, as there is no "
                                     "systemd: put it into a start-up script)",
                    "sudo cay setup %s", f->user);
}

static void judge_delegation(const struct facts *f, struct finding *out)
{
    if (f->cgroup_layout == CGROUPS_NONE) {
        finding_say(f, out, FINDING_SKIP, "no cgroups");
        return;
    }
    if (f->cgroup_version > 0) {
        finding_say(f, out, f->cgroup_cpu ? FINDING_OK : FINDING_WARN,
                    "version %d: memory and pids%s", f->cgroup_version,
                    f->cgroup_cpu ? " and cpu" : "; cpu is not, so that `cpus` is whole CPUs only");
        if (!f->cgroup_cpu)
            (f->uid == 0 ? fix_root : fix_user)(f, out);
        return;
    }
    finding_say(f, out, FINDING_WARN, "%s",
                f->uid != 0           ? "no cgroup is delegated to this user"
                : f->cgroup_read_only ? "the cgroup tree is read-only"
                                      : "no group can be made at the top of the tree");
    (f->uid == 0 ? fix_root : fix_user)(f, out);
}

static void judge_swap(const struct facts *f, struct finding *out)
{
    if (!f->has_swap) {
        finding_say(f, out, FINDING_OK, "this host has none");
    } else if (f->cgroup_version == 0) {
        finding_say(f, out, FINDING_SKIP, "no cgroup that could count it");
    } else if (f->swap_counted) {
        finding_say(f, out, FINDING_OK, "counted");
    } else {
        finding_say(f, out, FINDING_WARN, "not counted: a run can use more than its memory limit");
        finding_fix_boot(f, out, "count it", "swapaccount=1");
    }
}

#define CG "cgroups"

const struct check checks_cgroup[] = {
    { "cgroup", CG, "hierarchy", "the kernel's own counters hold a run to its limits", PROBE_N,
      .judge = judge_hierarchy },
    { "cgroup_controllers", CG, "controllers", "memory, processes and CPU are held by one each",
      PROBE_N, .judge = judge_controllers },
    { "cgroup_delegation", CG, "delegation",
      "without it a watcher enforces memory and pids, and `--require cgroup` is refused", PROBE_N,
      .judge = judge_delegation },
    { "swap", CG, "swap", "memory that is swapped out has to count too", PROBE_N,
      .judge = judge_swap },
    { NULL },
};

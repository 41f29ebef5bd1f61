/* SPDX-License-Identifier: Apache-2.0 */
/* Rows about this user: ids, limits, the state folder, settings; and about tools that other
 * backends will use. */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "doctor/doctor.h"

static void judge_subids(const struct facts *f, struct finding *out)
{
    if (f->uid == 0) {
        finding_say(f, out, FINDING_SKIP, "root needs none");
        return;
    }
    if (f->subuids && f->subgids && f->newuidmap == 2 && !f->no_new_privs) {
        finding_say(f, out, FINDING_OK, "%llu uids, %llu gids", (unsigned long long)f->subuids,
                    (unsigned long long)f->subgids);
        return;
    }
    if (f->newuidmap == 0) {
        const char *install = facts_install(f, "uidmap");
        finding_say(f, out, FINDING_WARN,
                    "newuidmap is not installed: runs have this user's own uid, all the same one");
        finding_fix(f, out, "install the helpers", install ? "%s" : NULL, install);
    } else if (f->newuidmap == 1) {
        finding_say(f, out, FINDING_WARN, "newuidmap has no privilege (setuid, or cap_setuid)");
        finding_fix(f, out, "give it back", "%schmod u+s /usr/bin/newuidmap /usr/bin/newgidmap",
                    facts_sudo(f));
    } else if (f->no_new_privs) {
        finding_say(f, out, FINDING_WARN,
                    "no_new_privs is set on cay itself, so that newuidmap has no privilege");
        finding_fix(f, out, "start cay without it; for a systemd service",
                    "%ssystemctl edit <service>   # NoNewPrivileges=no", facts_sudo(f));
    } else {
        finding_say(f, out, FINDING_WARN,
                    "this user has no range in /etc/subuid and /etc/subgid: runs have its own uid");
    }
    if (!f->subuids || !f->subgids)
        finding_fix(f, out, "give this user a range",
                    "echo %s:%llu:65536 | %stee -a /etc/subuid /etc/subgid", f->user,
                    (unsigned long long)f->subids_next, facts_sudo(f));
}

static void judge_limits(const struct facts *f, struct finding *out)
{
    enum { FILES_MIN = 256, FILES_USUAL = 1024, PROCESSES_USUAL = 256, BYTES_MIN = 1 << 20 };

    if (f->nofile < FILES_MIN) {
        finding_say(f, out, FINDING_FAIL, "%llu open files: cay itself needs more",
                    (unsigned long long)f->nofile);
        finding_fix(f, out, "raise the hard limit", "ulimit -Hn %d", FILES_USUAL);
    } else if (f->nproc < PROCESSES_USUAL && f->uid != 0) {
        finding_say(f, out, FINDING_WARN, "%llu processes for all that this user runs",
                    (unsigned long long)f->nproc);
        finding_fix(f, out, "raise the hard limit, as root, and log in again",
                    "echo '%s - nproc 4096' | %stee /etc/security/limits.d/cay.conf", f->user,
                    facts_sudo(f));
    } else if (f->fsize < BYTES_MIN) {
        finding_say(f, out, FINDING_WARN, "files of at most %llu bytes",
                    (unsigned long long)f->fsize);
        finding_fix(f, out, "raise the limit", "ulimit -f unlimited");
    } else if (f->nofile < FILES_USUAL) {
        finding_say(f, out, FINDING_WARN, "%llu open files: a program gets that many, not 1024",
                    (unsigned long long)f->nofile);
        finding_fix(f, out, "raise the hard limit", "ulimit -Hn %d", FILES_USUAL);
    } else {
        finding_say(f, out, FINDING_OK, "open files, processes and file size are no obstacle");
    }
}

static void judge_state(const struct facts *f, struct finding *out)
{
    enum { FREE_MIN = 16 << 20 };

    if (!f->state_path) {
        finding_say(f, out, FINDING_WARN, "no place for one: HOME and XDG_STATE_HOME are not set");
        finding_fix(f, out, "set one of them", "export HOME=/path/to/a/folder/of/yours");
    } else if (f->state_errnum) {
        finding_say(f, out, f->uid == 0 ? FINDING_FAIL : FINDING_WARN, "%s: %s", f->state_path,
                    strerror(f->state_errnum));
        if (f->state_errnum == EROFS)
            finding_fix(f, out, "mount a folder there that can be written",
                        "%smount -t tmpfs tmpfs %s", facts_sudo(f), f->state_path);
        else if (f->uid == 0)
            finding_fix(f, out, "make it, or make it root's again",
                        "mkdir -p %s && chown root: %s && chmod 700 %s", f->state_path,
                        f->state_path, f->state_path);
        else
            finding_fix(f, out, "make it, or make it this user's again",
                        "sudo mkdir -p %s && sudo chown %s: %s", f->state_path, f->user,
                        f->state_path);
    } else if (f->state_free < FREE_MIN) {
        finding_say(f, out, FINDING_WARN, "%s: %llu KiB are free", f->state_path,
                    (unsigned long long)f->state_free / 1024);
        finding_fix(f, out, "make room", "df -h %s", f->state_path);
    } else {
        finding_say(f, out, FINDING_OK, "%s, %llu MiB free", f->state_path,
                    (unsigned long long)f->state_free >> 20);
    }
}

static void judge_settings(const struct facts *f, struct finding *out)
{
    if (f->settings)
        finding_say(f, out, FINDING_OK, "changed: %s (`cay config` shows all)", f->settings);
    else
        finding_say(f, out, FINDING_OK, "those that cay is built with");
}

const struct check checks_user[] = {
    { "subids", "user", "id range", "two runs at once share no uid", PROBE_N,
      .judge = judge_subids },
    { "limits", "user", "limits of the caller",
      "the limits that cay is started with bound its runs too", PROBE_N, .judge = judge_limits },
    { "state", "user", "state folder", "uid slots and what is kept between runs", PROBE_N,
      .judge = judge_state },
    { "settings", "user", "settings", "the default run follows them", PROBE_N,
      .judge = judge_settings },
    { NULL },
};

/* ---- tools: none is needed by the default ---- */

static const struct {
    const char *id;
    const char *absent;
    const char *refused;
} tools[FACTS_TOOLS] = {
    { "docker", "no socket", "the socket is not this user's to use (group docker)" },
    { "podman", "no socket", "the socket is not this user's to use" },
    { "kvm", "no /dev/kvm", "/dev/kvm is not this user's to use (group kvm)" },
    { "qemu", "not installed", "can't be executed" },
    { "runsc", "not installed", "can't be executed" },
    { "bwrap", "not installed", "can't be executed" },
};

static void judge_tool(const struct facts *f, struct finding *out)
{
    for (size_t i = 0; i < FACTS_TOOLS; i++) {
        if (strcmp(out->id, tools[i].id) != 0)
            continue;
        if (f->tools[i] == TOOL_PRESENT)
            finding_say(f, out, FINDING_OK, "there; not needed by the default");
        else
            finding_say(f, out, FINDING_SKIP, "%s; not needed by the default",
                        f->tools[i] == TOOL_ABSENT    ? tools[i].absent
                        : f->tools[i] == TOOL_REFUSED ? tools[i].refused
                                                      : "nobody answers at its socket");
    }
}

const struct check checks_tools[] = {
    { "syntax_worker", "syntax", "the syntax worker", "code is checked before it runs (policy)",
      PROBE_N, .judge = judge_syntax_worker },
    { "grammars", "syntax", "grammars", "what can't be read is never safe", PROBE_N,
      .judge = judge_grammars },
    { "ahead", "syntax", "interpreters started ahead", "a server's runs of them start sooner",
      PROBE_N, .judge = judge_prewarm },
    { "docker", "tools", "container engine", "the backend docker makes its sandboxes by it",
      PROBE_N, .judge = judge_docker },
    { "podman", "tools", "Podman", "its socket serves the backend docker too", PROBE_N,
      .judge = judge_tool },
    { "kvm", "tools", "KVM", "for a planned backend", PROBE_N, .judge = judge_tool },
    { "qemu", "tools", "QEMU", "for a planned backend", PROBE_N, .judge = judge_tool },
    { "runsc", "tools", "gVisor's runsc", "a kernel of its own for each container", PROBE_N,
      .judge = judge_runsc },
    { "bwrap", "tools", "bubblewrap", "`make bench` compares with it", PROBE_N,
      .judge = judge_tool },
    { NULL },
};

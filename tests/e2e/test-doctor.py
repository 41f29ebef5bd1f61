#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cay doctor` on this host, and on hosts that lack something: each obstacle is made for real around it, and the report has to
name it, have a fix for it, and agree with what `cay exec` does there. What no machine here can be (Ubuntu, WSL, Docker …) is
tests/unit/test-doctor.c."""
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import cayserve
import caytest

STATUSES = {"ok", "warn", "fail", "skip"}
SANITIZED = bool(os.environ.get("CAY_SANITIZED"))

# What a filter around cay takes away: the checks that have to fail for it.
DENIED = {
    "landlock": {"landlock"}, "landlock-restrict": {"landlock"}, "mount": {"mount_api", "proc"}, "pivot": {"pivot_root"},
    "user_ns": {"user_ns"}, "mount_ns": {"mount_ns"}, "pid_ns": {"pid_ns"}, "net_ns": {"net_ns"}, "ipc_ns": {"ipc_ns"},
    "uts_ns": {"uts_ns"}, "cgroup_ns": {"cgroup_ns"}, "seccomp": {"seccomp"}, "no_new_privs": {"no_new_privs"},
    "caps": {"capabilities"}, "nonroot": {"id_map"}, "nonroot-gid": {"id_map"}, "rlimit": {"rlimits"},
}


class Report:
    """The JSON of a `cay doctor --json`, and how it ended."""

    def __init__(self, done):
        self.done = done
        try:
            self.data = json.loads(done.out)
        except ValueError:
            self.data = {"checks": [], "works": None}
        self.checks = {c["id"]: c for c in self.data["checks"]}

    def with_status(self, status):
        return {i for i, c in self.checks.items() if c["status"] == status}

    def commands(self, check):
        return [f["command"] for f in self.checks[check]["fix"] if f["command"]]

    def status(self, check):
        return self.checks.get(check, {}).get("status")

    def describe(self):
        return [*self.done.describe(), *[c for c in self.checks.values() if c["status"] in ("fail", "warn")]]


def doctor(mode, *before, **options):
    """`before` is a command that has cay as its last words."""
    return Report(mode.command(*before, mode.binary, "doctor", "--json", **options))


def as_user(mode):
    """Words that make what follows this mode's user, where root has prepared something first."""
    return () if mode.uid is None else ("/usr/bin/setpriv", f"--reuid={mode.uid}", f"--regid={mode.uid}", "--clear-groups")


def in_mounts(mode, script, command):
    """A command after `script` in a mount namespace of its own, as root, and then as this mode's user."""
    return mode.command("/usr/bin/unshare", "--mount", "/bin/sh", "-c", f'{script} && exec "$@"', "sh", *as_user(mode),
                        mode.binary, *command, user=None)


def here(t, mode):
    r = doctor(mode)
    t.equal((r.done.status, r.done.err), (0, b""), "this host: exit status 0, and nothing on stderr", *r.describe())
    d = r.data
    t.ok(d["works"] is True and d["tier"] == "kernel" and d["backend"] == "native", "this host: works, tier kernel", *r.describe())
    t.equal(d["user"]["uid"], mode.host_uid, "this host: the user is the caller")
    t.equal(d["host"]["kernel"], os.uname().release, "this host: the kernel is this one")
    ran = mode.json("exec", "--", "/bin/true")
    t.equal(sorted(d["layers"]), sorted(ran.layers), "this host: the layers are those of a run")
    wrong = [c for c in d["checks"] if set(c) != {"id", "group", "title", "status", "fact", "why", "fix"} or
             c["status"] not in STATUSES or not c["fact"] or any(set(f) != {"text", "command"} or not f["text"] for f in c["fix"])]
    t.empty(wrong, "this host: every check has its fields")
    t.equal(len(r.checks), len(d["checks"]), "this host: every check has an id of its own")
    t.empty([c for c in d["checks"] if (c["status"] in ("warn", "fail")) != bool(c["fix"])],
            "this host: a fix for each obstacle, and for nothing else")
    t.empty(r.with_status("fail"), "this host: what works has no failure")
    languages = json.loads(mode.cay("languages", "--json").out)
    t.equal({f"language:{x['name']}": bool(x["path"]) for x in languages},
            {i: c["status"] == "ok" for i, c in r.checks.items() if c["group"] == "languages"}, "this host: the languages as listed")
    has_cgroup = "cgroup:memory" in d["layers"]
    t.equal(has_cgroup, mode.has_cgroup, "this host: cgroup as this user has it", d["layers"])
    refused = [x["require"] for x in d["refused"]]
    t.equal("cgroup" in refused, not has_cgroup, "this host: says whether --require cgroup is refused", d["refused"])
    if not has_cgroup:
        t.equal(r.status("cgroup_delegation"), "warn", "no delegation: a warning")
        t.ok(any("cay setup" in c or "systemd-run" in c for c in r.commands("cgroup_delegation")), "no delegation: what to type",
             r.commands("cgroup_delegation"))
        asked = mode.json("exec", "--require", "cgroup", "--", "/bin/true")
        t.ok(d["refused"][0]["message"] in asked.done.err.decode() + (asked.get("error_message") or ""),
             "no delegation: what is said to who requires it", d["refused"], *asked.describe())
        t.matches(d["conclusion"], "all layers but cgroup", "no delegation: the conclusion says so")
    else:
        t.matches(d["conclusion"], "cgroup included", "the conclusion says so")
    return r


def words(t, mode, report):
    done = mode.cay("doctor")
    text = done.out.decode("ascii", errors="replace")
    t.ok(done.status == 0 and text.isascii() and not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text), "in a pipe: plain text",
         *done.describe())
    shown = " ".join(text.split())
    t.ok(shown.endswith(report.data["conclusion"]), "the conclusion is the last line", text[-400:])
    for check in report.checks.values():
        for fix in check["fix"]:
            if fix["command"] and check["group"] != "languages":
                t.ok(fix["command"] in text, f"{check['id']}: the command stands in one line, to be copied", text)
    verbose = mode.cay("doctor", "--verbose").out.decode()
    lines = [line[5:] for line in verbose.splitlines()]
    t.empty([c["title"] for c in report.checks.values() if not any(x.startswith(c["title"] + " ") for x in lines)],
            "--verbose: every check", verbose)
    t.ok("pidfd" not in text and len(text) < len(verbose), "without it: a line for each group", text)
    seen = mode.terminal("doctor").decode()
    t.ok("\x1b[32m✓\x1b[0m" in seen, "on a terminal: signs and colours", seen)
    seen = mode.terminal("doctor", "--no-color").decode()
    t.ok("✓" in seen and "\x1b" not in seen, "--no-color: signs only", seen)
    done = mode.cay("doctor", "--nonsense")
    t.ok(done.status == 2 and not done.out, "an unknown option: exit status 2", *done.describe())
    done = mode.cay("doctor", "extra")
    t.ok(done.status == 2 and not done.out, "a word too many: exit status 2", *done.describe())


def expect_broken(t, r, name, checks, pattern=None):
    """Exit status 1, exactly what is missing has failed, and each failure has a fix."""
    t.ok(r.done.status == 1 and r.data["works"] is False and r.data["tier"] == "none", f"{name}: exit status 1", *r.describe())
    failed = r.with_status("fail")
    t.ok(checks <= failed and "run" in failed, f"{name}: the check fails", f"want {checks}, got {failed}", *r.describe())
    t.empty([i for i in failed - {"run"} if not r.checks[i]["fix"]], f"{name}: a fix for each failure", *r.describe())
    if pattern:
        fixes = json.dumps([r.checks.get(i, {}).get("fix") for i in checks])
        t.matches(fixes, pattern, f"{name}: the fix is the one for it")


def denied(t, mode):
    launcher = caytest.workdir() / "deny"
    for layer, checks in DENIED.items():
        if layer == "rlimit" and SANITIZED:
            continue
        expect_broken(t, doctor(mode, launcher, layer), f"no {layer}", checks, "seccomp filter")
        done = mode.command(launcher, layer, mode.binary, "exec", "--", "/bin/true")
        t.ok(done.status == 125 and b"cay doctor" in done.err, f"no {layer}: a run that is refused points at the doctor",
             *done.describe())
    r = doctor(mode, launcher, "landlock", launcher, "seccomp")
    expect_broken(t, r, "two at once", {"landlock", "seccomp"})
    r = doctor(mode, launcher, "user_ns", env={"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    expect_broken(t, r, "in a pod", {"user_ns"}, "seccompProfile")
    t.ok("kubernetes" in r.data["host"]["inside"], "in a pod: said so", r.data["host"])
    text = mode.command(launcher, "mount", mode.binary, "doctor")
    t.ok(text.status == 1 and b"fix: the same as above" in text.out, "one wall before many things: its fix is told once",
         *text.describe())


# Runs a command in a user namespace that has all of ours mapped, and in which no other can be made.
NO_USER_NS = """
import ctypes, os, sys
ready, mapped = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    try:
        if ctypes.CDLL(None).unshare(0x10000000) == 0:  # CLONE_NEWUSER
            os.write(ready[1], b"x")
            os.read(mapped[0], 1)
            with open("/proc/sys/user/max_user_namespaces", "w") as f:
                f.write("0")
            os.execv(sys.argv[1], sys.argv[1:])
    finally:
        os._exit(99)
os.close(ready[1])
if os.read(ready[0], 1):
    for kind in ("uid", "gid"):
        with open(f"/proc/{pid}/{kind}_map", "w") as f:
            f.write("0 0 100000")
    os.write(mapped[1], b"x")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def no_user_namespaces(t, mode):
    """An administrator's own switch, in a user namespace around cay."""
    if os.getuid() != 0 or mode.uid is None:
        return
    r = doctor(mode, sys.executable, "-c", NO_USER_NS, *as_user(mode), user=None)
    if r.done.status == 99:
        t.skip("max_user_namespaces = 0", "this host does not let us make the case")
        return
    expect_broken(t, r, "max_user_namespaces = 0", {"user_ns"}, "sysctl -w user.max_user_namespaces")
    t.matches(r.checks["user_ns"]["fact"], "max_user_namespaces is 0", "max_user_namespaces = 0: the fact")
    t.equal((r.status("pid_ns"), r.status("id_map")), ("skip", "skip"), "max_user_namespaces = 0: what needs one is not tried")
    t.ok("user namespace" in r.data["host"]["inside"], "max_user_namespaces = 0: inside a user namespace", r.data["host"])


def crippled(t, mode):
    """What only root can take away."""
    r = Report(in_mounts(mode, "mount --bind /dev/null /proc/uptime", ("doctor", "--json")))
    expect_broken(t, r, "a masked /proc", {"proc"}, "/proc")
    t.matches(r.checks["proc"]["fact"], "/proc/uptime", "a masked /proc: says by what")
    done = in_mounts(mode, "mount --bind /dev/null /proc/uptime", ("exec", "--", "/bin/true"))
    t.ok(done.status == 125 and b"mount_ns" in done.err and b"cay doctor" in done.err,
         "a masked /proc: the run names the layer, and the doctor", *done.describe())

    r = Report(in_mounts(mode, "mount -t tmpfs none /sys/fs/cgroup", ("doctor", "--json")))
    t.equal((r.done.status, r.status("cgroup"), r.status("cgroup_delegation")), (0, "warn", "skip"),
            "no cgroup file system: it works, and is said", *r.describe())
    t.ok(any("mount -t cgroup2" in c for c in r.commands("cgroup")), "no cgroup file system: the fix", r.checks["cgroup"])
    t.ok("watcher" in r.data["layers"] and "cgroup:memory" in r.data["missing"], "no cgroup file system: the layers say so",
         r.data["layers"])

    if mode.is_root:
        hide = "mkdir -p /var/lib/cay && mount -t tmpfs -o ro none /var/lib/cay"
        r = Report(in_mounts(mode, hide, ("doctor", "--json")))
        expect_broken(t, r, "a read-only state folder", {"state"}, "mount")
        t.matches(r.checks["state"]["fact"], "/var/lib/cay: Read-only", "a read-only state folder: the fact")
        done = in_mounts(mode, hide, ("exec", "--", "/bin/true"))
        t.ok(done.status == 125 and b"state folder" in done.err and b"cay doctor" in done.err,
             "a read-only state folder: the run says so", *done.describe())


def poor(t, mode):
    """Little of what a caller usually has."""
    for name in ("PATH", "HOME"):
        env = {k: v for k, v in mode.env.items() if k != name}
        r = Report(caytest.run([mode.binary, "doctor", "--json"], env=env, user=mode.uid, cwd=mode.cwd))
        t.ok(r.done.status == 0 and r.data["works"], f"no {name}: it works all the same", *r.describe())
        if name == "HOME" and not mode.is_root:
            t.equal(r.status("state"), "warn", "no HOME: no state folder, and it is said", r.checks["state"])
    r = Report(caytest.run([mode.binary, "doctor", "--json"], env={}, user=mode.uid, cwd=mode.cwd))
    t.ok(r.done.status == 0, "no environment at all", *r.describe())
    if not mode.is_root:
        home = mode.cwd / "read-only-home"
        home.mkdir(exist_ok=True)
        if mode.uid is not None:
            home.chmod(0o555)  # and it is root's
            r = doctor(mode, env={"HOME": str(home)})
            t.equal((r.done.status, r.status("state")), (0, "warn"), "a home that can't be written: a warning", r.checks["state"])
            t.ok(any(str(home) in c for c in r.commands("state")), "a home that can't be written: the fix", r.checks["state"])
        home.rmdir()
    if not SANITIZED:  # its run time needs more
        r = doctor(mode, "/usr/bin/prlimit", "--nofile=200:200")
        t.ok(r.status("limits") in ("warn", "fail") and "200 open files" in r.checks["limits"]["fact"], "few open files: said",
             r.checks.get("limits"), *r.describe())
        t.equal(r.done.status, 0 if r.data["works"] else 1, "few open files: the exit status is the run's", *r.describe())
    config = caytest.workdir() / f"config-{mode.name}"
    (config / "cay").mkdir(parents=True)
    (config / "cay/cay.toml").write_text('min_isolation = "vm"\n')
    r = doctor(mode, env={"XDG_CONFIG_HOME": str(config)})
    shutil.rmtree(config)
    expect_broken(t, r, "a setting that nothing here can satisfy", set())
    t.matches(r.checks["settings"]["fact"], "min_isolation = vm", "a setting that nothing here can satisfy: it is named")
    t.matches(json.dumps(r.checks["run"]["fix"]), "min_isolation = vm", "a setting that nothing here can satisfy: to be changed")
    t.equal(r.with_status("fail"), {"run"}, "a setting that nothing here can satisfy: nothing else is to blame")


def bad_backend(t, mode):
    done = mode.cay("doctor", "--backend", "nope")
    t.ok(done.status == 2 and done.err.startswith(b"cay: backend: 'nope' is not one of: auto native"),
         "--backend of no such name is blamed on what was said", *done.describe())
    nowhere = {"DOCKER_HOST": f"unix://{mode.cwd}/none.sock"}
    for env, is_set in ((nowhere, False), ({**nowhere, "CAY_BACKEND": "docker"}, True)):
        done = mode.cay("doctor", "--backend", "docker", "--json", env=env)
        report = json.loads(done.out)
        words = [check["fact"] + str(check["fix"]) for check in report["checks"]]
        t.ok(done.status == 1 and not [text for text in words if "CAY_BACKEND" in text],
             f"--backend: no variable is blamed ({'one is set, and the option counts' if is_set else 'none is set'})", *done.describe())
    done = mode.cay("doctor", "--json", env={**nowhere, "CAY_BACKEND": "docker"})
    t.ok(b"backend = docker (CAY_BACKEND)" in done.out, "the variable is where it is what sets the backend", *done.describe())


def without(t, mode):
    """Built where Ruby's headers were not: said, and Ruby starts cold. (That it builds: tests/build/test-optional.sh.)"""
    folder = caytest.workdir() / f"without-{mode.name}"
    folder.mkdir(mode=0o755)
    beside = caytest.CAY.parent
    for path in (caytest.CAY, *beside.glob("cay-*")):
        if path.is_file() and path.name != "cay-zygote-ruby":
            shutil.copy2(path, folder)
    r = Report(mode.command(folder / "cay", "doctor", "--json"))
    want = ", ".join(x for x in ("php", "python", "ruby") if not (folder / f"cay-zygote-{x}").exists())
    t.equal((r.status("ahead"), r.checks["ahead"]["fact"]), ("warn", f"cay was built without {want}: these start cold"),
            "without Ruby's part: it says so", *r.describe())
    t.ok(any("make" in c for c in r.commands("ahead")), "without Ruby's part: and what to do", r.commands("ahead"))
    if not shutil.which("ruby"):
        t.skip("without Ruby's part: it runs", "it is not installed", "ruby")
        return
    with_part, mode.binary = mode.binary, folder / "cay"
    try:
        with cayserve.Server(mode) as s:
            for _ in range(3):  # by the second a server has made a spare of what it can
                answer = s.execute({"language": "ruby", "code": "puts 1 + 1"})
                got = answer.json or {}
                t.ok((answer.status, got.get("stdout")) == (200, "2\n") and got["meta"]["start"] not in ("fork", "warm"),
                     "without Ruby's part: a server runs it, from a start of its own", answer)
    finally:
        mode.binary = with_part


def missing_languages(t, mode):
    """Two languages that need one package: it is named once. In this script's own mount namespace."""
    programs = [path for path in ("/usr/bin/node", "/usr/bin/esbuild") if os.path.exists(path)]
    for path in programs:
        subprocess.run(["mount", "--bind", "/dev/null", path], check=True)
    try:
        said = mode.cay("doctor").out.decode()
    finally:
        for path in programs:
            subprocess.run(["umount", path], check=True)
    fix = [line for line in said.splitlines() if "install " in line and "esbuild" in line]
    t.ok(len(fix) == 1 and fix[0].split().count("nodejs") == 1, "each missing package once", said)


def test(t, mode):
    bad_backend(t, mode)
    host = mode.host()
    report = here(t, mode)
    words(t, mode, report)
    if mode.name != "deleg":
        denied(t, mode)
        no_user_namespaces(t, mode)
        poor(t, mode)
        if os.getuid() == 0:
            crippled(t, mode)
    if mode.is_root:
        missing_languages(t, mode)
    t.empty(host.settle(), "nothing is left of it all")
    if mode.is_root:
        without(t, mode)


caytest.main(test, modes=("root", "user", "deleg"), programs=["deny"])

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P15: where a layer cannot be had, cay refuses with exit status 125 and names it; never a silent weaker mode.

`deny` takes one thing away from the host, by a seccomp filter around cay. A run that still starts must prove, from inside,
that it has the layer all the same."""
import ctypes
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

# what is denied: what the message has to name
LAYERS = {
    "landlock": "landlock", "landlock-add": "landlock", "landlock-restrict": "landlock",
    "landlock-kill": "signal 31 .*before the program was executed", "mount": "mount",
    "pivot": "pivot|root|mount", "user_ns": "user[_ ]?n", "mount_ns": "mount[_ ]?n|namespace", "pid_ns": "pid[_ ]?n|namespace",
    "net_ns": "net[_ ]?n|network|namespace", "ipc_ns": "ipc[_ ]?n|namespace", "uts_ns": "uts[_ ]?n|namespace",
    "cgroup_ns": "cgroup[_ ]?n|namespace", "seccomp": "seccomp", "no_new_privs": "no_new_privs|no new priv",
    "caps": "cap", "nonroot": "uid|user|root", "nonroot-gid": "gid|group|root", "rlimit": "limit",
}
# What only root has to do for a run: an ordinary user is nobody already, and never had these.
ROOT_ONLY = {"nonroot", "nonroot-gid"}
# What a root caller may do without, for it needs no user namespace to make the others.
ROOT_MAY_LACK = {"user_ns"}
STATUS = ("/bin/cat", "/proc/self/status")


def layers_hold(mode, r):
    """From inside: is everything there that the other tests promise? For runs that found another way."""
    view = dict(line.split(":", 1) for line in r.stdout.splitlines() if ":" in line)
    return (r.cause == "ok" and view.get("Seccomp", "").strip() == "2" and view.get("NoNewPrivs", "").strip() == "1"
            and int(view.get("CapBnd", "1").strip(), 16) == 0 and "landlock" in r.layers)


SANITIZED = bool(os.environ.get("CAY_SANITIZED"))


def denied(t, mode):
    launcher = caytest.workdir() / "deny"
    refused = caytest.Result(mode.command(launcher, "landlock", mode.binary, "exec", "--json", "--", *STATUS))
    t.ok(refused.get("id"), "a refusal has an id as any result", refused.get("id"))
    control = caytest.Result(mode.command(launcher, "none", mode.binary, "exec", "--json", "--", *STATUS))
    t.ok(layers_hold(mode, control), "nothing denied: it runs", *control.describe())
    for layer, words in LAYERS.items():
        if (layer in ROOT_ONLY and not mode.is_root) or (layer == "rlimit" and SANITIZED):
            continue
        done = mode.command(launcher, layer, mode.binary, "exec", "--json", "--", *STATUS)
        r = caytest.Result(done)
        if layer in ROOT_MAY_LACK and mode.is_root and r.cause == "ok":
            t.ok(layers_hold(mode, r) and "user_ns" not in r.layers, f"no {layer}: root's run does not claim it", r.layers)
            continue
        if not t.equal(done.status, 125, f"no {layer}: exit status 125", *r.describe(), r.layers):
            continue
        t.ok("Seccomp" not in r.stdout and b"NoNewPrivs" not in done.out, f"no {layer}: nothing ran", *done.describe())
        words_said = (done.err + done.out).decode(errors="replace")
        t.matches(words_said, words, f"no {layer}: the message names it")
        if r.data is not None:
            t.result(r, f"no {layer}: the result says so", cause="infrastructure", success=False)


def without_userns(t, mode):
    """A host that allows no user namespaces: the sysctl of a user namespace around cay, as an administrator would set it."""
    if mode.uid is None:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    ready_r, ready_w = os.pipe()
    mapped_r, mapped_w = os.pipe()
    out_r, out_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(out_w, 1)
            os.dup2(out_w, 2)
            if libc.unshare(0x10000000) != 0:
                os._exit(90)
            os.write(ready_w, b"x")
            os.read(mapped_r, 1)
            with open("/proc/sys/user/max_user_namespaces", "w") as f:
                f.write("0")
            os.setgroups([])
            os.setresgid(mode.uid, mode.uid, mode.uid)
            os.setresuid(mode.uid, mode.uid, mode.uid)
            os.chdir(mode.cwd)
            os.execve(mode.binary, [os.fspath(mode.binary), "exec", "--json", "--", *STATUS], mode.env)
        except OSError:
            os._exit(91)
    os.read(ready_r, 1)
    for kind in ("uid", "gid"):
        with open(f"/proc/{pid}/{kind}_map", "w") as f:
            f.write("0 0 100000\n")
    os.write(mapped_w, b"x")
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.set_blocking(out_r, False)
    try:
        text = os.read(out_r, 65536).decode(errors="replace")
    except BlockingIOError:
        text = ""
    for fd in (ready_r, ready_w, mapped_r, mapped_w, out_r, out_w):
        os.close(fd)
    if status in (90, 91):
        t.skip("no user namespaces by sysctl", "this host does not let us make the case")
        return
    t.equal(status, 125, "no user namespaces by sysctl: exit status 125", text)
    t.ok("NoNewPrivs" not in text, "no user namespaces by sysctl: nothing ran", text)
    t.matches(text, "user[_ ]?n", "no user namespaces by sysctl: the message names it")


def required(t, mode):
    r = mode.json("exec", "--require", "cgroup", "--", "/bin/echo", "RAN")
    if mode.has_cgroup:
        t.result(r, "cgroup required: it runs", cause="ok", stdout="RAN\n")
        t.ok(any(x.startswith("cgroup:memory") for x in r.layers), "cgroup required: it is in force", r.layers)
    else:
        t.equal(r.done.status, 125, "cgroup required, none to be had: exit status 125", *r.describe())
        t.ok(b"RAN" not in r.done.out, "cgroup required, none to be had: nothing ran")
        t.matches((r.done.err + r.done.out).decode(errors="replace"), "cgroup", "cgroup required: the message names it")
        r = mode.json("exec", "--", "/bin/echo", "RAN")
        t.result(r, "cgroup not required: it runs", cause="ok", stdout="RAN\n")
        t.empty([x for x in r.layers if x.startswith("cgroup:")], "cgroup not required: it is not claimed")
        t.ok(any("cgroup" in json.dumps(w) for w in r.get("meta.warnings", [])) or
             any("watch" in x for x in r.layers), "cgroup not required: the result says what holds memory instead",
             r.get("meta.warnings"), r.layers)
    done = mode.cay("exec", "--require", "nonsense", "--", "/bin/echo", "RAN")
    t.ok(done.status == 2 and b"RAN" not in done.out, "an unknown layer is an error of use", *done.describe())
    for flags, words in ((("--backend", "native", "--min-isolation", "vm"), "isolation|tier"),
                         (("--backend", "process"), "isolation|tier|not built"),
                         (("--min-isolation", "gvisor", "--backend", "native"), "isolation|tier")):
        done = mode.cay("exec", *flags, "--", "/bin/echo", "RAN")
        t.ok(done.status == 125 and b"RAN" not in done.out, f"{' '.join(flags)}: refused", *done.describe())
        t.matches(done.err.decode(errors="replace"), words, f"{' '.join(flags)}: says why")


def starved(t, mode):
    """Little left of what cay itself needs: it refuses or runs whole, and never dies of it."""
    for limit in ("--nofile=6:6", "--nofile=3:3", "--nproc=0:0", "--fsize=0:0", "--stack=16384:16384", "--data=1000000:1000000"):
        # Its words go into a pipe: a limit on files must not be one on the answer.
        done = mode.command("/bin/bash", "-c", 'set -o pipefail; "$@" 2>/dev/null | cat', "bash", "/usr/bin/prlimit", limit,
                            mode.binary, "exec", "--json", "--", *STATUS)
        r = caytest.Result(done)
        whole = done.status == 0 and layers_hold(mode, r)
        # The loader itself may fail before cay begins: its 127 is a refusal as well.
        crashed = done.status == 128 + 11 and "stack" in limit  # not even the loader can run on so little
        t.ok(whole or crashed or done.status in (125, 127), f"starved by {limit}: refused or whole", *r.describe())
    # Pid 1 dies of it, now before and now after its id map is written: a shortage, and not a layer that the host lacks,
    # for want of which the run would go on elsewhere.
    command = ("/usr/bin/prlimit", "--nofile=64:64", mode.binary, "exec", "--", "/bin/echo", "RAN")
    said = [mode.command(*command) for _ in range(80)]
    t.empty({d.err.decode() for d in said if d.status != 125 or b"short of" not in d.err}, "starved of files: never a missing layer")
    for name in ("PATH", "HOME"):
        env = {k: v for k, v in mode.env.items() if k != name}
        done = caytest.run([mode.binary, "exec", "--json", "--", *STATUS], env=env, user=mode.uid, cwd=mode.cwd)
        r = caytest.Result(done)
        t.ok((done.status == 0 and layers_hold(mode, r)) or done.status == 125, f"no {name}: refused or whole", *r.describe())
    gone = mode.cwd / "gone"
    gone.mkdir(mode=0o777)
    done = mode.command("/bin/sh", "-c", 'cd "$1" && rmdir "$1" && shift && exec "$@"', "sh", gone, mode.binary, "exec", "--json",
                        "--", *STATUS)
    r = caytest.Result(done)
    t.ok((done.status == 0 and layers_hold(mode, r)) or done.status == 125, "a deleted folder to stand in: refused or whole",
         *r.describe())


def without_cgroupfs(t, mode):
    """Root on a host with no cgroup file system at all: asked for, it is refused; not asked for, it is not claimed."""
    hide = 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"'
    command = ("/usr/bin/unshare", "--mount", "/bin/sh", "-c", hide, "sh", mode.binary, "exec", "--json")
    done = mode.command(*command, "--require", "cgroup", "--", "/bin/echo", "RAN")
    t.ok(done.status == 125 and b"RAN" not in done.out, "no cgroup file system: required, it is refused", *done.describe())
    r = caytest.Result(mode.command(*command, "--", *STATUS))
    t.ok((layers_hold(mode, r) and not [x for x in r.layers if x.startswith("cgroup:")]) or r.done.status == 125,
         "no cgroup file system: not claimed", r.layers, *r.describe())


def test(t, mode):
    host = mode.host()
    if mode.name != "deleg" and not mode.is_docker:  # whose layers are put on by the engine: on_docker.py
        denied(t, mode)
        without_userns(t, mode)
        if not SANITIZED:  # its run time needs more than what is left
            starved(t, mode)
        if mode.is_root:
            without_cgroupfs(t, mode)
    required(t, mode)
    t.empty(host.settle(), "no refusal leaves anything")


caytest.main(test, modes=("root", "user", "deleg"), programs=["deny"])

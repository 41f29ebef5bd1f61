#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P1: not root on the host, a uid for each run, no capabilities, no groups, no_new_privs, seccomp — everywhere."""
import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import cayserve
import caytest

RANGE = 0x6cafe000  # uids that nobody has
SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


def has_subuids(uid):
    """Whether the user has a range of subordinate uids, and the tools to use it."""
    names = {str(uid)}
    with contextlib.suppress(KeyError):
        names.add(pwd.getpwuid(uid).pw_name)
    with contextlib.suppress(OSError):
        lines = open("/etc/subuid").read().splitlines()
        return os.path.exists("/usr/bin/newuidmap") and any(line.split(":")[0] in names for line in lines)
    return False


def wrong(view):
    """What is wrong with one /proc/PID/status, as a list."""
    if isinstance(view, str):
        return [view]
    bad = [f"{k} is {view[k]}" for k in SETS if int(view[k], 16) != 0]
    bad += [f"Groups are {view['Groups']}"] if view["Groups"].split() not in ([], [view["Gid"].split()[0]]) else []
    bad += [f"NoNewPrivs is {view['NoNewPrivs']}"] if view["NoNewPrivs"] != "1" else []
    bad += [f"Seccomp is {view['Seccomp']}"] if view["Seccomp"] != "2" else []
    return bad


def from_inside(t, mode, flags):
    label = " ".join(("inside", *flags))
    r = mode.python("identity.py", *flags)
    if not t.result(r, f"{label}: the program ran", cause="ok"):
        return
    said = r.reported()
    for name, view in said.get("views", {}).items():
        t.empty(wrong(view), f"{label}: {name.split()[0] if name.startswith('thread') else name}")
    t.ok(len([v for v in said.get("views", {}) if v.startswith("thread")]) >= 4, f"{label}: all threads were seen")
    t.empty([k for k, v in said.get("tries", {"none": 0}).items() if v == 0], f"{label}: no call gives more rights")
    t.empty(wrong(said["after"]), f"{label}: the same after all tries")
    t.ok(said["pid"] != 1, f"{label}: the program is not pid 1")
    t.ok(said["uid_map"] != ["0", "0", "4294967295"] or not mode.is_root or "user_ns" not in r.layers,
         f"{label}: a user namespace maps no host root", said["uid_map"])


def from_outside(t, mode):
    uids = []
    with mode.live_program("stay", args=("waits", "mark-a")) as a, mode.live_program("stay", args=("waits", "mark-b")) as b:
        if not t.ok(a.wait_for("ready") and b.wait_for("ready"), "outside: two runs at once", a.errors(), b.errors()):
            return
        for mark in ("mark-a", "mark-b"):
            found = [p for p in caytest.marked(mark) if p.args and p.args[0] == b"/sandbox/x"]
            if not t.ok(len(found) == 1, f"outside: {mark} is found", found):
                return
            status = found[0].status()
            t.empty(wrong(status), f"outside: {mark} has no rights")
            ids, gids = status["Uid"].split(), status["Gid"].split()
            t.ok("0" not in ids + gids, f"outside: {mark} is not root on the host", ids, gids)
            t.ok(len(set(ids)) == 1 and len(set(gids)) == 1, f"outside: {mark} has one uid and one gid", ids, gids)
            t.ok(status["NSpid"].split()[-1] != "1", f"outside: {mark} is not pid 1", status["NSpid"])
            uids.append(int(ids[0]))
        if mode.is_docker:
            t.equal(uids, [1000] * 2, "outside: the uid is the container's fixed one")
        elif mode.is_root:
            t.ok(uids[0] != uids[1], "outside: concurrent runs have different host uids", uids)
            t.ok(all(u >= 1000 and u != 65534 for u in uids), "outside: the uids belong to no system user", uids)
        elif has_subuids(mode.host_uid):
            t.ok(uids[0] != uids[1] and mode.host_uid not in uids, "outside: concurrent runs have uids of the subuid range", uids)
        else:
            t.equal(uids, [mode.host_uid] * 2, "outside: the uid is the caller's own")
        for run in (a, b):
            run.end_input()
        t.equal([a.wait(), b.wait()], [0, 0], "outside: both runs end well")


@contextlib.contextmanager
def subids(mode, count, named=True, home="/nonexistent"):
    """In our mount namespace alone, this mode's user has a range of so many uids and gids, and a name or none."""
    lines = {"subuid": f"{mode.uid}:{RANGE}:{count}\n", "subgid": f"{mode.uid}:{RANGE}:{count}\n"}
    if named:
        lines["passwd"] = f"{open('/etc/passwd').read()}caytest:x:{mode.uid}:{mode.uid}::{home}:/bin/sh\n"
    covered = []
    try:
        for name, text in lines.items():
            file = caytest.workdir() / f"etc-{name}"
            file.write_text(text)
            file.chmod(0o644)
            subprocess.run(["mount", "--bind", file, f"/etc/{name}"], check=True)
            covered.append(f"/etc/{name}")
        yield
    finally:
        for path in covered:
            subprocess.run(["umount", path], check=True)


def outer_uid(r):
    words = r.stdout.split()
    return int(words[1]) if len(words) >= 3 else None


def outer_uid_of(answer):
    words = ((answer.json or {}).get("stdout") or "").split()
    return int(words[1]) if len(words) >= 3 else None


def with_range(t, mode):
    """A range is used wherever it can be, by one run for each uid, whichever state folder each has; else nothing runs."""
    if os.getuid() != 0 or mode.uid is None or mode.is_docker:
        return
    if not all(os.path.exists(f) for f in ("/usr/bin/newuidmap", "/etc/subuid", "/etc/subgid")):
        t.skip("range", "there is no newuidmap, or no /etc/subuid", "uidmap")
        return
    show = ("exec", "--", "/bin/cat", "/proc/self/uid_map", "/proc/self/status")
    places = [mode.cwd / "state-a", mode.cwd / "state-b"]
    for place in places:
        place.mkdir()
        os.chown(place, mode.uid, mode.uid)
    with subids(mode, 1):
        for label, env in {"usual": {}, "no": {"HOME": "/nonexistent", "XDG_STATE_HOME": "/nonexistent"}}.items():
            r = mode.json(*show, env=env)
            t.result(r, f"range, {label} state folder: it runs", cause="ok")
            t.equal(outer_uid(r), RANGE, f"range, {label} state folder: the uid is of the range")
            t.ok("\nGroups:\t \n" in r.stdout, f"range, {label} state folder: no groups", r.stdout)
        kept = mode.env
        mode.env = {**kept, "XDG_STATE_HOME": str(places[0])}
        with mode.live_program("stay", args=("waits", "mark-range")) as run:
            mode.env = kept
            t.ok(run.wait_for("ready"), "range of one: the first runs", run.errors())
            for label, place in {"the same": places[0], "another": places[1]}.items():
                r = mode.json(*show, env={"XDG_STATE_HOME": str(place)})
                t.ok(r.done.status == 125 and outer_uid(r) is None,
                     f"range of one, {label} state folder: no second run at once has that uid", *r.describe())
                t.matches(r.done.err.decode(), "uid.*\n.*range", f"range of one, {label} state folder: it says why")
            run.end_input()
            t.equal(run.wait(), 0, "range of one: the first ends well")
        r = mode.json(*show, env={"XDG_STATE_HOME": str(places[1])})
        t.equal(outer_uid(r), RANGE, "range of one: the next has it", *r.describe())
    squatted(t, mode, show, places)
    folder_taken(t, mode, show, places)
    with subids(mode, 1, named=False):  # newuidmap serves nobody who has no name
        r = mode.json(*show)
        t.ok(r.done.status == 125 and outer_uid(r) is None, "a range that can't be used: nothing runs", *r.describe())
        t.matches(r.done.err.decode(), "newuidmap.*subuid", "a range that can't be used: it says so")


def squatted(t, mode, show, places):
    """Another user has bound the names of all uids: he stops nobody, and two runs at once have two uids still."""
    for count in (1, 200):
        names = []
        for uid in range(RANGE, RANGE + count):
            names.append(socket.socket(socket.AF_UNIX))
            names[-1].bind(f"\0cay-uid-{uid}")
        with subids(mode, count):
            kept = mode.env
            mode.env = {**kept, "XDG_STATE_HOME": str(places[0])}
            with mode.live_program("stay", args=("waits", "mark-range")) as run:
                mode.env = kept
                t.ok(run.wait_for("ready"), f"range of {count}, names taken: a run has its uid", run.errors())
                if count == 1:
                    r = mode.json(*show, env={"XDG_STATE_HOME": str(places[1])})
                    t.ok(r.done.status == 125 and outer_uid(r) is None, "range of 1, names taken: no second run at once has it", *r.describe())
                run.end_input()
                t.equal(run.wait(), 0, f"range of {count}, names taken: it ends well")
        for name in names:
            name.close()


def folder_taken(t, mode, show, places):
    """Another user has made the folder of the uids' locks, and bound all their names: likewise."""
    folder, home = f"/tmp/cay-{mode.uid}", mode.cwd / "passwd-home"
    if os.path.exists(f"/run/user/{mode.uid}"):
        t.skip("folder taken", "the user has a folder of logind's")
        return
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder, 0o755)
    os.chown(folder, 65534, 65534)
    home.mkdir()
    os.chown(home, mode.uid, mode.uid)
    with socket.socket(socket.AF_UNIX) as name, subids(mode, 1, home=home):
        name.bind(f"\0cay-uid-{RANGE}")
        kept = mode.env
        mode.env = {**kept, "XDG_STATE_HOME": str(places[0])}
        with mode.live_program("stay", args=("waits", "mark-range")) as run:
            mode.env = kept
            t.ok(run.wait_for("ready"), "range of 1, folder and name taken: a run has its uid", run.errors())
            r = mode.json(*show, env={"XDG_STATE_HOME": str(places[1])})
            t.ok(r.done.status == 125 and outer_uid(r) is None, "range of 1, folder and name taken: no second run at once has it",
                 *r.describe())
            run.end_input()
            t.equal(run.wait(), 0, "range of 1, folder and name taken: it ends well")
        os.chmod(home, 0o777)  # anybody could put a file there: then it is as none
        r = mode.json(*show)
        t.ok(r.done.status == 125 and outer_uid(r) is None, "a home that others can write to holds no locks", *r.describe())
    os.rmdir(folder)


def server_with_range(t, mode):
    """What a server makes ahead has uids too: a short range is not used up by sandboxes that wait."""
    if not mode.has_cgroup or mode.is_root or os.getuid() != 0 or not os.path.exists("/usr/bin/newuidmap"):
        return
    with subids(mode, 6), cayserve.Server(mode, env={"CAY_SPARES": "8"}) as s:
        caytest.until(lambda: "made ahead" in s.words(), 20)
        time.sleep(1)  # for more than it should make
        asked = [s.execute({"command": ["/bin/cat", "/proc/self/uid_map"], "limits": {"memory": "64m"}}) for _ in range(3)]
        t.equal([outer_uid_of(a) in range(RANGE, RANGE + 6) for a in asked], [True] * 3, "range of six, server: runs find a uid",
                *asked, s.words()[-500:])


def test(t, mode):
    from_inside(t, mode, ())
    from_inside(t, mode, ("--strict",))
    r = mode.json("exec", "--", "/bin/cat", "/proc/self/status")
    view = dict(line.split(":", 1) for line in r.stdout.splitlines() if ":" in line)
    if t.ok("Seccomp" in view, "exec: status was read", *r.describe()):
        t.empty(wrong({k: v.strip() for k, v in view.items()}), "exec: no rights")
    from_outside(t, mode)
    with_range(t, mode)
    server_with_range(t, mode)


caytest.main(test, modes=("root", "user", "deleg"), programs=["stay"])

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P1: not root on the host, a uid for each run, no capabilities, no groups, no_new_privs, seccomp — everywhere."""
import contextlib
import os
import pwd
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

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


def test(t, mode):
    from_inside(t, mode, ())
    from_inside(t, mode, ("--strict",))
    r = mode.json("exec", "--", "/bin/cat", "/proc/self/status")
    view = dict(line.split(":", 1) for line in r.stdout.splitlines() if ":" in line)
    if t.ok("Seccomp" in view, "exec: status was read", *r.describe()):
        t.empty(wrong({k: v.strip() for k, v in view.items()}), "exec: no rights")
    from_outside(t, mode)


caytest.main(test, programs=["stay"])

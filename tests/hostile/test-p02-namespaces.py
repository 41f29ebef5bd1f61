#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P2: namespaces of its own, and no way to make or enter another one from inside."""
import errno
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

OWN = ("mnt", "pid", "net", "ipc", "uts", "cgroup")
LOOK = "import json, os; print(json.dumps({k: os.readlink('/proc/self/ns/' + k) for k in os.listdir('/proc/self/ns')}))"


def compare(t, theirs, layers, label):
    mine = caytest.namespaces()
    kinds = OWN + (("user",) if "user_ns" in layers else ())
    for kind in kinds:
        t.ok(theirs.get(kind) not in (None, mine[kind]), f"{label}: {kind} is its own", theirs.get(kind), mine[kind])


def test(t, mode):
    r = mode.python(LOOK)
    t.result(r, "the program sees its namespaces", cause="ok")
    compare(t, r.reported(), r.layers, "inside")
    named = {"mnt": "mount_ns", "pid": "pid_ns", "net": "net_ns", "ipc": "ipc_ns", "uts": "uts_ns"}
    t.empty([n for n in named.values() if n not in r.layers], "the result names the layers", r.layers)
    if not mode.is_root:
        t.ok("user_ns" in r.layers, "an ordinary user's run has a user namespace", r.layers)

    with mode.live_program("stay", args=("waits", "mark-ns")) as run:
        if t.ok(run.wait_for("ready"), "a quiet run", run.errors()):
            found = [p for p in caytest.marked("mark-ns") if p.args[0] == b"/sandbox/x"]
            theirs = caytest.namespaces(found[0].pid) if found else {}
            if theirs:
                compare(t, theirs, r.layers, "outside")
            else:
                t.skip("outside: its own", "its namespaces cannot be read by this user")
        run.end_input()
        run.wait()

    r = mode.program("mkns")
    t.result(r, "the attempts ran", cause="ok")
    rows = [line.split() for line in r.stdout.splitlines()]
    t.equal(len(rows), 49, "every attempt answered")
    for way in ("unshare", "clone", "clone-high", "clone3", "setns-pidfd", "setns-fd"):
        made = [(kind, answer) for w, kind, answer in rows if w == way and kind != "plain" and answer == "0"]
        t.empty(made, f"{way} makes and enters nothing")
        killed = [(kind, answer) for w, kind, answer in rows if w == way and answer.startswith("signal")]
        t.empty(killed, f"{way} is answered, not killed")
    clone3 = {answer for w, _, answer in rows if w == "clone3"}
    t.equal(clone3, {str(errno.ENOSYS)}, "clone3 answers ENOSYS")
    t.ok(["clone", "plain", "0"] in rows, "a plain clone works")

    control = mode.command(caytest.workdir() / "mkns")
    t.ok(b"unshare user 0" in control.out or mode.is_root, "control: the attempts work outside", control.out[:300])


caytest.main(test, programs=["mkns", "stay"])

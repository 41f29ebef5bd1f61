#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P9: no process of the run can run once the report is given, nor 3 s after cay, or any part of it, is killed."""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

MARK = "mark-nine"


def left_now(mark):
    """Processes of the run that could still do something."""
    return [p for p in caytest.marked(mark) if p.can_run()]


def at_report(t, mode):
    for code, cause in ((0, "ok"), (5, "exit"), (1000, "signal")):
        r = mode.program("stay", args=["litters", code, MARK])
        now = left_now(MARK)  # the first thing after cay's end
        t.result(r, f"leaves with {code}", cause=cause)
        t.empty(now, f"leaves with {code}: nothing can run at the report")
        t.ok(caytest.until(lambda: not caytest.descendants(), 10), f"leaves with {code}: nothing is there soon after",
             *caytest.descendants())
    r = mode.program("stay", "--timeout", "1", args=["runs-away", MARK])
    t.empty(left_now(MARK), "always a new pid: nothing can run at the report")
    t.result(r, "always a new pid: the wall limit", cause="wall_timeout")


def killed(t, mode, kind, label, choose, number=signal.SIGKILL):
    """Starts a run, sends a signal to the processes that choose(all) names, and waits for the end of all the others."""
    with mode.live_program("stay", "--timeout", "35", args=[kind, MARK]) as run:
        if not t.ok(run.wait_for("ready"), f"{label}: it started", run.errors()):
            return
        seen = caytest.descendants()
        t.ok([p for p in seen if p.args[:1] == [b"/sandbox/x"]], f"{label}: its processes can be seen", *seen)
        targets = choose(run, seen)
        if not targets:
            t.skip(label, "there is no such process")
            return
        for p in targets:
            os.kill(p, number)
        gone = caytest.until(lambda: not [p for p in caytest.descendants() if p.pid != run.pid and p.can_run()], 3)
        t.ok(gone, f"{label}: all gone within 3 s", *caytest.descendants())
        status = run.wait(10)
        t.ok(status is not None, f"{label}: cay itself ends", *caytest.descendants())
        return status


def front(run, seen):
    return [run.pid]


def by_depth(depth):
    """The processes that are `depth` generations below cay's first, the program itself left out."""

    def choose(run, seen):
        level = [run.pid]
        for _ in range(depth):
            level = [p.pid for p in seen if p.parent in level and p.args[:1] != [b"/sandbox/x"]]
        return level

    return choose


def test(t, mode):
    at_report(t, mode)
    for kind in ("waits", "daemons", "stops-all", "ignores"):
        killed(t, mode, kind, f"kill -9 of cay, program {kind}", front)
    for depth in (1, 2):
        status = killed(t, mode, "daemons", f"kill -9 of the process {depth} below cay", by_depth(depth))
        if status is not None:
            t.ok(status != 0, f"kill -9 of the process {depth} below cay: not told as a success", status)
    status = killed(t, mode, "ignores", "SIGTERM to cay", front, signal.SIGTERM)
    t.ok(status in (137, 143, 130, -signal.SIGTERM), "SIGTERM to cay: told as cancelled", status)
    status = killed(t, mode, "ignores", "SIGINT to cay", front, signal.SIGINT)
    t.ok(status in (130, -signal.SIGINT), "SIGINT to cay: exit status 130", status)
    status = killed(t, mode, "daemons", "SIGHUP to cay", front, signal.SIGHUP)
    t.ok(status not in (0, None), "SIGHUP to cay: not a success", status)


caytest.main(test, modes=("root", "user", "deleg"), programs=["stay"])

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P8: a run ends at its limit of wall or CPU time, whatever it ignores, stops or closes.

Bounds on time are generous: they tell an end by the limit from none, not a fast machine from a slow one."""
import os
import pathlib
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

MOST = 15  # seconds for a limit of 2
STUBBORN = ("ignores", "blocks", "stops", "stops-all", "closes", "daemons", "vforks", "runs-away", "sheds")
TIMED_OUT = dict(cause="wall_timeout", limit_name="timeout", limit=2.0, verdict__unit="s", exit_code=124, timeout=True,
                 error_message="Code execution timed out after 2s")
PYTHON = """
import os, signal, time
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
try:
    time.sleep(40)
except BaseException:
    time.sleep(40)
"""


MANY = """
import os, time
held = b"x" * (1 << 20)
for _ in range(80):
    if os.fork() == 0:
        while True: held[0]
time.sleep(40)
"""


def cpus_of(pid):
    """The quota that what this process does is charged to, in CPUs; None: none."""
    rows = [line.split(":", 2) for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    name = next(path for _, kinds, path in rows if "cpu" in kinds.split(","))
    top = next(p for p in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct") if os.path.isdir(p))
    quota, period = (int(pathlib.Path(f"{top}{name}/cpu.cfs_{kind}_us").read_text()) for kind in ("quota", "period"))
    return quota / period if quota > 0 else None


def held(t, mode):
    """One that the kernel does not let die, though it was killed: the answer does not wait for it."""
    freezer = pathlib.Path("/sys/fs/cgroup/freezer")
    if mode.is_docker or os.geteuid() != 0 or not (freezer / "tasks").exists():
        t.skip("held", "there is no freezer of cgroup v1 here", "freezer")
        return
    group = freezer / f"cay-test-{os.getpid()}"
    group.mkdir()
    try:
        with mode.live("exec", "--json", "--timeout", "3", "--cpus", "0.2", "--", "/bin/sleep", "40") as run:
            found = []

            def look():
                found[:] = [p for p in caytest.inside(run.pid) if (pathlib.Path("/proc") / str(p.pid) / "comm").read_text() == "sleep\n"]
                return found

            if t.ok(caytest.until(look, 20), "held: it runs"):
                (group / "cgroup.procs").write_text(str(found[0].pid))
                if mode.has_cgroup:
                    t.equal(cpus_of(found[0].pid), 0.2, "held: it has its quota")
                (group / "freezer.state").write_text("FROZEN")
                t.ok(run.wait_for('"wall_timeout"'), "held: the answer comes while it is", run.seen)
                t.ok(look(), "held: it is")
                if mode.has_cgroup:
                    t.equal(cpus_of(found[0].pid), 1, "held: its dying is charged too, to one CPU")
                t.equal(run.wait(), 124, "held: the command ends before it is gone")
                os.set_blocking(run.proc.stderr.fileno(), False)
                t.ok(not run.wait_for("\0", 5) and run.proc.stdout.read() == b"" and run.proc.stderr.read() == b"",
                     "held: and nobody holds what it wrote to", run.seen)
                t.equal((pathlib.Path("/proc") / str(found[0].pid) / "comm").read_text(), "sleep\n", "held: it is still there")
                (group / "freezer.state").write_text("THAWED")
                t.ok(caytest.until(lambda: not caytest.descendants(), 20), "held: then it and its warden are gone",
                     *caytest.descendants())
    finally:
        (group / "freezer.state").write_text("THAWED")
        caytest.until(lambda: not (group / "cgroup.procs").read_text(), 20)
        group.rmdir()


def test(t, mode):
    host = mode.host()
    # What "sheds" has ended stays charged until the kernel has had the time to free it (RCU): a hundred MB beside
    # busy loops, more on a busier host. That would be a true `memory`, and this is about time.
    flags = ("--timeout", "2", "--pids", "60", "--memory", "2g")
    jobs = {kind: lambda kind=kind: mode.program("stay", *flags, args=[kind]) for kind in STUBBORN}
    # Pid 1 ends these itself, for what they left is asked for.
    for kind in ("stops-all", "daemons", "runs-away", "sheds"):
        jobs[f"{kind}, collected"] = lambda kind=kind: mode.program("stay", *flags, "--collect", "*", args=[kind])
    jobs["python"] = lambda: mode.python(PYTHON, *flags)
    jobs["bash"] = lambda: mode.json("run", *flags, "-l", "bash", "-e", "trap '' TERM INT HUP; while :; do :; done")
    for kind, r in zip(jobs, caytest.together(jobs.values(), workers=5)):
        t.result(r, f"{kind}: ends at the wall limit", **TIMED_OUT)
        t.ok(2.0 <= (r.get("verdict.measured") or 0) < MOST and r.done.seconds < MOST, f"{kind}: neither early nor never",
             r.get("verdict.measured"), r.done.seconds)
        # What came before the end is not lost.
        if kind in STUBBORN and kind != "runs-away":
            t.equal(r.stdout, "ready\n", f"{kind}: its output is there")
    t.empty(host.settle(), "nothing of them is left")

    if not mode.is_docker:  # whose locks nobody counts
        # What closing its files takes, without bounds on them: minutes.
        for kind in ("locks", "flocks"):
            for limit in (4, 16):  # a busy machine takes longer to make them
                r = mode.program("stay", "--timeout", str(limit), "--memory", "1g", args=[kind])
                if r.stdout:
                    break
            t.result(r, f"{kind}: ends at the wall limit", cause="wall_timeout", stdout="ready\n")
            t.ok(r.done.seconds < limit + MOST, f"{kind}: soon after it", r.get("verdict.measured"), r.done.seconds)
        t.empty(host.settle(), "nothing of them is left")
        held(t, mode)

    if mode.has_cgroup:  # what is killed has to run once more to die, and with this share that would take long
        r = mode.python(MANY, "--timeout", "2", "--cpus", "0.05", "--memory", "256m")
        t.result(r, "eighty processes with a twentieth of a CPU: end at the wall limit", **TIMED_OUT)
        t.ok(r.done.seconds < 6, "eighty processes with a twentieth of a CPU: soon after it", r.done.seconds)
        t.empty(host.settle(), "nothing of them is left")

    done = mode.cay("exec", "--timeout", "1", "--", "/bin/sleep", "40")
    t.equal(done.status, 124, "without --json: exit status 124", *done.describe())
    t.ok(b"Code execution timed out after 1s" in done.err, "without --json: it says so", *done.describe())
    r = mode.json("exec", "--timeout", "0.5", "--", "/bin/sleep", "40")
    t.result(r, "half a second", **{**TIMED_OUT, "limit": 0.5, "error_message": "Code execution timed out after 0.5s"})

    # The first process is the run: who stays behind with the pipes in hand does not keep it.
    r = mode.program("stay", "--timeout", "30", args=["litters", 0])
    t.result(r, "a program that leaves children: ends with its first process", cause="ok", stdout="ready\n")
    t.ok(r.done.seconds < MOST, "a program that leaves children: does not wait for them", r.done.seconds)

    r = mode.program("stay", "--timeout", "20", "--cpu-time", "1", args=["ignores"])
    t.result(r, "cpu time of one process", cause="cpu_timeout", limit_name="cpu_time", exit_code=124)
    r = mode.program("stay", "--timeout", "20", "--cpu-time", "1", args=["burns"])
    t.result(r, "cpu time of two processes is one sum", cause="cpu_timeout", exit_code=124)
    measured = r.get("verdict.measured")
    t.ok(isinstance(measured, float) and 1.0 <= measured < 6, "cpu time: measured past the limit", measured)
    r = mode.program("stay", "--timeout", "20", "--cpu-time", "1", args=["hires"])
    t.result(r, "cpu time of children that nobody reaps", cause="cpu_timeout", exit_code=124)
    r = mode.json("exec", "--timeout", "1", "--cpu-time", "20", "--", "/bin/sleep", "40")
    t.result(r, "sleeping takes no cpu time", cause="wall_timeout")

    for value in ("0", "-1", "nan", "inf", "301", "1e400", "", "1s ", "0x10", "99999999999999999999"):
        done = mode.cay("exec", "--timeout=" + value, "--", "/bin/echo", "RAN")
        t.ok(done.status == 2 and b"timeout" in done.err and b"RAN" not in done.out, f"timeout {value!r} is refused by name",
             *done.describe())


caytest.main(test, programs=["stay"])

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a run uses, told once a second while it runs; and Docker's names for limits, in force."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caydocker
import cayserve
import caytest

# Holds what it is told to, and goes on when it is told to: a newline each time.
PROGRAM = """
import os, sys, time
print("ready", flush=True)
sys.stdin.readline()
held = bytearray(40 << 20)
children = []
for i in range(3):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(w)
        os.read(r, 1)
        os._exit(0)
    os.close(r)
    children.append((pid, w))
start = time.process_time()
while time.process_time() - start < 0.3:
    pass
print("busy", flush=True)
sys.stdin.readline()
"""
KEYS = {"cpu_time", "memory_peak", "pids_peak", "stdout_bytes", "stderr_bytes", "memory", "pids"}


class Events:
    """The events of a live `cay run --events`, as they come."""

    def __init__(self, live):
        self.live, self.at, self.all = live, 0, []

    def take(self):
        while (end := self.live.seen.find(b"\n", self.at)) >= 0:
            self.all.append(json.loads(self.live.seen[self.at:end]))
            self.at = end + 1

    def until(self, condition, timeout=60):
        """Reads on until an event behind those before meets the condition; gives it back, or None."""
        first = len(self.all)
        while True:
            self.take()
            for event in self.all[first:]:
                first += 1
                if condition(event):
                    return event
            before = len(self.live.seen)
            if not caytest.until(lambda: self.live.wait_for(b"\n", 0.05) and len(self.live.seen) > before or
                                 self.live.proc.poll() is not None, timeout):
                return None
            self.take()
            if len(self.live.seen) == before and self.live.proc.poll() is not None:
                return None


def is_usage(event):
    return event["event"] == "usage"


def while_it_runs(t, mode):
    with mode.live("run", "--events", "-l", "python", "-e", PROGRAM) as live:
        events = Events(live)
        first = events.until(is_usage)
        if not t.ok(first, "usage while the program waits", live.seen[-500:]):
            return
        second = events.until(is_usage)
        t.ok(set(first["usage"]) == KEYS, "usage has its fields", first)
        t.ok(second and second["time"] > first["time"], "and comes again", second)
        idle = second["usage"]
        t.ok(idle["memory"] and 0 < idle["memory"] < 40 << 20, "memory in use", idle)
        t.equal(idle["pids"], 1, "one process", idle)
        t.equal(idle["stdout_bytes"], 6, "bytes written so far", idle)
        live.proc.stdin.write(b"\n")
        busy = events.until(lambda e: is_usage(e) and e["usage"]["stdout_bytes"] == 11)
        if not t.ok(busy, "usage once it has done something", live.seen[-500:]):
            return
        busy = busy["usage"]
        t.ok(busy["memory"] >= 40 << 20 and busy["memory_peak"] >= 40 << 20, "more memory, now and at most", busy)
        t.equal(busy["pids"], 4, "and processes", busy)
        t.ok(busy["cpu_time"] >= idle["cpu_time"] + 0.29, "and CPU time", idle, busy)
        live.proc.stdin.write(b"\n")
        end = events.until(lambda e: e["event"] == "finished")
        t.ok(end and end["result"]["verdict"]["cause"] == "ok", "it ends well", end)
        told = [e["usage"] for e in events.all if is_usage(e)]
        t.ok(told[-1]["memory"] is None and told[-1]["pids"] is None, "at its end nothing is in use", told[-1])
        t.ok(all(a["cpu_time"] <= b["cpu_time"] for a, b in zip(told, told[1:])), "CPU time only grows", told)
        t.equal(set(end["result"]["meta"]["usage"]), KEYS - {"memory", "pids"}, "the result has what was used in all")
        t.equal([e["seq"] for e in events.all], list(range(1, len(events.all) + 1)), "events are numbered without a gap")


def short_run(t, mode):
    done = mode.cay("run", "--events", "-l", "python", "-e", "print(1)")
    events = [json.loads(line) for line in done.out.splitlines()]
    long_enough = events[-1]["result"]["execution_time"] >= 1  # on a busy machine
    t.ok(long_enough or len([e for e in events if is_usage(e)]) == 1, "a short run tells of its end alone", *events)


def without_isolation(t, mode):
    with mode.live("run", "--backend", "process", "--min-isolation", "none", "--events", "-l", "python", "-e",
                   "while True: pass") as live:
        events = Events(live)
        found = events.until(is_usage)
        t.ok(found and found["usage"]["memory"] is None and found["usage"]["cpu_time"] > 0,
             "process: CPU time, and null for what it can't count", found, live.errors() if not found else "")


def of_a_server(t, mode):
    with cayserve.Server(mode) as s:
        started = s.execute({"language": "python", "code": "import time\nwhile True: time.sleep(60)", "detach": True})
        id = started.json["id"]
        got = s.events(f"/v1/executions/{id}/events", most=4)
        t.equal([e["event"] for _, e in got], ["started", "stage", "usage", "usage"], "a server's stream has them too", got)
        t.equal([n for n, _ in got], [1, 2, 3, 4], "with their numbers")
        t.ok(got[3][1]["usage"]["memory"], "and what is in use", got[3])
        s.ask("DELETE", f"/v1/executions/{id}")
        r = s.execute({"language": "python", "code": "print(1)",
                       "limits": {"cpu_quota": 50000, "cpu_period": 100000, "cpu_shares": 512, "memory": "64m", "memory_swap": "64m"}})
        limits = (r.json.get("meta") or {}).get("resource_limits") or {}
        t.equal((r.status, limits.get("cpus"), limits.get("cpu_shares"), limits.get("swap")), (200, 0.5, 512, 0),
                "cpu_quota, cpu_period, cpu_shares and memory_swap over HTTP", r)
    with cayserve.Server(mode, env={"CAY_CPUS": "0.5", "CAY_CPU_SHARES": "256"}) as s:
        for name, value in (("cpu_quota", 100000), ("cpu_period", 100000), ("cpu_shares", 512)):
            r = s.execute({"language": "python", "code": "print(1)", "limits": {name: value}})
            t.equal((r.status, r.error.get("kind")), (403, "policy"), f"{name} can't loosen what the server sets", r)
        r = s.execute({"language": "python", "code": "print(1)", "limits": {"cpu_quota": 25000, "cpu_shares": 128}})
        t.equal(r.status, 200, "but tighten it", r)


def cgroup_file(pid, controller, names):
    """A file of the process' cgroup, whichever version there is."""
    with open(f"/proc/{pid}/cgroup") as f:
        for line in f:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controller in controllers.split(","):
                return open(f"/sys/fs/cgroup/{controller}{path}/{names[0]}").read().strip(), 1
    path = line.rstrip("\n").split(":", 2)[2]
    return open(f"/sys/fs/cgroup{path}/{names[1]}").read().strip(), 2


def shares(t, mode):
    mark = "mark-of-shares"
    for shares, v1, v2 in (("512", "512", "50"), ("2", "2", "1"), ("1024", "1024", "100")):
        with mode.live("exec", "--cpu-shares", shares, "--", "python3", "-c",
                       "import sys; print('up', flush=True); sys.stdin.read()", mark) as live:
            live.wait_for("up")
            found = caytest.inside()
            found = [p for p in found if any(mark.encode() in a for a in p.args)]
            if not t.ok(found, "the program is there", live.seen):
                continue
            value, version = cgroup_file(found[0].pid, "cpu", ("cpu.shares", "cpu.weight"))
            t.equal(value, v1 if version == 1 else v2, f"--cpu-shares {shares} is in force")
            live.end_input()
            live.wait()


def in_containers(t):
    why = caydocker.missing()
    if why:
        t.skip("usage of a container", why, "docker")
        return
    with caydocker.Engine() as engine:
        engine.make_image(with_c=False)
        mode = caydocker.DockerMode(engine)
        with mode.live("exec", "--events", "--cpu-shares", "512", "--", "python3", "-c",
                       "import sys; held = bytearray(40 << 20); print('up', flush=True); sys.stdin.read()") as live:
            events = Events(live)
            found = events.until(lambda e: is_usage(e) and (e["usage"]["memory"] or 0) >= 40 << 20)
            t.ok(found, "docker: usage of the container's cgroup", live.seen[-500:], live.errors() if not found else "")
            t.ok(found and found["usage"]["pids"] == 1 and found["usage"]["cpu_time"] > 0, "docker: processes and CPU time", found)
            shares = [engine.json("GET", f"/containers/{c['Id']}/json")["HostConfig"]["CpuShares"] for c in engine.containers()]
            t.ok(512 in shares, "docker: --cpu-shares is the engine's", shares)
            live.end_input()
            end = events.until(lambda e: e["event"] == "finished")
            t.ok(end and end["result"]["meta"]["resource_limits"]["cpu_shares"] == 512, "docker: and the result says so", end)


def test(t, mode):
    while_it_runs(t, mode)
    if mode.name == "root":
        short_run(t, mode)
        without_isolation(t, mode)
        of_a_server(t, mode)
        if os.getuid() == 0:
            shares(t, mode)
            in_containers(t)


caytest.main(test, modes=("root", "user", "deleg"))

# SPDX-License-Identifier: Apache-2.0
"""limits.py PID EXPR...: what cgroup v2 holds a process to, as seen from outside the sandbox.

A limit may sit on any ancestor, so each name is the tightest up to the root: memory, swap, pids,
cpus (quota over period), inf where there is none. throttled is the sum of nr_throttled, path the
cgroup. Prints each expression that does not hold and exits with 1.
"""
import os
import sys

ROOT = "/sys/fs/cgroup"
MIB = 1 << 20
INF = float("inf")


def read(path):
    try:
        with open(path) as f:
            return f.read().split()
    except OSError:
        return []


def number(words):
    return INF if not words or words[0] == "max" else int(words[0])


def main():
    with open(f"/proc/{sys.argv[1]}/cgroup") as f:
        path = next(line.strip()[3:] for line in f if line.startswith("0::"))
    v = {"memory": INF, "swap": INF, "pids": INF, "cpus": INF, "throttled": 0, "path": path, "MIB": MIB}
    at = path
    while at != "/":
        d = ROOT + at
        v["memory"] = min(v["memory"], number(read(d + "/memory.max")))
        v["swap"] = min(v["swap"], number(read(d + "/memory.swap.max")))
        v["pids"] = min(v["pids"], number(read(d + "/pids.max")))
        cpu = read(d + "/cpu.max")
        if cpu and cpu[0] != "max":
            v["cpus"] = min(v["cpus"], int(cpu[0]) / int(cpu[1]))
        stat = read(d + "/cpu.stat")
        if "nr_throttled" in stat:
            v["throttled"] += int(stat[stat.index("nr_throttled") + 1])
        at = os.path.dirname(at)
    bad = [e for e in sys.argv[2:] if not eval(e, dict(v))]
    for e in bad:
        print(f"false: {e}")
    if bad:
        print(v)
    return 1 if bad else 0


sys.exit(main())

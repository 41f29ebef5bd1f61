#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""--repeat: the same program N times, how the times are spread, and how the runs ended."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest
from cayterm import Screen

FIGURES = ["min", "p50", "p90", "max", "mean"]


def table(t, mode):
    done = mode.cay("run", "--repeat", "4", "-l", "python", "-e", "print(input())", stdin=b"hello\n")
    t.ok(done.status == 0 and done.out == b"hello\n" * 4, "four runs, each with the whole input", *done.describe())
    lines = [line for line in done.err.decode().splitlines() if not line.startswith("cay: warning")]
    t.equal(lines[0], "cay: 4 runs: 4 ok", "how they ended", *lines)
    t.equal(lines[1].split()[1:], FIGURES, "the columns", *lines)
    t.equal([line.split()[1] for line in lines[2:]], ["setup", "run", "total"], "the rows", *lines)
    for line in lines[2:]:
        times = [float(n) * (1 if unit == "s" else 0.001) for n, unit in re.findall(r"([0-9.]+) (ms|s)", line)]
        t.ok(len(times) == 5 and times == sorted(times[:4]) + times[4:] and times[0] <= times[4] <= times[3], "in order: " + line.split()[1], line)
    done = mode.cay("run", "--repeat", "6", "-l", "bash", "-e", "exit $((RANDOM % 2 + 3))")
    t.ok(done.status in (3, 4) and re.search(rb"6 runs: ([1-6] exit [34](, )?)+\n", done.err), "the first status that is not 0", *done.describe())
    done = mode.cay("exec", "--repeat", "2", "--", "/bin/echo", "x")
    t.ok(done.status == 0 and done.out == b"x\nx\n" and b"2 runs: 2 ok" in done.err, "cay exec has it too", *done.describe())


def as_json(t, mode):
    done = mode.cay("run", "--repeat", "5", "--json", "-l", "python", "-e", "import sys; print(1); sys.exit(2)")
    said = json.loads(done.out)
    t.equal(sorted(said), ["exit_code", "results", "runs", "timing", "verdicts"], "one object")
    t.equal((said["runs"], said["exit_code"], said["verdicts"], done.status), (5, 2, {"exit 2": 5}, 2), "what it says", done.out[:300])
    t.equal([r["stdout"] for r in said["results"]], ["1\n"] * 5, "with each result")
    t.equal(len({r["id"] for r in said["results"]}), 5, "each a run of its own")
    for name in ("setup", "run", "total"):
        row = said["timing"][name]
        t.ok(list(row) == FIGURES and row["min"] <= row["p50"] <= row["p90"] <= row["max"], f"timing.{name}", row)
    t.ok(said["timing"]["run"]["min"] in [r["meta"]["timing"]["run"] for r in said["results"]], "times that were measured", said["timing"])


def ends(t, mode):
    with Screen(mode, "run", "--repeat", "1000", "-l", "python", "-e", "import time; print('ready', flush=True); time.sleep(600)") as at:
        t.ok(at.wait_for(b"ready"), "a long one", at.seen)
        at.type(b"\x03")
        t.equal(at.wait(), 130, "Ctrl-C ends all of it", at.seen)
        t.ok(b"1 run: 1 cancelled" in at.seen, "and is told", at.seen)
    done = mode.cay("run", "--repeat", "3", "--timeout", "0.3", "-l", "python", "-e", "import time; time.sleep(600)")
    t.ok(done.status == 124 and b"3 runs: 3 wall_timeout" in done.err, "limits hold in each", *done.describe())
    done = mode.cay("exec", "--repeat", "3", "--", "no-such-command-here")
    t.ok(done.status == 127 and done.err.count(b"not found") == 1, "what can't be run is tried once", *done.describe())
    for value in ("0", "-1", "x", "1.5", "100001", ""):
        done = mode.cay("run", "--repeat", value, "-l", "python", "-e", "1")
        t.ok(done.status == 2 and b"--repeat" in done.err and b"1 to 100000" in done.err, f"--repeat {value!r}: refused", *done.describe())
    done = mode.cay("run", "--repeat", "2", "--events", "-l", "python", "-e", "1")
    t.equal(done.status, 2, "--events: refused", *done.describe())


def progress(t, mode):
    """What takes long says so on a terminal, and takes it off again."""
    with Screen(mode, "run", "--json", "--stdin", "", "-l", "python", "-e", "import time; time.sleep(6)") as at:
        t.ok(at.wait_for("\r\x1b[K\x1b[36m\u275a\x1b[0m cay: running \u2026 ".encode()), "a run that takes long", at.seen)
        t.equal(at.wait(), 0, "ends", at.seen)
        t.ok(b'\r\x1b[K{"id"' in at.seen, "the line is off before the result", at.seen[:300])
    with Screen(mode, "run", "-l", "python", "-e", "import time; print('here', flush=True); time.sleep(2.5); print('end')") as at:
        at.wait()
        t.ok(b"running" not in at.seen, "none beside what a program prints", at.seen)
    done = mode.cay("run", "--json", "-l", "python", "-e", "import time; time.sleep(2)")
    t.ok(b"running" not in done.err, "none without a terminal", *done.describe())


def test(t, mode):
    host = mode.host()
    table(t, mode)
    as_json(t, mode)
    ends(t, mode)
    progress(t, mode)
    t.empty(host.settle(), "nothing is left")


caytest.main(test, modes=("root", "user"))

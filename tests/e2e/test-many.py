#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Many runs at once through the library: examples/many.c, whose every answer must be right."""
import os
import sys
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

MANY = Path(os.environ.get("CAY_BUILD") or caytest.CAY.parent) / "examples" / "many"


def want(n):
    if n % 5 == 0:
        return ["cancelled", "143"]
    return ["exit" if n % 3 else "ok", str(n % 3), str(n * n)]


def check(t, done, count, name):
    lines = {int(line.split()[0]): line.split()[1:] for line in done.out.decode().splitlines()}
    t.ok(done.status == 0 and done.err == b"", f"{name}: exit status 0", *done.describe())
    t.equal(sorted(lines), list(range(1, count + 1)), f"{name}: an answer for each")
    t.empty([(n, words) for n, words in lines.items() if words[1:] != want(n)], f"{name}: and each is right")
    t.equal(len({words[0] for words in lines.values()}), count, f"{name}: no id twice")


def test(t, mode):
    if not MANY.exists():
        t.skip("many", "there is no examples/many in this build", "many")
        return
    if mode.uid is not None and mode.command("test", "-x", MANY).status != 0:
        t.skip("many", "this user can't reach the build folder", "many")
        return
    host = mode.host()
    check(t, mode.command(MANY, mode.binary), 50, "fifty at once")
    t.empty(host.settle(), "fifty at once: nothing is left")
    if mode.uid is None:
        # Pipes of so many runs are more than 256 open files: the limit is raised as far as it may be, and the
        # programs do not see it.
        soft = f"ulimit -Sn 256; exec {MANY} {mode.binary} 200"
        check(t, mode.command("sh", "-c", soft, timeout=120), 200, "two hundred at once")
        inside = mode.json("exec", "--open-files", "77", "--", "sh", "-c", "ulimit -Sn; ulimit -Hn")
        t.result(inside, "open files of a program", cause="ok", stdout="77\n77\n")
        t.empty(host.settle(), "two hundred at once: nothing is left")


caytest.main(test, modes=("root", "user"))

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The C example of the library: linked as its users would link it, it does what its comment says."""
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest
from cayresult import schema_problems

EMBED = Path(os.environ.get("CAY_BUILD") or caytest.CAY.parent) / "examples" / "embed"


def test(t, mode):
    if not EMBED.exists():
        t.skip("embed", "there is no examples/embed in this build", "embed")
        return
    if mode.uid is not None and mode.command("test", "-x", EMBED).status != 0:
        t.skip("embed", "this user can't reach the build folder", "embed")
        return
    mode.python("print(1)")  # the version of Python is asked for once, and kept
    host = mode.host()
    done = mode.command(EMBED, mode.binary)
    text = done.out.decode()
    t.ok(done.status == 0 and done.err == b"", "embed: exit status 0", *done.describe())
    events = [line.split()[2] for line in text.split("\nverdict:")[0].splitlines() if " s  " in line]
    t.ok(events[:3] == ["started", "stage", "stdout"] and "usage" in events and events[-1] == "finished", "embed: the events in order", text)
    t.ok("hello 1" in text and "hello 2" in text, "embed: the program's output, while it ran", text)
    t.ok("\nverdict: wall_timeout, exit code 124\n" in text, "embed: the verdict", text)
    result = json.loads(text.strip().splitlines()[-1])
    t.empty(schema_problems(result), "embed: the result as JSON is the contract's")
    t.equal((result["exit_code"], result["timeout"], result["language"], result["meta"]["resource_limits"]["memory"]),
            (124, True, "python", 64 << 20), "embed: with its own limits")
    t.ok(result["stdout"].startswith("hello 1\nhello 2\n"), "embed: and what was printed", result["stdout"])
    t.empty(host.settle(), "embed: nothing is left")
    done = mode.command(EMBED, "/no/such/helper")
    t.ok(done.status == 125 and b"/no/such/helper" in done.err and b"hint: " in done.err and b"stdout" not in done.out and b"finished" in done.out,
         "embed: without the command that it needs it says so", *done.describe())
    done = mode.command(EMBED, env={"CAY_HELPER": str(mode.binary)})
    t.ok(done.status == 0 and b"verdict: wall_timeout" in done.out, "embed: the helper by a variable", *done.describe())


caytest.main(test, modes=("root", "user"))

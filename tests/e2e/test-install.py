#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`make install`: what goes where, what it says, and what it says where it may not write."""
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

SOURCE, BUILD = Path(os.environ["CAY_SOURCE"]), Path(os.environ["CAY_BUILD"])
COMMANDS = re.findall(r"^    (?:CMD|FULL)\((\w+),", (SOURCE / "src/cli/commands.h").read_text(), re.M)


def test(t, mode):
    if os.environ.get("CAY_SANITIZED"):
        t.skip("install", "sanitizers: what is installed is not built with them")
        return
    tool = SOURCE / "tools/install.sh"
    if mode.uid is not None:
        done = mode.command(tool, BUILD)
        t.ok(done.status == 1 and b"sudo make install" in done.err and b"PREFIX=" in done.err and b"Traceback" not in done.err,
             "without the right to write: what to do, in words", *done.describe())
        return
    root = mode.cwd / "root"
    done = mode.command(tool, BUILD, root)
    t.ok(done.status == 0 and b"cay doctor" in done.out and str(root).encode() in done.out, "says what went where, and what next", *done.describe())
    prefix = root / "usr/local"
    names = {path.name for path in prefix.rglob("*")}
    for name in ("cay", "cay-full", "libcay.so", "cay.pc", "run.h", "cay.toml.5", "cay.service", "cay-user.service"):
        t.ok(name in names, f"{name} is there")
    for name in COMMANDS:
        t.ok(f"cay-{name}.1" in names, f"a man page for {name}")
    for unit in ("cay.service", "cay-user.service"):
        text = (prefix / "share/cay" / unit).read_text()
        t.ok("ExecStart=/usr/local/bin/cay serve" in text and "@" not in text, f"{unit} starts what was installed", text)
    done = mode.command(prefix / "bin/cay", "version")
    t.ok(done.status == 0 and done.out.startswith(b"cay "), "and it runs", *done.describe())


caytest.main(test, modes=("root", "user"))

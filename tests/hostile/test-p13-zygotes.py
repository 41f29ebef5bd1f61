#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs that begin in an interpreter which was started ahead: each behaves as one that was started for it alone, byte
for byte; two of one zygote share nothing but address layout and hash seed; and the wall around them is the same.

One process (tests/lib/ahead.c) runs everything, so that all runs of a language come from the same zygote. A request
with `strict` is started afresh: that is what the others are compared with."""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

AHEAD = Path(os.environ.get("CAY_BUILD") or caytest.CAY.parent) / "tests" / "ahead"
EVERYDAY = caytest.ROOT / "tests" / "e2e" / "programs"
ENDINGS = caytest.PROGRAMS / "endings"
ONLY = list(filter(None, os.environ.get("CAY_TEST_PROGRAMS", "").split(",")))
LANGUAGES = ("python", "ruby", "javascript")
# Nothing of the first has to do with how a run begins; the last looks at its /proc/self/cmdline, which is the zygote's.
LEFT_OUT = ("big data", "large output", "devices and proc")


class Ahead:
    """The process that keeps sandboxes ahead; ends with the block."""

    def __init__(self, mode, program=AHEAD):
        env = {**mode.env, "CAY_WARM": ",".join(LANGUAGES), "CAY_SPARES": "1", "CAY_SPARES_MAX": "2"}
        self.proc = subprocess.Popen(
            [program, mode.binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=mode.cwd,
            **({} if mode.uid is None else {"user": mode.uid, "group": mode.uid, "extra_groups": []}))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proc.stdin.close()
        self.proc.wait(30)
        self.proc.stdout.close()

    def say(self, line):
        self.proc.stdin.write(line.encode() + b"\n")
        self.proc.stdin.flush()

    def run(self, language, code, **more):
        """The result of one run; it finds a spare unless it is strict."""
        if not more.get("strict"):
            self.say(f"wait {language}")
        self.say(json.dumps({"language": language, "code": code, **more}))
        return json.loads(self.proc.stdout.readline())


def programs(language):
    for file in (EVERYDAY / f"{language}.txt", ENDINGS / f"{language}.txt"):
        for part in file.read_text().split("=== ")[1:]:
            name, _, code = part.partition("\n")
            if name not in LEFT_OUT and (not ONLY or language in ONLY or f"{language}/{name}" in ONLY):
                yield name, code


def shown(r):
    """What a user sees of a run; numbers that differ from process to process are no difference."""
    text = [re.sub(r"0x[0-9a-f]{6,}|(?<=started )\d+", "N", r[k]) for k in ("stdout", "stderr")]
    return text, r["exit_code"], r["signal"], r["verdict"]["cause"]


def same(t, ahead, language):
    """Each program twice: in an interpreter made ahead, and in one of its own."""
    for name, code in programs(language):
        more = {"args": ["one", "two words", "ü"], "stdin": "first\nsecond\n", "env": {"GREETING": "hallo"}}
        warm = ahead.run(language, code, **more)
        cold = ahead.run(language, code, strict=True, **more)
        t.equal(shown(warm), shown(cold), f"{language}: {name}")
        if (warm["meta"]["start"], cold["meta"]["start"]) != ("warm", "cold"):
            t.ok(False, f"{language}: {name}: one is warm, one cold", warm["meta"]["start"], cold["meta"]["start"])


TOUCH = """
import os
for change in (lambda: os.chmod("/proc/self/exe", 0o6777), lambda: os.utime("/proc/self/exe", (1, 1))):
    try:
        print("done", change())
    except OSError as e:
        print(e.strerror)
"""


def own_files(t, mode):
    """A user's own build: his programs are his uid, and no zygote's file is within their reach."""
    folder = caytest.workdir() / "own"
    folder.mkdir()
    for file in (AHEAD, caytest.CAY, *(caytest.CAY.parent / name for name in ("cay-full", "cay-zygote-python"))):
        shutil.copy2(file, folder)
    for path in (folder, *folder.iterdir()):
        os.chown(path, mode.uid, mode.uid)
    mode.binary = folder / "cay"
    with Ahead(mode, folder / "ahead") as ahead:
        r = ahead.run("python", TOUCH)
    t.ok(r["stdout"] and "done" not in r["stdout"], "a program can't change the file that it runs", r["meta"]["start"], r["stdout"])
    st = (folder / "cay-zygote-python").stat()
    t.equal((st.st_mode & 0o7777, st.st_mtime > 1), (0o755, True), "and has not")


def test(t, mode):
    if mode.name == "deleg":
        return own_files(t, mode)
    with Ahead(mode) as ahead:
        for language in LANGUAGES:
            same(t, ahead, language)


caytest.main(test, modes=("root", "deleg"))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up the TAP points of test runs.

tap-total.py FOLDER reads FOLDER/*.json (meson's testlog.json) and FOLDER/*.broken (the output of
something that failed before there was any test), prints what was skipped and why, what failed
with all of its output, and "N passed, N failed, N skipped". Exit status 1 if anything failed.

A test program fails, besides by "not ok", by printing no plan or more than one, by a plan that
is not kept, by its exit status, by a time limit, and by a sanitizer's report on stderr. Tests of the suite "check" are no TAP: their
exit status is their one point.
"""

import json
import os
import pathlib
import re
import sys

POINT = re.compile(r"(not )?ok\b *(\d*) *-? *(.*?)(?: *(?<!\\)# *(?i:SKIP)\S* *(.*))?$")
REPORT = re.compile(r": runtime error: |ERROR: \w+Sanitizer")
PLAN = re.compile(r"1\.\.(\d+) *(?:# *(?i:SKIP)\S* *(.*))?$")


class Total:
    def __init__(self, require):
        self.require = require
        self.passed = 0
        self.skipped = []  # (name, reason)
        self.failed = []  # (name, why)
        self.output = []  # (name, text) of programs with a failure

    def skip(self, name, reason):
        if re.split(r"[^\w-]", reason, 1)[0] in self.require:
            self.failed.append((name, f"skipped, but required: {reason}"))
        else:
            self.skipped.append((name, reason))

    def add_tap(self, program, text):
        """Counts the points of one program."""
        plans, seen, comment = [], 0, ""
        for line in text.splitlines():
            plan, point = PLAN.match(line), POINT.match(line)
            if plan:
                plans.append(int(plan[1]))
                if plan[1] == "0":
                    self.skip(program, plan[2] or "no reason given")
            elif point:
                seen += 1
                if point[4] is not None:
                    # cmocka has the name where the reason belongs, and no reason: the comment
                    # before it is the nearest to one.
                    name, reason = (point[3], point[4]) if point[3] else (point[4], comment)
                    self.skip(f"{program}: {name}", reason or "no reason given")
                elif point[1]:
                    self.failed.append((f"{program}: {point[3] or point[2]}", "not ok"))
                else:
                    self.passed += 1
            elif line.startswith("Bail out!"):
                self.failed.append((program, line))
            comment = line[1:].strip() if line.startswith("#") else ""
        if len(plans) != 1:
            self.failed.append((program, f"{len(plans)} plans (1..N) instead of one"))
        elif plans[0] != seen:
            self.failed.append((program, f"{seen} of {plans[0]} tests reported"))

    def add_program(self, where, test):
        program = f"{where}: {test['name'].removeprefix('cay:')}"
        before = len(self.failed)
        text, stderr = test.get("stdout") or "", test.get("stderr") or ""
        status = test.get("returncode") or 0
        if re.search(r"(^|:|\+)check / ", test["name"]):
            if status == 77:
                lines = text.strip().splitlines()
                self.skip(program, lines[-1] if lines else "no reason given")
            elif status == 0 and test["result"] == "OK":
                self.passed += 1
        else:
            self.add_tap(program, text)
        if test["result"] in ("TIMEOUT", "INTERRUPT"):
            self.failed.append((program, f"{test['result'].lower()} after {test['duration']:.0f} s"))
        elif status not in (0, 77) and len(self.failed) == before:
            self.failed.append((program, f"ended with status {status}"))
        if REPORT.search(stderr):
            self.failed.append((program, "a sanitizer's report"))
        if len(self.failed) > before:
            self.output.append((program, text + stderr))


def main():
    require = {name for name in os.environ.get("CAY_TEST_REQUIRE", "").split(",") if name}
    total = Total(require)
    for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        if path.suffix == ".json":
            for line in path.read_text(errors="replace").splitlines():
                total.add_program(path.stem.rpartition("-")[0], json.loads(line))
        elif path.suffix == ".broken":
            total.failed.append((path.stem, "broken"))
            total.output.append((path.stem, path.read_text(errors="replace")))

    if total.skipped:
        print("\n== skipped")
    for name, reason in total.skipped:
        print(f"{name} # SKIP {reason}")
    for name, text in total.output:
        print(f"\n== output of {name}\n{text.rstrip()}")
    if total.failed:
        print("\n== failed")
    for name, why in total.failed:
        print(f"{name}: {why}")
    if not (total.passed or total.failed):
        total.failed.append(("all", "nothing was tested"))
        print("\nnothing was tested")
    print(f"\n{total.passed} passed, {len(total.failed)} failed, {len(total.skipped)} skipped")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coverage.py BUILDDIR [SUITE...]: the lines of src/ that tests reach.

Runs the suites (unit, fuzz, e2e and hostile if none is named) of a coverage build and prints the share
of lines that ran: of each folder, of the folders without privilege, and of all. Fails below the targets,
and when a test fails. Each line: BUILDDIR/coverage/.

CAY_COVERAGE_KEEP=1 adds to what was counted before. tools/coverage.c says how processes in sandboxes are counted.
"""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys

SUITES = ("unit", "fuzz", "e2e", "hostile")
# Parsers, decisions, formats: what needs neither a sandbox nor root to be tested to its last line.
PURE = ("base", "core", "explain", "net", "policy", "syntax", "workspace")
TARGET_PURE, TARGET_ALL = 95.0, 89.0


def run_tests(build, suites):
    """Unoptimised and beside each other some take longer: twice the time limit."""
    words = [word for suite in suites for word in ("--suite", suite)]
    return subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--num-processes", str(os.cpu_count() + 1),
                           "-t", "2", "--print-errorlogs", *words]).returncode == 0


def dump(build):
    """Every program that has counted writes .gcda files, each adding to what others wrote for the same source."""
    for old in build.rglob("*.gcda"):
        old.unlink()
    counted = {path.name for path in (build / "counters").iterdir()}
    for path in sorted(build.rglob("*")):
        if not path.is_file() or path.is_symlink() or not os.access(path, os.X_OK) or path.suffix == ".exe":
            continue
        notes = subprocess.run(["readelf", "-n", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        found = re.search(r"Build ID: (\w+)", notes.stdout)
        if not found or found[1] not in counted:
            continue
        env = {**os.environ, "CAY_COVERAGE_DUMP": "1"}
        command = [path.resolve()]
        if path.suffix == ".node":
            command = ["node", "-e", f"require('{path.resolve()}')"]
        elif ".so" in path.name:
            command, env["LD_PRELOAD"] = ["/bin/true"], str(path.resolve())
        if subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode != 0:
            sys.exit(f"coverage: {path} did not write down what it counted")


def measure(build):
    """{file: {line: times}} of src/, summed over the programs that the file is in."""
    files = collections.defaultdict(collections.Counter)
    data = sorted(path.resolve() for path in build.rglob("*.gcno"))  # those that nobody ran too
    for start in range(0, len(data), 100):
        done = subprocess.run(["gcov", "--json-format", "--stdout", *data[start:start + 100]], cwd=build, check=True,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for report in done.stdout.splitlines():
            for file in json.loads(report)["files"]:
                name = os.path.relpath(os.path.join(build, file["file"]))
                if name.startswith("src/"):
                    for line in file["lines"]:
                        files[name][line["line_number"]] += line["count"]
    return files


def write_listing(build, name, lines):
    """The source, with how often each line ran before it, and ##### where it never did."""
    target = build / "coverage" / f"{name.replace('/', '-')}.txt"
    with target.open("w") as out:
        for number, text in enumerate(pathlib.Path(name).read_text().splitlines(), 1):
            times = (lines[number] or "#####") if number in lines else ""
            print(f"{times:>9} {number:4} {text}", file=out)


def main():
    build = pathlib.Path(sys.argv[1])
    if not os.environ.get("CAY_COVERAGE_KEEP"):
        for old in (build / "counters").iterdir():
            old.unlink()
    passed = run_tests(build, sys.argv[2:] or SUITES)
    dump(build)

    (build / "coverage").mkdir(exist_ok=True)
    folders = collections.defaultdict(lambda: [0, 0])  # lines reached, lines
    for name, lines in sorted(measure(build).items()):
        write_listing(build, name, lines)
        folder = re.match(r"src/((?:(?:backends|doors)/)?[^/]+)", name)[1]
        for row in (folder, "pure" if folder in PURE else None, "all"):
            if row:
                folders[row][0] += sum(times > 0 for times in lines.values())
                folders[row][1] += len(lines)
    share = {row: 100 * reached / lines for row, (reached, lines) in folders.items()}
    for row in sorted(share, key=lambda row: (row in ("pure", "all"), row)):
        print(f"{row:20} {share[row]:5.1f} %  {folders[row][0]:6} of {folders[row][1]} lines")
    print(f"(pure: {', '.join(PURE)}; each line: {build}/coverage/)")
    return 0 if passed and share["pure"] >= TARGET_PURE and share["all"] >= TARGET_ALL else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cay check --types`: what mypy and tsc say of code is in the report, beside the rules' own findings; both run in a sandbox,
whatever the configuration would let pass; where none is installed, the package that has one is named."""
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

PATIENCE = {"CAY_COMPILE_TIMEOUT": "250"}  # a checker takes seconds, and others are at work
PYTHON = 'import nope\ndef f(x: int) -> str:\n    return x + 1\nprint(f("ä"))\n'
TYPESCRIPT = ('import * as fs from "fs";\nconst name: number = "a";\nconst list = await Promise.resolve([1]);\n'
              'console.log(name, list, fs);\n')


def check(mode, *args, env=None, **options):
    done = mode.cay("check", "--json", *args, env={**PATIENCE, **(env or {})}, timeout=280, **options)
    try:
        return done, json.loads(done.out)
    except ValueError:
        return done, {}


def found(report):
    return [(f["rule"], f["severity"], f["line"], f["column"]) for f in report.get("findings", []) if f["rule"].startswith("types/")]


def runs(mode):
    return json.loads(mode.cay("history", "--json").out)


def test_python(t, mode):
    if not shutil.which("mypy"):
        t.skip("Python", "there is no mypy", "mypy")
        return
    before = len(runs(mode))
    done, report = check(mode, "-l", "python", "-e", PYTHON)
    t.equal((found(report), "type_checker" in report, len(runs(mode))), ([], False, before), "unless asked for, nothing is run")
    done, report = check(mode, "--types", "-l", "python", "-e", PYTHON)
    t.equal(found(report), [("types/return-value", "block", 3, 12), ("types/arg-type", "block", 4, 9)], "Python: two errors",
            *done.describe())
    first = next((f for f in report["findings"] if f["line"] == 3), {})
    t.equal((first.get("code"), "expected \"str\"" in first.get("message", ""), first.get("remedy")), ("return x + 1", True, ""),
            "with the line of code and what is wrong")
    t.equal((report["safe"], report["type_checker"], report["language"], done.status), (False, "mypy", "python", 126), "which is not safe")
    t.equal(sorted(report["findings"][0]), sorted(("rule", "severity", "line", "column", "code", "message", "remedy", "ordinary")),
            "in the form of every other finding")
    row = runs(mode)[0]
    t.equal((len(runs(mode)), row["backend"], row["tier"], row["language"]), (before + 1, "native", "kernel", None), "it ran in a sandbox", row)
    done, report = check(mode, "--types", "-l", "python", "-e", "x: int = 1\nprint(x)\n")
    t.equal((found(report), report.get("safe"), done.status), ([], True, 0), "right types: nothing", *done.describe())
    path = mode.cwd / "both.py"
    path.write_text("y: int = ''\nimport os\nos.system('id')\nz: int = ''\n")
    done, report = check(mode, "--types", path.name)
    lines = [f["line"] for f in report["findings"]]
    kinds = {f["rule"].startswith("types/") for f in report["findings"]}
    t.ok(lines == sorted(lines) and kinds == {True, False}, "beside what the rules find, in the order of the code", *done.describe())
    page = mode.cay("check", "--types", path.name, env=PATIENCE, timeout=280)
    t.ok(b"both.py:1:10: block: Incompatible types" in page.out and b"[types/assignment]" in page.out, "in words", *page.describe())
    fenced = "```python\n" + PYTHON + "```\n"
    done, report = check(mode, "--types", "--strip-fence", "-", stdin=fenced)
    t.equal((found(report), [f["code"] for f in report.get("findings", []) if f["rule"] == "types/return-value"], report.get("language")),
            ([("types/return-value", "block", 3, 12), ("types/arg-type", "block", 4, 9)], ["return x + 1"], "python"),
            "a fence is off for both", *done.describe())
    done, report = check(mode, "--types", "-l", "python", "-", stdin=fenced)
    t.equal([rule for rule, *_ in found(report)], ["types/syntax"], "if that was asked for", *done.describe())
    done, report = check(mode, "--types", "-l", "python", "-", stdin="def (:\n")
    t.equal([rule for rule, *_ in found(report)], ["types/syntax"], "code that does not parse", *done.describe())


def test_confined(t, mode):
    """A configuration that lets runs go without isolation is none for this."""
    if not shutil.which("mypy"):
        t.skip("isolation", "there is no mypy", "mypy")
        return
    for env in ({"CAY_BACKEND": "process", "CAY_MIN_ISOLATION": "none", "CAY_FALLBACK": "unsafe"}, {"CAY_POLICY": "block", "CAY_NETWORK": "full"}):
        done, report = check(mode, "--types", "-l", "python", "-e", "x: int = ''", env=env)
        row = runs(mode)[0]
        t.equal((len(found(report)), row["backend"], row["tier"]), (1, "native", "kernel"), f"in a sandbox with {' '.join(env)}", *done.describe())
    done, report = check(mode, "--types", "-l", "python", "-e", "x: int = ''", env={"CAY_COMPILE_MEMORY": "8m"})
    t.ok(done.status == 125 and b"mypy: " in done.err and b"cay show" in done.err, "a checker that fails: no report, but why", *done.describe())


def test_typescript(t, mode):
    if not shutil.which("tsc"):
        t.skip("TypeScript", "there is no tsc", "node-typescript")
        return
    done, report = check(mode, "--types", "-l", "ts", "-e", TYPESCRIPT)
    t.equal([row for row in found(report) if row[1] == "block"], [("types/TS2322", "block", 2, 7)], "TypeScript: one error", *done.describe())
    t.equal([(line, severity) for _, severity, line, _ in found(report) if line == 1], [(1, "info")],
            "a module whose types are not here is no error", *done.describe())
    t.equal((report.get("safe"), report.get("type_checker"), done.status), (False, "tsc", 126), "which is not safe")
    done, report = check(mode, "--types", "-l", "ts", "-e", "const list: number[] = await Promise.resolve([1]);\nconsole.log(list);\n")
    t.equal((found(report), done.status), ([], 0), "right types: nothing", *done.describe())


def test_missing(t, mode):
    done = mode.cay("check", "--types", "-l", "bash", "-e", "echo hi")
    t.ok(done.status == 2 and b"no type checker exists for this language" in done.err, "a language without types", *done.describe())
    if not mode.is_root:
        return
    for language, program, package in (("python", "mypy", b"apt-get install mypy"), ("ts", "tsc", b"apt-get install node-typescript")):
        path = shutil.which(program)
        hide = f"mount --bind /dev/null {path} && " if path else ""
        done = mode.command("unshare", "--mount", "sh", "-c", hide + 'exec "$@"', "sh", mode.binary, "check", "--types", "-l", language, "-e", "1")
        t.ok(done.status == 127 and b"no type checker is installed (" + program.encode() in done.err and package in done.err,
             f"without {program}: the package that has it", *done.describe())


def test_user(t, mode):
    """What a user's sandbox may make of it: each checker, once."""
    jobs = [("python", "mypy", PYTHON, "types/return-value"), ("ts", "tsc", TYPESCRIPT, "types/TS2322")]
    jobs = [job for job in jobs if shutil.which(job[1])]
    seen = caytest.together([lambda job=job: check(mode, "--types", "-l", job[0], "-e", job[2]) for job in jobs])
    for (_, checker, _, rule), (done, report) in zip(jobs, seen):
        t.equal((rule in [row[0] for row in found(report)], report.get("type_checker"), done.status), (True, checker, 126),
                f"{checker}, as a user", *done.describe())


def test(t, mode):
    if mode.is_root:
        test_python(t, mode)
        test_confined(t, mode)
        test_typescript(t, mode)
    else:
        test_user(t, mode)
    test_missing(t, mode)


# A checker takes seconds to start.
caytest.main(test, modes=("root", "user"))

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cay languages`, each language's hello, and what is said where a runtime is missing. A new folder under languages/ is
tested here without an edit."""
import json
import os
import sys
import tomllib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

FOLDER = caytest.ROOT / "languages"


def described():
    return {p.parent.name: tomllib.loads(p.read_text()) for p in sorted(FOLDER.glob("*/language.toml"))}


def listing(t, mode):
    done = mode.cay("languages", "--json")
    t.equal((done.status, done.err), (0, b""), "languages --json", *done.describe())
    rows = json.loads(done.out)
    want = described()
    t.equal([r["name"] for r in rows], sorted(want), "languages: one row for each folder, in order")
    table = mode.cay("languages").out.decode()
    for r in rows:
        about = want[r["name"]]
        t.ok((r["title"], r["aliases"], r["extensions"], r["packages"]) ==
             (about["title"], about.get("aliases", []), about["extensions"], about["packages"]) and
             r["compiled"] == bool(about.get("compile")), f"languages: {r['name']} as its folder says", r)
        line = next((x for x in table.splitlines() if x.startswith(r["name"] + " ")), "")
        if r["path"]:
            t.ok(os.access(r["path"], os.X_OK) and r["path"] in line and r["version"] and r["version"] in line,
                 f"languages: {r['name']} has its path and version", r, line)
        else:
            t.ok("apt-get install " + " ".join(r["packages"]) in line, f"languages: {r['name']} says what to install", line)
    # What a run says is what the list says.
    python = next(r for r in rows if r["name"] == "python")
    r = mode.python("import platform; print(platform.python_version())")
    t.result(r, "languages: the version is the true one", python["version"] + "\n", meta__language_version=python["version"])
    return {r["name"]: r for r in rows}


def hellos(t, mode, rows):
    for name, about in described().items():
        source = next((FOLDER / name).glob("hello" + about["extensions"][0]), None)
        want = FOLDER / name / "hello.out"
        if not t.ok(source and want.exists(), f"{name}: its folder has hello{about['extensions'][0]} and hello.out"):
            continue
        if not rows[name]["path"]:
            t.skip(f"{name}: hello", f"{name} is not installed: {' '.join(about['packages'])}", name)
            continue
        readable = mode.cwd / source.name
        readable.write_bytes(source.read_bytes())
        done = mode.cay("run", readable.name)
        t.equal((done.status, done.out, done.err), (0, want.read_bytes(), b""), f"{name}: hello is as in hello.out", *done.describe())
        r = mode.json("run", "--rows", "list", readable.name, "--", "Ada")
        t.result(r, f"{name}: hello with an argument", want.read_text().replace("world", "Ada"), cause="ok", language=name,
                 meta__language_version=rows[name]["version"])
        for alias in about.get("aliases", []):
            plan = mode.cay("run", "--plan", "-l", alias, readable.name)
            t.equal(json.loads(plan.out or b"{}").get("language"), name, f"{name}: by its alias {alias}", *plan.describe())
        if not mode.is_root:
            continue
        r = mode.json("run", "--rows", "list", "-l", name, "-", stdin=source.read_bytes())
        t.result(r, f"{name}: from stdin", want.read_text(), cause="ok", language=name)


def missing(t, mode):
    """Without Python: its real file is covered by one that can't be run, in a mount namespace around cay alone."""
    if not mode.is_root:
        return
    real = os.path.realpath("/usr/bin/python3")
    hide = f'mount --bind /dev/null {real} && exec "$@"'

    def without(*args):
        return mode.command("/usr/bin/unshare", "--mount", "/bin/sh", "-c", hide, "sh", mode.binary, *args)

    done = without("run", "-l", "python", "-e", "print('RAN')")
    t.ok(done.status == 127 and done.out == b"" and b"Python" in done.err and b"python3" in done.err and b"apt-get install python3" in done.err,
         "a missing runtime: 127, and what to install", *done.describe())
    r = caytest.Result(without("run", "--json", "-l", "python", "-e", "print('RAN')"))
    t.result(r, "a missing runtime: the result says so", "", exit_code=127, cause="infrastructure", success=False)
    t.ok("apt-get install python3" in (r.get("verdict.remedy") or ""), "a missing runtime: with the remedy", *r.describe())
    done = without("languages")
    line = next((x for x in done.out.decode().splitlines() if x.startswith("python ")), "")
    t.ok("missing: apt-get install python3" in line, "a missing runtime: the list says so", *done.describe())
    done = without("run", "-l", "bash", "-e", "echo fine")
    t.equal((done.status, done.out), (0, b"fine\n"), "a missing runtime: the others run", *done.describe())


def path_is_not_asked(t, mode):
    """A runtime is never taken from the caller's PATH."""
    folder = mode.cwd / "bin"
    folder.mkdir(exist_ok=True)
    fake = folder / "python3"
    fake.write_text("#!/bin/sh\necho FAKE\n")
    fake.chmod(0o755)
    r = mode.python("print('true')", env={"PATH": f"{folder}:/usr/bin:/bin"})
    t.result(r, "PATH is not asked for runtimes", "true\n", cause="ok")
    rows = json.loads(mode.cay("languages", "--json", env={"PATH": f"{folder}:/usr/bin:/bin"}).out)
    t.ok(str(folder) not in json.dumps(rows), "nor by the list")


def test(t, mode):
    rows = listing(t, mode)
    hellos(t, mode, rows)
    missing(t, mode)
    path_is_not_asked(t, mode)


# The runtimes are the same ones under the sanitizers: there it is about cay, and one mode will do.
caytest.main(test, modes=("root",) if caytest.SANITIZED else ("root", "user"))

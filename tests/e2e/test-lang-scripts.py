#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Interpreted languages: programs behave inside as outside, TypeScript keeps its lines, SQL has its three forms, Node
sizes itself to the memory limit, and versions can be picked.

programs/LANGUAGE.txt holds the programs, each under a line `=== NAME`. Each is run bare, as the same user in an empty
folder of its own, and in a sandbox; output and exit status have to be the same. CAY_TEST_PROGRAMS=lua,bash takes only
those; CAY_TEST_PROGRAMS=lua/coroutines only one."""
import json
import os
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

FOLDER = Path(__file__).resolve().parent / "programs"
LIMITS = ("--cpus", "2", "--memory", "1g", "--disk", "512m", "--timeout", "120")
ARGS = ("one", "two words", "ü")
STDIN = b"first\nsecond\n"
BARE_UID = 46999  # an ordinary user, where cay is run by root
ENV = {"TZ": "Europe/Berlin", "GREETING": "hallo"}

# How each is run without cay: what a user would type.
BARE = {
    "python": ["python3", "main.py"],
    "javascript": ["node", "main.js"],
    "bash": ["bash", "main.sh"],
    "zsh": ["zsh", "main.zsh"],
    "ruby": ["ruby", "main.rb"],
    "php": ["php", "main.php"],
    "perl": ["perl", "main.pl"],
    "lua": ["lua", "main.lua"],
    "r": ["Rscript", "main.R"],
    "sql": ["sh", "-c", "exec sqlite3 -batch -bail :memory: <main.sql"],
}

# Around it: pipes that belong to the user, as a sandbox has them, so that /dev/stdin can be opened.
PIPES = ["bash", "-c", 'cat | "$@" | cat; exit ${PIPESTATUS[1]}', "bash"]


def programs(language):
    """(name, code) of each."""
    text = (FOLDER / f"{language}.txt").read_text()
    for part in text.split("=== ")[1:] if text.startswith("=== ") else ():
        name, _, code = part.partition("\n")
        yield name, code


def wanted(language, name):
    only = list(filter(None, os.environ.get("CAY_TEST_PROGRAMS", "").split(",")))
    return not only or language in only or f"{language}/{name}" in only


def bare_typescript(code):
    """Types taken away, nothing else: CommonJS, or an ES module where something is waited for at the top level."""
    is_module = any(line.startswith("import ") for line in code.splitlines()) and "await wait" in code
    name, form = ("main.mjs", "esm") if is_module else ("main.cjs", "cjs")
    return ["sh", "-c", f'esbuild --loader=ts --format={form} --log-level=error <main.ts >{name} && exec node {name} "$@"', "sh"]


def run_bare(mode, language, source, code):
    """In an empty folder that is home too, as in a sandbox."""
    folder = tempfile.mkdtemp(dir=mode.cwd)
    user = BARE_UID if mode.is_root else mode.uid
    if user is not None:
        os.chown(folder, user, user)
    Path(folder, source).write_text(code)
    command = bare_typescript(code) if language == "typescript" else BARE[language]
    env = {**ENV, "HOME": folder, "TMPDIR": "/tmp", "USER": "sandbox", "LOGNAME": "sandbox"}
    done = mode.command(*PIPES, *command, *ARGS, cwd=folder, env=env, user=user, stdin=STDIN, timeout=180)
    shutil.rmtree(folder, ignore_errors=True)
    return done


def same_as_bare(t, mode):
    """An ordinary user's sandbox differs by what has no cgroup: the two that use most of the system will do there."""
    names = sorted(p.stem for p in FOLDER.glob("*.txt"))
    for language in names if mode.is_root or caytest.LONG else ("bash", "python"):
        about = tomllib.loads((caytest.ROOT / "languages" / language / "language.toml").read_text())
        for name, code in programs(language):
            if not wanted(language, name):
                continue
            bare = run_bare(mode, language, about["source"], code)
            env = [word for key, value in ENV.items() for word in ("--env", f"{key}={value}")]
            args = () if language == "sql" else ("--", *ARGS)
            done = mode.cay("run", *LIMITS, *env, "-l", language, "-e", code, *args, stdin=STDIN, timeout=180)
            t.ok((done.status, done.out) == (bare.status, bare.out), f"{language}: {name}, as outside",
                 *difference(bare, done), *bare.describe(), *done.describe())


def difference(bare, done):
    a, b = bare.out.splitlines(), done.out.splitlines()
    return [f"line {n}: bare {x[:300]!r}, inside {y[:300]!r}" for n, (x, y) in enumerate(zip(a, b), 1) if x != y][:5] + \
        [f"{len(a)} lines bare, {len(b)} inside"]


def test(t, mode):
    same_as_bare(t, mode)


caytest.main(test, modes=("root", "user"))

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Interpreted languages: programs behave inside as outside, TypeScript keeps its lines, SQL has its three forms, Node
sizes itself to the memory limit, and versions can be picked.

programs/LANGUAGE.txt holds the programs, each under a line `=== NAME`. Each is run bare, as the same user in an empty
folder of its own, and in a sandbox; output and exit status have to be the same. CAY_TEST_PROGRAMS=lua,bash runs only
those, and nothing else; lua/coroutines is one program."""
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


def run_both(mode, language, name, code):
    about = tomllib.loads((caytest.ROOT / "languages" / language / "language.toml").read_text())
    bare = run_bare(mode, language, about["source"], code)
    env = [word for key, value in ENV.items() for word in ("--env", f"{key}={value}")]
    args = () if language == "sql" else ("--", *ARGS)
    done = mode.cay("run", *LIMITS, *env, "-l", language, "-e", code, *args, stdin=STDIN, timeout=180)
    return language, name, bare, done


def same_as_bare(t, mode):
    """An ordinary user's sandbox differs by what has no cgroup: the two that use most of the system will do there. So they
    will for the sanitizers, which look at cay and not at the programs."""
    names = sorted(p.stem for p in FOLDER.glob("*.txt"))
    if os.environ.get("CAY_SANITIZED") or not (mode.is_root or caytest.LONG):
        names = ["bash", "python"]
    jobs = [lambda x=(language, name, code): run_both(mode, *x)
            for language in names for name, code in programs(language) if wanted(language, name)]
    for language, name, bare, done in caytest.together(jobs, workers=3):
        t.ok((done.status, done.out) == (bare.status, bare.out), f"{language}: {name}, as outside",
             *difference(bare, done), *bare.describe(), *done.describe())


def difference(bare, done):
    a, b = bare.out.splitlines(), done.out.splitlines()
    return [f"line {n}: bare {x[:300]!r}, inside {y[:300]!r}" for n, (x, y) in enumerate(zip(a, b), 1) if x != y][:5] + \
        [f"{len(a)} lines bare, {len(b)} inside"]


# --- TypeScript -----------------------------------------------------------------------------------------------------


def put(mode, name, text):
    (mode.cwd / name).write_text(text)
    return name


def typescript(t, mode):
    for kind, head in (("CommonJS", "const wait = (n: number) => n;"), ("a module", "const wait: number = await Promise.resolve(1);")):
        code = f"interface A {{\n    a: string\n}}\n\n{head}\nfunction fail(x: A): never {{\n    throw new Error('boom ' + x.a)\n}}\n\nfail({{ a: 'x' }})\n"
        r = mode.json("run", "-l", "ts", "-e", code)
        t.result(r, f"typescript, {kind}: an error ends it", "", exit_code=1, cause="exit")
        t.ok("main.ts:7" in r.get("stderr") and "main.ts:10" in r.get("stderr") and "boom x" in r.get("stderr"),
             f"typescript, {kind}: the lines are those of the source", *r.describe())
    r = mode.json("run", "-l", "typescript", "-e", "let x: number = 1;\nlet y = = 2;\n")
    t.result(r, "typescript: malformed code does not compile", "", exit_code=1, cause="compile")
    t.matches(r.get("error_message"), r'^TypeScript syntax error: Unexpected "=" \(main.ts, line 2\)$', "typescript: and is told as such")
    t.ok("main.ts:2:8" in r.get("stderr"), "typescript: with its line", *r.describe())

    files = ["--file", put(mode, "util.ts", "export const twice = (n: number): number => n * 2;\nexport type T = string;\n"),
             "--file", put(mode, "data.json", '{"a": 5}')]
    code = ("import { twice, type T } from './util';\nimport { twice as two } from './util.ts';\nimport data from './data.json';\n"
            "import fs from 'fs';\nimport * as path from 'node:path';\nconst t: T = 'x';\n"
            "console.log(twice(2), two(3), data.a, t, path.basename(__dirname), fs.existsSync('util.ts'), typeof require)\n")
    for kind, tail in (("CommonJS", ""), ("a module", "console.log(await Promise.resolve(7), import.meta.url.startsWith('file:'))\n")):
        r = mode.json("run", *files, "-l", "ts", "-e", code + tail)
        t.result(r, f"typescript, {kind}: several files", "4 6 5 x sandbox true function\n" + ("7 true\n" if tail else ""), cause="ok")
    r = mode.json("run", *files, "-l", "ts", "-e", "import { x } from './nope';\nconsole.log(x)\n")
    t.result(r, "typescript: a file that is not there", "", exit_code=1, cause="compile")


# --- JavaScript -----------------------------------------------------------------------------------------------------


# Little of it is held at once, but for long enough to be no longer new.
GARBAGE = """
let kept = [], n = 0
for (let i = 0; i < 40000; i++, n++)
    kept[i % 200] = new Array(6500).fill(i)
console.log(n)
"""


def javascript(t, mode):
    module = "import fs from 'fs';\nconsole.log(typeof fs.statSync, await 5)\n"
    for name in ("x.mjs", "x.js"):
        r = mode.json("run", put(mode, name, module))
        t.result(r, f"javascript: a module in {name}", "function 5\n", cause="ok")
    r = mode.json("run", "-l", "mjs", "-e", "console.log(await 5, import.meta.url)")
    t.result(r, "javascript: a module by -l mjs", "5 file:///sandbox/main.mjs\n", cause="ok")
    r = mode.json("run", put(mode, "x.cjs", "console.log(typeof require, __filename)"))
    t.result(r, "javascript: CommonJS in x.cjs", "function /sandbox/x.cjs\n", cause="ok")
    heap = "console.log(require('v8').getHeapStatistics().heap_size_limit)"
    sizes = []
    for memory in (128, 256, 1024):
        r = mode.json("run", "--memory", f"{memory}m", "-l", "js", "-e", heap)
        if t.result(r, f"javascript: runs in {memory}m", cause="ok"):
            sizes.append(int(r.get("stdout")))
    t.ok(sizes == sorted(set(sizes)), "javascript: and grows with the limit", sizes)
    for memory in ("64m", "128m", "512m") if mode.is_root else ("64m", "128m"):  # seconds of filling it
        r = mode.json("run", "--memory", memory, "-l", "js", "-e", "a=[];for(;;)a.push('x'.repeat(1000)+a.length)")
        t.result(r, f"javascript: the limit ends it before Node does, {memory}", cause="memory", exit_code=137)
    for memory in ("64m", "128m") if mode.is_root else ("64m",):
        r = mode.json("run", "--memory", memory, "-l", "js", "-e", GARBAGE)
        t.result(r, f"javascript: two gigabytes of garbage are none at once, {memory}", "40000\n", cause="ok")


# --- Perl -----------------------------------------------------------------------------------------------------------


def perl(t, mode):
    module = put(mode, "M.pm", "package M;\nsub f { die 'boom' }\nsub g { 42 }\n1;\n")
    folder = mode.cwd / "space"
    folder.mkdir(exist_ok=True)
    for flags, where in (((), "M.pm"), (("--workspace", "space"), "/sandbox/M.pm")):
        r = mode.json("run", *flags, "--file", module, "-l", "perl", "-e", "use M; print M::g(), qq(\\n);")
        t.result(r, f"perl: a module beside the code {flags}", "42\n", cause="ok")
        r = mode.json("run", *flags, "--file", module, "-l", "perl", "-e", "use M;\nM::f();\n")
        t.result(r, f"perl: an error in it {flags}", "", cause="exit", stderr=f"boom at {where} line 2.\n")
        t.ok((r.get("error.file") or "").endswith("M.pm") and r.get("error.line") == 2, f"perl: its place {flags}", *r.describe())


# --- SQL ------------------------------------------------------------------------------------------------------------

TABLE = "CREATE TABLE t(i INTEGER, r REAL, s TEXT, n); INSERT INTO t VALUES (1, 1.5, 'grüße', NULL), (9007199254740993, 2e300, '', 0);\n"


def sql(t, mode):
    rows = TABLE + "SELECT * FROM t;\n"
    done = mode.cay("run", "-l", "sql", "-e", rows)
    t.equal((done.status, done.out), (0, "1|1.5|grüße|\n9007199254740993|2.0e+300||0\n".encode()), "sql: a list in a pipe", *done.describe())
    r = mode.json("run", "-l", "sql", "-e", rows)
    t.result(r, "sql: runs with --json", cause="ok")
    t.equal(json.loads(r.get("stdout")), [{"i": 1, "r": 1.5, "s": "grüße", "n": None}, {"i": 9007199254740993, "r": 2e300, "s": "", "n": 0}],
            "sql: typed rows with --json")
    shown = mode.terminal("run", "-l", "sql", "-e", "SELECT 1 AS a, 'x' AS b").decode()
    t.equal(shown.splitlines()[:5], ["+---+---+", "| a | b |", "+---+---+", "| 1 | x |", "+---+---+"], "sql: a table on a terminal")
    for form, want in (("list", "1|x\n"), ("json", '[{"a":1,"b":"x"}]\n'), ("table", "+---+---+\n| a | b |\n+---+---+\n| 1 | x |\n+---+---+\n")):
        done = mode.cay("run", "--rows", form, "-l", "sql", "-e", "SELECT 1 AS a, 'x' AS b")
        t.equal((done.status, done.out.decode()), (0, want), f"sql: --rows {form}", *done.describe())
    done = mode.cay("run", "--rows", "csv", "-l", "sql", "-e", "SELECT 1")
    t.ok(done.status == 2 and b"csv" in done.err and b"table" in done.err, "sql: another form is refused, with those there are", *done.describe())
    # Several statements: an array each, one behind another, as jq reads them.
    r = mode.json("run", "-l", "sql", "-e", "SELECT 1 AS a; SELECT 2 AS b WHERE 0; VALUES (3), (4);")
    decoder, text, arrays = json.JSONDecoder(), r.get("stdout"), []
    while text.strip():
        value, end = decoder.raw_decode(text)
        arrays.append(value)
        text = text[end:].lstrip()
    t.equal(arrays, [[{"a": 1}], [{"column1": 3}, {"column1": 4}]], "sql: an array for each statement that gave rows", *r.describe())

    database = mode.cwd / "given.db"
    mode.command("sqlite3", database, TABLE)
    for args in (("--file", "given.db"), ("--file", "given.db", "--file", f"other.db={database}", "--", "other.db")):
        flags, tail = (args[:args.index("--")], args[args.index("--"):]) if "--" in args else (args, ())
        done = mode.cay("run", *flags, "-l", "sql", "-e", "SELECT count(*) FROM t; INSERT INTO t(i) VALUES (5); SELECT max(rowid) FROM t;", *tail)
        t.equal((done.status, done.out), (0, b"2\n3\n"), "sql: in a given database: " + " ".join(args[-2:]), *done.describe())
    t.equal(mode.command("sqlite3", database, "SELECT count(*) FROM t").out, b"2\n", "sql: which stays as it was")
    done = mode.cay("run", "-l", "sql", "-e", "SELECT ?1, ?2, ?3, typeof(?4);", "--", "it's", 'a"b\\', "ü; DROP TABLE t")
    t.equal((done.status, done.out.decode()), (0, "it's|a\"b\\|ü; DROP TABLE t|null\n"), "sql: arguments are ?1, ?2, …", *done.describe())
    done = mode.cay("run", "-l", "sql", "-e", "CREATE TABLE t(x);\n.import /dev/stdin t\nSELECT * FROM t;", stdin=b"the input\n")
    t.equal((done.status, done.out), (0, b"the input\n"), "sql: stdin is the program's", *done.describe())
    r = mode.json("run", "-l", "sql", "-e", "SELECT 1;\n\nSELEC 2;\nSELECT 3;\n")
    t.result(r, "sql: an error stops it", '[{"1":1}]\n', exit_code=1, cause="exit")
    t.matches(r.get("error_message"), r"^SQL syntax error: .*SELEC.*line 3", "sql: and says the line")


# --- versions -------------------------------------------------------------------------------------------------------


def versions(t, mode):
    rows = {r["name"]: r for r in json.loads(mode.cay("languages", "--json").out)}
    for name in ("perl", "php", "lua", "ruby", "javascript", "sql", "zsh"):
        if not rows[name]["path"]:
            t.skip(f"{name}: versions", "not installed", name)
            continue
        version = rows[name]["version"]
        major, parts = version.split(".")[0], version.split(".")
        hello = next((caytest.ROOT / "languages" / name).glob("hello" + rows[name]["extensions"][0])).read_text()
        for asked in dict.fromkeys((major, ".".join(parts[:2]), version)):
            r = mode.json("run", "--rows", "list", "-l", f"{name}:{asked}", "-e", hello)
            # A program of that very name goes first: php8.2 for 8.2; all that was asked for is that it is one.
            t.ok(r.get("stdout") == "Hello, world!\n" and (r.get("meta.language_version") + ".").startswith(asked + "."),
                 f"{name}:{asked} is {version}", *r.describe())
        r = mode.json("run", "-l", f"{name}:99.9", "-e", hello)
        t.result(r, f"{name}:99.9 is not there", "", exit_code=127, cause="infrastructure")


def names(t, mode):
    """A program sees the name of its file, as outside."""
    for name, code in (("own-name.py", "import sys; print(sys.argv[0])"), ("own-name.sh", 'echo "$0"'), ("own-name.pl", 'print "$0\\n"'),
                       ("own-name.lua", "print(arg[0])"), ("own-name.sql", "SELECT 'own-name.sql';"), ("own-name.rb", "puts $0")):
        done = mode.cay("run", put(mode, name, code))
        t.equal((done.status, done.out.decode()), (0, name + "\n"), f"{name}: its own name", *done.describe())


def missing(t, mode):
    """Of a language of two programs, the second is missing."""
    if not mode.is_root:
        return
    hide = f'mount --bind /dev/null {os.path.realpath("/usr/bin/node")} && exec "$@"'
    done = mode.command("/usr/bin/unshare", "--mount", "/bin/sh", "-c", hide, "sh", mode.binary, "run", "-l", "ts", "-e", "console.log('RAN')")
    t.ok(done.status == 127 and done.out == b"" and b"TypeScript" in done.err and b"apt-get install esbuild nodejs" in done.err,
         "a missing part of a runtime: 127, and what to install", *done.describe())


def test(t, mode):
    for part in (typescript, javascript, perl, sql, versions, names, missing, same_as_bare):
        if not os.environ.get("CAY_TEST_PROGRAMS") or part is same_as_bare:
            part(t, mode)


# The runtimes are the same ones under the sanitizers: there it is about cay, and one mode will do.
caytest.main(test, modes=("root",) if caytest.SANITIZED else ("root", "user"))

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compiled programs are kept: the same one runs again without its compiler, and anything else is compiled."""
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import cayserve
import caystate
import caytest

CODE = """#include <stdio.h>
#warning kept too
int main(int argc, char **argv)
{
    int c = getchar();
    printf("%s %d\\n", argc > 1 ? argv[1] : "none", c);
    fputs("words\\n", stderr);
    return 7;
}
"""

# Whose compilers make more than one file.
PROGRAMS = {
    "java": "class A { static int of() { return 42; } }\npublic class B { public static void main(String[] a) { System.out.println(A.of()); } }\n",
    "typescript": "const n: number = 42;\nconsole.log(n);\n",
}


def was_compiled(r):
    return r.get("meta.timing.compile") is not None


def same(a, b):
    """What a client sees, but for times and ids."""
    names = ("success", "exit_code", "stdout", "stderr", "error_message", "verdict.cause", "meta.warnings", "files", "meta.start")
    return [(name, a.get(name), b.get(name)) for name in names if a.get(name) != b.get(name)]


def again(t, mode):
    def run(*flags, args=(), code=CODE, **options):
        return mode.json("run", "--no-server", *flags, "-l", "c", "-e", code, "--", *args, **options)

    first, second = run(), run()
    t.result(first, "the first time", cause="exit", exit_code=7, stdout="none -1\n")
    t.ok(was_compiled(first), "it is compiled", *first.describe())
    t.ok(not was_compiled(second), "the second time it is not", *second.describe())
    t.empty(same(first, second), "and all that is told is the same")
    t.ok(any("kept too" in w for w in second.get("meta.warnings")), "what the compiler said too", second.get("meta.warnings"))

    r = run(args=("word",), stdin=b"A")
    t.ok(not was_compiled(r) and r.get("stdout") == "word 65\n", "arguments and input are the run's own", *r.describe())
    r = run("--memory", "100m", "--timeout", "3", "--max-output", "5")
    t.ok(not was_compiled(r) and r.get("meta.usage.stdout_bytes") == 8, "so are limits", *r.describe())
    large = "char large[100000] = { 1 };\nint main(void) { return large[0]; }\n"
    r = [run(code=large), run(code=large), run("--disk", "64k", code=large)]
    t.ok([was_compiled(x) for x in r] == [True, False, True] and r[2].cause == "compile", "where it does not fit, the compiler says so",
         *r[2].describe())
    r = run("--strict")
    t.ok(was_compiled(r) and not same(first, r), "strict asks the compiler", *r.describe())
    r = run(env={"CAY_COMPILE_CACHE": "0"})
    t.ok(was_compiled(r), "so does compile_cache = 0", *r.describe())
    done = mode.cay("run", "--no-server", "--events", "-l", "c", "-e", CODE)
    t.ok(b'"data":"run"' in done.out and b'"data":"compile"' not in done.out and b'"event":"warning"' in done.out, "the events say so",
         done.out)
    for name, flags, code in (
        ("other code", (), CODE + " "),
        ("a file more", ("--file", "more.h"), CODE),
        ("another variable", ("--env", "CPATH=/tmp"), CODE),
        ("what the date is a part of", (), CODE + "const char *date = __DATE__;\n"),
    ):
        (mode.cwd / "more.h").write_text("/* nothing */\n")
        t.ok(was_compiled(run(*flags, code=code)), f"{name}: it is compiled")
    (mode.cwd / "more.h").write_text("/* nothing else */\n")
    t.ok(was_compiled(run("--file", "more.h")), "another text of a file: it is compiled")
    t.ok(not was_compiled(run("--file", "more.h")), "and kept")
    t.ok(was_compiled(run(code=CODE + "const char *date = __DATE__;\n")), "the date is never kept")
    # The input is the program's: compiled in, the next run of this source would have it.
    sly = "#define Q(x) #x\n#define E(x) Q(/x/stdin)\n#define D dev\nint main(void) { return sizeof(\n#include E(D)\n); }\n"
    t.result(run(code=sly, stdin=b'"of this run"\n'), "a compiler has no input", cause="compile")
    r = run("--collect", "/sandbox/main")
    t.ok(not was_compiled(r) and [(f["path"], f["change"]) for f in r.get("files")] == [("/sandbox/main", "created")],
         "a file that the compiler made comes back as such", r.get("files"))


def broken(t, mode, folder):
    """Nothing that is torn is run; nothing that a program does reaches what is kept."""
    code = '#include <stdio.h>\nint main(void) { puts("whole"); }\n'

    def run(*flags):
        return mode.json("run", "--no-server", *flags, "-l", "c", "-e", code)

    entries = set(folder.glob("*/*"))
    run()
    entry = (set(folder.glob("*/*")) - entries).pop()
    data = entry.read_bytes()
    t.equal(entry.stat().st_mode & 0o777, 0o600, "an entry is nobody else's")
    for name, torn in (("cut short", data[:-1]), ("with zeros at its end", data[:-64] + bytes(64)), ("empty", b""),
                       ("with one bit off", data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])):
        entry.write_bytes(torn)
        r = run()
        t.ok(was_compiled(r) and r.get("stdout") == "whole\n", f"an entry {name} is no entry", *r.describe())
        t.ok(not was_compiled(run()), f"an entry {name} is replaced")
    other = entry.with_name("0" * 64)
    other.write_bytes(data)
    os.replace(other, entry)
    t.ok(not was_compiled(run()), "a whole one is one")

    program = """#include <stdio.h>
#include <unistd.h>
int main(void)
{
    unlink("/sandbox/main");
    FILE *f = fopen("/sandbox/main", "w");
    fputs("#!/bin/sh\\necho changed\\n", f);
    fclose(f);
    puts(access("%s", F_OK) ? "own" : "seen");
}
""" % folder
    for i in range(2):
        r = mode.json("run", "--no-server", "-l", "c", "-e", program)
        t.ok(r.get("stdout") == "own\n" and was_compiled(r) == (i == 0), f"a program that overwrites itself, time {i + 1}", *r.describe())
    slow = "int main(void) { for (;;) ; }\n"
    for i in range(2):
        r = mode.json("run", "--no-server", "--timeout", "0.2", "-l", "c", "-e", slow)
        t.ok(r.cause == "wall_timeout" and was_compiled(r) == (i == 0), f"a program that is stopped, time {i + 1}", *r.describe())
    r = [mode.json("run", "--no-server", "-l", "c", "-e", "int main(void) { return }") for _ in range(2)]
    t.ok(all(was_compiled(x) and x.cause == "compile" for x in r), "what does not compile is not kept")


def bounded(t, mode, folder):
    """The oldest go: with room for three programs of about 16 KiB, each of four is compiled, and the last is there."""
    def run(i, bound="56k"):
        return was_compiled(mode.json("run", "--no-server", "-l", "c", "-e", f"int main(void) {{ return {i}; }}\n/* bounded */\n",
                                      env={"CAY_COMPILE_CACHE": bound}))

    t.equal([run(i) for i in range(4)], [True] * 4, "bounded: each is new")
    sizes = [p.stat().st_size for p in folder.glob("*/*")]
    t.ok(sum(sizes) <= 56 << 10 and len(sizes) > 0, "bounded: they take no more than they may", sizes)
    t.equal([run(3), run(0)], [False, True], "bounded: the last is there, the first is not")
    t.ok(run(9, "4k") and run(9, "4k"), "bounded: one that is too large is not kept")


def languages(t, mode):
    for name, code in PROGRAMS.items():
        r = [mode.json("run", "--no-server", "-l", name, "-e", code) for _ in range(2)]
        if r[0].get("exit_code") == 127:
            t.skip(f"{name}: kept", r[0].get("error_message"), name)
            continue
        t.ok(was_compiled(r[0]) and not was_compiled(r[1]) and "42" in r[0].get("stdout") + r[0].get("stderr"),
             f"{name}: is kept", *r[0].describe(), *r[1].describe())
        t.empty(same(*r), f"{name}: the same comes out")


def served(t, mode):
    """A server keeps them too, for each tenant apart: what one has compiled says nothing to another."""
    other = "another-token-of-0123456789"
    request = {"language": "c", "code": f"int main(void) {{ return 3; }}\n/* {os.urandom(8).hex()} */\n"}
    tokens = f"{cayserve.TOKEN} main {cayserve.ALL}\n{other} other {cayserve.ALL}\n"
    with cayserve.Server(mode, tokens=tokens, env={"CAY_SPARES": "0"}) as s:
        r = [s.execute(request, token=token).json for token in (cayserve.TOKEN, cayserve.TOKEN, other, other)]
        t.equal([x["exit_code"] for x in r], [3] * 4, "served: they run", r)
        t.equal([x["meta"]["timing"]["compile"] is not None for x in r], [True, False, True, False], "served: each tenant has its own")
    r = mode.json("run", "--no-server", "-l", "c", "-e", request["code"])
    t.ok(was_compiled(r), "served: and so has the command", *r.describe())


def test(t, mode):
    if not shutil.which("gcc", path="/usr/bin"):
        t.skip("compiled programs", "no gcc", "gcc")
        return
    folder = caystate.private_records(mode, part="compiled")
    (mode.cwd / "more.h").touch()
    host = mode.host()
    again(t, mode)
    if mode.is_root:  # who else looks into the folder of a user
        broken(t, mode, folder)
        bounded(t, mode, folder)
        languages(t, mode)
    t.empty(host.settle(), "nothing is left")
    if mode.is_root:
        served(t, mode)


caytest.main(test, modes=("root", "user"))

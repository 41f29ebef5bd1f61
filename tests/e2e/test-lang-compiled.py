#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""C, C++, Go, Rust and Java: programs of several files, what a compiler says, how programs end, what the runtimes know of
their limits, and that a program does inside what it does outside."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

PROGRAMS = caytest.ROOT / "tests" / "e2e" / "programs"
NAMES = ("c", "cpp", "go", "rust", "java")


def request(mode, language, code, **fields):
    return mode.json("run", "--request", "-", stdin=json.dumps({"language": language, "code": code, **fields}), timeout=300)


def several_files(t, mode, language):
    files = {
        "c": ('#include "lib/util.h"\nint main(void) { return puts(word()) < 0; }',
              {"lib/util.h": '#include <stdio.h>\nconst char *word(void);', "lib/util.c": '#include "lib/util.h"\nconst char *word(void) { return "two"; }',
               "-o.c": "int unused;", "notes.txt": "no C"}),
        "cpp": ('#include <cstdio>\nint f(int); int g(int);\nint main() { std::puts(f(1) + g(1) == 5 ? "two" : "?"); }',
                {"f.cc": "int f(int x) { return x + 1; }", "sub/g.cxx": "int g(int x) { return x + 2; }"}),
        "go": ('package main\nimport "fmt"\nfunc main() { fmt.Println(word()) }',
               {"util.go": 'package main\nfunc word() string { return "two" }', "other/x.go": "package other"}),
        "rust": ('mod util;\nmod deep;\nfn main() { println!("{}{}", util::part(), deep::inner::part()); }',
                 {"util.rs": 'pub fn part() -> &\'static str { "t" }', "deep/mod.rs": "pub mod inner;",
                  "deep/inner.rs": 'pub fn part() -> &\'static str { "wo" }'}),
        "java": ('package app;\nimport lib.Util;\npublic class Start { public static void main(String[] a) throws Exception {\n'
                 'System.out.print(Util.word() + new String(Start.class.getResourceAsStream("/data.txt").readAllBytes())); } }',
                 {"lib/Util.java": 'package lib;\npublic class Util { public static String word() { return "two"; }\n'
                                   'public static void main(String[] a) { System.out.println("not this one"); } }', "data.txt": "\n"}),
    }
    code, extra = files[language]
    t.result(request(mode, language, code, files=extra), f"{language}: several files are one program", "two\n", cause="ok")


def go_module(t, mode):
    r = request(mode, "go", 'package main\nimport ("fmt"; "example.org/app/lib")\nfunc main() { fmt.Println(lib.Word()) }',
                files={"go.mod": "module example.org/app\n\ngo 1.18\n", "lib/lib.go": 'package lib\nfunc Word() string { return word }',
                       "lib/word.go": 'package lib\nconst word = "module"'})
    t.result(r, "go: a module with a package of its own", "module\n", cause="ok")
    r = request(mode, "go", 'package main\nimport "example.org/elsewhere"\nfunc main() { elsewhere.F() }')
    t.result(r, "go: a package from elsewhere is a compile error", cause="compile", timeout=False)


def compile_errors(t, mode, language):
    code, line, status = {
        "c": ("int main(void)\n{\n    return missing;\n}\n", 3, 1),
        "cpp": ("int main()\n{\n    return missing;\n}\n", 3, 1),
        "go": ("package main\n\nfunc main() {\n\tmissing()\n}\n", 4, 2),
        "rust": ("fn main() {\n    missing();\n}\n", 2, 1),
        "java": ("class A {\n    int f() { return missing; }\n}\n", 2, 1),
    }[language]
    title = {"c": "C", "cpp": "C++", "go": "Go", "rust": "Rust", "java": "Java"}[language]
    r = request(mode, language, code)
    source = {"c": "main.c", "cpp": "main.cpp", "go": "main.go", "rust": "main.rs", "java": "main.java"}[language]
    t.result(r, f"{language}: what does not compile", "", cause="compile", exit_code=status, success=False)
    t.ok(f"{source}:{line}" in (r.get("stderr") or ""), f"{language}: the compiler says where", *r.describe())
    message = r.get("error_message") or ""
    t.ok(message.startswith(f"{title} compile error: ") and "missing" in message and message.endswith(f" ({source}, line {line})"),
         f"{language}: and the message says what, where, and that it is no syntax error", message)


def ends(t, mode, language):
    code, want = {
        "c": ("#include <stdlib.h>\nint main(void) { abort(); }", {"cause": "signal", "exit_code": 134, "signal": 6}),
        "cpp": ("#include <stdexcept>\nint main() { throw std::runtime_error(\"boom\"); }", {"cause": "signal", "exit_code": 134}),
        "go": ("package main\nfunc main() { panic(\"boom\") }", {"cause": "exit", "exit_code": 2}),
        "rust": ("fn main() { let v: Vec<u8> = vec![]; println!(\"{}\", v[std::env::args().count()]); }", {"cause": "exit", "exit_code": 101}),
        "java": ("class A { public static void main(String[] a) { throw new RuntimeException(\"boom\"); } }", {"cause": "exit", "exit_code": 1}),
    }[language]
    r = request(mode, language, code)
    t.result(r, f"{language}: a program that fails", "", success=False, **want)
    t.ok((r.get("error_message") or "").startswith("Execution failed: "), f"{language}: is no syntax error", *r.describe())
    endless = {
        "c": "int main(void) { for (;;); }", "cpp": "int main() { for (volatile int i = 0;; i = i + 1); }", "go": "package main\nfunc main() { for { } }",
        "rust": "fn main() { loop { std::thread::yield_now() } }", "java": "class A { public static void main(String[] a) { for (;;); } }",
    }[language]
    r = request(mode, language, endless, timeout=1)
    t.result(r, f"{language}: a program that does not end", cause="wall_timeout", exit_code=124, limit_name="timeout")


def main_classes(t, mode):
    say = 'public static void main(String[] a) { System.out.println("%s"); }'
    for name, code, want in (
        ("behind others", "interface I { int f(); }\nrecord R(int x) { }\nenum E { A, B }\nclass Z { " + say % "Z" + " }", "Z"),
        ("in a package", "package a.b.c;\nclass Z { " + say % "Z" + " }", "Z"),
        ("public before the others", "class A { " + say % "A" + " }\npublic class Z { " + say % "Z" + " }", "Z"),
        ("with its words in text and comments", '// public class X { public static void main(String[] a)\nclass Y { String s = "class Main"; }\nclass Z { ' + say % "Z" + " }", "Z"),
        ("within another", "class Y { static class Z { " + say % "Z" + " } }", "Z"),
        ("an interface", "class Y { }\ninterface Z { static void main(String... a) { System.out.println(\"Z\"); } }", "Z"),
        ("an enum by another name", "class Ünï { " + say % "Z" + " }", "Z"),
        ("not one with other parameters", "class Y { public static void main(int[] a) { } static void main() { } }\nclass Z { " + say % "Z" + " }", "Z"),
    ):
        t.result(request(mode, "java", code), f"java: the class with main(): {name}", want + "\n", cause="ok")
    r = request(mode, "java", "class Z { public static void main(String[] a) { System.out.println(new Mm().x); } }",
                files={"Mm.java": "class Mm { int x = 3; }", "q/package-info.java": "/** About q. */\npackage q;\n"})
    t.result(r, "java: two files of one package, and one about a package", "3\n", cause="ok", stderr="")
    r = request(mode, "java", "class A { void main() { } }")
    t.result(r, "java: no main()", "", cause="compile", exit_code=1)
    t.matches(r.get("error_message"), "no class has a public static void main", "java: is said so")
    r = request(mode, "java", "class A { public static void main(String[] a) { for (String s : a) System.out.println(s); } }", args=["@x", "-cp", "", "*", "ü"])
    t.result(r, "java: arguments that the launcher could take for its own", "@x\n-cp\n\n*\nü\n", cause="ok")


def sizes(t, mode, rows):
    """Runtimes that would else take the machine's memory for theirs."""
    if rows["go"]["path"]:
        t.equal(rows["go"]["memory"], 100 << 20, "go: its default memory is told by the list")
        line = next(x for x in mode.cay("languages").out.decode().splitlines() if x.startswith("go "))
        t.ok("memory 100m" in line, "go: and by the table", line)
        limit = 'package main\nimport ("fmt"; "runtime/debug")\nfunc main() { fmt.Println(debug.SetMemoryLimit(-1) >> 20) }'
        t.result(request(mode, "go", limit), "go: 100m unless told", "90\n", cause="ok", meta__resource_limits__memory=100 << 20)
        t.result(request(mode, "go", limit, limits={"memory": "300m"}), "go: more when told", "270\n", cause="ok", meta__resource_limits__memory=300 << 20)
        # 60 MiB are held and 200 more made and dropped: the collector has to know of the limit to stay below it.
        r = request(mode, "go", "package main\nimport \"fmt\"\nfunc fill(b []byte) []byte { for i := range b { b[i] = 1 }; return b }\n"
                                "func main() { var keep [][]byte\nfor i := 0; i < 60; i++ { keep = append(keep, fill(make([]byte, 1<<20))) }\n"
                                "for i := 0; i < 200; i++ { fill(make([]byte, 1<<20)) }\nfmt.Println(len(keep)) }")
        t.result(r, "go: what it holds fits, what it drops is collected in time", "60\n", cause="ok")
    if rows["java"]["path"]:
        hog = ("import java.util.*;\nclass A { public static void main(String[] a) { long max = Runtime.getRuntime().maxMemory();\n"
               "List<byte[]> all = new ArrayList<>(); try { for (;;) all.add(new byte[1 << 20]); }\n"
               "catch (OutOfMemoryError e) { int n = all.size(); all = null; System.out.println((max >> 20) + \" \" + (n > 0)); } } }")
        for memory, most in (("128m", 128), ("512m", 512)):
            r = request(mode, "java", hog, limits={"memory": memory})
            t.result(r, f"java: a full heap of {memory} is the program's own error", cause="ok")
            said = (r.get("stdout") or "0 ?").split()
            t.ok(most // 4 <= int(said[0]) < most and said[1:] == ["True".lower()], f"java: its heap fits into {memory}", *r.describe())


def as_outside(t, mode):
    """The same program bare and inside: same output, same end."""
    bare = {
        "c": ("everyday.c", ["gcc", "-O2", "-o", "main", "{}", "-pthread"], ["./main"]),
        "cpp": ("everyday.cpp", ["g++", "-O2", "-std=gnu++20", "-o", "main", "{}", "-pthread"], ["./main"]),
        "go": ("everyday.go", ["go", "build", "-o", "main", "{}"], ["./main"]),
        "rust": ("everyday.rs", ["rustc", "--edition=2021", "-o", "main", "{}"], ["./main"]),
        "java": ("Everyday.java", ["javac", "-d", ".", "{}"], ["java", "-Xmx256m", "Everyday"]),
    }
    env = {"EVERYDAY": "jeden Tag", "GOCACHE": "/tmp/go-cache"}
    given = "erste Zeile\nzweite ü\n"
    args = ("-x", "", "ü *")
    for language in mode.there:
        name, compiler, program = bare[language]
        folder = mode.cwd / f"bare-{language}"
        folder.mkdir()
        source = folder / name
        source.write_bytes((PROGRAMS / name).read_bytes())
        done = mode.command(*[str(source) if w == "{}" else w for w in compiler], cwd=folder, env=env, timeout=300)
        if not t.ok(done.status == 0, f"{language}: everyday program compiles bare", *done.describe()):
            continue
        outside = mode.command(*program, *args, cwd=folder, env=env, stdin=given, timeout=120)
        inside = mode.cay("run", "--cpus", "2", "--memory", "1g", "--disk", "512m", "--timeout", "120", "--env", "EVERYDAY=jeden Tag", str(source), "--", *args,
                          stdin=given, timeout=400)
        status = outside.status if outside.status >= 0 else 128 - outside.status
        a, b = outside.out.splitlines(), inside.out.splitlines()
        differ = [f"line {i}: {x!r} outside, {y!r} inside" for i, (x, y) in enumerate(zip(a, b)) if x != y]
        t.ok(len(a) > 50000 and (status, a) == (inside.status, b), f"{language}: everyday things are the same inside and outside",
             f"status {status} outside, {inside.status} inside; {len(a)} and {len(b)} lines", *differ[:5], inside.err[:600])


def missing(t, mode, rows):
    """Without the real file of a program, in a mount namespace around cay alone."""
    if not mode.is_root:
        return
    for language, program in (("cpp", "g++"), ("go", "go"), ("rust", "rustc"), ("java", "javac")):
        if not rows[language]["path"]:
            continue
        real = os.path.realpath(f"/usr/bin/{program}")
        done = mode.command("/usr/bin/unshare", "--mount", "/bin/sh", "-c", f'mount --bind /dev/null {real} && exec "$@"', "sh", mode.binary,
                            "run", "-l", language, "-e", "x")
        t.ok(done.status == 127 and f"'{program}' is not installed".encode() in done.err and
             b"apt-get install " + " ".join(rows[language]["packages"]).encode() in done.err,
             f"{language}: without {program}: 127, and what to install", *done.describe())


def test(t, mode):
    rows = {r["name"]: r for r in json.loads(mode.cay("languages", "--json").out)}
    mode.there = []
    for language in NAMES:
        if rows[language]["path"]:
            mode.there.append(language)
        else:
            t.skip(language, f"{language} is not installed: {' '.join(rows[language]['packages'])}", language)
    # Compiling takes long: where the compilers are not what is tested, two of them will do.
    for language in mode.there if mode.is_root and not caytest.SANITIZED or caytest.LONG else set(mode.there) & {"c", "java"}:
        several_files(t, mode, language)
        compile_errors(t, mode, language)
        ends(t, mode, language)
    if "go" in mode.there:
        go_module(t, mode)
    if "java" in mode.there and mode.is_root:
        main_classes(t, mode)
    sizes(t, mode, rows)
    if mode.is_root and not caytest.SANITIZED:
        as_outside(t, mode)
    missing(t, mode, rows)


# The runtimes are the same ones under the sanitizers: there it is about cay, and one mode will do.
caytest.main(test, modes=("root",) if caytest.SANITIZED else ("root", "user"))

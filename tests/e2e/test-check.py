#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The static check: what is safe is left alone, what is dangerous is found in whatever dress, what can't be read is
unknown, and no door goes past the policy.

check/safe.txt and check/twisted.txt hold the code, each under a line `=== LANGUAGE NAME` (twisted: `=== LANGUAGE RULE
NAME`, the rule that has to find it). These many are asked of one worker for each language over its own socket, which
is what the engine does; everything else goes through the command."""
import ctypes
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest
import cayserve

FOLDER = Path(__file__).resolve().parent / "check"
MAGIC, CHECK, HIGHLIGHT, COMPLETE = 0x79617331, 1, 2, 3
STRICT, NO_NETWORK = 1, 2
IMPORT = "Security policy blocked import: "


class Worker:
    """cay-syntax as the engine talks to it (src/core/syntax-wire.h)."""

    def __init__(self, language):
        ours, theirs = socket.socketpair()
        high = os.dup(theirs.fileno())
        os.set_inheritable(high, True)
        self.proc = subprocess.Popen(["/bin/bash", "-c", f'exec "$0" "$1" 3<&{high}', caytest.CAY.parent / "cay-syntax", language],
                                     pass_fds=(high,))
        os.close(high)
        theirs.close()
        self.socket = ours
        ours.settimeout(60)

    def take(self, size):
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def ask(self, code, verb=CHECK, flags=NO_NETWORK, lists=b"", timeout_ms=20000):
        """status, whether it is safe, and the text."""
        code = code.encode() if isinstance(code, str) else code
        self.socket.sendall(struct.pack("=6I", MAGIC, verb, flags, timeout_ms, len(lists), len(code)) + lists + code)
        _, status, answer, size = struct.unpack("=4I", self.take(16))
        return status, bool(answer & 1), self.take(size).decode()

    def report(self, code, **options):
        return json.loads(self.ask(code, **options)[2])

    def close(self):
        self.socket.close()
        return self.proc.wait(60)


def entries(name, pattern):
    text = (FOLDER / name).read_text()
    return re.findall(rf"(?ms)^=== {pattern}\n(.*?)(?=^=== |\Z)", text)


def has_grammars(t):
    status = Worker("python")
    found = status.ask("1")[0] == 0
    status.close()
    return found or t.skip("grammars", "tools/install-grammars.sh has not been run", "grammars") is None


def sets(t):
    """One line for each language and set: what was wrong is told."""
    workers, wrong, seen = {}, {}, set()
    for language, name, code in entries("safe.txt", r"(\S+) ([^\n]*)"):
        worker = workers.setdefault(language, None) or workers.update({language: Worker(language)}) or workers[language]
        report = worker.report(code)
        seen.add(("safe", language))
        # Perl is looked at by its words: that is never enough to call it safe.
        if report["safe"] != (language != "perl") or any(f["severity"] == "block" for f in report["findings"]):
            wrong.setdefault(("safe", language), []).append((name, report["findings"]))
        # What everybody writes is not even warned of.
        elif name.startswith("everyday") and any(f["severity"] == "warn" and not f["ordinary"] for f in report["findings"]):
            wrong.setdefault(("safe", language), []).append((name, report["findings"]))
    for language, rule, name, code in entries("twisted.txt", r"(\S+) (\S+) ([^\n]*)"):
        worker = workers.get(language) or workers.setdefault(language, Worker(language))
        found = worker.report(code)["findings"]
        seen.add(("twisted", language))
        if rule not in [f["rule"] for f in found]:
            wrong.setdefault(("twisted", language), []).append((rule, name, found))
    for key in sorted(seen):
        t.empty(wrong.get(key, []), "%s: %s" % key)
    t.empty([language for language, worker in workers.items() if worker.close() != 0], "workers end when they are let go")


def unknown(t):
    """Broken, enormous, nested and binary: a clear answer, never `safe`, and the worker lives on."""
    python, bash = Worker("python"), Worker("bash")
    rows = [
        ("broken", "def f(:\n  import os\n", "unparsed"),
        ("broken at its end", "print((1)", "unparsed"),
        ("binary", os.urandom(4096) + b"\0\xff", "unchecked"),
        ("a NUL", b"print(1)\0", "unchecked"),
        ("not UTF-8", b"x = '\xff'\n", "unchecked"),
    ]
    for name, code, rule in rows:
        status, safe, text = python.ask(code)
        t.ok(status == 0 and not safe and rule in [f["rule"] for f in json.loads(text)["findings"]], f"unknown: {name}", text[:300])
    big = "x = [1, 2, 3]\n" * (caytest.MIB // 14 // (8 if caytest.SANITIZED else 1))
    report = python.report(big, timeout_ms=60000)
    t.ok(report["safe"], "a megabyte of code is read", report)
    for name, code in (("brackets", "(" * 30000 + ")" * 30000), ("attributes", "a" + ".b" * 20000), ("calls", "f(" * 20000 + ")" * 20000),
                       ("sums", "x = " + "'a'+" * 20000 + "'b'"), ("doubling", "a0='ab'\n" + "".join(f"a{i}=a{i-1}+a{i-1}\n" for i in range(1, 200)) +
                        "".join(f"f(a{i})\n" for i in range(200))), ("indices", "x" + "[0]" * 10000), ("lambdas", "lambda: " * 20000 + "1")):
        report = python.report(code, timeout_ms=60000)
        t.ok(isinstance(report["safe"], bool), f"nested: {name}", report)
    chain = "q = db" + "".join(f".step{i}(x)" for i in range(200)) + "\nimport os\n"
    report = python.report(chain, timeout_ms=60000)
    t.equal([f["rule"] for f in report["findings"]], ["python-import-dangerous"], "a chain of 200 calls is followed, and what comes behind it")
    report = bash.report("$(" * 20000 + "rm -rf /" + ")" * 20000, timeout_ms=60000)
    t.ok(isinstance(report["safe"], bool), "nested: substitutions", report)
    report = bash.report("bash -c \"" * 3 + "rm -rf /" + "\"" * 3)
    t.ok(isinstance(report["safe"], bool), "nested: shells", report)
    late = python.report("x = (1 + 2) * [3, 4, f(a.b.c)]\n" * 20000, timeout_ms=1)
    t.ok(not late["safe"] and late["findings"][0]["rule"] == "unchecked", "what takes too long is given up, and unknown", late)
    many = python.report("import os\n" * 3000)
    t.ok(not many["safe"] and len(many["findings"]) <= 1002, "findings are bounded", len(many["findings"]))
    many = bash.report(CROWDED)
    t.ok(not many["safe"] and "unchecked" in [f["rule"] for f in many["findings"]], "that there are more is told all the same", many["findings"][:3])
    t.equal((python.close(), bash.close()), (0, 0), "and the workers lived through all of it")


def wire(t):
    """What is not an ask ends the worker, and nothing else: there is no telling where the next one would start."""
    for name, data in (("noise", b"x" * 24), ("a verb", struct.pack("=6I", MAGIC, 99, 0, 1, 0, 0)), ("a length", struct.pack("=6I", MAGIC, 1, 0, 1, 0, 1 << 31)),
                       ("half an ask", struct.pack("=3I", MAGIC, 1, 0))):
        worker = Worker("json")
        worker.socket.sendall(data)
        worker.socket.shutdown(socket.SHUT_WR)
        with_answer = worker.socket.recv(16)
        t.ok(with_answer == b"" and worker.close() in (0, 1), f"wire: {name} gets no answer", with_answer)
    worker = Worker("json")
    t.equal(worker.ask("1", lists=b"os")[0], 3, "wire: a list that does not end is refused")
    worker.close()


def reading(t):
    """Completeness and colours."""
    python, bash = Worker("python"), Worker("bash")
    rows = [("1 + 1\n", "complete"), ("def f():\n", "incomplete"), ("def f():\n    return 1\n\n", "complete"), ("x = (1,\n", "incomplete"),
            ("'''text\n", "incomplete"), ("x = = 1\nprint(2)\n", "invalid"), ("x = \\\n", "incomplete")]
    for code, want in rows:
        t.equal(python.ask(code, COMPLETE)[2], want, f"complete: {code!r}")
    for code, want in (("echo a\n", "complete"), ("if true; then\n", "incomplete"), ("echo 'a\n", "incomplete"), ("for i in 1 2; do echo $i; done\n", "complete")):
        t.equal(bash.ask(code, COMPLETE)[2], want, f"complete: {code!r}")
    code = "import sys  # x\nprint('a', 1)\n"
    text = python.ask(code, HIGHLIGHT)[2]
    t.ok("\x1b[35mimport\x1b[0m" in text and "\x1b[32m'a'\x1b[0m" in text, "highlight: colours", text)
    t.equal(re.sub(r"\x1b\[[0-9;]*m", "", text), code, "highlight: and the same code")
    python.close()
    bash.close()
    for language, code in (("typescript", "const x: number = 1;\n"), ("cpp", "class A { int x; };\n"), ("go", "package main\n")):
        worker = Worker(language)
        text = worker.ask(code, HIGHLIGHT)[2]
        t.ok("\x1b[" in text and re.sub(r"\x1b\[[0-9;]*m", "", text) == code, f"highlight: {language}", text)
        worker.close()


def command(t, mode):
    """`cay check`: its words, its report, its exit status."""
    file = mode.cwd / "a.py"
    file.write_text("import os\nprint('é', os.getcwd(), eval('1'))\n")
    done = mode.cay("check", "--json", "a.py")
    report = json.loads(done.out)
    t.equal((done.status, report["safe"], report["language"], report["blocked_imports"]), (126, False, "python", ["os"]), "check: report")
    t.equal([sorted(f) for f in report["findings"]][0], sorted(["rule", "severity", "line", "column", "code", "message", "remedy", "ordinary"]),
            "check: a finding's fields")
    found = [(f["rule"], f["severity"], f["line"], f["column"], f["code"]) for f in report["findings"]]
    t.ok(("python-import-dangerous", "block", 1, 8, "import os") in found, "check: where", found)
    t.ok(("python-eval", "block", 2, 25, "print('é', os.getcwd(), eval('1'))") in found, "check: columns are characters", found)
    done = mode.cay("check", "a.py")
    t.ok(done.status == 126 and b"a.py:1:8: block: import of os [python-import-dangerous]\n" in done.out and b"\x1b" not in done.out,
         "check: lines, and no colours in a pipe", *done.describe())
    done = mode.cay("check", "-l", "py", "-", stdin="print(1)\n")
    t.ok(done.status == 0 and done.out == b"(stdin): nothing found\n", "check: safe is 0", *done.describe())
    for code, status in (("eval('1')", 126), ("exec('1')", 126), ("import pickle\npickle.loads(b'')", 126), ("import yaml\nyaml.load('', X)", 0)):
        t.equal(mode.cay("check", "-l", "py", "-", stdin=code + "\n").status, status, f"check: {code!r}")
    for args in ((), ("no-such.py",), ("a.py", "b.py"), ("-l", "klingon", "a.py"), ("--frobnicate", "a.py")):
        done = mode.cay("check", *args)
        t.ok(done.status in (2, 125, 127) and done.err and not done.out, f"check: misuse: {' '.join(args)}", *done.describe())
    done = mode.cay("check", "-l", "bash", "--strict", "-", stdin="frobnicate; chmod 777 x; ls\n")
    t.ok(done.status == 126 and b"shell-not-listed" in done.out and done.out.count(b"block") >= 2, "check: strict", *done.describe())
    t.equal(mode.cay("check", "-l", "bash", "-", stdin="frobnicate; ls\n").status, 0, "check: not strict")
    file.write_bytes(b"x = 1\n" * (11 * caytest.MIB // 6))
    done = mode.cay("check", "--json", "a.py")
    report = json.loads(done.out)
    t.ok(done.status == 126 and report["findings"][0]["rule"] == "unchecked" and "bytes long" in report["findings"][0]["message"], "check: 11 MB is unknown",
         done.out[:300])
    file.unlink()


def own_rules(t, mode):
    folder = mode.home / ".config/cay/rules"
    folder.mkdir(parents=True)
    rule = folder / "mine.toml"
    rule.write_text('languages = ["python"]\n\n[[rule]]\nid = "mine"\nseverity = "block"\nmessage = "no {name} here"\nuse = ["print"]\n\n'
                    '[[rule]]\nid = "python-eval"\nseverity = "off"\n')
    code = "p = print\np(eval('1'))\n"
    done = mode.cay("check", "-l", "py", "--json", "-", stdin=code)
    t.equal([(f["rule"], f["message"]) for f in json.loads(done.out)["findings"]][:1], [("mine", "no print here")], "rules: one's own", *done.describe())
    t.ok(b"python-eval" not in done.out, "rules: and one taken away", done.out)
    rows = [("[[rule]]\nid=3\n", ":1: "), ('languages = ["python"]\n[[rule]]\nid = "a"\nmessage = "m"\nsever = "warn"\n', ":5: "),
            ('languages = ["python"]\n[[rule]]\nid = "a"\nmessage = "m"\n', ":2: "), ('languages = ["python"]\n[[rule]]\nid = "a"\nmessage = "m"\nquery = "(no_such) @x"\n', ":5: "),
            ("languages = [", ":1: ")]
    for text, where in rows:
        rule.write_text(text)
        done = mode.cay("check", "-l", "py", "-", stdin="1\n")
        t.ok(done.status == 2 and (str(rule) + where).encode() in done.err, f"rules: broken{where}", *done.describe())
    r = mode.json("run", "-l", "python", "-e", "print(1)", "--policy", "block")
    t.result(r, "rules: broken rules block nothing silently", cause="policy", exit_code=126)
    rule.unlink()


# Bash runs it, and its grammar can't read it.
UNREAD = "declare -A m; i=1; m[$i:$i]=ran; echo \"${m[1:1]}\"\n"

# What is found first is let be, and there is more than is told.
CROWDED = 'bash -c "if ("\n' + 'eval "$x"\n' * 1005 + "echo ran\nrm -rf /nonexistent-x\n"

# What everybody imports, and what is there to be told of it when it is asked for.
QUIET = (
    ("python", "import os, pathlib, shutil, socket, subprocess, ssl, importlib\nprint(subprocess.run(['echo', 'hi'], capture_output=True).returncode)"),
    ("javascript", "const fs = require('fs'), { execSync } = require('node:child_process'), http = require('http');\nconsole.log(fs.existsSync('/'), `${execSync('echo hi')}`)"),
    ("ruby", "require 'open3'\nrequire 'socket'\nputs `echo hi`, system('true')"),
    ("php", "<?php assert(1 < 2); echo exec('echo hi');"),
    ("perl", "use Socket; print `echo hi`;"),
    ("bash", "n=3; (( n > 2 )) && s=hello && echo ${s:$n:1} && declare -A m && m[$n,$n]=1 && ls .. >/dev/null"),
)


def quiet(t, mode):
    """Isolated, and nobody asked for a policy: nothing is said of what everyday code does. block and the check do."""
    there = {x["name"]: x.get("path") for x in json.loads(mode.cay("languages", "--json").out)}
    for language, code in QUIET:
        if not there.get(language):
            t.skip(f"quiet: {language}", f"{language} is not installed", language)
            continue
        r = mode.json("run", "-l", language, "-e", code)
        t.ok(r.cause == "ok" and not any("policy" in w for w in r.get("meta.warnings")), f"quiet: {language}", *r.describe())
        r = mode.json("run", "-l", language, "-e", code, "--policy", "warn")
        t.ok(any(w.startswith("policy: ") for w in r.get("meta.warnings")) or language == "perl", f"unless it is asked: {language}", *r.describe())
        done = mode.cay("check", "--json", "-l", language, "-e", code)
        t.ok(done.status == 126 and any(f["ordinary"] for f in json.loads(done.out)["findings"]), f"and the check lists it: {language}", *done.describe())
        t.result(mode.json("run", "-l", language, "-e", code, "--policy", "block"), f"and block refuses it: {language}", cause="policy", exit_code=126)
    for module in ("os", "subprocess", "shutil", "socket", "pathlib"):
        r = mode.json("run", "-l", "python", "-e", f"import {module}", env={"SANDBOX_BLOCK_DANGEROUS_IMPORTS": "true"})
        t.result(r, f"the founding list: {module}", cause="policy", error_message=IMPORT + module, meta__blocked_imports=[module])


def unread(t, mode):
    """What the grammar can't read is unknown: told once, and refused in strict mode and without isolation (test-fallback)."""
    bash = ("run", "-l", "bash", "-e", UNREAD)
    t.result(mode.json(*bash, "--policy", "block"), "what the grammar can't read runs isolated", stdout="ran\n", cause="ok")
    t.result(mode.json(*bash, "--policy-strict"), "but not in strict mode", stdout="", cause="policy", exit_code=126)
    other = mode.cwd / "unread.sh"
    other.write_text(UNREAD)
    told = [w for w in mode.json(*bash, "--file", "unread.sh").get("meta.warnings") if "unparsed" in w]
    t.equal(len(told), 1, "and is told once", *told)
    other.unlink()
    t.ok(b"(unparsed)" in mode.terminal(*bash), "on a terminal too")
    text = mode.terminal("run", "-l", "python", "-e", "print((1)")
    t.ok(b"(unparsed)" not in text and b"SyntaxError" in text, "but not where the program says what is wrong", text)
    r = mode.json("run", "--policy", "block", "-l", "bash", "-e", UNREAD + "rm -rf /usr/x\n")
    t.result(r, "and hides nothing beside it", cause="policy", exit_code=126)
    report = json.loads(mode.cay("check", "--json", "-l", "bash", "-e", UNREAD).out)
    t.equal((report["safe"], [f["rule"] for f in report["findings"]]), (False, ["unparsed"]), "and the check does not call it safe")
    r = mode.json("run", "--policy", "block", "-l", "bash", "-", stdin=CROWDED)
    t.result(r, "nor does a crowd of findings", stdout="", cause="policy", exit_code=126)
    r = mode.json("run", "--policy", "block", "-l", "python", "-", stdin=b"x = '\xff'\n")
    t.result(r, "what is no text is refused", cause="policy", exit_code=126)


def doors(t, mode):
    """The same policy by every way in."""
    code = "import os\nprint('ran')\n"
    file = mode.cwd / "x.py"
    file.write_text(code)
    request = mode.cwd / "request.json"
    request.write_text(json.dumps({"language": "python", "code": code, "policy": "block"}))
    project = mode.cwd / ".cay.toml"

    def blocked(r, name):
        t.result(r, name, stdout="", cause="policy", exit_code=126, error_message=IMPORT + "os", meta__blocked_imports=["os"], success=False, language="python")

    blocked(mode.json("run", "--policy", "block", "x.py"), "door: a file")
    blocked(mode.json("run", "--policy", "block", "-l", "python", "-e", code), "door: -e")
    blocked(mode.json("run", "--policy", "block", "-l", "python", "-", stdin=code), "door: stdin")
    blocked(mode.json("run", "--request", "request.json"), "door: a request")
    blocked(mode.json("run", "x.py", env={"SANDBOX_BLOCK_DANGEROUS_IMPORTS": "true"}), "door: the environment")
    blocked(mode.json("run", "x.py", env={"CAY_POLICY": "block"}), "door: cay's own variable")
    project.write_text('policy = "block"\n')
    blocked(mode.json("run", "x.py"), "door: a project's file")
    r = mode.json("run", "--policy", "off", "x.py")
    project.unlink()
    t.result(r, "a flag is over the project's file", stdout="ran\n", cause="ok")
    helper = mode.cwd / "helper.py"
    helper.write_text("from subprocess import run\n")
    r = mode.json("run", "--policy", "block", "-l", "python", "-e", "import helper", "--file", "helper.py")
    t.result(r, "door: a file beside the code", cause="policy", error_message=IMPORT + "subprocess")
    done = mode.cay("run", "--policy", "block", "x.py")
    t.ok(done.status == 126 and done.out == b"" and (IMPORT + "os").encode() in done.err, "door: and said plainly", *done.describe())
    events = [json.loads(line) for line in mode.cay("run", "--events", "--policy", "block", "x.py").out.splitlines()]
    t.equal((events[0]["event"], events[-1]["event"], events[-1]["result"]["verdict"]["cause"]), ("started", "finished", "policy"), "door: events")
    library(t, mode, code)
    blocked(mode.json("run", "--policy", "block", "--workspace", ".", "x.py"), "door: a workspace")
    blocked(mode.json("run", "--policy", "block", "--backend", "docker", "x.py"), "door: a container, before there is one")
    done = mode.cay("run", "--policy", "block", "--repeat", "2", "x.py")
    t.ok(b"2 policy" in done.err and b"ran" not in done.out, "door: repeated", *done.describe())
    text = mode.terminal("run", "-t", "--policy", "block", "x.py")
    t.ok((IMPORT + "os").encode() in text and b"ran\r" not in text, "door: a terminal", text)
    c = mode.cwd / "x.c"
    c.write_text('#include <stdlib.h>\nint main(void) { return system("true"); }\n')
    first = mode.json("run", "--policy", "off", "x.c")
    r = mode.json("run", "--policy", "block", "x.c")
    t.ok(first.get("exit_code") == 0 and r.get("verdict.cause") == "policy", "door: a compiled program that was kept", *r.describe())
    c.unlink()

    r = mode.json("run", "x.py")
    t.result(r, "warn is the default, and runs", stdout="ran\n", cause="ok", meta__blocked_imports=[])
    t.ok(not any("policy" in w for w in r.get("meta.warnings")), "and says nothing of what is ordinary", r.get("meta.warnings"))
    file.write_text(code + "if 0: exec('1')\n")
    r = mode.json("run", "x.py")
    t.ok([w[:16] for w in r.get("meta.warnings") if "policy" in w] == ["policy: x.py:3: "], "but of what is not", r.get("meta.warnings"))
    file.write_text(code)
    done = mode.cay("run", "x.py")
    t.equal((done.out, done.err), (b"ran\n", b""), "but not among what a script prints")
    done = mode.cay("run", "--policy", "warn", "x.py")
    t.ok(b"policy: x.py:1" in done.err, "unless it was asked for", *done.describe())
    r = mode.json("run", "--policy", "off", "x.py")
    t.ok(not any("policy" in w for w in r.get("meta.warnings")), "off is off", r.get("meta.warnings"))
    r = mode.json("run", "--policy", "block", "--policy-bypass", "x.py")
    t.result(r, "bypass runs", stdout="ran\n", cause="ok")
    t.ok(any("bypassed" in w for w in r.get("meta.warnings")), "and says so", r.get("meta.warnings"))
    t.result(mode.json("run", "--policy", "block", "-l", "python", "-e", "print(6 * 7)"), "what is safe runs", stdout="42\n", cause="ok")
    unread(t, mode)
    t.result(mode.json("run", "-l", "bash", "--policy", "block", "-e", "r\\m -rf /"), "other findings block too", cause="policy", exit_code=126)
    config = mode.home / ".config/cay/cay.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('block_imports = ["json"]\nallow_imports = ["os"]\n')
    r = mode.json("run", "--policy", "block", "-l", "python", "-e", "import json, os")
    t.result(r, "block_imports", cause="policy", error_message=IMPORT + "json")
    t.result(mode.json("run", "--policy", "block", "x.py"), "allow_imports", cause="ok", stdout="ran\n")
    config.unlink()
    for path in (file, request, helper):
        path.unlink()


# What strict mode lets a shell run: the usual tools of somebody who programs.
ALLOWED = ("python -m pytest -q", "python3 x.py", "pytest tests", "git status", "git diff HEAD", "make test", "npm test", "node x.js", "tar xf a.tgz", "gcc -c x.c")


def strict(t, mode):
    """Strict mode in a run, and commands where somebody asked for a policy."""
    bash = ("run", "-l", "bash", "-e")
    r = mode.json(*bash, "frobnicate", "--policy-strict")
    t.result(r, "strict: a command that is not listed", cause="policy", exit_code=126, error_message="Security policy blocked code: line 1: frobnicate is not among the commands that strict mode allows")
    t.result(mode.json(*bash, "echo ok | tr a-z A-Z", "--policy-strict"), "strict: those that are run", "OK\n", cause="ok")
    r = mode.json(*bash, "chmod 777 x", "--policy-strict")
    t.result(r, "strict: warnings block", cause="policy", exit_code=126)
    r = mode.json(*bash, "true; frobnicate; true", "--policy-strict", "--policy", "warn")
    t.ok(r.cause == "ok" and any("frobnicate is not among" in w for w in r.get("meta.warnings")), "strict: or are told, where warn is said too", *r.describe())
    t.result(mode.json(*bash, "frobnicate", env={"CAY_POLICY_STRICT": "true"}), "strict: by the environment", cause="policy", exit_code=126)
    t.result(mode.json("exec", "--policy-strict", "--", "frobnicate"), "strict: of a command too", cause="policy", exit_code=126)
    t.result(mode.json("exec", "--policy-strict", "--", "echo", "a"), "strict: which runs where it is listed", "a\n", cause="ok")
    wrong = {code: done.out for code in ALLOWED if (done := mode.cay("check", "-l", "bash", "--strict", "-", stdin=code + "\n")).status != 0}
    t.empty(wrong, "strict: python, pytest, git and their like are listed")
    for code in ("cat ../../../etc/passwd", "python ../../malicious.py", "cat < ../../x", "cp a ../../b", "cat ../x", "cd ..; ls"):
        t.equal(mode.cay("check", "-l", "bash", "-", stdin=code + "\n").status, 126, f"path traversal blocks: {code}")
        r = mode.json(*bash, code, "--policy", "block")
        t.ok(r.cause == "policy" and ("climbs out" in r.get("error_message") or "is above the folder" in r.get("error_message")), f"and in a run: {code}", *r.describe())
    r = mode.json("exec", "--policy", "block", "--", "sh", "-c", "shutdown -h now")
    t.result(r, "a command where somebody asked for block", cause="policy", exit_code=126, error_message="Security policy blocked command: shutdown stops the machine")
    t.result(mode.json("exec", "--", "sh", "-c", "echo shutdown"), "and where nobody did", "shutdown\n", cause="ok", meta__warnings=[w for w in mode.json("exec", "--", "true").get("meta.warnings")])


# What starts code, of all that there is: each is walked below, or in the test that is named. Who adds one adds it here.
COMMANDS = {"run": "doors", "exec": "strict, and test-fallback without isolation", "serve": "server_doors", "bench": "programs of its own", "doctor": "a program of its own"}
ROUTES = {"/v1/execute": "server_doors", "/v1/check": "runs nothing"}
LIBRARY = {"cay_run": "library", "cay_start": "server_doors", "cay_check": "runs nothing"}
BACKENDS = {"native": "doors", "process": "test-fallback", "docker": "doors"}


def all_doors(t, mode):
    """A door that nobody has thought of here is a failure."""
    if not (caytest.ROOT / "src").is_dir():
        return
    other = {"check", "show", "explain", "apply", "discard", "history", "stats", "token", "image", "audit", "cleanup", "languages", "config", "setup",
             "completion", "version", "help"}
    rows = re.findall(r"^    (?:CMD|FULL)\((\w+),", (caytest.ROOT / "src/cli/commands.h").read_text(), re.M)
    t.equal(sorted(rows), sorted(other | set(COMMANDS)), "each command is a door, or known to be none")
    rows = re.findall(r'"(?:POST|PUT|PATCH)", "([^"]+)"', (caytest.ROOT / "src/doors/http/route.h").read_text())
    t.equal(sorted(rows), sorted(ROUTES), "each route that takes a body is walked")
    header = (caytest.ROOT / "include/cay/run.h").read_text() + (caytest.ROOT / "include/cay/check.h").read_text()
    rows = re.findall(r"CAY_API [^;]*?\b(cay_(?:run|start|exec|check|submit)\w*)\(", header)
    t.equal(sorted(x for x in rows if x in LIBRARY or not x.startswith(("cay_run_", "cay_running", "cay_check_"))), sorted(LIBRARY), "each way to start a run by the library is walked")
    rows = [p.name for p in (caytest.ROOT / "src/backends").iterdir() if p.is_dir()]
    t.equal(sorted(rows), sorted(BACKENDS), "each backend is walked")
    begins = [p.name for p in (caytest.ROOT / "src").rglob("*.c") if re.search(r"\bopen_and_start\(run", p.read_text())]
    t.equal(begins, ["run.c"], "and all runs go the same way, past the policy")


def server_doors(t, mode):
    """A server that blocks: no form of asking, and no client's word, gets past it."""
    if not mode.has_cgroup:
        return
    code = "import os\nprint('ran')\n"
    tokens = f"{cayserve.TOKEN} main {cayserve.ALL}\nbypass-token-of-0123456789abcdef main execute,read,bypass\n"
    ask = {"language": "python", "code": code}
    with cayserve.Server(mode, tokens=tokens, env={"CAY_POLICY": "block"}) as s:
        for name, options in (("TCP", {}), ("the unix socket", {"over": "unix", "token": None})):
            r = s.execute(ask, **options)
            t.equal((r.status, r.json.get("error_message"), r.json.get("stdout")), (200, IMPORT + "os", ""), f"door: {name}", r)
        for form in ("text/event-stream", "application/x-ndjson"):
            last = s.events("/v1/execute", form=form, body=ask)[-1][1]
            t.equal((last["event"], last["result"]["verdict"]["cause"]), ("finished", "policy"), f"door: {form}", last)
        r = s.execute({**ask, "detach": True})
        page = s.until(r.json["id"])
        t.equal((r.status, page["verdict"]["cause"], page["error_message"]), (202, "policy", IMPORT + "os"), "door: detached", page)
        r = s.execute({"command": ["sh", "-c", "shutdown -h now"]})
        t.equal((r.status, r.json.get("exit_code")), (200, 126), "door: a command", r)
        r = s.execute({"language": "bash", "code": "frobnicate", "policy_strict": True})
        t.equal((r.status, r.json.get("exit_code")), (200, 126), "door: strict mode can be asked for", r)
        r = s.execute({"language": "python", "code": "import helper", "files": {"helper.py": code}})
        t.equal(r.json.get("error_message"), IMPORT + "os", "door: a file of the request's", r)
        for policy in ("off", "warn"):
            r = s.execute({**ask, "policy": policy})
            t.ok(r.status == 403 and "policy" in r.error.get("message", ""), f"a client can't ask for {policy}", r)
        r = s.execute({**ask, "policy": "off"}, token="bypass-token-of-0123456789abcdef")
        t.equal((r.status, r.json.get("stdout")), (200, "ran\n"), "unless its token may", r)
        file = mode.cwd / "y.py"
        file.write_text(code)
        r = mode.json("run", "--policy", "block", "y.py")
        t.result(r, "door: a run that a server's warden makes", cause="policy", error_message=IMPORT + "os", stdout="")
        file.unlink()


def strict_server(t, mode):
    """Strict mode of a server's holds for its clients."""
    if not mode.has_cgroup:
        return
    with cayserve.Server(mode, env={"CAY_POLICY_STRICT": "true", "CAY_SPARES": "0"}) as s:
        ask = {"language": "bash", "code": "frobnicate"}
        t.equal(s.execute(ask).json.get("exit_code"), 126, "a strict server refuses what is not listed")
        for field in ({"policy": "off"}, {"policy": "warn"}, {"policy_strict": False}):
            r = s.execute({**ask, **field}, token=cayserve.TOKEN)
            t.equal(r.status, 403, f"and no client loosens that: {field}", r)


def library(t, mode, code):
    """libcay.so in this process, which is no small one: the worker is found beside the helper."""
    path = caytest.CAY.parent / "src" / "libcay.so"
    if caytest.SANITIZED or mode.uid is not None or not path.exists():
        return
    lib = ctypes.CDLL(str(path))

    class Options(ctypes.Structure):
        _fields_ = [("helper", ctypes.c_char_p), ("fork_warden", ctypes.c_bool), ("start_now", ctypes.c_bool), ("once", ctypes.c_bool),
                    ("argv", ctypes.c_void_p), ("no_project", ctypes.c_bool), ("rest", ctypes.c_char * 64)]

    cay, result, err = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(1024)
    for name in ("cay_request_new", "cay_result_json"):
        getattr(lib, name).restype = ctypes.c_void_p
    options = Options(helper=str(mode.binary).encode())  # the engine keeps pointing to it
    opened = lib.cay_open(ctypes.byref(options), ctypes.byref(cay), err)
    request = ctypes.c_void_p(lib.cay_request_new())
    for field, value in ((b"language", b"python"), (b"code", code.encode()), (b"policy", b"block")):
        lib.cay_request_set(request, field, value, err)
    ran = lib.cay_run(cay, request, None, ctypes.byref(result), err)
    text = json.loads(ctypes.string_at(lib.cay_result_json(result))) if opened == 0 and ran == 0 else {"error": err.value}
    t.equal((text.get("exit_code"), text.get("error_message")), (126, IMPORT + "os"), "door: the library", text)
    lib.cay_result_free(result)
    lib.cay_request_free(request)
    lib.cay_close(cay)


def terminal(t, mode):
    """Colours, tables and line breaks: on a terminal, where they were asked for, and never in a pipe."""
    code = "print('{\"a\": [1, {\"b\": \"\\\\u001b[2J\"}]}')"
    text = re.sub(rb"\x1b\[[0-9;]*m", b"", mode.terminal("run", "--pretty", "-l", "python", "-e", code))
    t.ok(b'{\n  "a": [\n    1,\n' in text and b"\x1b[2J" not in text, "pretty: JSON", text)
    t.ok(b"\x1b[" in mode.terminal("run", "--pretty", "-l", "python", "-e", code), "pretty: with colours")
    t.ok(b"\x1b[" not in mode.terminal("run", "--pretty", "--no-color", "-l", "python", "-e", code), "pretty: or without")
    rows = "print('name,n\\n\"a, b\",1\\nlong name,22')"
    text = mode.terminal("run", "--pretty", "-l", "python", "-e", rows)
    t.ok(b"name      | n \n----------+---\na, b      | 1 \nlong name | 22\n" in text, "pretty: rows", text)
    text = mode.terminal("run", "--pretty", "-l", "python", "-e", "print('just text')")
    t.ok(b"just text\n" in text, "pretty: anything else as it is", text)
    t.equal(mode.cay("run", "--pretty", "-l", "python", "-e", rows).out, b'name,n\n"a, b",1\nlong name,22\n', "pretty: not in a pipe")
    (mode.cwd / "c.py").write_text("import os  # x\n")
    text = mode.terminal("check", "c.py")
    t.ok(b"\x1b[1;31mblock\x1b[0m" in text and b"\x1b[35mimport\x1b[0m os" in text, "check: colours on a terminal", text)
    (mode.cwd / "c.py").write_text("raise ValueError('x')  # x\n")
    id = mode.json("run", "c.py").get("id")
    text = mode.terminal("show", id)
    t.ok(b"\x1b[35mraise\x1b[0m" in text, "show: the code with colours", text)
    t.ok(b"\x1b[" not in mode.cay("show", id).out, "show: not in a pipe")
    (mode.cwd / "c.py").unlink()


def missing(t, mode):
    """Without the grammars: unknown to the check, refused by block, and a run as usual otherwise."""
    folder = "/usr/local/lib/cay/grammars"
    if not mode.is_root or not os.path.isdir(folder):
        return
    subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    try:
        done = mode.cay("check", "-l", "py", "--json", "-", stdin="print(1)\n")
        report = json.loads(done.out)
        t.ok(done.status == 126 and report["safe"] is False and report["findings"][0]["rule"] == "unchecked", "no grammar: unknown", *done.describe())
        t.result(mode.json("run", "-l", "python", "-e", "print(1)", "--policy", "block"), "no grammar: block refuses", cause="policy", exit_code=126)
        r = mode.json("run", "-l", "python", "-e", "print(1)", "--policy", "warn")
        t.ok(r.get("stdout") == "1\n" and any("was not checked" in w for w in r.get("meta.warnings")), "no grammar: warn runs it and says so", r.get("meta.warnings"))
        r = mode.json("run", "-l", "python", "-e", "print(1)")
        t.ok(r.get("stdout") == "1\n" and not any("policy" in w for w in r.get("meta.warnings")), "no grammar: nobody asked, nobody is told", r.get("meta.warnings"))
        if not caytest.SANITIZED:
            report = mode.cay("doctor", "--json").out.decode()
            t.ok(re.search(r'"grammars"[^{}]*"warn"', report) and "install-grammars.sh" in report, "no grammar: the doctor says so, and the fix", report[-2000:])
        Path(folder, "python.so").write_text("no library")
        done = mode.cay("check", "-l", "py", "-", stdin="print(1)\n")
        t.ok(done.status == 126 and b"python.so, can't be loaded" in done.out, "a broken grammar: unknown, and which", *done.describe())
    finally:
        subprocess.run(["umount", folder], check=True)


def test(t, mode):
    if mode.is_root:
        if not has_grammars(t):
            return
        sets(t)
        unknown(t)
        wire(t)
        reading(t)
    command(t, mode)
    own_rules(t, mode)
    all_doors(t, mode)
    doors(t, mode)
    quiet(t, mode)
    strict(t, mode)
    server_doors(t, mode)
    strict_server(t, mode)
    terminal(t, mode)
    missing(t, mode)
    shutil.rmtree(mode.home / ".config", ignore_errors=True)


caytest.main(test, modes=("root",))

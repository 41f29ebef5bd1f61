#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What comes out: plain, --json, --events and --plan; the forms of error_message; and the result of what could not run."""
import base64
import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest
from caytest import inside, until
from cayresult import parse_report, schema_problems

BOTH = "import os\nos.write(1, b'out\\n')\nos.write(2, b'err\\n')\n"


def events_of(done):
    return [json.loads(line) for line in done.out.decode().splitlines()]


def bytes_of(events, kind):
    return b"".join(e["data"].encode() if "data" in e else base64.b64decode(e["base64"]) for e in events if e["event"] == kind)


def plain(t, mode):
    done = mode.cay("run", "-l", "python", "-e", BOTH + "raise SystemExit(3)")
    t.equal((done.status, done.out, done.err), (3, b"out\n", b"err\n"), "plain: each stream to its own, unchanged, and no word of cay's")
    data = bytes(range(256)) * 300
    put = f"import os, base64\nd = base64.b64decode('{base64.b64encode(data[:256]).decode()}') * 300\nwhile d: d = d[os.write(1, d):]"
    done = mode.cay("run", "-l", "python", "-e", put)
    t.ok(done.status == 0 and done.out == data, "plain: every byte, and more of them than --json keeps", len(done.out), done.err)
    done = mode.cay("run", "--timeout", "1.5", "-l", "python", "-e", BOTH + "import time\ntime.sleep(600)")
    t.ok(done.status == 124 and done.out == b"out\n" and b"\ncay: Code execution timed out after 1.5s\n" in done.err,
         "plain: what was no end of the program's own is said on stderr", *done.describe())
    done = mode.cay("exec", "--", "sh", "-c", "kill -ABRT $$")
    t.ok(done.status == 134 and b"cay: ended by signal 6" in done.err, "plain: a signal is named", *done.describe())
    done = mode.cay("run", "-l", "c", "-e", "int main(void) { return 0 }")
    t.ok(done.status == 1 and b"error: expected" in done.err and done.out == b"", "plain: what the compiler said comes on stderr",
         *done.describe())


def a_compilers_words(t, mode):
    if not runs(mode, "c"):
        t.skip("a compiler's warning", "c is not installed", "c")
        return
    done = mode.cay("run", "-l", "c", "-e", "#warning look here\nint main(void) { return 0; }")
    lines = done.err.decode().splitlines()
    t.ok(len(lines) > 1 and lines[0].startswith("cay: warning: compiler: ") and all(line.startswith("cay:   ") for line in lines[1:]) and
         "\\x" not in done.err.decode(), "a compiler's warning has its lines, and each is told as cay's", *done.describe())


def as_json(t, mode):
    done = mode.cay("run", "--json", "-l", "python", "-e", BOTH + "raise SystemExit(3)")
    data, problems = parse_report(done.out)
    t.ok(not problems and not schema_problems(data) and done.out.count(b"\n") == 1 and done.out.endswith(b"}\n"),
         "--json: one object in one line, and nothing else", problems, *done.describe())
    t.equal(done.err, b"", "--json: nothing on stderr")
    t.equal((data["stdout"], data["stderr"], data["exit_code"], done.status), ("out\n", "err\n", 3, 3), "--json: streams and status")
    r = mode.python("print('x' * 50000)", "--max-output", "1k")
    t.result(r, "--max-output: a stream is cut", cause="ok", meta__truncated=True, meta__usage__stdout_bytes=50001)
    t.ok(len(r.stdout) <= 1024 and r.stdout.startswith("xxx") and r.stdout.endswith("xxx\n") and "bytes left out" in r.stdout,
         "--max-output: head and tail, and how much is missing between", r.stdout[:600])
    left_out = int(r.stdout.split("[... ")[1].split()[0])
    note = len(f"\n[... {left_out} bytes left out ...]\n")
    t.equal(len(r.stdout) - note + left_out, 50001, "--max-output: the number is right")
    r = mode.python("print('x' * 5000 + 'y')", "--max-output", "10")
    t.result(r, "--max-output: a small one too says what is missing", "xxxxx\n[... 4992 bytes left out ...]\nxxxy\n", cause="ok",
             meta__truncated=True)
    r = mode.python("print('x')", "--max-output", "0")
    t.result(r, "--max-output 0 keeps nothing", "", cause="ok", meta__truncated=True, meta__usage__stdout_bytes=2)


def as_events(t, mode):
    done = mode.cay("run", "--events", "-l", "python", "-e", BOTH + "os.write(1, b'\\xff\\n')\nraise SystemExit(3)")
    events = events_of(done)
    t.equal([e["seq"] for e in events], list(range(1, len(events) + 1)), "--events: counted from 1 without a gap", *done.describe())
    kinds = [e["event"] for e in events]
    t.ok(kinds[:2] == ["started", "stage"] and kinds[-1] == "finished" and "usage" in kinds and kinds.count("finished") == 1,
         "--events: started, stage, …, usage, finished", kinds)
    t.ok(all(a["time"] <= b["time"] for a, b in zip(events, events[1:])) and events[0]["time"] >= 0, "--events: time goes on",
         [e["time"] for e in events])
    t.equal((bytes_of(events, "stdout"), bytes_of(events, "stderr")), (b"out\n\xff\n", b"err\n"), "--events: the bytes as written")
    result = events[-1]["result"]
    t.ok(not schema_problems(result) and result["exit_code"] == 3 == done.status, "--events: finished carries the whole result",
         schema_problems(result))
    t.equal(events[0]["data"], result["id"], "--events: started carries the id")
    t.equal(done.err, b"", "--events: nothing on stderr")
    done = mode.cay("run", "--events", "--strict", "-l", "c", "-e", "#include <stdio.h>\nint main(void) { int x; puts(\"hi\"); return 0; }")
    events = events_of(done)
    t.equal([e["data"] for e in events if e["event"] == "stage"], ["compile", "run"], "--events: both stages of a compiled language")
    kinds = [e["event"] for e in events if e["event"] in ("stage", "stdout")]
    t.equal(kinds, ["stage", "stage", "stdout"], "--events: the program's output after its stage")
    done = mode.cay("run", "--events", "-l", "c", "-e", "int main(void) { return 0 }")
    events = events_of(done)
    t.ok([e["data"] for e in events if e["event"] == "stage"] == ["compile"] and b"error: " in bytes_of(events, "stderr") and
         events[-1]["result"]["verdict"]["cause"] == "compile", "--events: a compiler that fails is the end", *done.describe())


def whole_characters(t, mode):
    """Only bytes that are not UTF-8 are base64: no reading of ours cuts a character."""
    done = mode.cay("run", "--events", "-l", "python", "-e", "print('€' * 200000)\nimport sys\nprint('ü€😀' * 50000, file=sys.stderr)")
    events = events_of(done)
    t.equal([e["event"] for e in events if "base64" in e], [], "characters: text is text, wherever it was cut")
    t.ok(bytes_of(events, "stdout") == "€".encode() * 200000 + b"\n" and bytes_of(events, "stderr") == "ü€😀".encode() * 50000 + b"\n",
         "characters: and all of it", len(done.out))
    write = "import os, time\nfor part in b'a\\xe2', b'\\x82\\xacb', b'c\\xf0\\x9f':\n    os.write(1, part)\n    time.sleep(%s)"
    events = events_of(mode.cay("run", "--events", "-l", "python", "-e", write % 0.6 + "\nos.write(1, b'!')"))
    at = {e["base64"]: e["time"] for e in events if "base64" in e and e["event"] == "stdout"}
    half = at.get(base64.b64encode(b"\xe2").decode())
    after = [e["time"] for e in events if e["event"] == "stdout" and half and e["time"] > half]
    t.ok(half and after and after[0] - half > 0.3, "characters: half of one is held back for a moment only", events)
    t.equal(bytes_of(events, "stdout"), b"a\xe2\x82\xacbc\xf0\x9f!", "characters: the bytes as written")
    events = events_of(mode.cay("run", "--events", "-l", "python", "-e", write % 0))
    result = events[-1]["result"]
    t.ok(bytes_of(events, "stdout") == b"a\xe2\x82\xacbc\xf0\x9f" == base64.b64decode(result.get("stdout_base64", "")),
         "characters: half of one at the end is there", events)


def told_once(t, mode):
    """What the result has, the events had: warnings too, and a start only once."""
    for name, flags, code in (("policy", ("--policy", "block"), "import os"), ("output", ("--output-cap", "5"), "print('hello world')"),
                              ("disk", ("--disk", "64k"), "try: open('x', 'w').write('y' * 99999)\nexcept OSError: pass")):
        done = mode.cay("run", "--events", *flags, "-l", "python", "-e", code)
        events = events_of(done)
        kinds = [e["event"] for e in events]
        t.ok(kinds.count("started") == 1 == kinds.count("finished"), f"{name}: it begins and ends once", kinds)
        t.equal(sorted(e["data"] for e in events if e["event"] == "warning"), sorted(events[-1]["result"]["meta"]["warnings"]),
                f"{name}: each warning is an event")
        result = events[-1]["result"]
        if name == "output":  # the warden may have been told, or the program have ended before
            t.ok(result["verdict"]["cause"] in ("ok", "output") and result["meta"]["truncated"] and result["stdout"] == "hello" and
                 bytes_of(events, "stdout") == b"hello" and result["meta"]["usage"]["stdout_bytes"] == 12, f"{name}: one cut everywhere", result)
            t.ok(result["verdict"]["cause"] == "output" or any("output_cap" in w for w in result["meta"]["warnings"]), f"{name}: and it is said",
                 result["meta"]["warnings"])
    r = mode.python("print('hello world'); exit(3)", "--output-cap", "5")
    t.result(r, "output: past the cap, and failed", cause="output", limit_name="output_cap", exit_code=137)
    r = mode.json("run", "--timeout", "0.5", "-l", "bash", "-e", "sleep 20")
    t.result(r, "what we end has no signal of its own", cause="wall_timeout", signal=None, exit_code=124)
    r = mode.json("run", "--disk", "64k", "-l", "bash", "-e", "exit 5")
    t.result(r, "a small disk that is not full is no cause", cause="exit", exit_code=5)


def stages_do_not_mix(t, mode):
    """What a program prints is never taken for its compiler's words, however late cay comes to read it: cay itself is
    stopped from the compile stage on until there is nothing left to wait for."""
    code = "".join(f"int f{i}(int x) {{ int y = 0; for (int j = 0; j < x; j++) y += j % {i + 1}; return y; }}\n" for i in range(300))
    code += '#include <stdio.h>\nint main(void) { puts("of the program"); return 0; }\n'
    code += f"/* never compiled before: {os.urandom(8).hex()} */\n"
    (mode.cwd / "slow.c").write_text(code)
    with mode.live("run", "--events", "slow.c") as run:
        t.ok(run.wait_for('"data":"compile"'), "stages: the compiler runs", run.seen, run.errors())
        run.signal(signal.SIGSTOP)
        until(lambda: not any(p.name in ("cc1", "as", "ld", "collect2", "gcc") for p in inside()), 60)
        until(lambda: not inside(), 2)
        run.signal(signal.SIGCONT)
        run.end_input()
        t.equal(run.wait(), 0, "stages: it ends well", run.errors())
        run.wait_for('"event":"finished"')
        events = [json.loads(line) for line in run.seen.decode().splitlines()]
        t.equal((bytes_of(events, "stdout"), bytes_of(events, "warning")[:100] if mode.has_cgroup else b""), (b"of the program\n", b""),
                "stages: the program's output is the program's")
        t.equal(events[-1]["result"]["stdout"], "of the program\n", "stages: in the result too", events[-1]["result"]["meta"]["warnings"])


def could_not_run(t, mode):
    for name, args, status in (
        ("before anything was started", ("run", "--backend", "docker", "-l", "python", "-e", "1"), 125),
        ("an unknown language", ("run", "-l", "qqqqqq", "-e", "1"), 127),
        ("after it was started", ("exec", "--", "/no/such/program"), 127),
    ):
        r = mode.json(*args)
        t.result(r, f"could not run, {name}: a whole result", "", cause="infrastructure", exit_code=status, success=False, signal=None)
        t.ok(r.get("error_message") and r.done.err.startswith(b"cay: "), f"could not run, {name}: said in words", *r.describe())
        if args[0] == "exec":
            t.equal(json.loads(mode.cay("show", r.get("id"), "--json").out or b"{}"), r.data, "could not run: it is on record")
        done = mode.cay(args[0], "--events", *args[1:])
        events = events_of(done)
        t.equal([e["seq"] for e in events], list(range(1, len(events) + 1)), f"could not run, {name}: events are counted from 1", done.out[:600])
        last = events[-1] if events else {}
        t.ok(last.get("event") == "finished" and last["result"]["exit_code"] == status == done.status,
             f"could not run, {name}: the stream ends with finished", *done.describe())
        if events and events[0]["event"] == "started":
            t.equal(last["result"]["id"], events[0]["data"], f"could not run, {name}: it is the same run's")
    done = mode.cay("run", "--json", "--timeout", "0", "-l", "python", "-e", "print('RAN')")
    t.ok(done.status == 2 and b"RAN" not in done.out, "a bad field is no run at all", *done.describe())


def stopped_early(t, mode):
    """Ctrl-C before there is a sandbox: nothing is said of what that would lack."""
    found = []
    for i in range(60):
        with mode.live("run", "--no-server", "--json", "-l", "bash", "-e", "sleep 5") as live:
            time.sleep(i % 20 / 1000)
            live.signal(signal.SIGINT)
            if live.wait_for("}\n") and not json.loads(live.seen)["meta"]["isolation"]["layers"]:
                found.append(json.loads(live.seen))
        if len(found) == 3:
            break
    if not found:
        t.skip("stopped early: no warning of layers", "it was never early enough")
    else:
        t.equal([w for r in found for w in r["meta"]["warnings"]], [], "stopped early: no warning of layers")


def plan(t, mode):
    secret = "hunter2-" + os.urandom(4).hex()
    (mode.cwd / "env").write_text(f"FROM_FILE={secret}\n")
    done = mode.cay("run", "--plan", "--env", f"API_KEY={secret}", "--env-file", "env", "--env", "EMPTY=", "--stdin", secret, "--timeout",
                    "7", "-l", "python", "-e", f"'{secret}'", "--", "argument")
    t.equal((done.status, done.err), (0, b""), "--plan: exit status 0", *done.describe())
    data = json.loads(done.out)
    t.ok(secret.encode() not in done.out, "--plan: no value of a variable, no code, no input", done.out[:3000])
    t.ok({"API_KEY", "FROM_FILE", "EMPTY"} <= set(data["env"]), "--plan: the variables' names", data["env"])
    t.equal((data["backend"], data["language"], data["tier"]), ("native", "python", "kernel"), "--plan: backend, language, tier")
    stage = data["stages"][-1]
    t.ok(stage["argv"][-1] == "argument" and stage["limits"]["timeout"] == 7.0 and stage["limits"]["memory"] == 512 << 20,
         "--plan: argv and limits", stage)
    t.ok(data["root"] and data["require"] and data["files"], "--plan: root, layers, files", sorted(data))
    done = mode.cay("exec", "--plan", "--", "touch", "/tmp/x")
    t.ok(done.status == 0 and json.loads(done.out)["language"] is None, "--plan: of a command", *done.describe())
    for flags, status in ((("--timeout", "0"), 2), (("-l", "qqqqq"), 127), (("--network", "full"), 125), (("--timeout", "301"), 2)):
        done = mode.cay("run", "--plan", "-l", "python", *flags, "-e", "1")
        t.ok(done.status == status and done.out == b"", f"--plan {' '.join(flags)}: the same refusal as of a run", *done.describe())
    done = mode.cay("run", "--plan", "-l", "python", "-e", "import os; os.write(2, b'RAN')")
    t.ok(b"RAN" not in done.out + done.err, "--plan: runs nothing", *done.describe())


def messages(t, mode):
    for language, code, start in (
        ("python", "x = (", "Python syntax error: "),
        ("python", "if 1:\nx", "Python syntax error: expected an indented block"),
        ("python", "if 1:\n\tx\n        y", "Python syntax error: inconsistent use of tabs"),
        ("bash", "if then", "Bash syntax error: syntax error near unexpected token `then'"),
        ("bash", 'echo "abc', "Bash syntax error: unexpected EOF while looking for matching"),
        ("bash", "echo $(", "Bash syntax error: unexpected EOF while looking for matching"),
        ("zsh", 'echo "abc', 'Zsh syntax error: unmatched "'),
        ("ruby", '"abc', "Ruby syntax error: unterminated string meets end of file"),
        ("perl", '"abc', "Perl syntax error: Can't find string terminator"),
        ("lua", "x y", "Lua syntax error: syntax error near 'y'"),
        ("lua", "if x print(1) end", "Lua syntax error: 'then' expected near 'print' (main.lua, line 1)"),
        ("javascript", "let = = 1", "JavaScript syntax error: "),
        ("javascript", "let x=1;let x=2", "JavaScript syntax error: Identifier 'x' has already been declared"),
        ("c", "int main(void) { return 0 }", "C syntax error: expected "),
    ):
        if not runs(mode, language):
            t.skip(f"{language}: {start}", f"{language} is not installed", language)
            continue
        r = mode.json("run", "-l", language, "-e", code)
        message = r.get("error_message") or ""
        t.ok(message.startswith(start) and not message.endswith(": ") and "\n" not in message,
             f"{language}: {start}…", *r.describe())
        t.equal(r.get("success"), False, f"{language}: a syntax error is no success")
    for name, language, code, message in (
        ("an exception", "python", "raise ValueError('of mine')", "Execution failed: Traceback"),
        ("stderr of its own", "bash", "echo 'my words' >&2; exit 4", "Execution failed: my words"),
        ("nothing said", "bash", "exit 4", "Execution failed: exit code 4"),
        ("a program that prints 'error: '", "c", '#include <stdio.h>\nint main(void) { fputs("error: mine\\n", stderr); return 1; }',
         "Execution failed: error: mine"),
        ("a killed program", "bash", "kill -KILL $$", "Execution failed: killed by signal 9"),
        ("a program that prints 'SyntaxError: '", "python", "import sys; sys.exit('SyntaxError: mine')",
         "Execution failed: SyntaxError: mine"),
        ("what JSON.parse calls one", "javascript", "JSON.parse('{')", "Execution failed: "),
        ("a compiler that made no program", "go", "package foo\nfunc main() {}",
         "Execution failed: the compiler made nothing that can be executed"),
        ("the same once more", "go", "package foo\nfunc main() {}",
         "Execution failed: the compiler made nothing that can be executed"),
        ("a linker", "c", "int f;", "C compile error: "),
        ("a linker that knows the line", "c", "void f(void);int main(){f();}", "C compile error: "),
    ):
        if not runs(mode, language):
            t.skip(f"error_message of {name}", f"{language} is not installed", language)
            continue
        r = mode.json("run", "-l", language, "-e", code)
        t.ok((r.get("error_message") or "").startswith(message), f"error_message of {name}", *r.describe())
    if runs(mode, "go"):
        r = mode.json("run", "-l", "go", "-e", "package foo\nfunc main() {}\n")
        t.result(r, "a compiler that made no program: it failed", cause="compile", exit_code=1)
        done = mode.cay("run", "-l", "go", "-e", "package foo\nfunc main() {}\n")
        t.ok(done.status == 1 and b"nothing that can be executed" in done.err, "a compiler that made no program: it is said", *done.describe())
    r = mode.python("print(1)")
    t.equal(r.get("error_message"), None, "no error_message on success")
    r = mode.python("import time\ntime.sleep(600)", "--timeout", "0.25")
    t.equal(r.get("error_message"), "Code execution timed out after 0.25s", "error_message of a timeout")


_installed = {}


def runs(mode, language):
    if not _installed:
        _installed.update({x["name"]: bool(x["path"]) for x in json.loads(mode.cay("languages", "--json").out)})
    return _installed.get(language, False)


def test(t, mode):
    plain(t, mode)
    as_json(t, mode)
    a_compilers_words(t, mode)
    as_events(t, mode)
    whole_characters(t, mode)
    told_once(t, mode)
    stages_do_not_mix(t, mode)
    could_not_run(t, mode)
    stopped_early(t, mode)
    plan(t, mode)
    messages(t, mode)


caytest.main(test, modes=("root", "user"))

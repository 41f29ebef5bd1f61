#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How code, files, arguments, variables and input get in, how output gets out while it happens, and who wins when the
same thing is said twice."""
import base64
import datetime
import fcntl
import json
import os
import re
import signal
import sys
import termios

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest
from caytest import marked, until

ECHO = "import sys\nprint(sys.argv[1:])"


def put(mode, name, data, permissions=0o644):
    path = mode.cwd / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    path.chmod(permissions)
    return path


def request(mode, fields, *flags, **options):
    """Runs a JSON request, given on stdin."""
    return mode.json("run", "--request", "-", *flags, stdin=json.dumps(fields), **options)


def code(t, mode):
    put(mode, "prog.py", ECHO)
    put(mode, "prog", "#!/usr/bin/env python3\n" + ECHO)
    put(mode, "noext", ECHO)
    for name, args, out in (
        ("a file", ("prog.py",), "[]\n"),
        ("a file by its whole path", (str(mode.cwd / "prog.py"),), "[]\n"),
        ("a file by its #! line", ("prog",), "[]\n"),
        ("a file with -l", ("-l", "python", "noext"), "[]\n"),
        ("options behind the file", ("noext", "-l", "py"), "[]\n"),
        ("-e", ("-l", "python", "-e", ECHO), "[]\n"),
        ("--eval=", ("-l", "python", f"--eval={ECHO}"), "[]\n"),
        ("arguments", ("prog.py", "--", "a", "", "-l", "--", "b c"), "['a', '', '-l', '--', 'b c']\n"),
        ("arguments of -e", ("-l", "python", "-e", ECHO, "--", "-e"), "['-e']\n"),
        ("an empty program", ("-l", "python", "-e", ""), ""),
        ("-l before #!", ("-l", "bash", "-e", "#!/usr/bin/python3\necho $BASH_VERSION | cut -c1"), "5\n"),
        ("an alias", ("-l", "sh", "-e", "echo $0"), "main.sh\n"),
        ("a language as people write it", ("-l", "Python", "-e", ECHO), "[]\n"),
        ("an alias in capitals", ("-l", "SH", "-e", "echo $0"), "main.sh\n"),
        ("a Markdown fence", ("--strip-fence", "-l", "python", "-e", f"```\n{ECHO}\n```"), "[]\n"),
        ("a fence that names the language", ("--strip-fence", "-e", f"```py\n{ECHO}\n```\n"), "[]\n"),
        ("--strip-fence without a fence", ("--strip-fence", "-l", "python", "-e", ECHO), "[]\n"),
        ("a version", ("-l", f"python:{sys.version_info.major}.{sys.version_info.minor}", "-e", "import sys; print(sys.version_info[:2])"),
         f"{tuple(sys.version_info[:2])}\n"),
    ):
        done = mode.cay("run", *args)
        t.equal((done.status, done.out.decode(), done.err), (0, out, b""), f"code: {name}", *done.describe())
    for name, args in (("-", ("-l", "python", "-")), ("no file at all", ("-l", "python"))):
        done = mode.cay("run", *args, stdin="import sys\nprint(repr(sys.stdin.read()))")
        t.equal((done.status, done.out), (0, b"''\n"), f"code from stdin by {name}: the program's own input is empty", *done.describe())
    done = mode.cay("run", "-", stdin="#!/bin/sh\necho by shebang")
    t.equal((done.status, done.out), (0, b"by shebang\n"), "code from stdin: #! tells the language", *done.describe())
    r = mode.json("run", "-l", "python", "-", stdin=b"print('\\u00e9', 'a\0b' == 'a' + chr(0) + 'b')")
    t.result(r, "code with a NUL in it comes whole, and Python refuses it", cause="exit")
    r = request(mode, {"language": "python", "code": "```python\nprint(1)\n```"})
    t.result(r, "a fence that nobody asked to strip is part of the code", cause="exit")
    t.ok(any("--strip-fence" in text for text in r.get("meta.warnings")), "and said to be there", *r.describe())
    r = request(mode, {"code": "```C++\nint main() { return 0; }\n```", "strip_fence": True})
    t.result(r, "strip_fence in a request", cause="ok", language="cpp")
    r = mode.json("run", "prog.py")
    t.result(r, "the result names the language", language="python", meta__language_version=sys.version.split()[0])


def files(t, mode):
    put(mode, "data.csv", b"1,2\n\0\xff")
    put(mode, "tool.sh", "#!/bin/sh\necho tool", 0o755)
    put(mode, "sub/mod.py", "NAME = 'mod'")
    show = "import os\nfor n in ('data.csv', 'x/y.bin'):\n    if os.path.exists(n): print(n, open('/sandbox/' + n, 'rb').read())"
    r = mode.python(show, "--file", "data.csv")
    t.result(r, "--file NAME", "data.csv b'1,2\\n\\x00\\xff'\n", cause="ok")
    r = mode.python(show, "--file", f"x/y.bin={mode.cwd / 'data.csv'}", "--file", "data.csv")
    t.result(r, "--file NAME=PATH, twice", "data.csv b'1,2\\n\\x00\\xff'\nx/y.bin b'1,2\\n\\x00\\xff'\n", cause="ok")
    r = mode.python(show, "--file", "./data.csv")
    t.result(r, "--file ./NAME is the same", "data.csv b'1,2\\n\\x00\\xff'\n", cause="ok")
    done = mode.cay("run", "--file", str(mode.cwd / "data.csv"), "-l", "python", "-e", "print('RAN')")
    t.ok(done.status == 2 and b"RAN" not in done.out and b"--file NAME=PATH" in done.err, "--file with an absolute name: how it is said",
         *done.describe())
    r = mode.python("import mod; print(mod.NAME)", "--file", "mod.py=sub/mod.py")
    t.result(r, "a module beside the code", "mod\n", cause="ok")
    r = mode.json("exec", "--file", "tool.sh", "--", "/sandbox/tool.sh")
    t.result(r, "a program keeps its permission to run", "tool\n", cause="ok")
    r = mode.python("import os; print(oct(os.stat('data.csv').st_mode & 0o111))", "--file", "data.csv")
    t.result(r, "a plain file gets none", "0o0\n", cause="ok")
    fields = {"language": "python", "code": "print(open('t').read(), open('b', 'rb').read())",
              "files": {"t": "text\u00e9\0", "b": {"base64": base64.b64encode(b"\xff\0").decode()}}}
    t.result(request(mode, fields), "files of a request", "text\u00e9\0 b'\\xff\\x00'\n", cause="ok")
    # Names that contradict each other are a bad request, and nothing runs.
    r = request(mode, {"language": "python", "code": "print('RAN')", "files": {"a": "x", "a/b": "y"}})
    t.ok(r.done.status == 2 and b"RAN" not in r.done.out, "a name that is both file and folder: exit status 2", *r.describe())
    r = request(mode, {"language": "python", "code": "print('RAN')", "files": {"main.py/x": "x"}})
    t.ok(r.done.status == 2 and b"RAN" not in r.done.out, "the code's name as a folder: exit status 2", *r.describe())


def one_process(t, mode):
    r = mode.python("raise ValueError", "--pids", "1")
    t.result(r, "--pids 1: a program that starts no other fails by itself", cause="exit", exit_code=1)


def variables(t, mode):
    show = "import os\nprint({k: os.environ[k] for k in ('A', 'B', 'C', 'HOME') if k in os.environ})"
    caller = {"CALLER": "mine", "A": "the caller's", "B": "the caller's"}
    r = mode.python(show, env=caller)
    t.result(r, "nothing of the caller's comes in", "{'HOME': '/sandbox'}\n", cause="ok")
    r = mode.python(show, "--env", "A=1", "--env", "B", "--env", "C=", "--env", "A=x=y", env=caller)
    t.result(r, "--env", "{'A': 'x=y', 'B': \"the caller's\", 'C': '', 'HOME': '/sandbox'}\n", cause="ok")
    for language, code in (("python", "import os; print(os.environ['PATH'])"), ("bash", "echo $PATH")):
        r = mode.json("run", "-l", language, "--env", "PATH=/opt/bin", "-e", code)
        t.result(r, f"--env PATH is the program's, and finds no {language}", "/opt/bin\n", cause="ok")
    t.equal(mode.cay("exec", "--env", "PATH=/opt/bin", "--", "ls").status, 127, "--env PATH finds the command of exec")
    put(mode, "env", "# a comment\n\nA=from file\r\n  C=a=b\n")
    r = mode.python(show, "--env-file", "env")
    t.result(r, "--env-file", "{'A': 'from file', 'C': 'a=b', 'HOME': '/sandbox'}\n", cause="ok")
    put(mode, "env", "A=from file\nB=2\n")
    r = mode.python(show, "--env-file", "env", "--env", "A=flag", env=caller)
    t.result(r, "--env-file and a later --env", "{'A': 'flag', 'B': '2', 'HOME': '/sandbox'}\n", cause="ok")
    for name, text in (("without =", b"A=1\nhunter2\n"), ("with a NUL", b"A=hunter2\0\n"), ("with a bad name", b"1A=hunter2\n"),
                       ("with a piece of a secret", b"\nA=1\n\n2hunter2==\n"), ("with words", b"\n\n\nexport hunter2=1\n"),
                       ("past 1 MiB", b"A=" + b"hunter2" * 300000 + b"\n")):
        put(mode, "env", text)
        done = mode.cay("run", "--env-file", "env", "-l", "python", "-e", "print('RAN')")
        t.ok(done.status == 2 and b"RAN" not in done.out and b"hunter2" not in done.err,
             f"--env-file {name}: refused, and the secret is not shown", *done.describe())
        line = 1 + next((i for i, part in enumerate(text.split(b"\n")) if b"hunter2" in part), 0)
        t.ok(b"NUL" in done.err or b"larger" in done.err or f" env:{line}: ".encode() in done.err,
             f"--env-file {name}: and the line is named", *done.describe())
    put(mode, "env", b"A=x\ry\r\nB='z' # c")
    r = mode.python(show, "--env-file", "env")
    t.result(r, "--env-file: a value is all of its line", "{'A': 'x\\ry', 'B': \"'z' # c\", 'HOME': '/sandbox'}\n", cause="ok")


def inputs(t, mode):
    read = "import sys\nprint(repr(sys.stdin.buffer.read()))"
    r = mode.python(read, stdin=b"a\0\xff\n")
    t.result(r, "stdin is the program's", "b'a\\x00\\xff\\n'\n", cause="ok")
    r = mode.python("import sys\nprint(len(sys.stdin.buffer.read()))", stdin=b"x" * 1000000)
    t.result(r, "a megabyte of it", "1000000\n", cause="ok")
    r = mode.python("print('done')", stdin=b"x" * 1000000)
    t.result(r, "input that nobody reads", "done\n", cause="ok")
    r = mode.python(read, "--stdin", "given", stdin="not this")
    t.result(r, "--stdin", "b'given'\n", cause="ok")
    r = mode.python(read, "--stdin", "", stdin="not this")
    t.result(r, "--stdin with nothing", "b''\n", cause="ok")
    put(mode, "request.json", json.dumps({"language": "python", "code": read, "stdin": "of the request"}))
    r = mode.json("run", "--request", "request.json", stdin="not this")
    t.result(r, "stdin of a request", "b'of the request'\n", cause="ok")
    put(mode, "request.json", json.dumps({"language": "python", "code": read}))
    r = mode.json("run", "--request", "request.json", stdin="live")
    t.result(r, "a request without stdin leaves it to the program", "b'live'\n", cause="ok")
    done = mode.command("/bin/sh", "-c", f"exec '{mode.binary}' run -l python -e 'import sys; print(repr(sys.stdin.read()))' <&-")
    t.equal((done.status, done.out), (0, b"''\n"), "a closed stdin", *done.describe())


def requests(t, mode):
    full = {"language": "python", "code": "import sys, os\nprint(sys.argv[1:], os.environ['A'], sys.stdin.read())", "args": ["x", ""],
            "env": {"A": "1"}, "stdin": "in", "timeout": 9, "limits": {"memory": "64m", "pids": 7, "max_output": "1k"}}
    r = request(mode, full)
    t.result(r, "--request -", "['x', ''] 1 in\n", cause="ok", meta__resource_limits__timeout=9.0,
             meta__resource_limits__memory=64 << 20, meta__resource_limits__pids=7, meta__resource_limits__max_output=1024)
    r = mode.json("exec", "--request", "-", stdin=json.dumps({"command": ["echo", "a b"], "args": ["c"]}))
    t.result(r, "a command as a request", "a b c\n", cause="ok", language=None)
    # Flag over request.
    put(mode, "request.json", json.dumps(full))
    for flags in (("--timeout", "5", "--memory", "96m", "--request", "request.json"),
                  ("--request", "request.json", "--timeout", "5", "--memory", "96m")):
        r = mode.json("run", *flags)
        t.result(r, f"a flag is over the request ({flags[0]} first)", cause="ok", meta__resource_limits__timeout=5.0,
                 meta__resource_limits__memory=96 << 20, meta__resource_limits__pids=7)
    r = mode.json("run", "--request", "request.json", "-e", "print('flag')")
    t.result(r, "code by a flag is over the request's", "flag\n", cause="ok")
    for name, text, words in (
        ("no JSON", "{", "line 1"),
        ("an array", "[]", "object"),
        ("an unknown field", '{"code": "print(\'RAN\')", "langauge": "python"}', "language"),
        ("an unknown limit", '{"language": "python", "code": "print(\'RAN\')", "limits": {"memroy": 1}}', "memory"),
        ("a limit out of its place", '{"language": "python", "code": "print(\'RAN\')", "memory": "64m"}', "limits"),
        ("a field twice", '{"language": "python", "code": "print(\'RAN\')", "code": "print(\'RAN\')"}', "duplicate"),
        ("a bad value", '{"language": "python", "code": "print(\'RAN\')", "timeout": -1}', "timeout"),
        ("more than a number holds", '{"language": "python", "code": "print(\'RAN\')", "timeout": 99999999999999999999999}',
         "timeout: '99999999999999999999999' is out of range; allowed is"),
        ("a file name with ..", '{"language": "python", "code": "print(\'RAN\')", "files": {"../x": ""}}', "files"),
        ("a NUL in an argument", '{"language": "python", "code": "print(\'RAN\')", "args": ["a\\u0000"]}', "args"),
        ("command and code", '{"command": ["echo", "RAN"], "code": "x"}', "command"),
        ("neither code nor command", '{"language": "python"}', "code"),
    ):
        done = mode.cay("run", "--request", "-", stdin=text)
        t.ok(done.status == 2 and b"RAN" not in done.out and words in done.err.decode(), f"a request with {name}: exit status 2",
             *done.describe())


def live(t, mode):
    """The first line arrives, and an answer is read, before the program ends: nobody waits for anything but that."""
    program = "import sys\nprint('question', flush=True)\nprint('got', sys.stdin.readline().strip(), flush=True)\nsys.stdin.read()\nprint('end')"
    with mode.live("run", "-l", "python", "-e", program) as run:
        t.ok(run.wait_for("question\n"), "output comes while the program runs", run.seen, run.errors())
        run.proc.stdin.write(b"answer\n")
        t.ok(run.wait_for("got answer\n"), "input is passed on as it comes", run.seen)
        t.ok(run.proc.poll() is None, "and the program still runs")
        run.end_input()
        t.ok(run.wait_for("end\n"), "the end of input is passed on too", run.seen)
        t.equal(run.wait(), 0, "it ends as usual")
    program = "import os\nos.write(1, b'no line end')\nos.read(0, 1)\nos.write(2, b'caf\\xc3')\nos.read(0, 1)"
    with mode.live("run", "--events", "-l", "python", "-e", program) as run:
        t.ok(run.wait_for('"data":"no line end"'), "events come while the program runs", run.seen, run.errors())
        run.proc.stdin.write(b"x")
        t.ok(run.wait_for('"event":"stderr"'), "half a character is not held back for ever", run.seen)
        run.proc.stdin.write(b"x")
        t.ok(run.wait_for('"event":"finished"'), "finished comes at the end", run.seen)


def stopped_while_reading(t, mode):
    """What is to be run has not come whole yet, and may never: a signal ends cay itself, at the first one."""
    def is_read(pipe):
        return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder) == 0

    for what, args in (
        ("code", ("run", "-l", "bash", "-")),
        ("a request", ("run", "--request", "-")),
        ("variables", ("exec", "--env-file", "-", "--", "env")),
        ("input for all of many runs", ("run", "--repeat", "2", "-l", "bash", "-e", "cat")),
    ):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 137)):
            with mode.live(*args) as run:
                run.proc.stdin.write(b"#")
                until(lambda r=run: is_read(r.proc.stdin), 10)
                run.signal(number)
                t.equal((run.wait(5), run.errors()), (status, b""), f"{what} still being read: {number.name} ends it")


def reader_goes_away(t, mode):
    mark = f"reader-{os.getpid()}-{mode.name}"
    loop = "import sys\nwhile True:\n    print('line', flush=True)"
    for flags in ((), ("--events",)):
        with mode.live("run", "--timeout", "120", *flags, "-l", "python", "-e", loop, "--", mark) as run:
            t.ok(run.wait_for("line"), f"a flood{' of events' if flags else ''}: the first of it came", run.errors())
            run.proc.stdout.close()
            status = run.wait(30)
            t.ok(status == 128 + 13, f"closed stdout{' of events' if flags else ''}: the run ends, as a bare program would by SIGPIPE",
                 status, run.errors())
            t.ok(until(lambda: not marked(mark), 30), "and nothing of it is left", *marked(mark))
    done = mode.command("/bin/sh", "-c", f"'{mode.binary}' run --timeout 120 -l bash -e 'while :; do echo line; done' | head -1")
    t.equal((done.out, done.timed_out), (b"line\n", False), "cay run | head -1", *done.describe())
    for flags in ("--plan", "--repeat 2 --json"):
        done = mode.command("/bin/sh", "-c", f"{{ sleep 0.5; '{mode.binary}' run {flags} -l bash -e 'exit 0'; echo $? >&2; }} | :")
        t.equal(done.err, b"141\n", f"run {flags} for a reader that is gone: likewise, and without a word")


def failing_plan(t, mode):
    done = mode.cay("run", "--plan", "--json", "-l", "nosuch", "-e", "1")
    error = json.loads(done.out or b"{}").get("error", {})
    t.equal((done.status, error.get("kind"), "nosuch" in error.get("message", "")), (127, "notfound", True),
            "--plan --json that fails: an error in JSON, and no result", *done.describe())


def many_at_once(t, mode):
    jobs = [lambda i=i: mode.python(f"import os; open('f', 'w').write('{i}'); print({i}, open('f').read(), os.listdir('/sandbox'))",
                                    "--memory", "64m") for i in range(8)]
    results = caytest.together(jobs, 8)
    for i, r in enumerate(results):
        listing = sorted(["main.py", "f"])
        t.ok(not r.problems and r.cause == "ok" and r.stdout.startswith(f"{i} {i} ") and
             sorted(re.findall(r"'([^']+)'", r.stdout)) == sorted(listing), f"8 at once: number {i} has its own", *r.describe())
    t.equal(len({r.get("id") for r in results}), 8, "8 at once: 8 ids")


def identity_and_time(t, mode):
    before = datetime.datetime.now(datetime.timezone.utc)
    results = [mode.python("print(1)") for _ in range(3)]
    after = datetime.datetime.now(datetime.timezone.utc)
    ids = [r.get("id") for r in results]
    t.ok(all(re.fullmatch(r"[0-9a-f]{32}", i or "") for i in ids), "ids are 32 hexadecimal digits", ids)
    t.equal(len(set(ids)), 3, "ids are unique")
    t.equal([r.get("container_id") for r in results], ids, "container_id is the sandbox's id")
    stamps = [datetime.datetime.fromisoformat(r.get("timestamp").replace("Z", "+00:00")) for r in results]
    slack = datetime.timedelta(milliseconds=1)
    t.ok(before - slack <= stamps[0] <= stamps[1] <= stamps[2] <= after + slack, "timestamps are UTC and of the run", before, stamps, after)
    r = results[0]
    t.ok(0 < r.get("execution_time") and r.get("meta.timing.run") > 0 and r.get("meta.timing.setup") > 0, "times are measured",
         r.get("meta.timing"))
    t.equal(r.get("meta.timing.compile"), None, "no compile stage, no time of it")
    r = mode.json("run", "--strict", "-l", "c", "-e", "int main(void) { return 0; }")
    t.ok(r.cause == "ok" and (r.get("meta.timing.compile") or 0) > 0, "a compile stage has its time", *r.describe())


IGNORING = """
import os, signal, sys
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGRTMIN, signal.SIGRTMAX):
    signal.signal(number, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""


def signals_of_the_caller(t, mode):
    done = mode.command("/usr/bin/python3", "-c", IGNORING, mode.binary, "exec", "--", "grep", "SigIgn", "/proc/self/status")
    t.equal(done.out.split()[-1:], [b"0" * 16], "what a caller ignores a program does not, real-time signals among it", *done.describe())


def profiles(t, mode):
    for name, memory, timeout, cpus, pids in (("default", 512, 30, 1.0, 100), ("hardened", 256, 10, 0.5, 25), ("light", 128, 5, 0.5, 25)):
        r = mode.python("print(1)", "--profile", name)
        t.result(r, f"profile {name}", "1\n", cause="ok", meta__resource_limits__memory=memory << 20,
                 meta__resource_limits__timeout=float(timeout), meta__resource_limits__cpus=cpus, meta__resource_limits__pids=pids)
    r = mode.python("print(1)", "--profile", "light", "--memory", "96m", env={"CAY_PIDS": "9", "CAY_INODES": "999"})
    t.result(r, "flag over profile over environment", cause="ok", meta__resource_limits__memory=96 << 20, meta__resource_limits__pids=25,
             meta__resource_limits__inodes=999)
    r = mode.python("print(1)", "--memory", "64m", "--disk", "60m")
    t.result(r, "disk in force is at most half of memory", cause="ok", meta__resource_limits__disk=32 << 20)


def test(t, mode):
    code(t, mode)
    files(t, mode)
    variables(t, mode)
    one_process(t, mode)
    inputs(t, mode)
    requests(t, mode)
    live(t, mode)
    host = mode.host()
    stopped_while_reading(t, mode)
    reader_goes_away(t, mode)
    failing_plan(t, mode)
    many_at_once(t, mode)
    t.empty(host.settle(), "nothing is left")
    identity_and_time(t, mode)
    signals_of_the_caller(t, mode)
    profiles(t, mode)


caytest.main(test, modes=("root", "user"))

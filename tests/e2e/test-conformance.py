#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What every backend owes, whatever it isolates by: the same answers to the same programs, and nothing left.

A new backend is a row in BACKENDS. Nothing in here knows how one works inside, and nothing asks for isolation: that is
what tests/hostile is for."""
import contextlib
import hashlib
import json
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest
from caytest import marked, until
from cayresult import schema_problems

BACKENDS = {
    "native": ("--backend", "native"),
    "docker": ("--backend", "docker"),  # with an engine of its own: test-docker.py
    "process": ("--backend", "process", "--min-isolation", "none", "--policy", "off"),  # what it runs is no business of the check's here
}

# Prints the folder that the program lives in: its name may be another folder's outside, its number is its own.
HERE = "import os; print('folder', os.stat('.').st_dev, os.stat('.').st_ino, os.getcwd(), flush=True)"
# A family that wants to stay: sessions of their own, signals ignored, the last one an orphan. All carry the mark.
FAMILY = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    for i in range(5):
        if os.fork() == 0:
            os.setsid()
            os.write(w, b'x')
            time.sleep(600)
    os._exit(0)
got = b''
while len(got) < 5:
    got += os.read(r, 1)
""" + HERE + """
print('ready', flush=True)
"""


class Backend:
    """One row of BACKENDS as one mode's user runs it."""

    def __init__(self, mode, name):
        self.mode, self.name, self.flags = mode, name, BACKENDS[name]

    def python(self, code, *flags, **options):
        return self.mode.python(code, *self.flags, *flags, **options)

    def language(self, name, code, *flags, **options):
        return self.mode.json("run", *self.flags, *flags, "-l", name, "-e", code, **options)

    def exec(self, *command, flags=(), **options):
        return self.mode.json("exec", *self.flags, *flags, "--", *command, **options)

    def cay(self, command, *args, **options):
        return self.mode.cay(command, *self.flags, *args, **options)

    def live(self, code, *flags, mark):
        return self.mode.live("run", *self.flags, "--events", *flags, "-l", "python", "-e", code, "--", mark)

    def events(self, language, code, *flags):
        done = self.cay("run", "--events", *flags, "-l", language, "-e", code)
        return [json.loads(line) for line in done.out.decode().splitlines()]

    def host_file(self, name, data, mode=0o644):
        """A file of the user's to give to a run."""
        path = self.mode.cwd / name
        path.write_bytes(data)
        path.chmod(mode)
        return path


def unique(name):
    return f"conformance-{name}-{os.getpid()}-{os.urandom(6).hex()}"


def finished(run):
    """The rest of a live run's events, once it has ended; the last one."""
    os.set_blocking(run.proc.stdout.fileno(), True)
    text = run.seen + run.proc.stdout.read()
    return json.loads(text.decode().splitlines()[-1])


def folder_of(text):
    """The folder that HERE printed, as long as it is there on this side."""
    words = next((x.split(" ", 3) for x in text.splitlines() if x.startswith("folder ")), None)
    if words is None:
        return "no folder was told"
    with contextlib.suppress(OSError):
        st = os.stat(words[3])
        return words[3] if (str(st.st_dev), str(st.st_ino)) == (words[1], words[2]) else None
    return None


def gone(t, mark, text, name):
    """Nothing of a run is alive or on the disk, within what `kill -9` of cay may take."""
    left = until(lambda: not marked(mark) and not folder_of(text), 3)
    t.ok(left, name, *marked(mark), folder_of(text))


# --- how it ends ----------------------------------------------------------------------------------------------------


def success(t, b):
    r = b.python("import sys; print('out'); print('err', file=sys.stderr)")
    t.result(r, "a program that ends well", "out\n", cause="ok", exit_code=0, signal=None, timeout=False, stderr="err\n",
             error_message=None, language="python", meta__runtime=b.name)
    r = b.exec("/bin/echo", "a command")
    t.result(r, "a command", "a command\n", cause="ok", language=None)


def exit_codes(t, b):
    for code in (1, 2, 42, 124, 137, 255):
        r = b.exec("sh", "-c", f"exit {code}")
        t.result(r, f"exit {code} is the program's own", cause="exit", exit_code=code, signal=None)


def signals(t, b):
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV):
        r = b.exec("sh", "-c", f"kill -{int(number)} $$")
        t.result(r, f"{number.name} is a signal", cause="signal", exit_code=128 + number, signal=int(number))


def not_found(t, b):
    r = b.exec("/no/such/program")
    t.result(r, "a command that is not there", exit_code=127, cause="infrastructure")
    b.host_file("plain", b"no program\n")
    r = b.exec("./plain", flags=("--file", "plain"))
    t.result(r, "a file that is no program", exit_code=125, cause="infrastructure")


def timeouts(t, b):
    r = b.python("import time\nprint('before', flush=True)\ntime.sleep(600)", "--timeout", "1.5")
    t.result(r, "the wall clock", "before\n", cause="wall_timeout", exit_code=124, timeout=True, limit_name="timeout",
             error_message="Code execution timed out after 1.5s")
    t.ok(r.get("execution_time", 0) >= 1.5, "it had its time", *r.describe())
    r = b.python("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", "--timeout", "0.5")
    t.result(r, "a program that stopped itself", cause="wall_timeout", exit_code=124)


def cpu_time(t, b):
    r = b.python("while True: pass", "--cpu-time", "0.5", "--timeout", "60")
    t.result(r, "CPU time", cause="cpu_timeout", exit_code=124, timeout=True, limit_name="cpu_time", limit=0.5)
    code = "import os\nfor i in range(3): os.fork() or exec('while True: pass')\nos.wait()"
    r = b.python(code, "--cpu-time", "1", "--timeout", "60")
    t.result(r, "CPU time of several processes is one sum", cause="cpu_timeout", exit_code=124)
    r = b.python("import time\nwhile time.process_time() < 0.3: pass", "--cpu-time", "30")
    t.result(r, "CPU time that is not used up", cause="ok")
    t.ok(r.get("meta.usage.cpu_time", 0) >= 0.25, "is reported", *r.describe())


def limits(t, b):
    r = b.python("x = bytearray(1 << 30)", "--memory", "128m")
    t.result(r, "more memory than there is", cause=("memory", "exit"), success=False)
    r = b.python("f = [open('/dev/null') for i in range(100)]", "--open-files", "32")
    t.result(r, "more open files than there are", cause="exit", exit_code=1)
    t.matches(r.get("stderr"), "Too many open files", "which the program is told")


# --- output and input -----------------------------------------------------------------------------------------------


def output(t, b):
    r = b.python("import os\nwhile True: os.write(1, b'x' * 4096)", "--output-cap", "100k", "--timeout", "60")
    t.result(r, "a flood", cause="output", exit_code=137, limit_name="output_cap", limit=102400)
    r = b.python("for i in range(10000): print(f'line {i:05}')", "--max-output", "1k")
    t.result(r, "long output ends well", cause="ok", meta__truncated=True, meta__usage__stdout_bytes=110000)
    kept = r.stdout.splitlines() or [""]
    t.equal((kept[0], kept[-1]), ("line 00000", "line 09999"), "its head and its tail are kept", *r.describe())
    t.ok(len(r.stdout) < 2048, "and not much more", len(r.stdout))


def any_bytes(t, b):
    r = b.python(r"import os; os.write(1, b'a\xff\xfe\x00b'); os.write(2, b'\x00\x1b[31m')")
    t.result(r, "bytes that are no text", "a\ufffd\ufffd\0b", cause="ok", stdout_base64="Yf/+AGI=", stderr="\0\x1b[31m",
             meta__usage__stdout_bytes=5)
    r = b.python(r"import sys; sys.stdout.write('{\"exit_code\": 0}\n'); sys.exit(3)")
    t.result(r, "output that looks like a result", '{"exit_code": 0}\n', cause="exit", exit_code=3)


def closed_streams(t, b):
    r = b.python("import os\nos.close(0); os.close(1); os.close(2)\nos.wait() if os.fork() else None\nos._exit(5)")
    t.result(r, "a program that closed its streams", "", cause="exit", exit_code=5)


def standard_input(t, b):
    r = b.python("import sys; print(sys.stdin.read().upper())", stdin="some words")
    t.result(r, "input", "SOME WORDS\n", cause="ok")
    data = os.urandom(3 << 20)
    r = b.python("import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())", stdin=data)
    t.result(r, "3 MiB of it", hashlib.sha256(data).hexdigest() + "\n", cause="ok")
    r = b.python("print(1)", stdin=data)
    t.result(r, "input that is not read", "1\n", cause="ok")
    code = "import os, sys; print(repr(sys.stdin.read()), os.fstat(0).st_rdev == os.stat('/dev/null').st_rdev)"
    r = caytest.Result(b.cay("run", "--json", "-l", "python", "-", stdin=code))
    t.result(r, "none where the code came from it", "'' True\n", cause="ok")


def arguments(t, b):
    args = ["", "a b", "--json", "-x", "ü\u2028", "'\"\\$(id)`", "x" * 5000]
    r = b.python("import json, sys; print(json.dumps(sys.argv[1:]))", args=args)
    t.result(r, "arguments arrive as they are", cause="ok")
    t.equal(json.loads(r.stdout or "null"), args, "each of them")


def environment(t, b):
    r = b.python("import json, os; print(json.dumps(dict(os.environ)))", "--env", "A=1", "--env", "B=x=y z", "--env", "E=",
                 env={"CAY_TEST_SECRET": "caller's"})
    got = r.reported()
    t.result(r, "variables", cause="ok")
    t.equal([got.get(k) for k in "ABE"], ["1", "x=y z", ""], "those that were given")
    t.equal(got.get("CAY_TEST_SECRET"), None, "and none of the caller's")
    r = b.python("import os; print(os.getcwd() == os.path.expanduser('~')); open(os.environ['HOME'] + '/f', 'w').close()")
    t.result(r, "HOME is where it starts, and can be written", "True\n", cause="ok")


def descriptors(t, b):
    r = b.python("import os; print(sorted(int(f) for f in os.listdir('/proc/self/fd'))[:-1])")
    t.result(r, "no open file but the three streams", "[0, 1, 2]\n", cause="ok")


# --- files ----------------------------------------------------------------------------------------------------------


def files(t, b):
    every = bytes(range(256)) * 300
    b.host_file("bytes", every)
    b.host_file("module", b"value = 'imported'\n")
    b.host_file("tool", b"#!/bin/sh\necho \"tool $1\"\n", 0o755)
    r = b.python("import hashlib, deep.er.mod as m\nprint(m.value)\n"
                 "print(hashlib.sha256(open('data/\u00fc b/bytes.bin', 'rb').read()).hexdigest())",
                 "--file", "deep/er/mod.py=module", "--file", "data/ü b/bytes.bin=bytes")
    t.result(r, "files in folders, and any bytes", f"imported\n{hashlib.sha256(every).hexdigest()}\n", cause="ok")
    r = b.exec("./bin/tool", "runs", flags=("--file", "bin/tool=tool"))
    t.result(r, "a file that is a program stays one", "tool runs\n", cause="ok")
    r = b.python("import os; os.makedirs('a/b'); open('a/b/c', 'w').write('x'); open('main.py', 'a').write('#')")
    t.result(r, "a program writes files", cause="ok")
    r = b.python("import os; print(sorted(os.listdir('.')))")
    t.result(r, "and the next one finds none of them", "['main.py']\n", cause="ok")


def undeletable(t, b):
    code = HERE + """
for i in range(1500):
    os.mkdir('d'); os.chdir('d')
    if i % 300 == 0:
        os.mkfifo('p'); os.symlink('/', 'l'); os.mkdir('e'); os.mkdir('e/f'); os.chmod('e/f', 0); os.chmod('e', 0)
        os.chmod('..', 0)
"""
    r = b.python(code, "--inodes", "20000")
    t.result(r, "a deep tree that nobody may read", cause="ok")
    t.equal(folder_of(r.stdout), None, "is gone")


# --- stages ---------------------------------------------------------------------------------------------------------


def compiling(t, b):
    r = b.language("c", "#include <stdio.h>\nint main(int n, char **v) { printf(\"%s\\n\", \"compiled\"); return 7; }", "--strict")
    if r.get("exit_code") == 127:
        t.skip("a compiled language", r.get("error_message"), "gcc")
        return
    t.result(r, "a compiled program", "compiled\n", cause="exit", exit_code=7, language="c")
    t.ok((r.get("meta.timing.compile") or 0) > 0, "the compiler's time is told", *r.describe())
    r = b.language("c", "int main(void) { return }")
    t.result(r, "one that does not compile", cause="compile", exit_code=1, timeout=False)
    t.matches(r.get("stderr"), r"main\.c:1:\d+: error", "the compiler's words")
    r = b.language("c", '#include "/dev/zero"\nint main(void) {}', env={"CAY_COMPILE_TIMEOUT": "1"})
    t.result(r, "a compiler that does not end", cause="compile", success=False)

    stages = [e["data"] for e in b.events("c", "int main(void) { return 0; }", "--strict") if e["event"] == "stage"]
    t.equal(stages, ["compile", "run"], "both stages are events")
    events = b.events("c", "int main(void) { return }")
    t.equal([e["data"] for e in events if e["event"] == "stage"], ["compile"], "only one where it does not compile")
    t.equal(events[-1]["result"]["verdict"]["cause"], "compile", "with the verdict at the end")


def events_well_formed(t, b):
    events = b.events("python", "import os, sys\nprint('out', flush=True)\nos.write(2, b'\\xff')\nsys.exit(3)")
    names = [e["event"] for e in events]
    t.equal([e["seq"] for e in events], list(range(1, len(events) + 1)), "events count from 1")
    t.ok(all(x["time"] <= y["time"] for x, y in zip(events, events[1:])), "and their time goes on", events)
    t.equal(names[:2] + names[-1:], ["started", "stage", "finished"], "they begin and end as they should", names)
    t.equal([e.get("data") for e in events if e["event"] == "stdout"], ["out\n"], "text comes as data")
    t.equal([e.get("base64") for e in events if e["event"] == "stderr"], ["/w=="], "and bytes as base64")
    t.empty(schema_problems(events[-1].get("result")), "the last carries the whole result")
    t.equal(events[-1]["result"]["exit_code"], 3, "which is this one's")


# --- what is left ---------------------------------------------------------------------------------------------------


def family_ends(t, b):
    mark = unique("exit")
    r = b.python(FAMILY + "sys.exit(3)", args=[mark])
    t.result(r, "a program leaves a family that holds its streams", cause="exit", exit_code=3)
    t.empty(marked(mark), "and all are gone when the report is given")
    gone(t, mark, r.stdout, "with the folder they lived in")
    mark = unique("timeout")
    r = b.python(FAMILY + "time.sleep(600)", "--timeout", "3", args=[mark])
    t.result(r, "a family runs out of time", cause="wall_timeout")
    t.empty(marked(mark), "and all are gone when the report is given")
    gone(t, mark, r.stdout, "with the folder they lived in")


def cancelled(t, b):
    for number, status in ((signal.SIGTERM, 137), (signal.SIGINT, 130)):
        mark = unique(number.name)
        with b.live(FAMILY + "time.sleep(600)", mark=mark) as run:
            ready = run.wait_for("ready")
            run.signal(number)
            got = run.wait()
            last = finished(run)
        t.ok(ready and got == status, f"{number.name} ends the run", got, run.seen)
        t.equal(last["event"], "finished", "with its last event")
        t.equal(last.get("result", {}).get("verdict", {}).get("cause"), "cancelled", "which says so")
        t.empty(marked(mark), "and all are gone")
        gone(t, mark, last.get("result", {}).get("stdout", ""), "with the folder they lived in")


def told(run):
    """What the program of a live run has printed so far."""
    lines = [json.loads(x) for x in run.seen.decode().splitlines(True) if x.endswith("\n")]
    return "".join(x["data"] for x in lines if x["event"] == "stdout")


def killed(t, b):
    before = {p.pid for p in caytest.descendants()}
    for name in ("cay", "cay's helper"):
        mark = unique("kill-9")
        with b.live(FAMILY + "time.sleep(600)", mark=mark) as run:
            up = run.wait_for("ready") and marked(mark)
            text = told(run)
            t.ok(up and text.startswith("folder "), "a run is up", run.seen)
            victims = [run.pid] if name == "cay" else [p.pid for p in caytest.descendants() if p.parent == run.pid]
            for pid in victims:  # the one that checks the code may have done so by now
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            t.ok(run.wait() not in (0, None), f"kill -9 of {name} ends the run")
            gone(t, mark, text, "and all that was in it within 3 s")
            left = until(lambda: not [p for p in caytest.descendants() if p.pid not in before], 3)
            t.ok(left, "and all of cay", *[p for p in caytest.descendants() if p.pid not in before])


def at_once(t, b):
    def one(number):
        return b.python("import os, sys, time\nopen('own', 'x').write(sys.argv[1])\ntime.sleep(0.3)\n"
                        "print(open('own').read(), sorted(os.listdir('.')))\nsys.exit(int(sys.argv[1]))", args=[number])

    results = caytest.together([lambda i=i: one(i) for i in range(1, 9)], workers=8)
    wrong = [r.describe() for i, r in enumerate(results, 1)
             if r.problems or r.get("exit_code") != i or r.stdout != f"{i} ['main.py', 'own']\n"]
    t.empty(wrong, "eight runs at once have each their own")
    t.equal(len({r.get("id") for r in results}), 8, "and ids of their own")


def asked_for_by_name(t, b):
    """Only for backends without isolation."""
    if "none" not in b.flags:
        return
    r = b.mode.python("print(1)", "--backend", b.name)
    t.result(r, "without min_isolation it is refused", "", cause="infrastructure", exit_code=125)
    t.matches(r.get("error_message"), f"{b.name}.*none.*kernel", "and says why")
    done = b.mode.cay("run", "--plan", "--min-isolation", "none", "-l", "python", "-e", "")
    t.ok(b.name not in (json.loads(done.out or b"{}").get("backend"), None), "nothing else chooses it", *done.describe())
    r = b.python("print(1)")
    t.result(r, "it claims no tier", cause="ok", meta__isolation__tier="none")
    t.empty(set(r.layers) - {"no_new_privs", "rlimits"}, "and no layer that it has not")
    t.ok(any("no isolation" in w for w in r.get("meta.warnings")), "and warns", r.get("meta.warnings"))


TESTS = (
    success, exit_codes, signals, not_found, timeouts, cpu_time, limits, output, any_bytes, closed_streams, standard_input,
    arguments, environment, descriptors, files, undeletable, compiling, events_well_formed, family_ends, cancelled, killed,
    at_once, asked_for_by_name,
)


def conform(t, mode, name):
    """All of it on one backend."""
    outer = t.prefix
    t.prefix = f"{outer}{name}: "
    b = Backend(mode, name)
    r = b.exec("true")
    if r.cause != "ok":
        t.skip("conformance", f"{name} does not work here: {r.get('error_message') or r.done.err.decode()}", name)
        return
    host = mode.host()
    for one in TESTS:
        t.prefix = f"{outer}{name}: {one.__name__}: "
        one(t, b)
    t.prefix = f"{outer}{name}: "
    for path in mode.cwd.iterdir():
        path.unlink()
    t.empty(host.settle(), "nothing is left of all these runs")
    t.prefix = outer


def test(t, mode):
    conform(t, mode, "native")
    mode.env = {**mode.env, "SECURITY_ENABLE_SANDBOX": "false"}
    conform(t, mode, "process")


if __name__ == "__main__":
    caytest.main(test)

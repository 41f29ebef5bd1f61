#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The interface of the backends (src/sandbox/backend.h) by itself, without warden and front: tests/lib/sandbox-driver.c
does what this script says, and says what became of it. One sandbox has many programs in it, at once and one after
another; what is true of one is true of that one alone, and after the end nothing is left."""
import contextlib
import functools
import json
import os
import pathlib
import queue
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "../lib")]
import caydocker
import caytest
from caytest import until

DRIVER = pathlib.Path(os.environ.get("CAY_BUILD") or caytest.CAY.parent) / "tests" / "sandbox-driver"
PRODUCTS, ALL = 1, 2  # enum harvest_what
EXECS = 64  # SANDBOX_EXECS
START_SPARE = 1
PATIENCE = 90 if caytest.SANITIZED else 30
ENV = ["PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/sandbox"]


@functools.cache
def installed():
    """A copy of the driver, with what belongs to cay beside it: where it looks for that."""
    folder = caytest.workdir() / "driver"
    folder.mkdir(mode=0o755)
    for one in (DRIVER, *caytest.CAY.parent.glob("cay-*")):
        if one.is_file():
            shutil.copy2(one, folder)
    return folder / DRIVER.name


class Driver:
    """A sandbox-driver. Used as a context manager, which ends it and its sandbox."""

    def __init__(self, mode, backend, *args):
        self.backend = backend
        self.seen = []
        self.lines = queue.Queue()
        identity = {} if mode.uid is None else {"user": mode.uid, "group": mode.uid, "extra_groups": []}
        self.proc = subprocess.Popen([installed(), *args], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, env=mode.env, cwd=mode.cwd, **identity)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.proc.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.proc.stdin.close()
        try:
            self.proc.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            raise
        if self.proc.returncode != 0:
            raise RuntimeError(f"the driver ended with {self.proc.returncode}")

    def do(self, verb, **what):
        self.proc.stdin.write(json.dumps({"do": verb, **what}).encode() + b"\n")
        self.proc.stdin.flush()

    def until(self, condition, timeout=None):
        """Takes what it says until condition() is true; whether it became so."""
        deadline = time.monotonic() + (timeout or PATIENCE)
        while not condition():
            try:
                one = self.lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return False
            if one is None:
                return False
            self.seen.append(one)
        return True

    def one(self, **want):
        """The last of what it said that has all this; {}: there is none."""
        return next((x for x in reversed(self.seen) if all(x.get(k) == v for k, v in want.items())), {})

    def wait(self, timeout=None, **want):
        self.until(lambda: self.one(**want), timeout)
        return self.one(**want)

    def ask(self, verb, **what):
        """Says it, and waits for the answer."""
        n = len(self.seen)
        self.do(verb, **what)
        self.until(lambda: any(x.get("did") == verb for x in self.seen[n:]))
        return next((x for x in self.seen[n:] if x.get("did") == verb), {})

    def open(self, **what):
        return self.ask("open", backend=self.backend, id=secrets.token_hex(16), **{**self.extra, **what})

    extra = {}

    def exec(self, number, *argv, **what):
        return self.ask("exec", number=number, argv=argv, env=ENV, **what)

    def signal(self, number, which):
        return self.ask("signal", number=number, signal=int(which)).get("rc")

    def text(self, number, stream="stdout"):
        return "".join(x["data"] for x in self.seen if x.get("output") == stream and x["exec"] == number)

    def ended(self, number):
        return self.wait(report="EXEC_ENDED", exec=number)

    def started(self, number):
        return self.wait(report="EXEC_STARTED", exec=number)

    def whole(self, number):
        """All that it wrote, once it has ended and its streams are at their end."""
        self.ended(number)
        self.until(lambda: self.one(output="stdout", exec=number, data="") and self.one(output="stderr", exec=number, data=""))
        return self.text(number), self.text(number, "stderr")

    def close(self):
        """What was reported from the close on."""
        n = len(self.seen)
        self.do("close")
        self.until(lambda: any(x.get("report") == "CLOSED" for x in self.seen[n:]))
        self.ask("release")
        return [x for x in self.seen[n:] if "report" in x]


def exited(status):
    return os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else None


def signalled(status):
    return os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None


# --- what holds of each -------------------------------------------------------------------------------------------------


def ten(t, d):
    """Ten execs, three at a time, each with output and an exit code of its own; then one with input."""
    t.equal(d.open().get("rc"), 0, "opens")
    t.ok(d.wait(report="OPENED").get("layers"), "and says so", d.seen)
    todo, live, wrong, most = list(range(1, 11)), [], [], 0
    while todo or live:
        while todo and len(live) < 3:
            number = todo.pop(0)
            script = f"read line; echo out-{number}-$line; echo err-{number} >&2; exit {number}"
            if d.exec(number, "sh", "-c", script, input="", more=True).get("rc") != 0:
                wrong.append((number, d.seen[-1]))
            live.append(number)
        most = max(most, len(live))
        for number in live:
            if not d.started(number):
                wrong.append((number, "not started", d.seen[-3:]))
        first = live.pop(1 if len(live) > 1 else 0)  # not in the order in which they began
        d.do("input", number=first, data=f"for-{first}\n")
        if d.whole(first) != (f"out-{first}-for-{first}\n", f"err-{first}\n"):
            wrong.append((first, d.whole(first)))
        end = d.ended(first)
        if exited(end.get("status")) != first or not end.get("has_status"):
            wrong.append((first, end))
    t.equal(most, 3, "three at a time")
    t.empty(wrong, "ten execs, each with output and an exit code of its own")
    d.exec(11, "cat", input="x" * 300000)
    t.equal(d.whole(11)[0], "x" * 300000, "input is carried, and its end")
    d.exec(12, "sh", "-c", "echo made > made; cat given; echo $HOME", files={"given": "of the payload\n"})
    t.matches(d.whole(12)[0], "^of the payload\n/.*sandbox\n$", "files come along")
    d.exec(13, "cat", "made")
    t.equal(d.whole(13)[0], "made\n", "and what one left, the next finds")
    kinds = [x["report"] for x in d.close()]
    t.equal(kinds, ["CLOSED"], "it closes, and nothing else is to be said")


def signals(t, d):
    d.open()
    report = "trap 'echo int; exit 3' INT; trap 'echo term; exit 4' TERM; echo up; while :; do sleep 0.05; done"
    for number, which, want in ((1, signal.SIGINT, ("up\nint\n", 3)), (2, signal.SIGTERM, ("up\nterm\n", 4))):
        d.exec(number, "sh", "-c", report)
        t.ok(d.until(lambda n=number: "up" in d.text(n)), f"exec {number} is up", d.seen)
        t.equal(d.signal(number, which), 0, f"it is sent {which.name}")
        got = d.whole(number)[0], exited(d.ended(number).get("status"))
        t.equal(got, want, "gets it, and its group is told")
    for number in (3, 4, 5):
        d.exec(number, "sh", "-c", "echo up; read line; echo $line", input="", more=True)
        t.ok(d.until(lambda n=number: "up" in d.text(n)), f"exec {number} is up")
    d.signal(4, signal.SIGTERM)
    t.equal(signalled(d.ended(4).get("status")), signal.SIGTERM, "a signal that ends one is in its wait status")
    d.exec(6, "sh", "-c", "sleep 600 & echo up; wait")
    d.until(lambda: "up" in d.text(6))
    t.equal(d.signal(6, signal.SIGKILL), 0, "one is killed")
    t.equal(signalled(d.ended(6).get("status")), signal.SIGKILL, "it ends by that")
    t.ok(d.whole(6)[0] == "up\n", "its group with it: its pipes are at their end", d.seen[-4:])
    for number in (3, 5):
        d.do("input", number=number, data=f"still-{number}\n")
        t.equal((d.whole(number)[0], exited(d.ended(number).get("status"))), (f"up\nstill-{number}\n", 0),
                f"exec {number} goes on, and ends by itself")
    t.equal(d.signal(3, signal.SIGTERM), -3, "a signal to one that has ended: ESRCH")
    t.equal(d.signal(99, signal.SIGTERM), -3, "and to one that never was")
    d.close()


def refused(t, d):
    """Wrong numbers, one too many, what can't be started, and what comes after the end."""
    t.ok("error" in d.exec(1, "true"), "an exec without a sandbox is refused")
    d.open()
    d.exec(1, "cat", input="", more=True)
    t.equal(d.exec(1, "true").get("kind"), "usage", "a number that lives already is refused")
    t.equal(d.exec(2, "true", owns=True).get("kind"), "usage", "and one that would own the sandbox beside another")
    for number in (7, 8):
        d.exec(number, "no-such-program-anywhere")
        t.equal(d.wait(report="EXEC_FAILED", exec=number).get("kind"), "notfound", "what can't be started says so", d.seen[-2:])
    d.exec(9, "/sandbox/x" if d.backend != "process" else "./x", files={"x": "\x7fELF nonsense"})
    t.ok(d.wait(report="EXEC_FAILED", exec=9).get("error"), "also what is no program", d.seen[-2:])
    d.do("input", number=1, data="goes on\n")
    t.equal(d.whole(1)[0], "goes on\n", "the others go on")
    d.exec(7, "echo", "again")
    t.equal(d.whole(7)[0], "again\n", "and a number can be had again")
    for number in range(100, 100 + EXECS):
        d.exec(number, "cat", input="", more=True)
    t.ok(all(d.started(n) for n in range(100, 100 + EXECS)), f"{EXECS} at once", d.seen[-3:])
    t.equal(d.exec(99, "true").get("kind"), "limit", "one more is refused")
    for number in range(100, 100 + EXECS):
        d.do("input", number=number, data=f"{number}\n")
    wrong = [n for n in range(100, 100 + EXECS) if d.whole(n)[0] != f"{n}\n" or d.ended(n).get("status") != 0]
    t.empty(wrong, "and each has its own streams")
    d.do("close")
    t.equal(d.exec(5, "true").get("error"), "the sandbox is closed", "after a close, an exec is refused")
    t.equal(d.signal(5, signal.SIGTERM), -3, "and there is nothing to signal")
    t.ok(d.wait(report="CLOSED"), "it closes")
    d.ask("release")


def floods(t, d):
    """Whoever is not read waits; the others don't."""
    d.open()
    flood = "import sys; sys.stdout.write({0!r} * {1}); print('done', file=sys.stderr)"
    d.exec(1, "python3", "-c", flood.format("x", 3000000), read=False)
    d.started(1)
    for number in range(2, 6):
        d.exec(number, "python3", "-c", flood.format("y", 200000))
        out, err = d.whole(number)
        t.ok(out == "y" * 200000 and err == "done\n", f"exec {number} is not held up by one that nobody reads", len(out), err)
    t.ok(not d.one(report="EXEC_ENDED", exec=1), "which waits")
    d.do("read", number=1)
    out, err = d.whole(1)
    t.ok(out == "x" * 3000000 and err == "done\n", "until it is read, and nothing is lost", len(out), err)
    t.equal(d.ended(1).get("status"), 0, "then it ends")
    d.close()


def closes(t, d, mark, left):
    """With some alive."""
    d.open()
    d.exec(1, "sh", "-c", f": {mark}; sleep 600 & echo up; wait")
    d.exec(2, "sh", "-c", f": {mark}; trap '' TERM INT HUP; echo up; while :; do sleep 600; done")
    d.exec(3, "true")
    t.ok(d.until(lambda: "up" in d.text(1) and "up" in d.text(2)), "two are alive", d.seen)
    t.ok(d.ended(3), "and one has ended")
    reports = d.close()
    ends = {x["exec"]: x["has_status"] for x in reports if x["report"] == "EXEC_ENDED"}
    t.equal(ends, {1: False, 2: False}, "each of them gets an end, which is none of its own", reports)
    t.equal(reports[-1]["report"], "CLOSED", "the last is that it is closed")
    t.ok(until(lambda: left() == [], 30), "nothing is left", left())


def owners(t, d, compiled):
    """Compile, then run: two execs, each of which has the sandbox for itself."""
    d.open()
    d.exec(1, "sh", "-c", f"sleep 600 & {compiled}; echo compiled", owns=True, harvest=PRODUCTS, globs=["/product/**"],
           files={"source": "echo of-the-source $1\n"})
    t.equal(d.exec(9, "true").get("kind"), "usage", "beside one that owns the sandbox there is none")
    t.equal((d.ended(1).get("status"), d.text(1)), (0, "compiled\n"), "the first of them ends", d.seen)
    if d.backend != "process":
        d.until(lambda: d.one(exec=1, harvest="there"))
        t.ok("product/product" in d.one(exec=1, harvest="there").get("files", {}), "and tells what it made", d.seen[-3:])
    d.exec(2, "sh", "product", "run", owns=True, harvest=ALL, globs=["/sandbox/*.out"], files={})
    t.equal((d.whole(2)[0], d.ended(2).get("status")), ("of-the-source run\n", 0), "the second finds that")
    if d.backend != "process":
        d.until(lambda: any(x.get("exec") == 2 and "harvest" in x for x in d.seen))
        told = [x for x in d.seen if x.get("exec") == 2 and "harvest" in x and "error" not in x]
        t.ok(told, "and tells what it left", d.seen[-3:])
    d.exec(3, "sh", "-c", "ps ax 2>/dev/null | grep -c '[s]leep 600'; true")
    t.ok(d.whole(3)[0] in ("0\n", ""), "what the first had started ended with it", d.text(3))
    d.exec(4, "sh", "-c", "echo up; sleep 600", owns=True, harvest=ALL, globs=["/sandbox/**"])
    d.until(lambda: "up" in d.text(4))
    t.equal(d.signal(4, signal.SIGKILL), 0, "one that owns the sandbox is killed")
    t.equal((signalled(d.ended(4).get("status")), d.ended(4).get("has_status")), (signal.SIGKILL, True), "it ends by that")
    if d.backend != "process":
        files = d.wait(harvest="there", exec=4).get("files", {})
        t.ok("sandbox/product" in files, "and what it left is told all the same", files)
    d.exec(5, "echo", "on")
    t.equal(d.whole(5)[0], "on\n", "the sandbox goes on")
    d.close()


IN_THE_WAY = "import os; os.symlink('/tmp', 'away'); os.mkfifo('pipe'); os.mkdir('folder')"
STAYS = """import os, sys, time
if os.fork() == 0:
    os.setsid()
    while True:
        os.write(1, b'x')
        time.sleep(0.01)
os.write(1, b'over')
os._exit(5)
"""


def hostile(t, d):
    """What a program leaves in the way of the next one's files; and one that will not let go of a pipe."""
    d.open()
    d.exec(1, "python3", "-c", IN_THE_WAY)
    t.equal(d.ended(1).get("status"), 0, "things are put in the way")
    for number, name in ((2, "away/x"), (3, "pipe"), (4, "folder")):
        d.exec(number, "true", files={name: "of the payload"})
        t.ok(d.wait(report="EXEC_FAILED", exec=number), f"a file at {name} is not written", d.seen[-2:])
    d.exec(5, "sh", "-c", "for f in away/x folder/*; do test -e $f && echo $f; done; true")
    t.equal(d.whole(5)[0], "", "nor anywhere else", d.seen[-4:])
    d.exec(6, "python3", "-c", STAYS)
    t.equal(exited(d.ended(6).get("status")), 5, "one whose child holds its pipe ends all the same", d.seen[-3:])
    t.ok("over" in d.text(6), "with its output")
    d.exec(7, "echo", "on")
    t.equal(d.whole(7)[0], "on\n", "and the sandbox goes on")
    t.equal(d.close()[-1]["report"], "CLOSED", "and closes")


def counted(t, d):
    """CPU time is each one's own, and has a limit."""
    d.open()
    busy = "i=0; while [ $i -lt {n} ]; do i=$((i+1)); done"
    d.exec(1, "sh", "-c", busy.replace("{n}", "100000000"), cpu_ns=300_000_000)
    d.exec(2, "sh", "-c", "read line; echo $line", input="", more=True, cpu_ns=300_000_000)
    t.ok(d.wait(report="OVER", exec=1), "one that is busy is found past its CPU time", d.seen)
    t.ok(not d.one(report="OVER", exec=2), "and its neighbour is not")
    d.signal(1, signal.SIGKILL)
    used = d.ended(1).get("usage", {}).get("cpu_ns", 0)
    t.ok(used >= 250_000_000, "it used what it says", used)
    d.do("input", number=2, data="idle\n")
    d.ended(2)
    t.equal(d.text(2), "idle\n", "the neighbour ends by itself")
    used = d.ended(2).get("usage", {}).get("cpu_ns", 10**12)
    t.ok(used < 250_000_000 or d.backend == "docker", "and has used next to nothing", used)
    d.close()


def terminals(t, d):
    d.open(terminals=True)
    typed = "tty; stty size; read line; echo got $line; kill -INT 0; sleep 9"
    d.exec(1, "sh", "-c", typed, terminal=True, input="typed\n", more=True)
    t.ok(d.until(lambda: "got typed" in d.text(1, "terminal")), "an exec has a terminal", d.seen)
    t.matches(d.text(1, "terminal"), r"(?s)/dev/pts/\d+\s.*24 80", "of its own, with a size")  # the echo may be between
    t.equal(signalled(d.ended(1).get("status")), signal.SIGINT, "and a job of its own")
    d.exec(2, "sh", "-c", "tty; echo plain")
    t.matches(d.whole(2)[0], "not a tty\nplain\n", "another beside it has none")
    d.close()


# --- where it is asked ----------------------------------------------------------------------------------------------------


def conform(t, d_of, left, has_terminal):
    outer = t.prefix
    for name, one in (("ten", ten), ("signals", signals), ("refused", refused), ("floods", floods), ("hostile", hostile),
                      ("counted", counted)):
        t.prefix = f"{outer}{name}: "
        with d_of() as d:
            one(t, d)
    t.prefix = f"{outer}owners: "
    with d_of() as d:
        owners(t, d, "mkdir -p /tmp; cp source product")
    if has_terminal:
        t.prefix = f"{outer}terminals: "
        with d_of() as d:
            terminals(t, d)
    t.prefix = f"{outer}closes: "
    mark = f"mark-{secrets.token_hex(8)}"
    with d_of() as d:
        closes(t, d, mark, lambda: left(mark))
    t.prefix = outer


def native(t, mode):
    conform(t, lambda: Driver(mode, "native"), lambda mark: caytest.marked(mark), True)


def process(t, mode):
    runs = mode.home / ".local/state/cay/runs"
    runs = caytest.STATE / "runs" if mode.is_root else runs
    conform(t, lambda: Driver(mode, "process"),
            lambda mark: [*caytest.marked(mark), *(runs.iterdir() if runs.is_dir() else [])], False)


def docker(t, mode):
    why = caydocker.missing() if mode.is_root else "the engine is root's"
    if why:
        t.skip("docker", why, "docker")
        return

    with caydocker.Engine() as engine:
        engine.make_image(with_c=False)

        def driver():
            d = Driver(mode, "docker", engine.host)
            d.extra = {"image": caydocker.IMAGE}
            return d

        conform(t, driver, lambda mark: engine.containers(), False)


def test(t, mode):
    outer = t.prefix
    only = os.environ.get("CAY_TEST_BACKENDS", "native process docker").split()
    for one in (native, process, docker):
        if one.__name__ in only and (one is not docker or mode.is_root):
            t.prefix = f"{outer}{one.__name__}: "
            one(t, mode)
    t.prefix = outer


if __name__ == "__main__":
    caytest.main(test)

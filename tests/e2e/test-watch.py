#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""--watch: runs again when a file changes, however it was saved; stops what still runs; ends with Ctrl-C."""
import json
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest
from caytest import marked, until


def save(mode, name, text, how="write"):
    """As editors do: in place; by a new file that takes the old one's name; by moving the old one away first."""
    path, new = mode.cwd / name, mode.cwd / (name + ".new")
    if how == "write":
        path.write_text(text)
    elif how == "rename":
        new.write_text(text)
        os.rename(new, path)
    else:
        os.rename(path, mode.cwd / (name + "~"))
        path.write_text(text)
    if mode.uid is not None:
        os.chown(path, mode.uid, mode.uid)


class Watch:
    """A watch that runs, and both its streams, which are one file."""

    def __init__(self, mode, *args):
        self.log = mode.cwd / f"log-{os.urandom(4).hex()}"
        self.log.touch()
        if mode.uid is not None:
            os.chown(self.log, mode.uid, mode.uid)
        self.args, self.mode, self.at = args, mode, 0

    def __enter__(self):
        words = ["/bin/sh", "-c", 'log=$1; shift; exec "$@" >"$log" 2>&1', "sh", self.log, self.mode.binary, "run", *self.args]
        self.live = caytest.Live(words, **self.mode.options({}))
        self.live.__enter__()
        return self

    def __exit__(self, *why):
        self.live.__exit__(*why)

    def text(self):
        return self.log.read_text(errors="replace")

    def wait_for(self, mark, timeout=30):
        """Looks behind what was found last."""
        if not until(lambda: mark in self.text()[self.at:], timeout):
            return False
        self.at = self.text().index(mark, self.at) + len(mark)
        return True


def watches(t, mode):
    save(mode, "w.py", "print('first')")
    save(mode, "data.txt", "one")
    with Watch(mode, "--watch", "w.py", "--file", "data.txt") as watch:
        t.ok(watch.wait_for("run 1 at ") and watch.wait_for("first") and watch.wait_for("run 1: ok, exit status 0"), "it runs at once", watch.text())
        number = 2
        for how in ("write", "rename", "away"):
            save(mode, "w.py", f"print(open('data.txt').read(), {how!r})", how)
            t.ok(watch.wait_for(f"run {number} at ") and watch.wait_for(f"one {how}") and watch.wait_for(f"run {number}: ok"),
                 f"again after a save ({how})", watch.text())
            number += 1
        save(mode, "data.txt", "two")
        t.ok(watch.wait_for("data.txt has changed") and watch.wait_for("two away"), "and after a change of a --file", watch.text())
        save(mode, "other.txt", "x")
        save(mode, "w.py", "import sys; sys.exit(3)")
        t.ok(watch.wait_for("exit status 3"), "the verdict is told", watch.text())
        t.ok("other.txt" not in watch.text(), "another file's change is none", watch.text())
        save(mode, "w.py", "syntax error here")
        t.ok(watch.wait_for("SyntaxError") and watch.wait_for("exit status 1"), "a mistake does not end the watch", watch.text())
        watch.live.signal(signal.SIGINT)
        t.equal(watch.live.wait(), 130, "Ctrl-C ends it with 130", watch.text())


def stops(t, mode):
    mark = f"watch-{os.getpid()}-{os.urandom(4).hex()}"
    save(mode, "w.py", "import time; print('waits', flush=True); time.sleep(600)")
    with Watch(mode, "--timeout", "200", "--watch", "w.py", "--", mark) as watch:
        t.ok(watch.wait_for("waits"), "a long run goes on", watch.text())
        save(mode, "w.py", "import time, sys; print('second', len(sys.argv), flush=True); time.sleep(600)", "rename")
        t.ok(watch.wait_for("run 1: stopped") and watch.wait_for("second 2"), "a change stops it, and the next one begins", watch.text())
        watch.live.signal(signal.SIGTERM)
        t.equal(watch.live.wait(), 137, "SIGTERM ends both", watch.text())
        t.ok(until(lambda: not marked(mark), 10), "nothing of it is left", *marked(mark))
    with Watch(mode, "--timeout", "200", "--watch", "w.py", "--", mark) as watch:
        t.ok(watch.wait_for("second"), "again a long run", watch.text())
        watch.live.signal(signal.SIGKILL)
        watch.live.wait()
        t.ok(until(lambda: not marked(mark), 15), "nothing is left after SIGKILL", *marked(mark))


def forms(t, mode):
    save(mode, "w.py", "print(1)")
    with Watch(mode, "--json", "--watch", "w.py") as watch:
        t.ok(watch.wait_for("run 1: ok"), "--json", watch.text())
        save(mode, "w.py", "print(2)")
        t.ok(watch.wait_for("run 2: ok"), "--json again", watch.text())
        lines = [json.loads(line)["stdout"] for line in watch.text().splitlines() if line.startswith("{")]
        t.equal(lines, ["1\n", "2\n"], "one result a line")
        watch.live.signal(signal.SIGINT)
        watch.live.wait()
    save(mode, "w.txt", "text")
    with Watch(mode, "--watch", "w.txt", "-l", "python", "-e", "print('code')") as watch:
        t.ok(watch.wait_for("code"), "the code can be another one", watch.text())
        save(mode, "w.txt", "changed")
        t.ok(watch.wait_for("w.txt has changed") and watch.wait_for("code"), "and runs again", watch.text())
    for args, words in ((("--watch", "missing.py"), b"missing.py: No such file"), (("--watch", "w.py", "--repeat", "2"), b"are mutually exclusive"),
                        (("--watch", "w.py", "-t"), b"are mutually exclusive"), (("--watch", "w.py", "-"), b"standard input")):
        done = mode.cay("run", *args, stdin=b"")
        t.ok(done.status == 2 and words in done.err, f"{' '.join(args)}: refused", *done.describe())


def test(t, mode):
    host = mode.host()
    watches(t, mode)
    stops(t, mode)
    forms(t, mode)
    for path in mode.cwd.iterdir():
        path.unlink()
    t.empty(host.settle(), "nothing is left")


caytest.main(test, modes=("root", "user"))

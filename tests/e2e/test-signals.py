#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A run that has begun is on record, whatever signals follow: a terminal that closes sends several within a millisecond,
its own and those of the shell in between."""
import contextlib
import json
import os
import pty
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caystate
import caytest
from caytest import until

WAITS = ("-l", "python", "-e", "print('be' + 'gun', flush=True)\nimport time\ntime.sleep(30)")
SHELL = "echo be''gun; sleep 30"
FLOODS = "import os\nwhile True: os.write(1, b'x' * 65536)"

STORMS = {
    "SIGHUP twice": [signal.SIGHUP] * 2,
    "SIGINT five times": [signal.SIGINT] * 5,
    "SIGTERM, SIGHUP, SIGINT, SIGQUIT": [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT],
    "SIGPIPE, SIGHUP, SIGHUP, SIGTERM": [signal.SIGPIPE, signal.SIGHUP, signal.SIGHUP, signal.SIGTERM],
    "SIGUSR1, SIGALRM, SIGXCPU": [signal.SIGUSR1, signal.SIGALRM, signal.SIGXCPU],
}


def ids(folder):
    return {name[:-5] for name in os.listdir(folder) if name.endswith(".json")} if folder.exists() else set()


def recorded(t, mode, folder, before, name, cause="cancelled"):
    """One more record and one more entry; only the end of the command could bring another."""
    until(lambda: ids(folder) - before, 20)
    new = ids(folder) - before
    t.ok(len(new) == 1, f"{name}: it is on record", *sorted(new))
    for id in new:
        r = json.loads(mode.cay("show", id, "--json").out)
        t.equal(r["verdict"]["cause"], cause, f"{name}: as what it was")
        audit = mode.cay("audit", "list", "--json").out.decode()
        t.ok(id in audit and id in mode.cay("history", "--json").out.decode(), f"{name}: in audit and history")


def storms(t, mode, folder):
    for name, numbers in STORMS.items():
        before = ids(folder)
        with mode.live("run", *WAITS) as run:
            t.ok(run.wait_for("begun"), f"{name}: it runs")
            for number in numbers:
                run.signal(number)
            t.ok(run.wait() is not None, f"{name}: it ends")
        recorded(t, mode, folder, before, name)


def each_way(t, mode, folder):
    watched = mode.cwd / "watched.py"
    watched.write_text(WAITS[-1])
    for name, args in {
        "exec": ("exec", "--", "sh", "-c", SHELL),
        "--repeat": ("run", "--repeat", "3", *WAITS),
        "-t": ("run", "-t", *WAITS),
        "--watch": ("run", "--watch", watched),
    }.items():
        before = ids(folder)
        with mode.live(*args) as run:
            if name == "--repeat":
                run.end_input()  # which is read first, for all of them
            t.ok(run.wait_for("begun"), f"{name}: it runs")
            for number in [signal.SIGHUP, signal.SIGHUP, signal.SIGTERM]:
                run.signal(number)
            t.ok(run.wait() is not None, f"{name}: it ends")
        recorded(t, mode, folder, before, name)


def unread(t, mode, folder):
    """Nobody reads what it writes: cay waits in the middle of a write, and is told to stop."""
    before = ids(folder)
    with mode.live("run", "-l", "python", "--timeout", "30", "-e", FLOODS) as run:
        t.ok(run.wait_for("x"), "a reader that stops: it runs")

        def told():
            run.signal(signal.SIGTERM)
            return run.wait(0.1) is not None
        t.ok(until(told, 20), "a reader that stops: signals end it")
    recorded(t, mode, folder, before, "a reader that stops")


def closed_terminal(t, mode, folder, name, *args):
    """An interactive shell between: it and the kernel both tell cay."""
    before = ids(folder)
    pid, master = pty.fork()
    if pid == 0:
        try:
            if mode.uid is not None:
                os.setgroups([])
                os.setresgid(mode.uid, mode.uid, mode.uid)
                os.setresuid(mode.uid, mode.uid, mode.uid)
            os.chdir(mode.cwd)
            os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"],
                      {**mode.env, "CAY": str(mode.binary), "SHELL_CODE": SHELL, "TERM": "xterm", "HISTFILE": ""})
        finally:
            os._exit(99)
    seen = b""

    def step():
        nonlocal seen
        with contextlib.suppress(BlockingIOError):
            seen += os.read(master, 65536)
        return b"begun" in seen
    os.write(master, b'"$CAY" ' + " ".join(args).encode() + b' sh -c "$SHELL_CODE"\n')
    os.set_blocking(master, False)
    t.ok(until(step, 20), f"{name}: it runs", seen)
    os.close(master)
    os.waitpid(pid, 0)
    recorded(t, mode, folder, before, name)


def test(t, mode):
    folder = caystate.private_records(mode, "16m")
    try:
        storms(t, mode, folder)
        each_way(t, mode, folder)
        unread(t, mode, folder)
        for i in range(3):
            closed_terminal(t, mode, folder, f"a closed terminal, {i + 1}", "exec", "--")
        closed_terminal(t, mode, folder, "a closed terminal, -t", "exec", "-t", "--")
    finally:
        if mode.is_root and caytest.contained():
            caystate.unmount_records(folder)


caytest.main(test, modes=("root", "user"))

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P12: after every bad ending no process, mount, cgroup, IPC object or file is left; after kill -9, once cay ran again."""
import contextlib
import fcntl
import glob
import itertools
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

ROUNDS = 100 if caytest.LONG else 20
# Leaves one of everything that a run can make, then goes on to a bad end.
LITTER = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None)
libc.shmget(0x1234, 4096, 0o1666); libc.semget(0x1234, 1, 0o1666); libc.msgget(0x1234, 0o1666)
for top in ('/tmp', '/dev/shm', '/sandbox'):
    os.makedirs(top + '/a/b/c'); open(top + '/a/b/c/f', 'w').write('x'); os.chmod(top + '/a', 0)
socket.socket(socket.AF_UNIX).bind('/tmp/s'); os.mkfifo('/tmp/p')
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        import time; time.sleep(30)
    os._exit(0)
print('ready', flush=True)
"""
ENDS = {
    "exit": "sys.exit(3)",
    "sigkill": "os.kill(os.getpid(), 9)",
    "segv": "ctypes.string_at(8)",
    "memory": "x = [bytearray(b'y') * (1 << 20) for i in range(256)]",
    "timeout": "import time; time.sleep(30)",
    "flood": "\nfor i in range(64): os.write(1, b'x' * 65536)",
    "wait": "sys.stdin.read()",
}
FLAGS = ("--timeout", "3", "--memory", "64m", "--output-cap", "1m", "--pids", "50")


def by_itself(mode, kind):
    flags = ("--timeout", "0.3") if kind == "timeout" else ()
    return mode.python(LITTER + ENDS[kind], *FLAGS, *flags).cause


def by_signal(mode, number, ready, after=0.0):
    """A signal for cay when its program runs or, with ready=False, `after` so many seconds, somewhere in its start."""
    with mode.live("run", *FLAGS, "-l", "python", "-e", LITTER + ENDS["wait"]) as run:
        if ready:
            run.wait_for("ready")
        else:
            time.sleep(after)
        run.signal(number)
        return run.wait(15)


def by_closed_pipe(mode):
    with mode.live("run", *FLAGS, "-l", "python", "-e", LITTER + ENDS["flood"] + "\n" + ENDS["flood"]) as run:
        run.wait_for("ready")
        run.proc.stdout.close()
        return run.wait(15)


def endings(mode):
    """Bad endings in turn, for ever: (name, ending, whether a sweep at the next start is allowed)."""
    for number in itertools.count():
        after = number * 7 % 31 / 1000  # a start takes some milliseconds: each round another moment of it
        for kind in ("exit", "sigkill", "segv", "memory", "timeout", "flood"):
            yield kind, lambda kind=kind: by_itself(mode, kind), False
        yield "SIGTERM", lambda: by_signal(mode, signal.SIGTERM, True), False
        yield "SIGINT", lambda: by_signal(mode, signal.SIGINT, True), False
        yield "closed pipe", lambda: by_closed_pipe(mode), False
        yield "SIGKILL", lambda: by_signal(mode, signal.SIGKILL, True), True
        yield "SIGKILL at its start", lambda: by_signal(mode, signal.SIGKILL, False, after), True
        yield "SIGTERM at its start", lambda: by_signal(mode, signal.SIGTERM, False, after), False


def groups(mode):
    top = "" if mode.is_root else f"cay-user-{mode.uid}/"
    return [*glob.glob(f"/sys/fs/cgroup/memory/{top}cay-*-?"), *glob.glob(f"/sys/fs/cgroup/{top}cay-*-?")]


def kill_all(run):
    """All of cay at once, warden and pid 1 included: nobody is there to clear away."""
    for p in [*caytest.descendants(), *caytest.descendants()]:
        if p.pid != 1:
            with contextlib.suppress(OSError):
                os.kill(p.pid, signal.SIGKILL)
    run.wait(15)


def hidden_by_a_lock(t, mode):
    """Another user holds what locks he can get on the folders of a run's groups: these are swept all the same."""
    uid = 46998
    with mode.live("run", *FLAGS, "--timeout", "60", "-l", "python", "-e", LITTER + ENDS["wait"]) as run:
        run.wait_for("ready")
        found, held = groups(mode), []
        t.ok(found, "a run has groups", found)
        kill_all(run)
    caytest.until(lambda: not caytest.descendants(), 5)
    # The locks of a killed one are free: who is first has them.
    os.setegid(uid)
    os.seteuid(uid)
    try:
        for folder in found:
            with contextlib.suppress(PermissionError, FileNotFoundError):
                held.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
                fcntl.flock(held[-1], fcntl.LOCK_SH)
    finally:
        os.seteuid(0)
        os.setegid(0)
    mode.cay("exec", "--", "/bin/true")
    t.ok(caytest.until(lambda: not set(found) & set(groups(mode)), 10), "another user's lock hides no group", held, groups(mode))
    for fd in held:
        os.close(fd)


def delegation_ends(t, mode):
    """What a killed cay left in a user's subtree does not keep root from taking that back, but what still runs does."""
    remove = (caytest.CAY, "setup", "--remove", mode.uid)
    with mode.live("run", *FLAGS, "--timeout", "60", "-l", "python", "-e", LITTER + ENDS["wait"]) as run:
        run.wait_for("ready")
        done = caytest.run(remove)
        t.ok(done.status == 125 and b"still runs" in done.err, "setup --remove while something runs: refused", *done.describe())
        kill_all(run)
    caytest.until(lambda: not caytest.descendants(), 30)
    done = caytest.run(remove)
    t.equal(done.status, 0, "setup --remove after kill -9 of all: taken back", *done.describe())
    done = caytest.run((caytest.CAY, "setup", mode.uid))
    t.equal(done.status, 0, "setup --remove after kill -9 of all: and given again", *done.describe())


def test(t, mode):
    if mode.name == "deleg":
        delegation_ends(t, mode)
    if os.getuid() == 0 and mode.has_cgroup:
        hidden_by_a_lock(t, mode)
    host = mode.host()
    stuck = {}
    for number, (name, ending, swept) in zip(range(ROUNDS), endings(mode)):
        outcome = ending()
        if swept:
            mode.cay("exec", "--", "/bin/true")
        left = host.settle(10)
        if outcome in (None, "ok", 0) and name != "closed pipe":
            stuck[f"round {number}"] = f"{name}: ended as {outcome}"
        if left:
            t.ok(False, f"round {number}, {name}: nothing is left", *left[:12])
            host = mode.host()  # do not blame the rounds after it
        elif number < 12 or not caytest.LONG:
            t.ok(True, f"round {number}, {name}: nothing is left")
    t.empty(stuck, f"all {ROUNDS} endings were bad ones, and came")
    r = mode.python("print(1)")
    t.result(r, "and the next run is fine", cause="ok", stdout="1\n")


caytest.main(test, modes=("root", "user", "deleg"))

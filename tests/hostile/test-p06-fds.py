#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P6: exactly 0, 1 and 2 are open, whatever the caller had; none is a folder, a socket or a terminal of the host."""
import contextlib
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

# The listing's own descriptor is open while it looks: it is the one that is gone afterwards.
PYTHON = """
import json, os
seen = {}
for fd in sorted(int(n) for n in os.listdir('/proc/self/fd')):
    try: seen[fd] = oct(os.fstat(fd).st_mode & 0o170000)
    except OSError: pass
print(json.dumps(seen))
"""


def rows(text):
    return [line.split(" ", 2) for line in text.splitlines() if line[:1].isdigit()]


def check(t, text, label, *why):
    found = rows(text)
    t.equal([int(fd) for fd, *_ in found], [0, 1, 2], f"{label}: exactly 0, 1, 2", *found, *why)
    t.empty([f for f in found if f[1] in "dsb"], f"{label}: no folder, socket or disk")
    t.empty([f for f in found if f[2].endswith(" tty")], f"{label}: no terminal")
    t.ok("no-tty" in text, f"{label}: /dev/tty opens nothing", text[-100:])


@contextlib.contextmanager
def many_open():
    """Descriptors of every kind, low and high, all inheritable."""
    fds = [os.open("/", os.O_RDONLY | os.O_DIRECTORY), os.open("/", os.O_PATH), os.open("/etc/hostname", os.O_RDONLY),
           os.memfd_create("cay"), *os.pipe()]
    pair = socket.socketpair()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    fds += [s.detach() for s in (*pair, listener)]
    for _ in range(150):
        fds.append(os.dup(fds[0]))
    high = [500, 800, 1000]
    for fd in high:
        os.dup2(fds[0], fd)
    fds += high
    try:
        yield fds
    finally:
        for fd in fds:
            os.close(fd)


def test(t, mode):
    r = mode.program("fds")
    t.result(r, "quiet caller", cause="ok")
    check(t, r.stdout, "quiet caller")

    with many_open() as fds:
        r = mode.program("fds", pass_fds=fds)
        t.result(r, "many open: it runs", cause="ok")
        check(t, r.stdout, "many open")
        r = mode.python(PYTHON, pass_fds=fds)
        t.result(r, "many open, python: it runs", cause="ok")
        t.equal(sorted(map(int, r.reported())), [0, 1, 2], "many open, python: exactly 0, 1, 2", r.stdout)

    cay = os.fspath(mode.binary)
    command = [cay, *mode.program_args("fds", "--json")]
    for label, redirect in {"stdin closed": "<&-", "stderr closed": "2>&-", "stdin and stderr closed": "<&- 2>&-"}.items():
        done = mode.command("/bin/sh", "-c", f'exec "$@" {redirect}', "sh", *command)
        r = caytest.Result(done)
        if t.ok(r.cause == "ok" or done.status == 125, f"{label}: it runs or says why not", *r.describe()) and r.cause == "ok":
            check(t, r.stdout, label)

    folder = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    ours, theirs = socket.socketpair()
    for label, fd in {"stdin is a folder": folder, "stdin is a socket": theirs.fileno()}.items():
        if fd == theirs.fileno():
            ours.shutdown(socket.SHUT_WR)
        r = caytest.Result(mode.command(*command, stdin_fd=fd))
        if t.ok(r.cause == "ok" or r.done.status in (2, 125), f"{label}: it runs or says why not", *r.describe()) \
                and r.cause == "ok":
            check(t, r.stdout, label)
    os.close(folder)
    ours.close()
    theirs.close()

    text = mode.terminal(*mode.program_args("fds")).decode(errors="replace")
    check(t, text, "caller at a terminal", text[:500])

    with mode.live_program("stay", args=("waits", "mark-fds")) as run:
        t.ok(run.wait_for("ready"), "outside: a quiet run", run.errors())
        found = [p for p in caytest.marked("mark-fds") if p.args[0] == b"/sandbox/x"]
        try:
            fds = sorted(os.listdir(f"/proc/{found[0].pid}/fd"), key=int) if found else None
            t.equal(fds, ["0", "1", "2"], "outside: exactly 0, 1, 2")
        except PermissionError:
            t.skip("outside: exactly 0, 1, 2", "this user may not look")
        run.end_input()
        run.wait()


caytest.main(test, programs=["fds", "stay"])

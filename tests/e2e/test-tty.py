#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Terminals inside: those a program makes itself, and -t, one of cay's own instead of pipes."""
import contextlib
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest
from caytest import marked, until
from cayterm import Screen

MAKES_ITS_OWN = r"""
import fcntl, os, pty, sys, termios
master, slave = pty.openpty()
print(os.ttyname(slave), os.isatty(slave), flush=True)
pid, fd = pty.fork()
if pid == 0:
    tty = os.open("/dev/tty", os.O_RDWR)
    print(os.ttyname(0), os.tcgetpgrp(tty) == os.getpid(), flush=True)
    try:
        fcntl.ioctl(tty, termios.TIOCSTI, b"x")
        print("typed", flush=True)
    except OSError as e:
        print("TIOCSTI", e.errno, flush=True)
    os._exit(0)
out = b""
while True:
    try:
        piece = os.read(fd, 1000)
    except OSError:
        break
    if not piece:
        break
    out += piece
print(out.decode().split())
"""

LOOKS = r"""
import fcntl, os, struct, sys, termios
print([os.isatty(i) for i in range(3)], os.ttyname(0))
print(sorted(int(f) for f in os.listdir("/proc/self/fd"))[:-1])
tty = os.open("/dev/tty", os.O_RDWR)
print("own", os.tcgetpgrp(tty) == os.getpgrp() == os.getsid(0) == os.getpid())
os.write(tty, b"through /dev/tty\n")
os.close(tty)
for fd in range(3):
    try:
        fcntl.ioctl(fd, termios.TIOCSTI, b"x")
        print("typed")
    except OSError as e:
        print("TIOCSTI", e.errno)
print("size", os.get_terminal_size(0).lines, os.get_terminal_size(0).columns, os.environ["TERM"])
sys.stdout.flush()
os.write(2, b"on stderr\n")
"""


def terminals_of_its_own(t, mode):
    r = mode.python(MAKES_ITS_OWN, "-t")
    t.result(r, "a program makes more terminals", cause="ok",
             stdout="/dev/pts/1 True\r\n['/dev/pts/2', 'True', 'TIOCSTI', '1']\r\n")
    r = mode.json("exec", "-t", "--", "script", "-qec", "tty; exit 3", "/dev/null")
    t.result(r, "script(1) works", cause="exit", exit_code=3)
    t.ok("/dev/pts/1" in r.stdout, "in a terminal of its own", *r.describe())
    r = mode.json("exec", "--", "ls", "/dev")
    t.ok("pts" not in r.stdout and "tty" not in r.stdout, "there are none where none was asked for", *r.describe())


def piped(t, mode):
    r = mode.json("run", "-t", "-l", "python", "-e", LOOKS)
    lines = (r.get("stdout") or "").split("\r\n")
    t.result(r, "-t without a terminal outside", cause="ok", stderr="")
    t.equal(lines, ["[True, True, True] /dev/pts/0", "[0, 1, 2]", "own True", "through /dev/tty", *["TIOCSTI 1"] * 3,
                    "size 24 80 xterm-256color", "on stderr", ""], "it is the sandbox's own, and all streams are one")
    done = mode.cay("exec", "-t", "--", "sh", "-c", "cat; cat; tty", stdin=b"abc\nrest")
    t.ok(done.status == 0 and done.out.replace(b"\r", b"").endswith(b"abc\nrest/dev/pts/0\n"), "each reader finds the end of piped input",
         *done.describe())
    done = mode.cay("exec", "-t", "--", "bash", "-i", stdin=b"echo $((6 * 7))\n")
    t.ok(done.status == 0 and b"42\r\n" in done.out and b"exit" in done.out, "an interactive shell runs what is piped in, and ends", *done.describe())
    done = mode.cay("exec", "-t", "--", "python3", "-q", stdin=b"6 * 7\n")
    t.ok(done.status == 0 and b"\r\n42\r\n" in done.out, "so does Python's prompt", *done.describe())
    r = mode.json("run", "-t", "-l", "c", "-e", "#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts(ttyname(1)); return 4; }")
    t.result(r, "a compiled program gets one after the compiler", cause="exit", exit_code=4, stdout="/dev/pts/0\r\n")
    r = mode.json("run", "-t", "-l", "c", "-e", "int main(void) { return nothing; }")
    t.result(r, "what a compiler says is no terminal's", cause="compile")
    r = mode.json("run", "-t", "--timeout", "1.5", "-l", "python", "-e", "import time; print('x', flush=True); time.sleep(600)")
    t.result(r, "limits hold", cause="wall_timeout", exit_code=124, stdout="x\r\n")
    r = mode.json("run", "-t", "--env", "TERM=vt100", "-l", "bash", "-e", "echo $TERM; exec 0<&- 1<&- 2<&-; exec </dev/tty >/dev/tty; [ -t 0 ] && echo back")
    t.result(r, "TERM can be named; the terminal can be let go of and taken again", cause="ok", stdout="vt100\r\nback\r\n")
    r = mode.json("run", "-t", "--max-output", "4m", "-l", "python", "-e", "print('x' * 999999)")
    t.result(r, "no byte is lost at the end", cause="ok", stdout="x" * 999999 + "\r\n")
    done = mode.cay("run", "-t", "--backend", "process", "--min-isolation", "none", "-l", "python", "-e", "1",
                    env={"SECURITY_ENABLE_SANDBOX": "false"})
    t.ok(done.status == 125 and b"tty: not supported by backend process" in done.err, "the process backend has none, and says so", *done.describe())
    done = mode.cay("run", "-t", "-l", "python", "-e", "print('\\033[6n\\033]0;x\\007')")
    t.equal(done.out, b"\x1b[6n\x1b]0;x\x07\r\n", "no terminal outside, no change")


def in_foreground(name):
    """Whether a process of that name, inside, is the one its terminal talks to, and runs."""
    for process in caytest.inside():
        with contextlib.suppress(OSError):  # it may be gone by now
            if process.name != name:
                continue
            state, _, group, _, _, foreground = open(f"/proc/{process.pid}/stat").read().rpartition(")")[2].split()[:6]
            if state != "T" and group == foreground:
                return True
    return False


def at_a_terminal(t, mode):
    with Screen(mode, "run", "-t", "-l", "python", "-e", "import os, time, signal\n"
                "def show(*_): os.write(1, ('size %d %d ' % tuple(os.get_terminal_size(0)) + os.environ['TERM'] + '\\n').encode())\n"
                "signal.signal(signal.SIGWINCH, show)\n"
                "try:\n  show()\n  while True: time.sleep(600)\n"
                "except KeyboardInterrupt: print('caught'); exit(7)", env={"TERM": "vt220"}) as at:
        t.ok(at.wait_for(b"size 100 30 vt220"), "it begins with the caller's size and TERM", at.seen)
        t.ok(at.is_raw(), "the caller's keys go through one by one")
        at.resize(41, 132)
        t.ok(at.wait_for(b"size 132 41"), "and follows it", at.seen)
        at.type(b"\x03")
        t.ok(at.wait_for(b"caught"), "Ctrl-C is the program's", at.seen)
        t.equal(at.wait(), 7, "which ends as it likes", at.seen)
        t.ok(at.is_put_back(), "the terminal is put back")
    with Screen(mode, "exec", "-t", "--", "bash", "--norc", "-i", env={"PS1": "x"}) as at:
        t.ok(at.wait_for(b"$ "), "a shell asks", at.seen)
        at.type(b"sleep 600\r")
        t.ok(at.wait_for(b"sleep 600"), "and is answered", at.seen)
        t.ok(until(lambda: in_foreground("sleep"), 20), "a job runs", *caytest.inside())
        at.type(b"\x1a")
        t.ok(at.wait_for(b"Stopped"), "Ctrl-Z stops it", at.seen)
        at.type(b"jobs\r")
        t.ok(at.wait_for(b"[1]+  Stopped"), "the shell knows it", at.seen)
        at.type(b"fg\r")
        t.ok(until(lambda: in_foreground("sleep"), 20), "it goes on", at.seen)
        at.type(b"\x03")
        t.ok(at.wait_for(b"^C") and at.wait_for(b"$ "), "Ctrl-C ends it", at.seen)
        at.type(b"exit 5\r")
        t.equal(at.wait(), 5, "the shell's status", at.seen)
        t.ok(at.is_put_back(), "the terminal is put back after a shell")
    with Screen(mode, "run", "-t", "-l", "python", "-e", "import curses\ndef main(s):\n  s.addstr(3, 4, 'drawn'); s.refresh(); "
                "k = s.getkey(); s.addstr(5, 6, 'key ' + k); s.refresh(); s.getkey()\ncurses.wrapper(main)") as at:
        t.ok(at.wait_for(b"\x1b[4;5H"), "curses draws", at.seen)
        at.wait_for(b"drawn")
        at.type(b"q")
        t.ok(at.wait_for(b"key q"), "and reads keys", at.seen)
        at.type(b"q")
        t.equal(at.wait(), 0, "and ends", at.seen)


def endings(t, mode):
    forever = ("run", "-t", "--timeout", "120", "-l", "python", "-e", "import time\nprint('\\033[?1049h\\033[?25l\\033[31mready', flush=True)\ntime.sleep(600)", "--")

    def run(name, act, status, mark_at_end=b""):
        mark = f"tty-{os.getpid()}-{os.urandom(4).hex()}"
        with Screen(mode, *forever, mark) as at:
            t.ok(at.wait_for(b"ready") and at.is_raw(), f"{name}: it runs", at.seen)
            act(at)
            t.equal(at.wait(), status, f"{name}: ends with {status}", at.seen)
            t.ok(at.is_put_back(), f"{name}: the terminal is put back", at.modes(), at.before)
            t.ok(at.wait_for(mark_at_end), f"{name}: the cursor is back", at.seen)
            t.ok(until(lambda: not marked(mark), 10), f"{name}: nothing is left", *marked(mark))
            return at.seen

    def kill(number):
        return lambda at: os.kill(at.pid, number)

    seen = run("escape", lambda at: at.type(b"\x1d\x1d\x1d"), 130)
    t.ok(b"\x1b[?1049l" in seen and b"\x1b[?25h" in seen and b"\x1b[0m" in seen, "screen, cursor and colour are put back", seen)
    run("Ctrl-C", lambda at: at.type(b"\x03"), 130)
    run("SIGTERM", kill(signal.SIGTERM), 137)
    run("SIGINT", kill(signal.SIGINT), 130)
    run("a crash", kill(signal.SIGABRT), -signal.SIGABRT)
    run("SIGKILL", kill(signal.SIGKILL), -signal.SIGKILL, b"\x1b[?25h")
    with Screen(mode, *forever) as at:
        t.ok(at.wait_for(b"ready"), "two of the escape: it runs", at.seen)
        at.type(b"\x1d\x1dx\x1d")
        t.ok(at.wait_for(b"^]^]x^]"), "two of the escape and another key are the program's", at.seen)


def shown(t, mode):
    attack = (b"\x1b[31mred\x1b[0m\x1b[5;5H\x1b]0;title\x07\x1b]52;c;eA==\x07\x1b[6n\x1b[c\x1bP$qm\x1b\\\x05\x1b[21t\xc2\x9b5n"
              b"\x1b_x\x1b\\end\n")
    code = f"import os\nos.write(1, {attack!r})"
    with Screen(mode, "run", "-t", "-l", "python", "-e", code) as at:
        at.wait()
        t.ok(at.seen.startswith(b"\x1b[31mred\x1b[0m\x1b[5;5H5nend\r\n"), "what draws passes, what makes a terminal answer does not", at.seen)
    with Screen(mode, "run", "-t", "--raw", "-l", "python", "-e", code) as at:
        at.wait()
        t.ok(at.seen.startswith(attack[:-1] + b"\r\n"), "--raw passes everything", at.seen)


def test(t, mode):
    host = mode.host()
    terminals_of_its_own(t, mode)
    piped(t, mode)
    at_a_terminal(t, mode)
    endings(t, mode)
    shown(t, mode)
    t.empty(host.settle(), "nothing is left")


caytest.main(test, modes=("root", "user", "deleg"))

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cay at a real terminal: Ctrl-C, what a program's control sequences become, and whose words are whose."""
import base64
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest
from caytest import marked, until
from cayterm import Screen


def writes(data, fd=1):
    return f"import os, base64\nos.write({fd}, base64.b64decode('{base64.b64encode(data).decode()}'))\n"


def ctrl_c(t, mode):
    for name, extra in (("a program", ""), ("one that ignores it", "import signal\nsignal.signal(2, signal.SIG_IGN)\n"),
                        ("one with a family", "import os\nos.fork(); os.fork(); os.setsid() if os.fork() == 0 else 0\n")):
        mark = f"ctrl-c-{os.getpid()}-{os.urandom(4).hex()}"
        code = extra + "import time\nprint('ready', flush=True)\ntime.sleep(600)"
        with Screen(mode, "run", "--timeout", "120", "-l", "python", "-e", code, "--", mark) as at:
            t.ok(at.wait_for(b"ready"), f"Ctrl-C: {name} runs", at.seen)
            at.type(b"\x03")
            t.equal(at.wait(), 130, f"Ctrl-C: {name} ends with 130", at.seen)
            t.ok(until(lambda: not marked(mark), 30), f"Ctrl-C: nothing of {name} is left", *marked(mark))
    for flag in ("--json", "--events"):
        mark = f"ctrl-c-{os.getpid()}-{os.urandom(4).hex()}"
        with Screen(mode, "run", flag, "--timeout", "120", "-l", "python", "-e", "import time\ntime.sleep(600)", "--", mark) as at:
            t.ok(until(lambda: [p for p in marked(mark) if p.pid != at.pid and p.name == "python3"], 20), f"Ctrl-C with {flag}: it runs",
                 *marked(mark))
            at.type(b"\x03")
            t.equal(at.wait(), 130, f"Ctrl-C with {flag}: 130", at.seen)
            t.ok(b'"cause":"cancelled"' in at.seen and b'"exit_code":130' in at.seen, f"Ctrl-C with {flag}: the result says cancelled",
                 at.seen)
    with Screen(mode, "run", "-l", "c", "-e", "int main(void) { for (;;) ; }", "--timeout", "120") as at:
        t.ok(until(lambda: [p for p in caytest.inside() if p.name in ("gcc", "cc1", "as", "ld", "collect2", "main")], 20),
             "Ctrl-C: a compiled program is on its way", *caytest.inside())
        at.type(b"\x03")
        t.equal(at.wait(), 130, "Ctrl-C: whichever stage it is in", at.seen)


def interactive(t, mode):
    with Screen(mode, "run", "-l", "python", "-e", "n = input('name? ')\nprint('hello', n)") as at:
        t.ok(at.wait_for(b"name? "), "a question without a line end is shown at once", at.seen)
        at.type(b"Ada\n")
        t.ok(at.wait_for(b"hello Ada"), "and its answer is read", at.seen)
        t.equal(at.wait(), 0, "it ends as usual", at.seen)
    with Screen(mode, "run", "-l", "python", "-e", "import sys\nprint(len(sys.stdin.read()))") as at:
        at.type(b"abc\n\x04")
        t.ok(at.wait_for(b"4"), "Ctrl-D ends the input", at.seen)
        t.equal(at.wait(), 0, "and the program goes on", at.seen)
    with Screen(mode, "run", "--timeout", "120", "-l", "python", "-e", "import sys\nsys.stdin.readline()") as at:
        t.ok(at.wait_for("cay: running \u2026 ".encode()), "progress is shown where the program reads what is typed, too", at.seen)
        at.type(b"\n")
        t.ok(at.wait() == 0 and at.seen.endswith(b"\r\x1b[K"), "and taken off again", at.seen)
    r = mode.terminal("run", "-l", "python", "-e", "import os, sys\nprint([os.isatty(i) for i in range(3)])\ntry: open('/dev/tty')\nexcept OSError: print('no tty')")
    t.ok(b"[False, False, False]" in r and b"no tty" in r, "the program never has the caller's terminal", r)


def shown(t, mode):
    attack = b"\x1b[31mred\x1b[0m\x1b]0;title\x07\x1b[2J\x1bc\x1b[6n\xc2\x9b5n\0\x08\n"
    for fd in (1, 2):
        text = mode.terminal("run", "-l", "python", "-e", writes(attack, fd))
        stream = ("stdout", "stderr")[fd - 1]
        t.ok(b"\x1b[31mred\x1b[0m" in text, f"{stream}: colours pass", text)
        t.ok(b"^[]0;title^G" in text and b"^[[2J" in text and b"^[c" in text and b"^[[6n" in text and b"<9B>5n" in text and b"^@^H" in text,
             f"{stream}: everything else is made visible", text)
    text = mode.terminal("run", "-l", "python", "-e", writes(b"\x1b[31mleft on"))
    t.ok(b"\x1b[31mleft on\x1b[0m" in text, "a colour that was left on is taken off", text)
    text = mode.terminal("run", "-l", "python", "-e", writes(b"a\x1b[") + "import sys\n" + writes(b"2Jb\n"))
    t.ok(b"a^[[2Jb" in text, "a sequence in two pieces is seen as one", text)
    text = mode.terminal("run", "--raw", "-l", "python", "-e", writes(attack))
    t.ok(attack[:-1] in text, "--raw passes everything", text)
    done = mode.cay("run", "-l", "python", "-e", writes(attack))
    t.equal(done.out, attack, "no terminal, no change")
    # cay's own lines have a sign before them that no program can print, in whatever way it is quoted.
    sign = "\u275a".encode()
    mark = b"\x1b[36m" + sign + b"\x1b[0m"
    forged = sign + b" cay: hint: run curl | sh\n"
    for fd in (1, 2):
        text = mode.terminal("run", "-l", "python", "-e", writes(forged, fd) + "import signal\nos.kill(os.getpid(), signal.SIGTERM)")
        t.ok(b"<E2><9D><9A> cay: hint: run curl" in text and mark + b" cay: ended by signal 15" in text and
             all(line.startswith(mark + b" cay: ") for line in text.splitlines() if sign in line) and
             sign + b" cay: hint: run" not in text, "cay's own lines have a sign that a program can't print", text)
    text = mode.terminal("run", "-t", "-l", "python", "-e", writes(forged))
    t.ok(sign + b" cay: hint: run" not in text and b"cay: hint: run curl" in text, "nor with a terminal of its own", text)
    bars = "\u2759\u2503\u258c\u2758\u2502"
    for flags in ((), ("-t",)):
        text = mode.terminal("run", *flags, "-l", "python", "-e", writes("".join(f"{bar} cay: one\n \x1b[36m{bar}\x1b[0m cay: two\nx {bar}\n" for bar in bars).encode()))
        t.ok(text.count(b"| cay: one") == text.count(b"|\x1b[0m cay: two") == len(bars) and all(f"x {bar}".encode() in text for bar in bars),
             f"{flags}: what looks like it is another character at the start of a line, and itself elsewhere", text)
    for args, env in (((), {"NO_COLOR": "1"}), (("--no-color",), {})):
        with Screen(mode, "run", *args, "--timeout", "0.2", "-l", "python", "-e", "import time; time.sleep(600)", env=env) as at:
            at.wait()
            t.ok(sign + b" cay: Code execution timed out" in at.seen and b"\x1b[36m" not in at.seen, f"{args} {env}: the sign has no colour", at.seen)
    text = mode.terminal("run", "-l", "python", "-e", writes(b"x" * 300 + forged, 2) + "import signal\nos.kill(os.getpid(), signal.SIGSYS)")
    t.ok(sign + b" cay: hint: run" not in text, "nor where cay quotes it", text)
    text = mode.terminal("run", "-l", "python", "-e", "print(1)", "--file", sign.decode() + " cay: x")
    t.ok(sign + b" cay: x" not in text and b"cay: x" in text, "nor by a name", text)
    done = mode.cay("run", "--timeout", "0.2", "-l", "python", "-e", "import time; time.sleep(600)")
    t.ok(sign not in done.err and b"cay: " in done.err, "in a pipe the lines stay plain", done.err)
    # The same bytes in what cay itself says: the message of a run that ended by SIGSYS quotes stderr.
    quoted = mode.terminal("run", "-l", "python", "-e", writes(b"\x1b[2J\xc2\x9b5n\x9b", 2) + "import signal\nos.kill(os.getpid(), signal.SIGSYS)")
    t.ok(b"\x1b[2J" not in quoted and b"\x9b" not in quoted, "cay's own words quote nothing raw", quoted)
    text = mode.terminal("run", "--json", "-l", "python", "-e", writes(attack))
    t.ok(b"\x1b" not in text and b"\x9b" not in text and text.startswith(b'{"id"'), "--json at a terminal holds none of it", text[:300])


def colours(t, mode):
    for args in (("help",), ("languages",), ("config",), ("run", "--help"), ("run", "-l", "qqqq", "-e", "1")):
        with Screen(mode, *args, env={"NO_COLOR": "1"}) as at:
            at.wait()
            t.ok(b"\x1b" not in at.seen and at.seen, f"NO_COLOR: cay {' '.join(args)} has no colour", at.seen[:300])
    text = mode.terminal("run", "--no-color", "--timeout", "0.2", "-l", "python", "-e", "import time; time.sleep(600)")
    t.ok(b"\x1b" not in text and b"timed out" in text, "--no-color", text)
    done = mode.cay("run", "--timeout", "0.2", "-l", "python", "-e", "import time; time.sleep(600)")
    t.ok(b"\x1b" not in done.err, "no terminal, no colour", done.err)
    with Screen(mode, "run") as at:
        t.equal(at.wait(), 2, "cay run alone at a terminal asks for code, and does not wait for it", at.seen)


def notes(t, mode):
    """What holds for every run on this host is said once; -q is for who wants none of it."""
    code, state = ("-l", "python", "-e", "print(1)"), {"XDG_STATE_HOME": str(mode.cwd / "fresh-state")}
    (mode.cwd / "fresh-state").mkdir(mode=0o777, exist_ok=True)
    (mode.cwd / "fresh-state").chmod(0o777)
    seen = []
    for flags in (("-q",), (), ()):
        with Screen(mode, "run", *flags, *code, env=state) as at:
            at.wait()
            seen.append(b"sudo cay setup" in at.seen)
    t.equal(seen, [False, mode.name == "user", False], "no cgroup: said once, and not with -q")
    r = mode.json("run", *code)
    t.equal(any("no cgroup" in text for text in r.get("meta.warnings")), mode.name == "user", "a result always says it", *r.describe())
    text = mode.terminal("run", "-q", "--timeout", "0.2", "-l", "python", "-e", "import time; time.sleep(600)")
    t.ok(b"timed out" in text and b"hint" not in text, "-q: why it was ended is still said, with no hint", text)


def test(t, mode):
    notes(t, mode)
    host = mode.host()
    ctrl_c(t, mode)
    interactive(t, mode)
    shown(t, mode)
    colours(t, mode)
    t.empty(host.settle(), "nothing is left")


caytest.main(test, modes=("root", "user"))

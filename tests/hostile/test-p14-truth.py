#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P14: the report is valid and true, whatever the program writes, and wherever it writes it."""
import base64
import json
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

FAKE = {"id": "fake", "success": True, "exit_code": 0, "signal": None, "stdout": "forged", "stderr": "", "timeout": False,
        "verdict": {"cause": "ok"}}
BYTES = {
    "every byte": bytes(range(256)),
    "NULs": b"a\0b\0\0c",
    "a lone surrogate": b"a\xed\xa0\x80b",
    "overlong": b"\xc0\xaf\xe0\x80\xaf\xf0\x80\x80\xaf",
    "past the last code point": b"\xf4\x90\x80\x80",
    "cut short": b"abc\xf0\x9f\x98",
    "a byte order mark": b"\xef\xbb\xbfx",
    "latin-1": "caf\xe9".encode("latin-1"),
    "ANSI and OSC": b"\x1b[31mred\x1b[0m\x1b]0;title\x07\x1b]52;c;eA==\x07",
    "DEL": b"a\x7fb",
    "C1 controls": "a\x9b31m\x85\x90b".encode(),
    "line separators": "a\u2028b\u2029c".encode(),
    "bidi and zero width": "a\u202eb\u200bc\ufeff".encode(),
    "quotes and backslashes": b'"\\\\"},{"exit_code":0',
    "non-characters": "\ufffe\uffff\U0010ffff".encode(),
    "a real U+FFFD": "a\ufffdb".encode(),
}


def writes(data, fd=1):
    return f"import os, base64\nos.write({fd}, base64.b64decode('{base64.b64encode(data).decode()}'))\n"


def streams(t, mode):
    for label, data in BYTES.items():
        for fd, stream in ((1, "stdout"), (2, "stderr")):
            r = mode.python(writes(data, fd))
            name = f"{label} on {stream}"
            t.result(r, f"{name}: a valid report", cause="ok")
            exact = r.get(stream + "_base64")
            try:
                text = data.decode()
                t.equal((r.get(stream), exact), (text, None), f"{name}: exactly as written")
            except UnicodeDecodeError:
                t.equal(base64.b64decode(exact or ""), data, f"{name}: the exact bytes are given")
                t.equal(r.get(stream), data.decode(errors="replace"), f"{name}: shown with U+FFFD")
    t.equal(r.get("meta.usage.stderr_bytes"), len(data), "bytes are counted as written")


def forgeries(t, mode):
    fake = json.dumps(FAKE).encode() + b"\n"
    r = mode.python(writes(fake) + "raise SystemExit(3)")
    t.result(r, "a result on stdout", cause="exit", exit_code=3, stdout=fake.decode())
    r = mode.python(writes(fake, 2) + "raise SystemExit(3)")
    t.result(r, "a result on stderr", cause="exit", exit_code=3, stderr=fake.decode())
    everywhere = f"""
import os
fake = {fake!r}
for fd in range(3, 2000):
    for data in (fake, b'\\0' * 64, (0).to_bytes(4, 'little')):
        try: os.write(fd, data)
        except OSError: pass
for pid in ('self', '1', str(os.getppid())):
    for fd in range(3 if pid == 'self' else 0, 64):
        try:
            f = os.open(f'/proc/{{pid}}/fd/{{fd}}', os.O_WRONLY | os.O_NONBLOCK)
            os.write(f, fake)
            os.close(f)
        except OSError: pass
raise SystemExit(5)
"""
    r = mode.python(everywhere)
    t.result(r, "a result on every descriptor", cause="exit", exit_code=5, stdout="")
    done = mode.cay("run", "-l", "python", "-e", writes(fake) + "raise SystemExit(4)")
    t.equal((done.status, done.out), (4, fake), "without --json: the output as it is, and the true status")
    r = mode.python("import sys\nprint('Killed', file=sys.stderr)\nprint('Out of memory', file=sys.stderr)\nsys.exit(137)")
    t.result(r, "words of a kill are only words", cause="exit", exit_code=137, signal=None)
    r = mode.python("import sys\nprint('Code execution timed out after 1s', file=sys.stderr)\nsys.exit(124)")
    t.result(r, "words of a timeout are only words", cause="exit", exit_code=124, timeout=False)

    done = mode.cay("run", "--events", "-l", "python", "-e", writes(fake + b"\xff\n") + "raise SystemExit(3)")
    events, bad = [], []
    for line in done.out.splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:
            bad.append(line)
    t.empty(bad, "events: every line is JSON")
    t.equal([e.get("seq") for e in events], list(range(1, len(events) + 1)), "events: numbered without a gap")
    last = events[-1] if events else {}
    t.equal((last.get("event"), (last.get("result") or {}).get("exit_code")), ("finished", 3),
            "events: end with the true result", *done.describe())
    t.equal(len([e for e in events if e.get("event") == "finished"]), 1, "events: finished comes once")
    output = b"".join(e["data"].encode() if "data" in e else base64.b64decode(e["base64"])
                      for e in events if e.get("event") == "stdout")
    t.equal(output, fake + b"\xff\n", "events: the bytes as written")


def endings(t, mode):
    for code in (1, 2, 3, 124, 125, 126, 127, 128, 130, 137, 139, 255):
        r = mode.program("ending", args=["exit", code])
        t.result(r, f"exit {code} of its own is an exit", cause="exit", exit_code=code, signal=None, timeout=False)
    r = mode.program("ending", args=["exit", 0])
    t.result(r, "exit 0", cause="ok", exit_code=0, success=True)
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGABRT, signal.SIGINT, signal.SIGXCPU, signal.SIGXFSZ,
                   signal.SIGALRM, 34, 64):
        r = mode.program("ending", args=["signal", int(number)])
        t.result(r, f"signal {int(number)} of its own is a signal", cause="signal", signal=int(number),
                 exit_code=128 + int(number), timeout=False)
    r = mode.program("ending", args=["segv"])
    t.result(r, "a wrong address", cause="signal", signal=11, exit_code=139)
    r = mode.program("ending", args=["trap"])
    t.result(r, "a wrong instruction", cause="signal", signal=4, exit_code=132)
    r = mode.program("ending", args=["signal", int(signal.SIGSYS)])
    t.result(r, "SIGSYS", cause="syscall", signal=31, exit_code=159)
    r = mode.program("ending", args=["child-killed"])
    t.result(r, "a killed child is its own affair", cause="ok", exit_code=0)
    r = mode.program("ending", args=["kill-all"])
    t.result(r, "a signal to everything hits nobody else", cause="exit", exit_code=6)
    r = mode.program("ending", args=["kill-init"])
    t.result(r, "signals to init and parent do nothing", cause="exit", exit_code=6)
    r = mode.python("import os\nos.close(1); os.close(2); os._exit(9)")
    t.result(r, "closed streams", cause="exit", exit_code=9, stdout="")
    r = mode.json("exec", "--", "/sandbox/nothing-here")
    t.ok(r.get("success") is False and r.done.status in (125, 126, 127), "a missing program is not a success", *r.describe())


def at_a_terminal(t, mode):
    attack = b"\x1b[31mred\x1b[0m\x1b]0;title\x07\x1b[2J\x1bc\xc2\x9b5n\n"
    shown = mode.terminal("run", "-l", "python", "-e", writes(attack))
    t.ok(b"\x1b[31mred" in shown, "terminal: colours pass", shown)
    t.empty([x for x in (b"\x1b]", b"\x07", b"\x1b[2J", b"\x1bc", b"\x9b") if x in shown],
            "terminal: other sequences are made visible", shown)
    # The same sequence as one byte, for terminals that do not speak UTF-8.
    eight_bit = mode.terminal("run", "-l", "python", "-e", writes(b"a\x9b5nb\x90c\n"))
    t.ok(b"\x9b" not in eight_bit and b"\x90" not in eight_bit, "terminal: 8-bit controls are made visible", eight_bit)
    t.ok(b"title" in shown, "terminal: nothing is swallowed", shown)
    raw = mode.terminal("run", "--raw", "-l", "python", "-e", writes(attack))
    t.ok(b"\x1b]0;title\x07" in raw and b"\x1bc" in raw, "terminal: --raw passes everything", raw)


def test(t, mode):
    streams(t, mode)
    forgeries(t, mode)
    endings(t, mode)
    at_a_terminal(t, mode)


caytest.main(test, programs=["ending"])

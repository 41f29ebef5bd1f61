#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The audit log: every run is in it, with hashes and without secrets; whatever is done to it afterwards is found; writers at
once, writers that are killed and a full disk leave it whole."""
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

SECRET = "hunter2-is-nowhere"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def entries(mode):
    done = mode.cay("audit", "export")
    return [json.loads(line) for line in done.out.splitlines()]


def verify(mode):
    done = mode.cay("audit", "verify", "--json")
    return done.status, json.loads(done.out)


def check_intact(t, mode, name, kinds=()):
    status, report = verify(mode)
    found = [f["kind"] for f in report["findings"]]
    t.ok(status == 0 and report["intact"] and set(found) <= set(kinds), name, f"status {status}", report)
    return report


# --- what is in it --------------------------------------------------------------------------------------------------


def test_entries(t, mode):
    done = mode.cay("audit", "verify")
    t.ok(done.status == 0 and b"empty" in done.out, "no log yet: that is no damage", *done.describe())
    code = "import sys\nprint(sys.stdin.read())\nsys.exit(3)"
    r = mode.python(code, "--stdin", "abc", "--env", f"TOKEN={SECRET}")
    live = mode.cay("run", "-l", "python", "-e", "print(input())", stdin=b"typed\n")
    mode.cay("exec", "--", "/no/such/program")
    log = entries(mode)
    t.equal([e["seq"] for e in log], [1, 2, 3], "an entry for each run, also for one that could not start")
    e = log[0]
    t.equal([e[k] for k in ("id", "language", "backend", "tier", "cause", "exit_code", "tenant", "findings", "bypass")],
            [r.get("id"), "python", "native", "kernel", "exit", 3, None, [], False], "what became of it")
    t.equal(e["code"], {"bytes": len(code), "sha256": sha256(code.encode())}, "the code's hash")
    t.equal([e["stdin"]["sha256"], e["stdout"]["sha256"], e["stderr"]], [sha256(b"abc"), sha256(b"abc\n"), None],
            "those of its streams")
    t.equal((live.out, log[1]["stdin"]["sha256"], log[1]["stdout"]["sha256"]), (b"typed\n", sha256(b"typed\n"), sha256(b"typed\n")),
            "input that is typed is hashed too")
    t.equal((log[2]["cause"], log[2]["exit_code"]), ("infrastructure", 127), "a program that is not there")
    with open(mode.cwd / "data", "wb") as f:
        f.write(b"x" * 70000)
    mode.cay("run", "-l", "python", "--file", "data", "-e", "print('y' * 100000)")
    e = entries(mode)[-1]
    t.equal((e["n_files"], e["files"]["bytes"], e["stdout"]), (1, 70000, {"bytes": 100001, "sha256": sha256(b"y" * 100000 + b"\n")}),
            "files, and a stream that the result has only a part of")
    done = mode.cay("run", "-l", "python", "-e", "print(1)", env={"CAY_KEEP_EXECUTIONS": "0"})
    t.equal((done.status, len(entries(mode))), (0, 5), "where nothing else is kept, the entry is", *done.describe())
    state = mode.home / ".local/state/cay"
    text = b"".join(p.read_bytes() for p in state.rglob("*") if p.is_file())
    t.ok(SECRET.encode() not in text, "variables are nowhere in the state folder")
    modes = {p.name: p.stat().st_mode & 0o777 for p in state.glob("audit*")}
    t.equal(modes, {"audit.jsonl": 0o600, "audit.head": 0o600}, "only its owner can read it")
    report = check_intact(t, mode, "it verifies")
    t.equal((report["entries"], report["last"], report["hash"]), (5, 5, entries(mode)[-1]["hash"]), "and says how far it goes")
    t.equal(mode.cay("audit", "--limit", "2").out, mode.cay("audit", "list", "--limit", "2").out, "audit alone is its list")
    lines = mode.cay("audit", "list", "--limit", "2").out.decode().splitlines()
    t.ok(len(lines) == 3 and lines[1].split()[0] == "4" and lines[2].split()[0] == "5", "list: the newest, last", *lines)
    artifacts = [json.loads(p.read_text()) for p in sorted((state / "artifacts/executions").iterdir())]
    t.equal([(a.get("code") or a["command"], a["result"]["exit_code"]) for a in artifacts], [(code, 3), (["/no/such/program"], 127)],
            "an artifact of each run that failed, and of no other")


def test_policy(t, mode):
    r = mode.python("import ctypes\neval('1')", "--policy", "block")
    if r.get("verdict.cause") != "policy":
        t.skip("findings of the policy", "no grammar is installed", "syntax")
        return
    mode.python("import ctypes\neval('1')", "--policy", "block", "--policy-bypass")
    refused, bypassed = entries(mode)[-2:]
    t.equal((refused["id"], refused["cause"], refused["bypass"], bypassed["cause"], bypassed["bypass"]),
            (r.get("id"), "policy", False, "ok", True), "a run that was refused is in the log, and so is a bypass", refused, bypassed)
    t.ok(refused["findings"] and refused["findings"] == bypassed["findings"], "with what was found", refused, bypassed)


def test_usage(t, mode):
    for args, words in caytest.some(((["audit", "verfy"], b"did you mean"), (["audit", "list", "more"], b"unexpected argument"),
                        (["audit", "list", "--limit", "0"], b"'0' is not a number"), (["audit", "verify", "--jsn"], b"--json"))):
        done = mode.cay(*args)
        t.ok(done.status == 2 and done.out == b"" and words in done.err, "misuse: " + " ".join(args), *done.describe())


# --- an independent hand ----------------------------------------------------------------------------------------------


def make_log(n):
    """A log as cay would write it, and its anchor."""
    lines, prev = [], "0" * 64
    for seq in range(1, n + 1):
        body = (f'{{"seq":{seq},"time":"2026-11-15T19:13:02.123Z","kind":"run","id":"{seq:032x}","tenant":null,"language":"python",'
                f'"backend":"native","tier":"kernel","start":"cold","cause":"ok","exit_code":0,"run":0.01,"total":0.02,"code":null,'
                f'"stdin":null,"stdout":null,"stderr":null,"n_files":0,"files":null,"findings":[],"bypass":false,"prev":"{prev}"')
        prev = sha256(body.encode())
        lines.append(f'{body},"hash":"{prev}"}}\n'.encode())
    head = f'{{"seq":{n},"hash":"{prev}","file":1,"length":{sum(map(len, lines))}}}'.encode()
    return lines, head.ljust(191) + b"\n"


def put_log(state, lines, head):
    for path in state.glob("audit*"):
        path.unlink()
    state.mkdir(parents=True, exist_ok=True)
    for name, data in (("audit.jsonl", b"".join(lines)), ("audit.head", head)):
        if data is not None:
            (state / name).write_bytes(data)


def own(mode, state):
    if mode.uid is not None:
        for path in (state, *state.glob("audit*")):
            os.chown(path, mode.uid, mode.uid)
        state.chmod(0o700)


def test_tampering(t, mode):
    state = mode.home / ".local/state/cay"
    lines, head = make_log(6)
    other, other_head = make_log(9)
    flipped = lines[2].replace(b'"cause":"ok"', b'"cause":"oj"')
    forged = lines[2][:-67].replace(b'"exit_code":0', b'"exit_code":1').rsplit(b',"hash"', 1)[0]
    forged = forged + b',"hash":"' + sha256(forged).encode() + b'"}\n'
    rows = (
        ("as it was", lines, head, []),
        ("a byte is changed", [*lines[:2], flipped, *lines[3:]], head, [("changed", 3, 3)]),
        ("an entry is written anew, its hash too", [*lines[:2], forged, *lines[3:]], head, [("changed", 3, 4)]),
        ("a line is deleted", lines[:2] + lines[3:], head, [("cut", 3, 3)]),
        ("the beginning is deleted", lines[2:], head, [("cut", 1, 2)]),
        ("lines are swapped", [lines[0], lines[2], lines[1], *lines[3:]], head, [("reordered", 2, 2)]),
        ("a line is there twice", [*lines[:3], *lines[1:]], head, [("inserted", 2, 2), ("inserted", 3, 3)]),
        ("a line is put in", [*lines[:3], b"hello\n", *lines[3:]], head, [("inserted", 4, 4)]),
        ("the end is cut off", lines[:4], head, [("tail_cut", 5, 6)]),
        ("the end is cut off within a line", [*lines[:5], lines[5][:100]], head, [("tail_cut", 6, 6)]),
        ("the whole log is gone", [], head, [("tail_cut", 1, 6)]),
        ("the anchor is gone", lines, None, [("anchor", 0, 0)]),
        ("the anchor is damaged", lines, head.replace(b"seq", b"sex"), [("anchor", 0, 0)]),
        ("the anchor's hash is changed", lines, head.replace(b'hash":"', b'hash":"0', 1)[:-2] + b"\n", [("anchor", 0, 0)]),
        ("the anchor is of a longer log", lines, other_head, [("tail_cut", 7, 9)]),
        ("rubbish is appended", [*lines, b"{}\n"], head, [("inserted", 7, 7)]),
    )
    for name, log, anchor, want in caytest.some(rows):
        put_log(state, log, anchor)
        own(mode, state)
        status, report = verify(mode)
        got = [(f["kind"], f["first"], f["last"]) for f in report["findings"] if f["damage"]]
        t.equal((status, report["intact"], got), (1 if want else 0, not want, want), name, report)
    put_log(state, [*lines, b"{}\n"], head)
    own(mode, state)
    done = mode.cay("audit", "verify")
    t.ok(done.status == 1 and b"inserted: " in done.out and b"line 7" in done.out and b"DAMAGED" in done.out, "said in words",
         *done.describe())
    put_log(state, lines, head)
    own(mode, state)
    with open(state / "audit.jsonl", "ab") as f:
        f.write(lines[0][:50])
    check_intact(t, mode, "a torn end is no damage, but said", ["unfinished"])
    r = mode.python("print(1)")
    t.result(r, "the next run goes on behind it", cause="ok")
    check_intact(t, mode, "and tells of it", ["note"])
    t.equal([(e["seq"], e["kind"]) for e in entries(mode)][-2:], [(7, "torn"), (8, "run")], "in the log itself")
    lines, head = make_log(200)  # more than 64k
    put_log(state, lines, head)
    own(mode, state)
    less = {"CAY_AUDIT_BYTES": "64k"}
    mode.cay("exec", "--", "/bin/true", env=less)
    mode.cay("exec", "--", "/bin/true", env=less)
    t.equal(sorted(p.name for p in state.glob("audit*")), ["audit-000001.jsonl", "audit.head", "audit.jsonl"],
            "past audit_bytes a new file is begun")
    t.equal(check_intact(t, mode, "the chain goes on in it")["entries"], 202, "with all entries")


# --- many, killed, full -------------------------------------------------------------------------------------------------


def test_many(t, mode):
    before = len(entries(mode))
    jobs = caytest.some([lambda: mode.cay("exec", "--", "/bin/true")] * 20)
    done = caytest.together(jobs, workers=20)
    t.equal([d.status for d in done], [0] * len(jobs), "20 runs at once")
    check_intact(t, mode, "are in a log that is whole")
    t.equal(len(entries(mode)), before + len(jobs), "each of them")


def test_stopped(t, mode):
    """A process that was stopped with the log locked holds up nobody for long, and no entry is lost by it."""
    before = len(entries(mode))
    with open(mode.home / ".local/state/cay/audit.head", "rb") as head:
        fcntl.flock(head, fcntl.LOCK_EX)
        done = mode.cay("exec", "--", "/bin/echo", "hello")
        t.equal((done.status, done.out, done.err), (0, b"hello\n", b""), "with the log locked a run is as ever", *done.describe())
    t.equal(len(entries(mode)), before + 1, "and in the log when that is free again")
    check_intact(t, mode, "which is whole")


def test_killed(t, mode):
    for i in caytest.some(range(8)):
        with mode.live("exec", "--", "/bin/true") as run:
            time.sleep(0.006 * i)  # not a check: any moment will do
            run.proc.kill()
    check_intact(t, mode, "after SIGKILL at many moments the log is whole", ["unfinished", "note"])
    t.equal(mode.cay("exec", "--", "/bin/true").status, 0, "and goes on")
    check_intact(t, mode, "whole", ["note"])


def test_full(t, mode):
    if not caytest.contained() or mode.uid is None:
        t.skip("a full disk", "needs a mount namespace of its own", "mount")
        return
    state = mode.home / ".local/state/cay"
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=0700,size=64k,uid={mode.uid},gid={mode.uid}", "cay-test", state], check=True)
    try:
        # A log that ends shortly before its block does, so that the next entry needs another one.
        lines, head = next(log for log in map(make_log, range(8, 60)) if sum(map(len, log[0])) % 4096 > 3700)
        put_log(state, lines, head)
        own(mode, state)
        mode.cay("show", "--json")  # whatever else is made at first
        fill = state / "fill"
        with open(fill, "wb", buffering=0) as f:
            try:
                while True:
                    f.write(b"x" * 512)
            except OSError:
                pass
        done = mode.cay("exec", "--", "/bin/echo", "hello")
        t.ok(done.status == 0 and done.out == b"hello\n" and b"not in the audit log" in done.err and b"space" in done.err,
             "on a full disk the run is as ever, and stderr says what is not", *done.describe())
        r = mode.python("print(1)")
        t.ok(r.get("exit_code") == 0 and any("audit log" in w for w in r.get("meta.warnings")), "the result does too", *r.describe())
        fill.unlink()
        t.equal(mode.cay("exec", "--", "/bin/true").err, b"", "with room again, nothing is said")
        t.equal(check_intact(t, mode, "and the log is whole")["last"], len(lines) + 1, "without those that had no room")
    finally:
        subprocess.run(["umount", state], check=True)


def test(t, mode):
    if mode.is_root:
        r = mode.python("print(1)")
        newest = mode.cay("audit", "list", "--limit", "1000", "--json").out  # all of them may be many: it is the host's own
        t.ok(r.get("id") in [json.loads(line).get("id") for line in newest.splitlines()], "root's runs are in root's log",
             *r.describe())
        return
    test_entries(t, mode)
    test_policy(t, mode)
    test_usage(t, mode)
    test_many(t, mode)
    test_stopped(t, mode)
    test_killed(t, mode)
    test_tampering(t, mode)
    test_full(t, mode)


caytest.main(test, modes=("root", "user"))

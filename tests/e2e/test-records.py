#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What is kept of a run: `cay show` gives back its result and its whole output; secrets are not kept; what can't be kept
is said and breaks nothing."""
import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import cayserve
import caystate
import caytest

LONG = """import sys
for i in range(20000):
    print("line", i)
sys.stderr.write("e" * 30000)
"""
WANT_OUT = b"".join(b"line %d\n" % i for i in range(20000))
BYTES = "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 3)\nsys.exit(3)"
SECRET = "hunter2-is-not-written"


def shown(mode, *args, **options):
    return mode.cay("show", *args, **options)


def show_json(mode, id):
    done = shown(mode, id, "--json")
    return json.loads(done.out) if done.status == 0 else {}


def all_text(folder):
    """Every byte in the records, and every mode."""
    text, modes = b"", set()
    for here, _, names in os.walk(folder):
        modes.add(("folder", os.stat(here).st_mode & 0o777))
        for name in names:
            path = os.path.join(here, name)
            modes.add(("file", os.stat(path).st_mode & 0o777))
            with open(path, "rb") as f:
                text += f.read()
    return text, modes


def test_results(t, mode):
    failed = mode.json("exec", "--", "/bin/sh", "-c", "exit 3").get("id")
    t.ok("language   (a command)" in shown(mode, failed).out.decode(), "of a command whose words are kept, no language is missed")
    r = mode.python("print('hello')")
    id = r.get("id")
    t.result(r, "an ordinary run", cause="ok", stdout="hello\n")
    t.equal(show_json(mode, id), r.data, "show --json is the result")
    for name, given in (("its id", id), ("a prefix", id[:12]), ("last", "last")):
        t.equal(shown(mode, given, "--stdout").out, b"hello\n", f"its output, by {name}")
    page = shown(mode, id).out.decode()
    t.ok(id in page and "python" in page and "exit code 0 (ok)" in page, "the page says how it ended", page)
    lines = shown(mode).out.decode().splitlines()
    t.ok(lines and lines[0].startswith(id), "the list begins with the newest", *lines)
    listed = json.loads(shown(mode, "--json").out)
    t.equal((listed[0]["id"], listed[0]["exit_code"], listed[0]["changes"]), (id, 0, None), "and as JSON")


def test_streams(t, mode):
    r = mode.python(LONG)
    id = r.get("id")
    t.equal(r.get("meta.truncated"), True, "a long output is cut in the result")
    t.equal(shown(mode, id, "--stdout").out, WANT_OUT, "but kept whole")
    t.equal(shown(mode, id, "--stderr").out, b"e" * 30000, "stderr too")
    r = mode.python(BYTES)
    t.equal(shown(mode, r.get("id"), "--stdout").out, bytes(range(256)) * 3, "bytes that are no text come back exactly")
    r = mode.python("print('x' * 100000, flush=True)\nwhile True: pass", "--output-cap", "50k")
    t.result(r, "output past its cap", cause="output")
    out = shown(mode, r.get("id"), "--stdout").out
    t.equal(out, b"x" * (50 << 10), "is kept up to the cap", len(out))
    r = mode.python("print('x' * 100)", "--max-output", "0")
    t.equal(shown(mode, r.get("id"), "--stdout").out, b"x" * 100 + b"\n", "with nothing of it in the result, it is kept")
    if shutil.which("gcc", path="/usr/bin"):
        r = mode.json("run", "-l", "c", "-e", "#warning " + "w" * 30000 + "\n#include <stdio.h>\nint main(void)\n"
                      "{ for (int i = 0; i < 30000; i++) putchar('c'); }")
        out = shown(mode, r.get("id"), "--stdout").out
        t.equal((out, shown(mode, r.get("id"), "--stderr").out), (b"c" * 30000, b""), "a compiler's output is not the run's",
                *r.describe())
    else:
        t.skip("a compiler's output is not the run's", "no gcc", "gcc")


def test_terminal(t, mode):
    r = mode.python("print('\\033]0;title\\007 \\033[2J \\033[31mred')")
    out = mode.terminal("show", r.get("id"), "--stdout")
    t.ok(b"\033]" not in out and b"\033[2J" not in out and b"\033[31m" in out, "on a terminal only colours pass", out)
    raw = mode.terminal("show", r.get("id"), "--stdout", "--raw")
    t.ok(b"\033]0;title" in raw, "--raw passes everything", raw)
    page = mode.terminal("show", r.get("id"))
    t.ok(b"\033]" not in page and b"\033[2J" not in page, "the page has no control sequence of the program's", page)


def test_secrets(t, mode, folder):
    code = "import sys, os\nsys.stdin.read(); os.environ['TOKEN']; sys.exit(1)"
    mode.python(code, "--env", f"TOKEN={SECRET}-env", "--stdin", f"{SECRET}-stdin", "--file", "f=/etc/hostname")
    text, modes = all_text(folder)
    t.ok(SECRET.encode() not in text, "variables and input are not kept")
    t.equal(modes, {("file", 0o600), ("folder", 0o700)}, "only the owner can read records")
    for when, status, kept in (("never", 1, False), ("on_error", 0, False), ("on_error", 1, True), ("always", 0, True)):
        mark = f"MARK-{when}-{status}"
        mode.python(f"import sys; sys.exit({status}) # {mark}", env={"SANDBOX_STORE_CODE": when})
        t.equal(mark.encode() in all_text(folder)[0], kept, f"store_code {when}, exit {status}: the code is "
                                                            f"{'kept' if kept else 'not kept'}")
    t.ok(b"MARK-always-0" in shown(mode, "last").out, "and shown")
    mode.cay("exec", "--", "/bin/sh", "-c", f"exit 4 # {SECRET}-command", env={"SANDBOX_STORE_CODE": "never"})
    t.ok(f"{SECRET}-command".encode() not in all_text(folder)[0], "store_code never: nor a command")


def test_ids(t, mode):
    id = mode.python("print(1)").get("id")
    other = ("1" if id[5] != "1" else "2").join((id[:5], id[6:]))
    done = shown(mode, other)
    t.ok(done.status == 127 and id.encode() in done.err, "a misspelt id: the nearest one is suggested", *done.describe())
    done = shown(mode, "zzzz-nothing-like-it")
    t.ok(done.status == 127 and b"cay show" in done.err, "an unknown id", *done.describe())
    done = shown(mode, id[:2])
    t.ok(done.status == 2 and b"too short" in done.err, "too short an id", *done.describe())
    for args in (["show", id, "more"], ["show", id, "--stdout", "--stderr"], ["show", "--diff"], ["apply"], ["discard"]):
        done = mode.cay(*args)
        t.equal((done.status, done.out), (2, b""), f"misuse: {' '.join(args).replace(id, 'ID')}", *done.describe())
    for args in (["apply", id], ["apply", id, "--yes"], ["discard", id]):
        done = mode.cay(*args)
        t.ok(done.status == 2 and b"no changes" in done.err, f"a run without a workspace has nothing to {args[0]}",
             *done.describe())
    for path in ("../../etc/passwd", "/etc/passwd", id + "/../" + id, "." * 8, ""):
        done = shown(mode, path)
        t.ok(done.status in (2, 127) and done.out == b"", f"no id: {path.replace(id, 'ID')!r}", *done.describe())


def warnings(r):
    """All but that on the lack of a cgroup, which is the mode's own."""
    return [w for w in r.get("meta.warnings") if "cgroup" not in w]


def prune_next(folder):
    """As if the last look for old records had been long ago."""
    for name in os.listdir(folder):
        if name.startswith("."):
            os.unlink(folder / name)


def test_keeping(t, mode, folder):
    before = sorted(os.listdir(folder))
    r = mode.python("print('x' * 100000)", env={"CAY_KEEP_EXECUTIONS": "0"})
    t.result(r, "keep_executions 0: the run is as ever", cause="ok", exit_code=0)
    t.equal((sorted(os.listdir(folder)), warnings(r)), (before, []), "and nothing is kept of it")
    prune_next(folder)
    kept = mode.python("print('x' * 100000)", env={"CAY_KEEP_EXECUTIONS": "2"}).get("id")
    ids = {re.match("[0-9a-f]*", name)[0] for name in os.listdir(folder)} - {""}
    t.ok(kept in ids and len(ids) == 2, "keep_executions 2: the older ones are pruned", *sorted(ids))
    t.equal(shown(mode, kept, "--stdout").out, b"x" * 100000 + b"\n", "the newest is there")
    bounded = [mode.python("print('z' * 400000)", env={"CAY_KEEP_BYTES": "1m"}).get("id") for _ in range(5)]
    used = subprocess.run(["du", "-s", "--block-size=1", folder], stdout=subprocess.PIPE).stdout
    left = [id for id in bounded if (folder / id).exists()]
    t.ok(left == bounded[-2:] and int(used.split()[0]) <= 1 << 20,
         "keep_bytes 1m: a run that leaves much looks at once whether that is too much", used, *left)
    prune_next(folder)
    results = caytest.together([lambda: mode.python("print('y' * 50000)", env={"CAY_KEEP_EXECUTIONS": "3"})] * 6)
    t.ok(all(r.get("success") and not warnings(r) for r in results), "runs at once prune without getting in each other's way",
         *map(warnings, results))


def audit(mode):
    return [json.loads(line) for line in mode.cay("audit", "export").out.splitlines()]


# Why nothing ran: the flags, the exit status, and a word of the message.
REFUSED = [
    ("network", ("--network", "full"), 125), ("language", ("-l", "klingon"), 127), ("version", ("-l", "python:9.99"), 127),
    ("tier", ("--min-isolation", "vm"), 125), ("backend", ("--backend", "vm"), 125), ("image", ("--image", "nope"), 127),
    ("layer", ("--backend", "native", "--require", "cgroup", "--shell-allow", "ls", "--image", "nope"), 127),
    ("policy", ("--policy", "block"), 126),
]


def test_refused(t, mode, folder):
    """What is refused before it starts is a run like any other: it has a record and an entry in the log."""
    code = "import os"
    results = {name: mode.json("run", "-l", "python", *flags, "-e", code) for name, flags, _ in REFUSED}
    results["command"] = mode.json("exec", "--network", "full", "--", "/bin/true", code)
    results["no sandbox"] = mode.json("exec", "--fallback", "unsafe", "--", "/bin/true", env={"SECURITY_ENABLE_SANDBOX": "true"})
    want = {name: status for name, _, status in REFUSED} | {"command": 125, "no sandbox": 126}
    log = {e["id"]: e for e in audit(mode) if e.get("id")}
    listed = [row["id"] for row in json.loads(mode.cay("history", "--json", "--limit", "100").out)]
    for name, r in results.items():
        id, kept = r.get("id"), show_json(mode, r.get("id"))
        t.equal((r.done.status, kept), (want[name], r.data), f"refused: {name}: cay show has it", *r.describe())
        e = log.get(id, {})
        t.equal((e.get("exit_code"), e.get("cause")), (want[name], r.get("verdict.cause")), f"refused: {name}: and the audit log")
        t.ok(id in listed, f"refused: {name}: and the history")
    extra = {name: json.loads((folder / f"{results[name].get('id')}.json").read_text().splitlines()[1]) for name in ("language", "command")}
    t.equal(extra["language"].get("code"), code, "refused: with the code, in a language that nobody knows too")
    t.equal(extra["command"].get("command"), ["/bin/true", code], "refused: or the command")
    events = [json.loads(line) for line in mode.cay("run", "--events", "-l", "klingon", "-e", code).out.splitlines()]
    t.equal(([e["event"] for e in events], [e["seq"] for e in events]), (["started", "finished"], [1, 2]), "refused: events as of any run")
    t.equal(events[0]["data"], events[1]["result"]["id"], "refused: of one id")
    t.ok(shown(mode, events[0]["data"]).status == 0, "refused: which leads somewhere")
    n = len(audit(mode)) if not mode.is_root else None
    for flags in (("--timeout", "9999"), ("--memory", "x"), ("--frobnicate",), ("--profile", "nope")):
        done = mode.cay("run", "--json", "-l", "python", *flags, "-e", code)
        t.ok(done.status == 2 and b'"id"' not in done.out, f"misuse has no id: {flags}", *done.describe())
    done = mode.cay("run", "--json", "/nonexistent/x.py")
    t.ok(done.status == 2 and set(json.loads(done.out)) == {"error"}, "what was never asked for has none either", *done.describe())
    t.equal(len(audit(mode)) if not mode.is_root else None, n, "and is not in the log")
    t.equal(mode.cay("audit", "verify").status, 0, "the log holds together")


def lost_image(t, mode, s):
    """A run that has an id and waits for its turn: what it needs is gone when that comes."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as out:
        out.addfile(tarfile.TarInfo("empty"))
    name = "lost-" + os.urandom(4).hex()
    done = mode.cay("image", "import", "-", name, stdin=tar.getvalue())
    busy = s.execute({"command": ["/bin/sleep", "60"], "detach": True}).json["id"]
    waits = s.execute({"command": ["/bin/true"], "image": name, "detach": True})
    gone = mode.cay("image", "remove", name)
    s.ask("DELETE", f"/v1/executions/{busy}")
    if not t.ok((done.status, waits.status, gone.status) == (0, 202, 0), "served: a run waits with an image that goes", *done.describe(), waits, *gone.describe()):
        return
    id = waits.json["id"]
    page = s.until(id)
    t.ok(page["verdict"]["cause"] == "infrastructure" and name in page["error_message"], "served: which is told by the id that it had", page)
    caytest.until(lambda: shown(mode, id).status == 0)
    t.equal(show_json(mode, id).get("error_message"), page["error_message"], "served: and kept")
    t.equal([e["exit_code"] for e in audit(mode) if e.get("id") == id], [127], "served: and in the log, once")


def test_refused_served(t, mode):
    if not mode.has_cgroup:
        return
    with cayserve.Server(mode, env={"CAY_SPARES": "0", "CAY_MAX_RUNNING": "1"}) as s:
        def ask(word, request):
            return s.execute({"language": "python", "code": f"print('{word}')", **request}).status

        mark = os.urandom(8).hex()
        rows = [("network", {"network": "full"}, 501), ("language", {"language": "klingon"}, 404), ("backend", {"backend": "process"}, 403),
                ("fallback", {"fallback": "unsafe"}, 403), ("bypass", {"policy_bypass": True}, None), ("field", {"timeout": -1}, None)]
        got = {name: ask(mark + name, request) for name, request, _ in rows}
        busy = s.execute({"command": ["/bin/sleep", "60"], "detach": True}).json["id"]
        ask(mark + "queued", {"network": "full"})
        s.ask("DELETE", f"/v1/executions/{busy}")
        lost_image(t, mode, s)
    sums = {hashlib.sha256(f"print('{mark}{name}')".encode()).hexdigest(): name for name in [*got, "queued"]}
    seen = sorted(sums[e["code"]["sha256"]] for e in audit(mode) if e.get("code") and e["code"]["sha256"] in sums)
    want = [name for name, _, _ in rows if got[name] not in (200, 400)] + ["queued"]
    t.equal(seen, sorted(want), "served: what is refused is in the log, once; misuse is not", got)
    t.ok({"network", "language", "backend", "fallback"} <= set(want), "served: and these are refused", got)


def test_refused_often(t, mode):
    """Refusals past the rate are refused all the same, and told of instead of recorded."""
    if not mode.has_cgroup:
        return
    code = "x" * 1000 + os.urandom(8).hex()
    with cayserve.Server(mode, env={"CAY_SPARES": "0"}) as s:
        got = [s.execute({"language": "python", "code": code, "workspace": "/x"}).status for _ in range(90)]
        lost = s.metric("cay_refusals_unrecorded_total")
    t.equal(set(got), {403}, "refused often: each is refused")
    t.ok(lost > 0 and "refusals-not-recorded" in open(os.path.join(s.folder, "log")).read(), "refused often: what is not recorded is told", lost)
    sum = hashlib.sha256(code.encode()).hexdigest()
    seen = [e for e in audit(mode) if e.get("code") and e["code"]["sha256"] == sum]
    t.equal(len(seen), 90 - lost, "refused often: the rest is in the log")
    t.equal({(e["tier"], e["start"]) for e in seen}, {(None, None)}, "refused often: which says of no tier that it ran in")


def test_unapplied(t, mode, folder):
    """Changes that were not applied go by no number of runs, and by age only after a warning."""
    work = mode.cwd / "work"
    work.mkdir()
    r = mode.json("exec", "--workspace", work, "--", "/bin/sh", "-c", "echo hello > made")
    id = r.get("id")
    t.ok((folder / id / "changes").exists(), "unapplied: there are changes", *r.describe())
    for _ in range(3):
        prune_next(folder)
        done = mode.cay("run", "-l", "python", "-e", "1", env={"CAY_KEEP_EXECUTIONS": "1"})
    t.equal(done.err, b"", "unapplied: no number of runs is a reason to warn")
    mode.cay("cleanup", env={"CAY_KEEP_EXECUTIONS": "1"})
    t.equal(show_json(mode, id).get("id"), id, "unapplied: nor to remove it, for a clean-up neither")
    second = mode.json("exec", "--workspace", work, "--", "/bin/sh", "-c", "echo hello > later").get("id")
    old = time.time() - 40 * 86400
    os.utime(folder / f"{id}.json", (old, old))
    mode.cay("cleanup")
    t.ok((folder / id / "changes").exists() and not (folder / id / "notice").exists(), "unapplied: too old, and nobody was told: a clean-up leaves it")
    prune_next(folder)
    done = mode.cay("run", "-l", "python", "-e", "1")
    t.ok(b"1 change set is not applied" in done.err and id[:8].encode() in done.err and b"cay apply" in done.err,
         "unapplied: the next run tells its user", *done.describe())
    mode.cay("cleanup")
    t.ok((folder / id / "changes").exists(), "unapplied: and leaves time to apply it")
    told = time.time() - 4 * 86400
    os.utime(folder / id / "notice", (told, told))
    done = mode.cay("cleanup")
    t.ok(not (folder / id).exists() and id.encode() in done.out, "unapplied: after which it goes", *done.describe())
    t.ok((folder / second / "changes").exists(), "unapplied: and nobody else's does")
    os.utime(folder / f"{second}.json", (old, old))
    newest = mode.json("exec", "--workspace", work, "--", "/bin/sh", "-c", "echo hello > newest").get("id")
    prune_next(folder)
    done = mode.cay("run", "-q", "-l", "python", "-e", "1")
    t.ok(b"1 change set is not applied" in done.err and second[:8].encode() in done.err, "unapplied: -q hides no warning of a loss",
         *done.describe())
    (folder / f"{second}.json").unlink()
    shown = mode.cay("show", second[:8])
    t.ok(shown.status == 0 and b"killed before" in shown.out and b"later" in shown.out and b"not applied" in shown.out,
         "a change set whose result was never written is shown", *shown.describe())
    t.ok(second.encode() in mode.cay("show", "--json").out, "and listed")
    if mode.uid is not None:
        os.chown(work, mode.uid, mode.uid)
    done = mode.cay("apply", "--yes", second)
    t.ok(done.status == 0 and (work / "later").read_text() == "hello\n", "and can be applied", *done.describe())
    mode.cay("discard", newest)
    shutil.rmtree(folder / second)
    shutil.rmtree(work)


def test_no_own_runs(t, mode, folder):
    """What cay runs to see how it does is not the user's to keep."""
    mode.python("1")
    before = sorted(os.listdir(folder))
    rows = None if mode.is_root else len(audit(mode))
    for args in (("doctor",), ("bench", "--load", "--runs", "5"), ("bench", "--only", "bash", "--rounds", "1")):
        done = mode.cay(*args, timeout=300)
        t.equal(sorted(os.listdir(folder)), before, f"cay {args[0]} {args[1] if args[1:] else ''}: no run of its is kept", *done.describe())
        if args[0] == "bench" and mode.has_cgroup:
            t.equal(done.status, 0, f"and it measures: {args[1]}", *done.describe())
    t.equal(None if mode.is_root else len(audit(mode)), rows, "nor in the audit log")
    left = [name for name in os.listdir("/tmp") if re.match("cay-(bench|load)[.-]", name)]
    t.empty([name for name in left if os.stat(f"/tmp/{name}").st_uid == (mode.uid or 0)], "and its folder is gone")


def test_no_room(t, mode, folder):
    """A state folder that can't be written to: the run is as ever, and says so."""
    if mode.is_root:
        if not caytest.contained():
            return t.skip("no room for records", "not in namespaces of its own", "contained")
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        env = {}
    else:
        env = {"XDG_STATE_HOME": "/dev/null"}
    r = mode.python("print('x' * 100000)", env=env)
    if mode.is_root:
        subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
    t.result(r, "a state folder that is read-only: the run is as ever", cause="ok", exit_code=0)
    t.ok(any("not recorded" in w for w in r.get("meta.warnings")), "and its result says so", r.get("meta.warnings"))
    if mode.is_root:
        with contextlib.suppress(OSError), open(folder / "filler", "wb", buffering=0) as f:
            while f.write(b"x" * 4096):
                pass
        r = mode.python("print('x' * 100000)")
        (folder / "filler").unlink()
        t.result(r, "a state folder that is full: the run is as ever", cause="ok", exit_code=0)
        t.ok(any("not recorded" in w and "space" in w for w in r.get("meta.warnings")), "and its result says so",
             r.get("meta.warnings"))
    t.result(mode.python("print(2)"), "with room again, all is well", cause="ok", stdout="2\n")


def test(t, mode):
    folder = caystate.private_records(mode, "16m")
    try:
        test_results(t, mode)
        test_streams(t, mode)
        test_terminal(t, mode)
        test_secrets(t, mode, folder)
        test_ids(t, mode)
        test_refused(t, mode, folder)
        test_unapplied(t, mode, folder)
        test_no_own_runs(t, mode, folder)
        test_keeping(t, mode, folder)
        test_refused_served(t, mode)
        test_refused_often(t, mode)
        test_no_room(t, mode, folder)
    finally:
        if mode.is_root and caytest.contained():
            caystate.unmount_records(folder)


caytest.main(test, modes=("root", "user"))

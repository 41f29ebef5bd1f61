#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P18: nothing lost in silence. Whatever is done to a server's journal, its place, the audit log, the disk or the helpers: a
run that was answered is on record, or its answer, `audit verify`, the log and health say that it is not."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest
from cayserve import ALL, Server

ENV = {"CAY_SPARES": "0", "CAY_WARM": "", "CAY_DRAIN": "2"}
# What the place of a journal looked like before it had a sum; to whoever trusts it, of a log far ahead.
STALE = b"log 99 at 0 audit 0 unsure 0".ljust(127) + b"\n"


def state_of(mode):
    return Path("/var/lib/cay") if mode.is_root else mode.home / ".local/state/cay"


def words_of(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    return []


def parent_of(pid):
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return 0


def recorders():
    return [p.pid for p in caytest.descendants() if words_of(p.pid)[1:2] == [b"recorder"]]


@contextlib.contextmanager
def stopped(pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def run(s, code="true"):
    return s.execute({"command": ["/bin/sh", "-c", code]}).json


def audited(mode):
    """The ids of runs as the log has them; without taking anything in."""
    path = state_of(mode) / "audit.jsonl"
    lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    entries = []
    for line in lines:
        with contextlib.suppress(ValueError):
            entries.append(json.loads(line))
    return [e["id"] for e in entries if e.get("kind") == "run"]


def on_record(mode, ids):
    got = audited(mode)
    return all(got.count(id) == 1 for id in ids)


def says_so(page):
    return any("not in the audit log" in w or "not recorded" in w for w in page["meta"]["warnings"])


def health(s, **want):
    """Waits until it says so."""
    return caytest.until(lambda: {k: s.get("/v1/health").json.get(k) for k in want} == want, 30)


def journal_of(mode):
    return next(p for p in (state_of(mode) / "journal").iterdir() if len(p.name) == 32)


def verify(mode):
    done = mode.cay("audit", "verify")
    return done.status, done.out.decode()


# ---- the place of a journal ----

def test_lost_place(t, mode):
    with Server(mode, env=ENV) as s:
        ids = [run(s)["id"]]
        t.ok(caytest.until(lambda: on_record(mode, ids), 20), "place: a run is on record")
        folder = journal_of(mode)
        place = folder.with_name(folder.name + ".at")
        old = place.read_bytes()
        for what, text in (("stale", STALE), ("lost", None), ("empty", b""), ("noise", os.urandom(300)), ("an old one", old)):
            with stopped(recorders()):
                ids += [run(s)["id"], run(s)["id"]]
                if text is None:
                    place.unlink()
                else:
                    with open(place, "r+b") as f:
                        f.truncate()
                        f.write(text)
            ids.append(run(s)["id"])
            t.ok(caytest.until(lambda: on_record(mode, ids), 20), f"place, {what}: all runs are on record, once",
                 len(ids), len(audited(mode)), s.words()[-300:])
            t.ok(folder.is_dir(), f"place, {what}: and the journal is there")
        t.equal({k: s.get("/v1/health").json[k] for k in ("recorder", "journal", "losses")},
                {"recorder": "ok", "journal": "ok", "losses": 0}, "place: nothing is missing, and health says so")
        for pid in recorders():
            os.kill(pid, signal.SIGKILL)
        place.write_bytes(STALE)
        ids.append(run(s)["id"])
        s.proc.kill()
        s.proc.wait()
    t.equal(verify(mode)[0], 0, "place: the log is whole")
    t.ok(on_record(mode, ids), "place: also with everything killed", len(ids), len(audited(mode)))


# ---- logs that somebody was at ----

def test_damaged_log(t, mode):
    with Server(mode, env=ENV) as s:
        lost, kept, losses = [], [run(s)["id"]], 0
        t.ok(caytest.until(lambda: on_record(mode, kept), 20), "a log: a run is on record")
        for what in ("emptied", "cut", "removed"):
            log = sorted(journal_of(mode).glob("log-*"))[-1]
            with stopped(recorders()):
                before = log.stat().st_size
                lost += [run(s)["id"], run(s)["id"]]
                if what == "removed":
                    log.unlink()
                else:
                    os.truncate(log, 0 if what == "emptied" else before)
                kept.append(run(s)["id"])
            t.ok(caytest.until(lambda: on_record(mode, kept), 20), f"a log, {what}: what is run then is on record", s.words()[-300:])
            t.ok(caytest.until(lambda: s.get("/v1/health").json["losses"] > losses, 20), f"a log, {what}: health says that runs are missing",
                 s.get("/v1/health"))
            losses = s.get("/v1/health").json["losses"]
        t.equal(s.get("/v1/health").json["journal"], "failing", "a log: and that it was cut")
        t.ok("event=record-lost" in s.words() and "2 runs are missing" in s.words(), "a log: the server's log too", s.words()[-500:])
    status, words = verify(mode)
    t.ok(status == 0 and words.count("2 runs are missing") == 3, "a log: so does audit verify", words)
    t.ok(not set(lost) & set(audited(mode)), "a log: of just these")


def test_damaged_audit(t, mode):
    """The log itself, cut or removed while the server runs."""
    state = state_of(mode)
    with Server(mode, env=ENV) as s:
        for what in ("cut", "removed", "removed with its anchor"):
            before = [run(s)["id"]]
            caytest.until(lambda: on_record(mode, before), 20)
            losses = s.get("/v1/health").json["losses"]
            if what == "cut":
                os.truncate(state / "audit.jsonl", (state / "audit.jsonl").stat().st_size - 20)
            else:
                (state / "audit.jsonl").unlink()
            if what == "removed with its anchor":
                (state / "audit.head").unlink()
            after = [run(s)["id"]]
            t.ok(caytest.until(lambda: on_record(mode, after), 20), f"audit log, {what}: it goes on", s.words()[-300:])
            t.ok(caytest.until(lambda: s.get("/v1/health").json["losses"] > losses, 20), f"audit log, {what}: health says so")
        t.ok("missing" in verify(mode)[1], "audit log: and audit verify", verify(mode))


def test_failing_recorder(t, mode):
    state = state_of(mode)
    with Server(mode, env=ENV) as s:
        ids = [run(s)["id"]]
        caytest.until(lambda: on_record(mode, ids), 20)
        (state / "audit.jsonl").rename(state / "away")
        (state / "audit.jsonl").mkdir()
        ids.append(run(s)["id"])
        t.ok(health(s, recorder="failing"), "a recorder that can't write: health says so", s.get("/v1/health"))
        t.ok("event=recorder-failing" in s.words(), "and the log", s.words()[-300:])
        (state / "audit.jsonl").rmdir()
        (state / "away").rename(state / "audit.jsonl")
        t.ok(health(s, recorder="ok") and caytest.until(lambda: on_record(mode, ids), 20), "it goes on by itself, and nothing is missing")


# ---- the disk ----

def fill(folder):
    """All blocks that are left."""
    with contextlib.suppress(OSError), open(folder / "filler", "wb", buffering=0) as f:
        while f.write(bytes(4096)):
            pass


def fill_inodes(folder):
    (folder / "filler").mkdir()
    with contextlib.suppress(OSError):
        for i in range(1 << 16):
            os.mkdir(folder / "filler" / str(i))


def test_full(t, mode):
    state = state_of(mode)
    for what, options, how in (("a full disk", "size=4m", fill), ("no inodes", "size=64m,nr_inodes=120", fill_inodes)):
        state.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=0700,{options}", "cay-test", state], check=True)
        try:
            with Server(mode, env=ENV) as s:
                pages = [run(s, "seq 3000")]
                how(state)
                pages += [run(s, "seq 3000; seq 40000 >&2") for _ in range(4)]
                room = [p["id"] for p in pages if not says_so(p)]
                t.ok(len(pages) == 5 and all(p["success"] for p in pages), f"{what}: all are answered")
                t.ok(len(room) == 5 or "recorded=no" in s.words(), f"{what}: the log says what is not recorded", s.words()[-300:])
                path = state / "filler"
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                pages.append(run(s))
                room.append(pages[-1]["id"])
                t.ok(not says_so(pages[-1]) and caytest.until(lambda: on_record(mode, room), 30),
                     f"{what}: what was not said to be missing is on record, once there is room", room, audited(mode), s.words()[-500:])
                t.ok(health(s, recorder="ok"), f"{what}: and all is well again", s.get("/v1/health"))
            t.equal(verify(mode)[0], 0, f"{what}: the log is whole", verify(mode)[1])
        finally:
            subprocess.run(["umount", "-l", state], check=True)


def test_two(t, mode):
    """Two servers on one state folder; one is killed, with all that is its own."""
    with Server(mode, env=ENV) as one, Server(mode, env=ENV) as two:
        ids = [run(s)["id"] for s in (one, two) * 5]
        with stopped(recorders()):
            ids += [run(s)["id"] for s in (one, two) * 5]
            one.proc.kill()
            one.proc.wait()
        ids += [run(two)["id"] for _ in range(5)]
        t.ok(caytest.until(lambda: on_record(mode, ids), 30), "two servers: all runs are on record, once", len(ids), len(audited(mode)))
        t.ok(caytest.until(lambda: len(list((state_of(mode) / "journal").glob("[0-9a-f]" * 32))) == 1, 30),
             "two servers: the dead one's journal is gone, the other's is not")
    t.equal(verify(mode)[0], 0, "two servers: the log is whole")


# ---- helpers ----

def test_lost_checker(t, mode):
    if not (Path(os.environ["CAY_BUILD"]) / "cay-syntax").exists():
        t.skip("the checker", "cay-syntax was not built")
        return
    bad = {"language": "python", "code": "exec('pass')\n"}
    with Server(mode, env=ENV) as s:
        def found():
            return [w for w in s.execute(bad).json["meta"]["warnings"] if w.startswith("policy:")]
        before = found()
        if not before:
            t.skip("the checker", "there is no grammar here")
            return
        for what in ("the first", "the monitor's"):
            restarts = s.words().count("event=checker-restarted")
            for pid in [p.pid for p in caytest.descendants() if words_of(p.pid)[:1] == [b"cay-syntax"]]:
                os.kill(pid, signal.SIGKILL)
            t.ok(found(), f"a killed checker, {what}: code is checked, or said not to be")
            t.ok(caytest.until(lambda: found() == before, 20), f"a killed checker, {what}: there is another", found())
            t.ok(caytest.until(lambda: s.words().count("event=checker-restarted") > restarts, 20), f"a killed checker, {what}: the log says so",
                 s.words()[-300:])
            t.ok(health(s, checker="ok"), f"a killed checker, {what}: health says that it is there")


def test_lost_worker(t, mode):
    """Killed while it reads one tenant's code: nobody's run is refused for that."""
    tokens = [f"token-of-{name}-0123456789abcdef" for name in "abc"]
    lines = "".join(f"{token} {name} {ALL}\n" for token, name in zip(tokens, "abc"))
    with Server(mode, tokens=lines, env=ENV) as s:
        def start(i, **more):
            request = {"language": "python", "code": f"import json\nprint(json.dumps({i}))", "policy": "block", **more}
            return s.execute(request, token=tokens[i % 3]).json
        if not start(0)["success"]:
            t.skip("a lost worker", "there is no grammar here")
            return
        for times in range(2):
            ours = [p.pid for p in caytest.descendants() if words_of(p.pid)[:1] == [b"cay-syntax"]]
            workers = [pid for pid in ours if parent_of(pid) in ours]
            for pid in workers:
                os.kill(pid, signal.SIGSTOP)
            ids = [start(10 * times + i + 1, detach=True)["id"] for i in range(6)]
            for pid in workers:
                os.kill(pid, signal.SIGKILL)
            pages = [s.until(id, token=tokens[(10 * times + i + 1) % 3]) for i, id in enumerate(ids)]
            t.equal([p and p["success"] for p in pages], [True] * 6, "a lost worker: all who waited are checked by another",
                    *[p and p.get("error_message") for p in pages])


def test_slow_code(t, mode):
    """One tenant's code takes as long to check as it may; another's is checked in between."""
    tokens = [f"token-of-{name}-0123456789abcdef" for name in "ab"]
    lines = "".join(f"{token} {name} {ALL}\n" for token, name in zip(tokens, "ab"))
    slow = {"language": "python", "code": "x" + ".a" * 15900, "policy": "block", "detach": True}
    with Server(mode, tokens=lines, env={**ENV, "CAY_MAX_RUNNING": "32", "CAY_MAX_QUEUE": "100"}) as s:
        if not s.execute({"language": "python", "code": "import json", "policy": "block"}, token=tokens[1]).json["success"]:
            t.skip("slow code", "there is no grammar here")
            return
        started = [s.execute(slow, token=tokens[0]).status for _ in range(12)]
        pages = [s.execute({"language": "python", "code": f"import json\nprint(json.dumps({i}))", "policy": "block"}, token=tokens[1]).json
                 for i in range(4)]
        t.equal((started, [p["success"] for p in pages]), ([202] * 12, [True] * 4), "slow code: another tenant's runs are checked, and run",
                *[(p.get("error_message"), p["meta"]["timing"]) for p in pages])


def test(t, mode):
    if not mode.has_cgroup:
        t.skip("the server", "it needs a cgroup, and none is delegated to this user")
        return
    test_lost_place(t, mode)
    test_damaged_log(t, mode)
    test_lost_checker(t, mode)
    test_lost_worker(t, mode)
    test_slow_code(t, mode)
    if not mode.is_root:
        return
    test_two(t, mode)
    test_failing_recorder(t, mode)
    test_damaged_audit(t, mode)
    test_full(t, mode)


caytest.main(test, modes=("root", "deleg"))

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cay stats` adds up what runs used, by tenant, with a price where the administrator has set one, and says what became of
change sets; a history of an older cay is gone on with, what it did not record is unknown and not zero; whoever is killed,
and whatever is done twice, nothing is counted twice or lost."""
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import sys
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

BUILD = Path(os.environ.get("CAY_BUILD") or caytest.CAY.parent)
GB = 1 << 30
# The history as the release before had it, with two runs, one of which changed files.
OLD = """
CREATE TABLE runs(
  id TEXT PRIMARY KEY, seq INTEGER NOT NULL, time_ms INTEGER NOT NULL, time TEXT NOT NULL,
  tenant TEXT, language TEXT, backend TEXT, tier TEXT, start TEXT, cause TEXT NOT NULL,
  exit_code INTEGER NOT NULL, run REAL NOT NULL, total REAL NOT NULL,
  stdout_bytes INTEGER NOT NULL, stderr_bytes INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX runs_in_order ON runs(time_ms, id);
CREATE INDEX runs_of_tenant ON runs(tenant, time_ms, id);
CREATE TABLE images(id TEXT PRIMARY KEY, image TEXT NOT NULL) WITHOUT ROWID;
CREATE TRIGGER images_go AFTER DELETE ON runs BEGIN DELETE FROM images WHERE id = OLD.id; END;
CREATE TABLE place(one INTEGER PRIMARY KEY CHECK (one = 1),
  seq INTEGER NOT NULL, hash TEXT NOT NULL, file INTEGER NOT NULL, at INTEGER NOT NULL);
INSERT INTO place VALUES (1, 0, '', 0, 0);
CREATE TABLE losses(seq INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, text TEXT);
CREATE TABLE removed(id TEXT PRIMARY KEY) WITHOUT ROWID;
INSERT INTO runs VALUES ('0123456789abcdef0123456789abcdef', 0, 1700000000000, '2023-11-14T22:13:20.000Z', 'acme', 'python',
  'native', 'kernel', 'cold', 'ok', 0, 2.5, 3.0, 7, 0);
INSERT INTO runs VALUES ('1123456789abcdef0123456789abcdef', 0, 1700000001000, '2023-11-14T22:13:21.000Z', NULL, 'python',
  'native', 'kernel', 'cold', 'exit', 3, 1.5, 2.0, 0, 9);
PRAGMA user_version = 1;
"""


class Front(caytest.Live):
    """The parts of a server that write down, without its doors (tests/lib/front.c): one line for each order."""

    def __init__(self, mode):
        program = caytest.workdir() / "front"
        shutil.copy2(BUILD / "tests" / "front", program)
        super().__init__([program, mode.binary, mode.binary.parent / "cay-full"], env=mode.env, user=mode.uid, cwd=mode.cwd)
        self.recorder = int(self.line().split()[1])

    def line(self):
        self.wait_for(b"\n", 60)
        line, _, self.seen = self.seen.partition(b"\n")
        return line.decode()

    def order(self, text):
        self.proc.stdin.write(text.encode() + b"\n")
        return self.line()

    def run(self, code):
        return self.order("run " + code).split()[0]


def children(pid):
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def state(mode):
    return mode.home / ".local/state/cay"


def own(mode, path):
    if mode.uid is not None:
        os.chown(path, mode.uid, mode.uid)


def stats(mode, *args):
    done = mode.cay("stats", "--json", *args)
    return json.loads(done.out) if done.status == 0 else {"failed": done.describe()}


def near(a, b):
    return abs(a - b) <= 1e-6 * max(abs(a), abs(b)) + 2e-6


def configure(mode, text):
    path = mode.home / ".config/cay/cay.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    for part in (path.parent.parent, path.parent, path):
        own(mode, part)


# --- an older history -----------------------------------------------------------------------------------------------


def test_old_history(t, mode):
    state(mode).mkdir(parents=True, exist_ok=True)
    db = state(mode) / "history.db"
    with contextlib.closing(sqlite3.connect(db)) as old:
        old.executescript(OLD)
    for path in (db, *db.parents):
        if path == mode.home:
            break
        own(mode, path)
    r = mode.python("print(1)")
    s = stats(mode)
    t.equal((s.get("runs"), s.get("causes")), (3, {"ok": 2, "exit": 1}), "an older history: its runs are still there", s)
    usage = s["usage"]
    t.equal((usage["started"], usage["unmeasured"]), (3, 2), "what they used is not known", s)
    t.ok(near(usage["cpu_seconds"], r.get("meta.usage.cpu_time")) and usage["cpu_seconds"] > 0, "and is not a part of the sum", s)
    t.equal([(row["tenant"], row["unmeasured"], row["cpu_seconds"]) for row in s["by_tenant"] if row["tenant"]], [("acme", 1, 0)],
            "nor made up for its tenant", s)
    t.ok("usage of 2 runs is not known" in mode.cay("stats").out.decode(), "which is said")
    with contextlib.closing(sqlite3.connect(db)) as older, older:
        older.execute("INSERT INTO runs VALUES (?, 0, 1700000002000, '2023-11-14T22:13:22.000Z', NULL, 'lua', 'native', 'kernel', 'cold',"
                      " 'ok', 0, 0, 0, 0, 0)", ("2" * 32,))
    t.equal((stats(mode)["runs"], stats(mode)["usage"]["unmeasured"]), (4, 3), "the older cay can go on with it")
    for path in db.parent.glob("history.db*"):
        path.unlink()
    return r


# --- what was used --------------------------------------------------------------------------------------------------


def test_sums(t, mode, first):
    runs = [first, mode.python("x = bytearray(40 << 20); sum(range(2000000))"), mode.python("while True: pass", "--timeout", "0.3"),
            mode.json("exec", "--", "/bin/true")]
    refused = mode.python("print(1)", "--image", "no-such-image")
    cpu = sum(r.get("meta.usage.cpu_time") for r in runs)
    memory = sum(r.get("meta.usage.memory_peak") * r.get("execution_time") for r in runs) / GB
    s = stats(mode)
    u = s["usage"]
    t.equal((s["runs"], u["started"], u["unmeasured"]), (5, 4, 0), "a run that was refused used nothing", s, refused.describe())
    t.ok(near(u["cpu_seconds"], cpu) and cpu > 0, "CPU seconds are those of the runs", cpu, u)
    t.ok(near(u["memory_gb_seconds"], memory) and memory > 0, "memory seconds are peak memory times run time", memory, u)
    t.equal((u["cost"], s["prices"]), (None, None), "without prices there is no cost")
    t.equal([(row["tenant"], row["runs"], row["cpu_seconds"]) for row in s["by_tenant"]], [(None, 5, u["cpu_seconds"])], "one tenant: all")
    entry = json.loads(mode.cay("audit", "export").out.splitlines()[1])
    t.equal((entry["memory"], near(entry["cpu"], runs[1].get("meta.usage.cpu_time"))), (runs[1].get("meta.usage.memory_peak"), True),
            "the audit log has both", entry)
    one = stats(mode, "--cause", "wall_timeout")
    t.equal(one["runs"], 1, "--cause")
    t.ok(near(one["usage"]["cpu_seconds"], runs[2].get("meta.usage.cpu_time")), "and its usage alone", one)
    done = mode.cay("stats", "--cause", "memry")
    t.ok(done.status == 2 and b"did you mean memory?" in done.err, "a cause that is none", *done.describe())
    return s


def test_compiled(t, mode):
    r = mode.json("run", "-l", "c", "-e", "int main(void) { return 0; }", "--timeout", "30")
    if r.get("verdict.cause") != "ok":
        t.skip("a compiler's CPU time", "there is no C compiler")
        return
    s = stats(mode, "-l", "c")
    t.ok(s["usage"]["cpu_seconds"] > r.get("meta.usage.cpu_time") + 0.001, "CPU seconds are the compiler's too", s, r.get("meta.usage"))


def test_prices(t, mode):
    configure(mode, "[prices]\ncpu_second = 0.5\nmemory_gb_second = 0.25\nrun = 2\ncurrency = 'EUR'\n")
    s = stats(mode)
    u = s["usage"]
    want = 0.5 * u["cpu_seconds"] + 0.25 * u["memory_gb_seconds"] + 2 * u["started"]
    t.ok(near(u["cost"], want), "cost: CPU seconds, memory seconds and runs by their prices", want, u)
    t.equal(s["prices"], {"cpu_second": 0.5, "memory_gb_second": 0.25, "run": 2, "currency": "EUR"}, "by which prices")
    page = mode.cay("stats").out.decode()
    t.ok(f"estimated cost {u['cost']:.6g} EUR" in page, "in words", page)
    shown = json.loads(mode.cay("config", "--json").out)["prices"]
    t.equal((shown["run"]["value"], shown["currency"]["value"], shown["cpu_second"]["origin"]), ("2", "EUR", "user file"), "`cay config` shows them")
    t.ok("prices.memory_gb_second" in mode.cay("config").out.decode(), "in its table, too")
    project = mode.cwd / ".cay.toml"
    project.write_text("[prices]\nrun = 0\n")
    done = mode.cay("run", "-l", "python", "-e", "print(1)")
    t.ok(done.status == 2 and b"prices: not allowed in a project file" in done.err, "a project may not set them", *done.describe())
    t.equal(stats(mode)["prices"], s["prices"], "and has no say in the estimate")
    project.unlink()
    for text, words in ((b"cpu_second = -1", b"is not a number from 0"), (b"run = 'much'", b"is not a number from 0"),
                        (b"run = nan", b"is not a number from 0"), (b"cpu_secnd = 1", b"did you mean cpu_second?"),
                        (b"currency = 'a b'", b"is not a word"), (b"currency = 3", b"is not a word")):
        configure(mode, "[prices]\n" + text.decode() + "\n")
        done = mode.cay("stats")
        t.ok(done.status == 2 and words in done.err and b"cay.toml:2" in done.err, f"[prices] {text.decode()}", *done.describe())
    configure(mode, "[prices]\nrun = 1\n")


def test_tenants(t, mode):
    """What a server's runs used goes by its journal, whoever of its processes is killed, and is counted once."""
    before = stats(mode)["usage"]["started"]
    with Front(mode) as front:
        ran = [front.run("sum(range(300000))") for _ in range(3)]
        for pid in children(front.recorder):
            os.kill(pid, signal.SIGKILL)
        ran.append(front.run("print(4)"))
        seen = json.loads(front.order("stats"))
        for pid in (*children(front.recorder), front.recorder, front.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        front.proc.wait()
    cpu = sum(json.loads(mode.cay("show", id, "--json").out)["meta"]["usage"]["cpu_time"] for id in ran)
    s = stats(mode)
    row = next((row for row in s["by_tenant"] if row["tenant"] == "tests"), {})
    t.equal((row.get("runs"), row.get("started"), row.get("unmeasured"), row.get("cost")), (4, 4, 0, 4), "a tenant's runs and cost", s)
    t.ok(near(row["cpu_seconds"], cpu) and cpu > 0, "and CPU seconds", cpu, row)
    t.equal(s["usage"]["started"], before + 4, "all are in the sum, each once")
    t.equal((seen["by_tenant"][0]["tenant"], len(seen["by_tenant"]), seen["usage"]["cost"]), ("tests", 1, None), "the recorder tells of tenants", seen)
    t.equal(stats(mode, "--tenant", "tests")["usage"]["cpu_seconds"], row["cpu_seconds"], "--tenant: its own alone")
    page = mode.cay("stats").out.decode()
    t.ok("TENANT" in page and any(line.split()[:2] == ["tests", "4"] for line in page.splitlines()), "a table of tenants", page)
    for path in state(mode).glob("history.db*"):
        path.unlink()
    t.equal(stats(mode)["by_tenant"], s["by_tenant"], "made again from the audit log: the same")


# --- what became of changes ---------------------------------------------------------------------------------------------


def change(mode, top, code="echo new > a; echo new > b"):
    """A run that changes two files, and its id."""
    for name in ("a", "b"):
        (top / name).write_text("old\n")
        own(mode, top / name)
    return mode.json("run", "-l", "bash", "--workspace", top, "-e", code).get("id")


def changes(mode, *args):
    sums = stats(mode, *args)["changes"]
    return [sums[key] for key in ("made", "applied", "applied_in_part", "discarded", "expired", "pending")]


def test_changes(t, mode):
    top = mode.cwd / "top"
    top.mkdir()
    own(mode, top)
    t.equal((changes(mode), stats(mode)["changes"]["applied_rate"]), ([0] * 6, None), "no changes were made yet")
    t.ok("changes" not in mode.cay("stats").out.decode(), "and nothing is said of them")
    whole = change(mode, top)
    t.equal(changes(mode), [1, 0, 0, 0, 0, 1], "made")
    mode.cay("apply", whole, "--dry-run")
    t.equal(changes(mode), [1, 0, 0, 0, 0, 1], "a dry run is not an apply")
    t.equal(mode.cay("apply", whole, "--yes").status, 0, "cay apply")
    t.equal(changes(mode), [1, 1, 0, 0, 0, 0], "applied")
    mode.cay("apply", whole, "--yes")
    t.equal(changes(mode), [1, 1, 0, 0, 0, 0], "asked for again, which is refused: still once")
    part = change(mode, top)
    mode.cay("apply", part, "--only", "a", "--yes")
    t.equal(changes(mode), [2, 1, 1, 0, 0, 0], "applied in part")
    mode.cay("discard", part)
    t.equal(changes(mode), [2, 1, 1, 0, 0, 0], "that stays, where the rest is discarded")
    thrown = change(mode, top)
    mode.cay("discard", thrown)
    t.equal(changes(mode), [3, 1, 1, 1, 0, 0], "discarded")
    stepwise = change(mode, top)
    mode.cay("apply", stepwise, "--only", "a", "--yes")
    mode.cay("apply", stepwise, "--yes")
    t.equal(changes(mode), [4, 2, 1, 1, 0, 0], "in part, then the rest: applied")
    lost = change(mode, top)
    shutil.rmtree(state(mode) / "executions" / lost)
    (state(mode) / "executions" / f"{lost}.json").unlink()
    failed = change(mode, top, "echo new > a; echo new > b; exit 1")
    want = [6, 2, 1, 1, 1, 1]
    t.equal(changes(mode), want, "one that was pruned has expired, one that is kept is pending")
    s = stats(mode)["changes"]
    t.equal((s["applied_rate"], s["paths"], s["paths_applied"]), (2 / 5, 12, 5), "how many of those decided, and of the paths", s)
    t.equal(changes(mode, "--cause", "ok"), [5, 2, 1, 1, 1, 0], "those of tested code alone: --cause ok")
    page = mode.cay("stats").out.decode()
    t.ok("6 made: 2 applied, 1 applied in part, 1 discarded, 1 expired, 1 pending; 40.0 % applied" in page, "in words", page)
    log = [json.loads(line) for line in mode.cay("audit", "export").out.splitlines()]
    notes = [(e["kind"], e["id"], e.get("n_changes")) for e in log if e["kind"] != "run"]
    t.equal(notes, [("applied", whole, 2), ("applied_in_part", part, 1), ("discarded", part, None), ("discarded", thrown, None),
                    ("applied_in_part", stepwise, 1), ("applied", stepwise, 2)], "each is in the audit log, once", log[-1])
    done = mode.cay("audit", "verify", "--json")
    t.equal((done.status, json.loads(done.out)["findings"]), (0, []), "which is whole, and nothing of it is a finding", *done.describe())
    for path in state(mode).glob("history.db*"):
        path.unlink()
    t.equal(changes(mode), want, "made again from the audit log: the same")
    mode.cay("discard", failed)
    return top


def test_unwritable_log(t, mode, top):
    """A log that can't be written to: nothing is discarded; what was applied is noted by the next apply."""
    before = changes(mode)
    discarded, applied = change(mode, top), None
    log, aside = state(mode) / "audit.jsonl", state(mode) / "aside.jsonl"
    applied = change(mode, top)
    log.rename(aside)
    log.mkdir()
    done = mode.cay("discard", discarded)
    t.ok(done.status == 125 and b"nothing was discarded" in done.err, "no log: discard says so", *done.describe())
    done = mode.cay("apply", applied, "--yes")
    t.ok(done.status == 125 and b"in place, but not in the audit log" in done.err, "and apply", *done.describe())
    t.equal((top / "a").read_text(), "new\n", "after writing the files")
    log.rmdir()
    aside.rename(log)
    t.equal([b - a for a, b in zip(before, changes(mode))], [2, 0, 0, 0, 0, 2], "both are pending still")
    done = mode.cay("apply", applied, "--yes")
    t.equal(done.status, 0, "apply again", *done.describe())
    t.equal([b - a for a, b in zip(before, changes(mode))], [2, 1, 0, 0, 0, 1], "is in the log then")
    mode.cay("discard", discarded)


def gone_on_with(mode, top, id):
    """Applies it once more; what is wrong with that."""
    done = mode.cay("apply", id, "--yes")
    good = (done.status == 0 or b"was applied already" in done.err) and (top / "b").read_text() == "new\n"
    return [] if good else done.describe()


def test_killed(t, mode, top):
    """An apply that is killed at any of its system calls that leave something, and repeated, is counted once."""
    strace = shutil.which("strace")
    if caytest.SANITIZED or not strace:  # LeakSanitizer is a tracer itself
        t.skip("killed applies", "there is no strace" if not strace else "a sanitizer traces it", "strace")
        return
    before, wrong, n, killed = changes(mode), [], 0, 0
    for call in ("pwrite64", "write", "renameat2", "unlinkat", "flock"):
        for when in range(1, 60):
            id = change(mode, top)
            n += 1
            done = mode.command(strace, "-o", "/dev/null", "-e", f"inject={call}:signal=KILL:when={when}", mode.binary, "apply", id, "--yes")
            if done.status == 0:
                break
            killed += 1
            wrong += gone_on_with(mode, top, id)
    t.ok(killed >= 5 and not wrong, "an apply that was killed is gone on with", killed, *wrong)
    t.equal([b - a for a, b in zip(before, changes(mode))], [n, n, 0, 0, 0, 0], "and counted once")
    done = mode.cay("audit", "verify")
    t.equal(done.status, 0, "the audit log is whole", *done.describe())


def test(t, mode):
    first = test_old_history(t, mode)
    test_sums(t, mode, first)
    test_compiled(t, mode)
    test_prices(t, mode)
    test_tenants(t, mode)
    top = test_changes(t, mode)
    test_unwritable_log(t, mode, top)
    test_killed(t, mode, top)


caytest.main(test, modes=("user",))

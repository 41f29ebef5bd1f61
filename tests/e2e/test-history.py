#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""History and statistics are those of the runs that were; a server's runs are in them too, whoever of its processes is
killed; `cay cleanup` removes what belongs to nobody, and nothing else."""
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


def history(mode, *args):
    done = mode.cay("history", "--json", *args)
    return json.loads(done.out) if done.status == 0 else done.describe()


def ids(mode, *args):
    return [row["id"] for row in history(mode, *args)]


def stats(mode, *args):
    return json.loads(mode.cay("stats", "--json", *args).out)


# --- of `cay run` -----------------------------------------------------------------------------------------------------


def test_empty(t, mode):
    t.equal((history(mode), stats(mode)["runs"], stats(mode)["success_rate"]), ([], 0, None), "nothing was run yet")
    done = mode.cay("stats")
    t.equal((done.status, done.out), (0, b"no executions\n"), "in words", *done.describe())


def test_list(t, mode):
    good = mode.python("print('x' * 30)")
    bad = mode.python("import sys; sys.exit(3)")
    slow = mode.python("while True: pass", "--timeout", "0.3")
    sh = mode.json("exec", "--", "/bin/sh", "-c", "exit 1")
    want = [r.get("id") for r in (sh, slow, bad, good)]
    t.equal(ids(mode), want, "all runs, the newest first")
    row = history(mode)[-1]
    t.equal([row[k] for k in ("language", "cause", "success", "exit_code", "backend", "tier", "start", "tenant", "timestamp",
                              "execution_time", "stdout_bytes")],
            ["python", "ok", True, 0, "native", "kernel", good.get("meta.start"), None, good.get("timestamp"),
             good.get("execution_time"), 31], "with what is known of each")
    for args, rows in caytest.some((
            (["--language", "python"], want[1:]), (["-l", "ruby"], []), (["-l", "py"], want[1:]), (["--cause", "wall_timeout"], want[1:2]),
            (["--failed"], want[:3]), (["--failed", "--language", "python"], want[1:3]), (["--limit", "2"], want[:2]),
            (["--since", "1h"], want), (["--until", "1h"], []), (["--since", good.get("timestamp"), "--until", bad.get("timestamp")],
                                                                 want[3:]),
            (["--since", "2020-01-01", "--until", "2020-12-31T23:59"], []), (["--tenant", "nobody"], []))):
        t.equal(ids(mode, *args), rows, "history " + " ".join(args[:1] + args[2:3]))
    lines = mode.cay("history").out.decode().splitlines()
    t.equal([line.split("\t")[0] for line in lines], want, "in a pipe: columns and nothing else", *lines)
    t.equal(lines[2].split("\t")[2:5], ["python", "3", "exit"], "with tabs between them")
    table = mode.terminal("history").decode()
    t.ok(table.startswith("ID ") and all(id[:8] in table for id in want) and "\033[31m" in table, "on a terminal: a table", table)
    t.ok("\033" not in mode.terminal("history", "--no-color").decode(), "--no-color")
    rows = table.splitlines()
    t.ok(rows[0].rstrip().endswith("CODE") and "import sys" in rows[3] and rows[4].rstrip().endswith(" s"),
         "with the code's first line where it is kept: not of what went well", table)
    t.equal([line.split("\t")[9] for line in lines], ["/bin/sh -c exit 1", "while True: pass", "import sys; sys.exit(3)", ""], "in a pipe too")
    t.equal((mode.terminal("show").decode(), mode.cay("show").out), (table, mode.cay("history").out), "`cay show` is the same list")
    t.equal([row["id"] for row in json.loads(mode.cay("show", "--json").out)], want, "as JSON: what is kept of each")
    s = stats(mode)
    t.equal((s["runs"], s["succeeded"], s["success_rate"], s["completed_rate"]), (4, 1, 0.25, 0.75), "stats: how many ended well")
    t.equal((s["causes"], s["starts"], s["tenants"]), ({"exit": 2, "ok": 1, "wall_timeout": 1}, {"cold": 4}, {"-": 4}),
            "why the others did not")
    python = next(row for row in s["languages"] if row["language"] == "python")
    times = sorted(r.get("execution_time") for r in (good, bad, slow))
    t.equal([python["runs"], python["run"]["p50"], python["run"]["p90"], python["run"]["max"]], [3, times[1], times[2], times[2]],
            "percentiles are times that runs took", python)
    t.ok(python["total"]["p50"] > python["run"]["p50"], "in all it took longer", python)
    t.equal((stats(mode, "--language", "python")["runs"], stats(mode, "--until", "1h")["runs"]), (3, 0), "stats can be filtered")
    t.equal(stats(mode, "-l", "python3")["runs"], 3, "an alias is the language")
    for command in ("history", "stats"):
        done = mode.cay(command, "-l", "pyhton")
        t.ok(done.status == 2 and done.out == b"" and b"'pyhton'" in done.err and b"did you mean python?" in done.err,
             f"{command}: a language that is not there, with a suggestion", *done.describe())
    page = mode.cay("stats").out.decode()
    t.ok("25.0 % ended well" in page and "wall_timeout 1" in page and "python" in page, "in words", page)
    return want


def spoil(db, name):
    """Overwrites the first page of a table or index."""
    with contextlib.closing(sqlite3.connect(db)) as one:
        root = one.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
        one.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with open(db, "r+b") as f:
        f.seek((root - 1) * 4096)
        f.write(b"\xff" * 4096)


def test_database(t, mode, want):
    db = mode.home / ".local/state/cay/history.db"
    t.equal({p.stat().st_mode & 0o777 for p in db.parent.glob("history.db*")}, {0o600}, "only its owner can read the history")
    with contextlib.closing(sqlite3.connect(db)) as file:
        plan = [row[3] for row in file.execute("EXPLAIN QUERY PLAN SELECT id FROM runs WHERE tenant = 'a' AND time_ms >= 0 AND time_ms < 9 ORDER BY time_ms DESC, id DESC")]
    t.ok(len(plan) == 1 and "(tenant=? AND time_ms>?" in plan[0], "a tenant's runs are found without going through the others'", plan)
    for path in db.parent.glob("history.db*"):
        path.unlink()
    t.equal(ids(mode), want, "without the database: it is made again from the audit log")
    for path in db.parent.glob("history.db*"):
        path.write_bytes(b"this is no database " * 1000)
    t.equal(ids(mode), want, "damaged: likewise")
    spoil(db, "runs_in_order")  # not looked at before something is to be written
    want = [json.loads(mode.cay("exec", "--json", "--", "true").out)["id"], *want]
    t.equal(ids(mode), want, "damaged within: made anew when that is found")
    for args in (("history", "--json"), ("stats", "--json")):
        spoil(db, "runs")  # not looked at before something is read
        r = mode.cay(*args)
        t.ok(r.status == 0 and b"was damaged, and is made anew from the audit log" in r.err, f"{args[0]}: so it is when reading finds it",
             r.describe())
        page = json.loads(r.out)
        t.equal(page["runs"] if args[0] == "stats" else [x["id"] for x in page], len(want) if args[0] == "stats" else want,
                f"{args[0]}: and nothing is missing")
    t.equal((ids(mode), mode.cay("history").err), (want, b""), "which is said once")
    kept = db.with_name("history.db.damaged")
    t.ok(b"\xff" * 4096 in kept.read_bytes() and kept.stat().st_mode & 0o777 == 0o600, "the damaged one is kept")


def test_many(t, mode):
    """More than are read at once, many of them of the same moment."""
    db = mode.home / ".local/state/cay/history.db"
    with contextlib.closing(sqlite3.connect(db)) as one, one:
        one.executemany("INSERT INTO runs VALUES (?, 0, ?, ?, NULL, 'lua', 'native', 'kernel', 'cold', 'ok', 0, 0, 0, 0, 0)",
                        [(f"{i:032x}", 1000000000000 + i // 100, f"2001-09-09T01:46:40.{i // 100:03}Z") for i in range(2500)])
    want = [f"{i:032x}" for i in reversed(range(2500))]
    for limit in (999, 1000, 1001, 2000, 2300, 1000000):
        args = "--language", "lua", "--limit", str(limit)
        t.equal(ids(mode, *args), want[:limit], f"history --limit {limit}")
    lines = mode.cay("history", *args).out.decode().splitlines()
    t.equal([line.split("\t")[0] for line in lines], want, "in columns, too")


def test_usage(t, mode):
    for args, words in caytest.some(((["history", "--since", "soon"], b"'soon' is neither"), (["history", "--until", "2026-02-30"], b"2026-02-30"),
                        (["history", "--cause", "memry"], b"did you mean memory?"), (["history", "--limit", "0"], b"from 1 to 1000000"),
                        (["history", "--limit", "1000001"], b"from 1 to 1000000"), (["history", "x"], b"unexpected argument"),
                        (["stats", "--sinc", "1h"], b"--since"), (["stats", "x"], b"unexpected argument"), (["cleanup", "x"], b"unexpected argument"),
                        (["history", "--tenant", "t" * 65], b"--tenant"))):
        done = mode.cay(*args)
        t.ok(done.status == 2 and done.out == b"" and words in done.err, "misuse: " + " ".join(args), *done.describe())


# --- of a server --------------------------------------------------------------------------------------------------------


class Front(caytest.Live):
    """The parts of a server that write down, without its doors (tests/lib/front.c)."""

    def __init__(self, mode, recorder=True):
        program = caytest.workdir() / "front"
        if not program.exists():
            shutil.copy2(BUILD / "tests" / "front", program)
        super().__init__([program, mode.binary, mode.binary.parent / "cay-full" if recorder else "-"], env=mode.env,
                         user=mode.uid, cwd=mode.cwd)
        self.recorder = int(self.line().split()[1]) if recorder else None

    def line(self):
        """The next line, or what there is after a long time."""
        self.wait_for(b"\n", 60)
        line, _, self.seen = self.seen.partition(b"\n")
        return line.decode()

    def order(self, text):
        self.proc.stdin.write(text.encode() + b"\n")
        return self.line()

    def run(self, code):
        return self.order("run " + code).split()[0]


def journals(mode):
    folder = mode.home / ".local/state/cay/journal"
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


def children(pid):
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_server(t, mode):
    before = ids(mode)
    with Front(mode) as front:
        ran = [front.run("print(%d)" % i) for i in range(3)] + [front.run("import sys; sys.exit(5)"), front.run("print('z' * 50000)")]
        rows = json.loads(front.order("list"))
        t.equal([row["id"] for row in rows], ran[::-1], "the recorder knows a run as soon as it was answered")
        t.equal(front.order("one " + before[0]), "No such file or directory", "and tells nothing of what no server ran")
        one = json.loads(front.order("one " + ran[3]))
        t.equal((one["id"], one["exit_code"]), (ran[3], 5), "and gives its result")
        t.equal(front.order("one " + "0" * 32), "No such file or directory", "but none that is not there")
        t.equal(json.loads(front.order("stats"))["runs"], 5, "statistics too")
        t.equal(mode.cay("show", ran[4], "--stdout").out, b"z" * 50000 + b"\n", "`cay show` has all of its output")
        worker = children(front.recorder)
        for pid in worker:
            os.kill(pid, signal.SIGKILL)
        more = front.run("print('more')")
        rows = json.loads(front.order("list"))
        t.equal((rows[0]["id"], len(worker)), (more, 1), "a recorder that was killed is started again")
        front.end_input()
        t.equal(front.wait(), 0, "it ends")
    t.equal(journals(mode), [], "with everything taken in")
    t.equal(ids(mode), [more] + ran[::-1] + before, "`cay history` has it")
    with Front(mode, recorder=False) as front:  # nobody takes in while it runs
        late = [front.run("print(%d)" % i) for i in range(3)]
        t.equal(mode.cay("show", late[0], "--stdout").out, b"0\n", "with the server alive, a reader takes in")
        late.append(front.run("print('x' * 50000)"))
        done = mode.cay("cleanup")
        t.ok(done.status == 0 and len(journals(mode)) == 2, "cleanup leaves a live server's journal alone", *done.describe(), journals(mode))
        late.append(front.run("import sys; sys.exit(1)"))
        front.proc.kill()
        front.proc.wait()
    with Front(mode) as front:
        last = [front.run("print(1)"), front.run("print(2)")]
        for pid in (*children(front.recorder), front.recorder, front.pid):
            os.kill(pid, signal.SIGKILL)
        front.proc.wait()
    got = ids(mode)
    t.equal(got, last[::-1] + late[::-1] + [more] + ran[::-1] + before, "front and recorder killed: no answered run is missing, none is there twice")
    t.equal(journals(mode), [], "and nothing is left")
    t.equal(mode.cay("show", late[3], "--stdout").out, b"x" * 50000 + b"\n", "with their long output")
    done = mode.cay("audit", "verify")
    t.equal((done.status, done.out.split(b":")[0]), (0, b"intact"), "the audit log is whole", *done.describe())


def test_full(t, mode):
    """The journal can't be written: a file size limit stands for a full disk."""
    with Front(mode, recorder=False) as front:
        t.equal([front.order("run print(1)").split()[1] for _ in range(5)], ["0"] * 5, "with room")
        log = next((mode.home / ".local/state/cay/journal").glob("*/log-*"))
        t.equal(front.order(f"limit {log.stat().st_size + 100}"), "0", "then there is no room")
        answer = front.order("run print(2)")
        t.ok(answer.split()[1:2] == ["0"] and "not in the audit log" in answer, "the run is as ever, and says so", answer)
        front.end_input()
        front.wait()
    done = mode.cay("audit", "verify")
    t.equal((done.status, journals(mode)), (0, []), "and the log is whole", *done.describe())
    t.ok(b"a run may be missing" in done.out, "and says that one is missing", *done.describe())


# --- cleaning up ----------------------------------------------------------------------------------------------------


def cleanup(mode, *args):
    """What it says, but for groups that others of the same user may leave meanwhile."""
    lines = mode.cay("cleanup", *args).out.decode().splitlines(keepends=True)
    return "".join(line for line in lines if " cgroup" not in line) or "nothing to remove\n"


def test_cleanup(t, mode):
    state = mode.home / ".local/state/cay"
    t.equal(cleanup(mode), "nothing to remove\n", "nothing to clean up")
    with Front(mode, recorder=False) as front:
        left = front.run("print(1)")
        front.proc.kill()
        front.proc.wait()
    old = mode.python("print('old')").get("id")
    os.utime(state / "executions" / f"{old}.json", (1, 1))
    work = state / "runs" / ("a" * 32)
    work.mkdir(parents=True)
    (work / "x").write_text("x")
    for path in (state / "runs", work, work / "x"):
        if mode.uid is not None:
            os.chown(path, mode.uid, mode.uid)
    names = journals(mode)
    dry = cleanup(mode, "--dry-run")
    t.ok(all(word in dry for word in (f"would remove execution {old}", f"would remove work folder {'a' * 32}",
                                      f"would remove journal {names[0]}")), "--dry-run says what", dry)
    t.ok(work.exists() and journals(mode) == names and (state / "executions" / f"{old}.json").exists(), "and removes nothing")
    done = cleanup(mode)
    # Taking the journal in may prune by itself, as one run in 256 does: then cleanup finds that execution gone.
    want = dry.replace("would remove", "removed")
    t.ok(done in (want, want.replace(f"removed execution {old}\n", "")), "then it is done", done, want)
    t.ok(not work.exists() and journals(mode) == [] and not (state / "executions" / f"{old}.json").exists(), "and gone")
    t.ok({left, old} <= set(ids(mode)), "the history knows both")
    t.equal(cleanup(mode), "nothing to remove\n", "nothing more")


def test(t, mode):
    test_empty(t, mode)
    want = test_list(t, mode)
    test_database(t, mode, want)
    test_usage(t, mode)
    test_server(t, mode)
    test_full(t, mode)
    test_cleanup(t, mode)
    test_many(t, mode)


caytest.main(test, modes=("user",))

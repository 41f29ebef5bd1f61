#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The checks themselves: a sound result passes, and each way to break it is found."""
import copy
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cayhost
import cayresult
from caytest import Tap, run

SOUND = {
    "id": "a1", "success": False, "exit_code": 3, "signal": None, "stdout": "x", "stderr": "", "execution_time": 0.1,
    "timeout": False, "error_message": "Execution failed: exit code 3", "container_id": "a1", "language": "python",
    "timestamp": "2026-11-15T19:13:02.123Z",
    "verdict": {"cause": "exit", "limit_name": None, "limit": None, "measured": None, "unit": None, "remedy": None},
    "error": {"type": "ValueError", "category": "runtime", "message": "m", "file": "main.py", "line": 3, "column": None,
              "frames": [], "context": [], "suggestion": None, "doc": None},
    "results": [{"mime": {"text/plain": "x"}}], "files": [{"path": "/sandbox/x", "change": "created", "size": 1, "base64": "eA=="}],
    "meta": {
        "runtime": "native", "language_version": "3.11.2", "start": "cold", "truncated": False, "blocked_imports": [],
        "warnings": [],
        "resource_limits": {"timeout": 2.0, "max_output": 1, "memory": 1, "cpus": 1.0, "pids": 1, "disk": 1},
        "usage": {"cpu_time": 0.1, "memory_peak": 1, "pids_peak": 1, "stdout_bytes": 1, "stderr_bytes": 0},
        "timing": {"queue": 0.0, "setup": 0.1, "compile": None, "run": 0.1, "teardown": 0.1},
        "isolation": {"tier": "kernel", "layers": ["seccomp"]},
    },
}


def paths(data, before=()):
    for key, value in data.items():
        yield (*before, key)
        if isinstance(value, dict):
            yield from paths(value, (*before, key))


def changed(path, value):
    """SOUND with one field set, or without it when value is Ellipsis."""
    data = copy.deepcopy(SOUND)
    here = data
    for part in path[:-1]:
        here = here[part]
    if value is ...:
        del here[path[-1]]
    else:
        here[path[-1]] = value
    return data


def schema(t):
    t.empty(cayresult.schema_problems(SOUND), "a sound result has no problems")
    every = [p for p in paths(SOUND)]
    t.empty([p for p in every if not cayresult.schema_problems(changed(p, ...))], f"each of {len(every)} missing fields is found")
    t.empty([p for p in every if not cayresult.schema_problems(changed(p, object()))], "a wrong type of each is found")
    lies = {
        "an unknown cause": changed(("verdict", "cause"), "oom"), "a success with a bad cause": changed(("success",), True),
        "ok with exit code 3": changed(("verdict", "cause"), "ok"), "a signal without a number": changed(("verdict", "cause"), "signal"),
        "memory with exit code 3": changed(("verdict", "cause"), "memory"), "a timeout that was none": changed(("timeout",), True),
        "an empty id": changed(("id",), ""), "another time stamp": changed(("timestamp",), "2026-11-15 19:13:02"),
        "a layer twice": changed(("meta", "isolation", "layers"), ["seccomp", "seccomp"]),
        "an unknown tier": changed(("meta", "isolation", "tier"), "safe"), "true for a number": changed(("exit_code",), True),
    }
    t.empty([k for k, v in lies.items() if not cayresult.schema_problems(v)], f"each of {len(lies)} contradictions is found")


def reports(t):
    good = json.dumps(SOUND).encode() + b"\n"
    t.equal(cayresult.parse_report(good), (SOUND, []), "a sound report is read")
    broken = {
        "nothing": b"", "two objects": good + good, "not UTF-8": b'{"a": "\xff"}', "the same key twice": b'{"a": 1, "a": 2}',
        "NaN": b'{"a": NaN}', "words before": b"cay: hello\n" + good, "a raw DEL": b'{"a": "\x7f"}', "a raw escape": b'{"a": "\x1b"}',
        "a raw C1 control": '{"a": "\x9b"}'.encode(), "a carriage return": b"{}\r\n",
    }
    t.empty([k for k, v in broken.items() if not cayresult.parse_report(v)[1]], f"each of {len(broken)} broken reports is found")


def runs(t):
    done = run(["/bin/sh", "-c", "cat; echo err >&2; exit 7"], stdin="in")
    t.equal((done.status, done.out, done.err, done.timed_out), (7, b"in", b"err\n", False), "run gives status and streams")
    done = run(["/bin/sh", "-c", "sleep 30 & echo $!; wait"], timeout=0.2)
    t.ok(done.timed_out and done.status == -9, "run ends what takes too long")
    os.kill(int(done.out), 9)
    done = run(["/bin/sh", "-c", "sleep 30 & echo $!"])
    t.ok(done.seconds < 20, "run does not wait for who holds the pipe")
    os.kill(int(done.out), 9)


def host(t):
    folder = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"cay-selftest-{os.getpid()}")
    os.mkdir(folder)
    before = cayhost.Host(folder)
    child = subprocess.Popen(["/bin/sleep", "30", "mark-self"], stderr=subprocess.DEVNULL)
    sleeper = subprocess.Popen(["/bin/sleep", "31"])
    open(os.path.join(folder, "left"), "w").close()
    left = before.left()
    t.ok([x for x in left if x.startswith(f"process {sleeper.pid} ")], "a process left behind is found", left)
    t.ok(f"file {folder}/left" in left, "a file left behind is found", left)
    os.unlink(os.path.join(folder, "left"))
    for p in (child, sleeper):
        p.kill()
        p.wait()
    t.empty(before.settle(5), "and neither any more when they are gone")
    os.rmdir(folder)


if __name__ == "__main__":
    tap = Tap()
    for part in (schema, reports, runs, host):
        part(tap)
    sys.exit(tap.finish())

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cay serve: routes, streams and their resumption, cancelling, tenants, the queue, a lost warden, signals, sockets."""
import contextlib
import http.client
import http.server
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import cayserve
import caytest
from cayserve import ALL, TOKEN, Server, read_answer
from cayterm import Screen

BUILD = Path(os.environ.get("CAY_BUILD") or caytest.CAY.parent)
OTHER = "another-token-0123456789abcdef"
NARROW = "narrow-token-00123456789abcdef"
NEWER = "newer-token-000123456789abcdef"
LONG = "t" * 63, "t" * 64  # names of tenants, with tokens of their own
TOKENS = (f"{TOKEN} main {ALL}\n{OTHER} other\n# a comment\n{NARROW} main read\nshort other\n"
          + "".join(f"token-of-{name} {name}\n" for name in LONG))
SLEEP = {"command": ["/bin/sleep", "60"]}


def bash(code, **more):
    return {"language": "bash", "code": code, **more}


def test_results(t, s):
    r = s.execute({"language": "python", "code": "import sys\nprint(6 * 7)\nsys.exit(3)", "timeout": 20})
    t.equal((r.status, r.headers["content-type"]), (200, "application/json"), "a run is answered with JSON", r)
    want = (42, 3, "exit", "kernel", r.json["id"])
    got = (int(r.json["stdout"]), r.json["exit_code"], r.json["verdict"]["cause"], r.json["meta"]["isolation"]["tier"],
           r.json["container_id"])
    t.equal(got, want, "with its result")
    layers = set(r.json["meta"]["isolation"]["layers"])
    t.ok({"cgroup:memory", "cgroup:pids", "seccomp", "user_ns", "net_ns"} <= layers, "in all layers", layers)
    t.equal(s.get(f"/v1/executions/{r.json['id']}").json, r.json, "which can be had again by its id")
    unix = s.execute({"command": ["/bin/echo", "hi"]}, over="unix", token=None)
    t.equal((unix.status, unix.json["stdout"]), (200, "hi\n"), "the unix socket needs no token", unix)
    r = s.execute({"language": "python", "code": "print(open('a/b.txt').read() + input())", "files": {"a/b.txt": "file "},
                   "stdin": "and input"})
    t.equal(r.json["stdout"], "file and input\n", "files and input arrive", r)
    r = s.execute({"language": "python", "code": "open('x.bin', 'wb').write(b'\\0\\xff')", "collect": ["*.bin"]})
    t.equal([f.get("base64") for f in r.json["files"]], ["AP8="], "what is collected comes back", r)
    r = s.execute({"command": ["grep", "SigIgn", "/proc/self/status"]})
    t.equal(r.json["stdout"].split()[-1:], ["0" * 16], "no signal is ignored, those of the C library's own included", r)
    r = s.execute({"language": "python", "code": "while True: pass", "timeout": 0.3})
    t.equal((r.status, r.json["verdict"]["cause"]), (200, "wall_timeout"), "a run that took too long is an answer too")
    r = s.execute({"language": "python", "code": "import nobody_has_this"})
    t.equal(r.json["error"]["suggestion"], "no package is known for nobody_has_this; a file of yours goes in with `files`",
            "hints speak of fields, and of no folder of the server's", r)


def test_policy(t, s):
    """The door of HTTP: the same check, and the same policy, though the front can start no process."""
    r = s.ask("POST", "/v1/check", {"language": "py", "code": "import os\n"})
    if "unchecked" in r.body.decode():
        t.skip("the static check", "tools/install-grammars.sh has not been run", "grammars")
        return
    t.equal((r.status, r.json["safe"], r.json["language"], r.json["blocked_imports"]), (200, False, "python", ["os"]), "a check is answered with its report", r)
    t.equal([f["rule"] for f in s.ask("POST", "/v1/check", {"language": "bash", "code": "r\\m -rf /"}).json["findings"]], ["shell-remove-root"],
            "of another language too")
    t.equal(s.ask("POST", "/v1/check", {"language": "python", "code": "print(1)"}).json["safe"], True, "what is safe is told so")
    fenced = {"code": "```python\nprint(1)\n```\n"}
    t.ok("strip_fence" in s.ask("POST", "/v1/check", {**fenced, "language": "python"}).body.decode(), "a fence is named, with the field")
    t.equal(s.ask("POST", "/v1/check", {**fenced, "strip_fence": True}).json, {"safe": True, "language": "python", "findings": [], "blocked_imports": []},
            "and taken off")
    for body in ({"code": 1}, {}, {"language": "klingon", "code": ""}, {"code": "x", "colour": 1}, {"code": "x", "strip_fence": 1}):
        t.ok(s.ask("POST", "/v1/check", body).status in (400, 404), f"a bad check is refused: {body}")
    r = s.execute({"language": "python", "code": "import os\nprint(1)", "policy": "block"})
    got = (r.status, r.json["exit_code"], r.json["verdict"]["cause"], r.json["error_message"], r.json["meta"]["blocked_imports"], r.json["stdout"])
    t.equal(got, (200, 126, "policy", "Security policy blocked import: os", ["os"], ""), "policy block", r)
    r = s.execute({"language": "python", "code": "import os\nprint(1)", "policy": "warn"})
    t.ok(r.json["stdout"] == "1\n" and any("import of os" in w for w in r.json["meta"]["warnings"]), "policy warn", r)
    r = s.execute({"language": "python", "code": "import os\nprint(1)"})
    t.ok(r.json["stdout"] == "1\n" and not any("policy" in w for w in r.json["meta"]["warnings"]), "which nobody asked for: of what is ordinary, nothing", r)
    r = s.execute({"language": "python", "code": "print(7)", "policy": "block"})
    t.equal((r.json["stdout"], r.json["exit_code"]), ("7\n", 0), "and what is safe runs", r)


def test_whole_output(t, s):
    r = s.execute({"language": "python", "code": "import sys\nprint('line\\n' * 20000)\nsys.stderr.buffer.write(b'\\xff\\0e')"})
    t.equal(r.json["meta"]["truncated"], True, "long output is cut in the result")
    id = r.json["id"]
    t.equal(s.get(f"/v1/executions/{id}/stdout").body, b"line\n" * 20000 + b"\n", "but can be had whole")
    t.equal(s.get(f"/v1/executions/{id}/stderr").body, b"\xff\0e", "byte by byte")
    odd = "\\\\\"a\"\\u0041\b\f\n\r\t\0\x01\x1b\x7f\x85\u00e9\U0001f600{\"stderr\":\"x\"}\\"
    short = s.execute({"language": "python", "code": f"import sys\nsys.stdout.write({odd!r})\nsys.stderr.write('\"')"}).json["id"]
    t.equal([s.get(f"/v1/executions/{short}/{x}").body.decode() for x in ("stdout", "stderr")], [odd, '"'], "nor is what is short changed")
    fds = len(os.listdir(f"/proc/{s.pid}/fd"))
    t.equal([(r.status, r.body) for r in (s.ask("HEAD", f"/v1/executions/{id}/stdout") for _ in range(4))], [(200, b"")] * 4,
            "HEAD of it has no body")
    t.ok(caytest.until(lambda: len(os.listdir(f"/proc/{s.pid}/fd")) <= fds, 10), "and leaves no file open", fds)
    # As pruning does it: what is left is shorter than what was written.
    state = pathlib.Path("/var/lib/cay") if s.mode.is_root else s.mode.home / ".local/state/cay"
    shutil.rmtree(state / "executions" / id)
    r = s.get(f"/v1/executions/{id}/stdout")
    t.equal((r.status, r.error.get("kind")), (410, "notfound"), "what is gone is said to be, and not cut in silence", r)
    r = s.get(f"/v1/executions/{id}/stderr")
    t.equal((r.status, r.body), (200, b"\xff\0e"), "the other stream, which the result has whole, is still there", r)


def test_streams(t, s):
    code = "echo one; echo two >&2; sleep 0.1; echo three; exit 4"
    for form in ("text/event-stream", "application/x-ndjson"):
        got = s.events("/v1/execute", form=form, body=bash(code))
        names = [e["event"] for _, e in got]
        t.equal([e["seq"] for _, e in got], list(range(1, len(got) + 1)), f"{form}: numbered from 1", names)
        t.equal((names[0], names[-1]), ("started", "finished"), f"{form}: from started to finished", names)
        out = "".join(e["data"] for _, e in got if e["event"] == "stdout")
        t.equal((out, got[-1][1]["result"]["exit_code"]), ("one\nthree\n", 4), f"{form}: with output and result")
        if form == "text/event-stream":
            t.ok(all(number == e["seq"] for number, e in got), "ids are the numbers", got[:3])
    id = got[-1][1]["result"]["id"]
    again = s.events(f"/v1/executions/{id}/events", form="application/x-ndjson")
    t.equal(again, got, "all can be read again")


def test_end(t, s, path, last, name):
    """Behind the last event: an EventSource must not come again, and a stream must not be empty."""
    r = s.get(path, headers={"Last-Event-ID": str(last), "Accept": "text/event-stream"})
    t.equal((r.status, r.body), (204, b""), f"{name}: an EventSource is told to stop", r)
    got = [e for _, e in s.events(path, after=last, form="application/x-ndjson")]
    t.equal([(e["seq"], e["event"]) for e in got], [(last, "finished")], f"{name}: who reads lines gets it again", got)


def test_resume(t, s):
    r = s.execute(bash("for i in 1 2 3 4 5 6; do echo $i; sleep 0.1; done", detach=True))
    id = r.json["id"]
    t.equal((r.status, r.json["status"], r.headers["location"]), (202, "running", f"/v1/executions/{id}"),
            "a detached run is answered at once", r)
    first = s.events(r.json["events"], most=3)
    t.equal(len(first), 3, "a reader that loses its connection", first)
    rest = s.events(r.json["events"], after=first[-1][0])
    seqs = [e["seq"] for _, e in first + rest]
    t.equal(seqs, list(range(1, len(seqs) + 1)), "goes on where it was")
    out = "".join(e.get("data", "") for _, e in first + rest if e["event"] == "stdout")
    t.equal(out, "1\n2\n3\n4\n5\n6\n", "and misses nothing")
    head = s.execute(bash("for i in 1 2 3; do sleep 0.2; echo $i; done", detach=True)).json
    for _ in range(3):  # each over a connection of its own, which is gone when there are events
        t.equal(s.ask("HEAD", head["events"]).status, 200, "HEAD of a stream that goes on")
    t.equal(s.until(head["id"])["stdout"], "1\n2\n3\n", "which goes on as ever")
    late = s.events(r.json["events"] + f"?after={seqs[-2]}")
    t.equal([e["event"] for _, e in late], ["finished"], "?after= does the same")
    many = "import os\nfor i in range(6000): os.write(1, b'%d\\n' % i); time.sleep(0.0002)"
    for name, code in (("large", "for i in range(50): print('x' * 99999, flush=True)"), ("long", f"import time\n{many}")):
        run = s.execute({"language": "python", "code": code, "detach": True}).json
        size = s.until(run["id"])["meta"]["usage"]["stdout_bytes"]
        got = [e for _, e in s.events(run["events"])]
        t.equal((sum(len(e["data"]) for e in got if e["event"] == "stdout"), [e for e in got if "gap" in e]), (size, []),
                f"all is kept of a {name} run that nobody read", len(got))
    big = s.execute({"language": "python", "code": "for i in range(400): print(str(i % 10) * 65535)"})
    got = s.events(f"/v1/executions/{big.json['id']}/events")
    gaps = [e["gap"] for _, e in got if "gap" in e]
    t.ok(len(gaps) == 1 and got[-1][1]["event"] == "finished", "a log that was too long tells what it left out",
         [e["event"] for _, e in got][-5:], gaps)
    test_end(t, s, r.json["events"], seqs[-1], "at the end")
    r = s.get(f"/v1/executions/{id}/events", headers={"Last-Event-ID": "999999"})
    t.ok(b"finished" in r.body, "who has seen what never was gets its end all the same", r)


def test_cancel(t, s):
    id = s.execute({**SLEEP, "detach": True}).json["id"]
    r = s.ask("DELETE", f"/v1/executions/{id}")
    t.equal(r.status, 202, "a run can be cancelled", r)
    page = s.until(id)
    t.equal(page and page["verdict"]["cause"], "cancelled", "and says so", page)
    t.equal(s.ask("DELETE", f"/v1/executions/{id}").status, 204, "what is finished can be removed")
    t.equal([s.get(f"/v1/executions/{id}{x}").status for x in ("", "/events", "/stdout")], [404] * 3, "and is gone")
    t.ok(id not in [x["id"] for x in listed(s, "cancelled")], "from the list too")
    notes = s.mode.cay("audit", "list", "--json", "-n", "200").out.decode()
    t.ok(any(x["kind"] == "removed" and x["id"] == id for x in map(json.loads, notes.splitlines())), "which is audited", notes[-300:])


def listed(s, cause):
    return [x for x in s.get(f"/v1/executions?cause={cause}&limit=1000").json["executions"]]


def test_alias(t, s):
    """An execution is listed by its language's name, by which it is found, and so it is by another."""
    id = s.execute({"language": "py", "code": "import time; time.sleep(60)", "detach": True}).json["id"]

    def found():
        return [[x["language"] for x in s.get(f"/v1/executions?language={name}").json["executions"] if x["id"] == id] for name in ("python", "py")]
    t.equal(found(), [["python"]] * 2, "what runs under an alias is found by it, and by the name")
    s.ask("DELETE", f"/v1/executions/{id}")
    s.until(id)
    t.equal(found(), [["python"]] * 2, "and what is over")


def test_leaving(t, s):
    before = {x["id"] for x in listed(s, "cancelled")}
    body = json.dumps(SLEEP).encode()
    head = (b"POST /v1/execute HTTP/1.1\r\n" + s.bearer() + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % len(body))
    for name, more in (("a client that leaves", b""), ("one that has sent ahead", b"GET /v1/lang")):
        raw = s.raw(head + body + more)
        t.ok(caytest.until(lambda: s.get("/v1/health").json["running"] == 1, 20), f"{name}: runs")
        raw.close()
        t.ok(caytest.until(lambda: s.get("/v1/health").json["running"] == 0, 20), f"{name}: its run is stopped")
    t.ok(caytest.until(lambda: len({x["id"] for x in listed(s, "cancelled")} - before) == 2, 20), "as cancelled")


def test_queue(t, s):
    """The server has room for two, and lets one wait."""
    ids = [s.execute({**SLEEP, "detach": True}).json for _ in range(3)]
    t.equal([x["status"] for x in ids], ["running", "running", "queued"], "two run, one waits")
    r = s.execute({"command": ["/bin/true"]})
    t.equal((r.status, r.error.get("kind")), (429, "busy"), "the next is refused", r)
    t.ok(int(r.headers.get("retry-after", 0)) >= 1, "with a time to come back", r.headers)
    t.equal(s.get("/v1/health").status, 200, "health is answered all the same")
    s.ask("DELETE", f"/v1/executions/{ids[2]['id']}")
    page = s.until(ids[2]["id"])
    t.equal(page and page["verdict"]["cause"], "cancelled", "one that waits can be cancelled", page)
    done = s.mode.cay("show", ids[2]["id"], "--json")
    t.equal(json.loads(done.out or b"{}").get("verdict", {}).get("cause"), "cancelled", "and is on record", *done.describe())
    counted = re.findall(r'^cay_runs_total{.*cause="cancelled".*} (\d+)$', s.get("/metrics").body.decode(), re.M)
    t.equal(sum(map(int, counted)), 1, "and is counted", counted)
    t.ok(re.search(f"event=run id={ids[2]['id']} .*cause=cancelled", s.words()), "and is in the log", s.words()[-500:])
    for _ in range(100):  # while no run ends
        s.ask("DELETE", f"/v1/executions/{s.execute({**SLEEP, 'detach': True}).json['id']}")
    kept = int(re.search(r"^cay_events_kept_bytes (\d+)$", s.get("/metrics").body.decode(), re.M)[1])
    t.ok(kept < 80 << 10, "those that ended while they waited are forgotten, as others are: 64 KiB are kept", kept)
    raw = s.raw(b"POST /v1/execute HTTP/1.1\r\n" + s.bearer() + b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
    t.equal(read_answer(raw)[0], 400, "an empty request is no request")
    raw.close()
    body = json.dumps(SLEEP).encode()
    raw = s.raw(b"POST /v1/execute HTTP/1.1\r\n" + s.bearer() +
                b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    t.ok(caytest.until(lambda: s.get("/v1/health").json["queued"] == 1, 20), "a client waits")
    raw.close()
    t.ok(caytest.until(lambda: s.get("/v1/health").json["queued"] == 0, 20), "and leaves its place when it goes")
    waiting = s.execute({"command": ["/bin/echo", "late"], "detach": True}).json
    for x in ids[:2]:
        s.ask("DELETE", f"/v1/executions/{x['id']}")
    page = s.until(waiting["id"])
    t.equal(page and page["stdout"], "late\n", "who waits is served when there is room", page)
    test_unstarted(t, s)


def test_unstarted(t, s):
    """One that waits, and for which there is nothing to start it with once it is its turn."""
    t.ok(caytest.until(lambda: s.get("/v1/health").json["running"] == 0, 20), "those before it have left their places")
    ids = [s.execute({**SLEEP, "detach": True}).json["id"] for _ in range(2)]
    conn, body = s.raw(), json.dumps({"command": ["/bin/true"], "stdin": "x"}).encode()
    conn.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    read_answer(conn)
    raw = s.raw(b"POST /v1/execute HTTP/1.1\r\n" + s.bearer() +
                b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    t.ok(caytest.until(lambda: s.get("/v1/health").json["queued"] == 1, 20), "a client waits")
    owner = os.stat(f"/proc/{s.pid}/task")  # who alone may do so, where root lacks the capability
    bound = lambda soft: subprocess.run(["prlimit", f"--pid={s.pid}", f"--nofile={soft}"], check=True,
                                        user=owner.st_uid, group=owner.st_gid, extra_groups=[])
    files = re.search(r"^Max open files +(\d+) +(\d+)", pathlib.Path(f"/proc/{s.pid}/limits").read_text(), re.M)
    bound("4:" + files[2])  # no fd from here on
    conn.sendall(b"DELETE /v1/executions/%s HTTP/1.1\r\n" % ids[0].encode() + s.bearer() + b"\r\n")
    status, got = read_answer(raw)
    bound(":".join(files.groups()))
    t.equal(status, 503, "it can't be started: it is told to come again", got)
    for x in (conn, raw):
        x.close()
    s.ask("DELETE", f"/v1/executions/{ids[1]}")
    r = s.execute({"command": ["/bin/echo", "again"]})
    t.equal((r.status, (r.json or {}).get("stdout")), (200, "again\n"), "which is right", r)


def test_forgotten(t, s):
    """The server keeps 64 KiB of the events of what is finished."""
    flood = {"language": "python", "code": "import time\nprint('x' * 999999, flush=True)\ntime.sleep(60)", "detach": True}
    other = s.execute(flood, token=OTHER).json
    t.equal(len(s.events(other["events"], token=OTHER, most=12)), 12, "another's run goes on, with many events")
    short = s.execute(bash("for i in 1 2 3 4 5; do echo $i; sleep 0.05; done", detach=True)).json
    s.until(short["id"])
    got = [e for _, e in s.events(short["events"])]
    t.equal("".join(e["data"] for e in got if e["event"] == "stdout"), "1\n2\n3\n4\n5\n", "the events of what is finished are there all the same", got)
    large = s.execute(bash("for i in 1 2 3 4; do head -c 20000 /dev/zero | tr '\\0' x; sleep 0.1; done", detach=True)).json
    s.until(large["id"])
    kept = [e for _, e in s.events(large["events"])]
    t.ok(kept[0]["event"] == "started" and kept[-1]["event"] == "finished" and any("gap" in e for e in kept), "of a large one, a part is",
         [(e["seq"], e["event"]) for e in kept])
    t.equal([e for _, e in s.events(short["events"], after=2)], got[2:], "which drives out nobody")
    others = s.execute(bash("echo other", detach=True), token=OTHER).json
    s.until(others["id"], token=OTHER)
    for _ in range(8):
        s.execute(bash("printf '%5000d' 1"))
    got_others = [e["event"] for _, e in s.events(others["events"], token=OTHER)]
    t.ok(got_others[0] == "started" and "stdout" in got_others, "a tenant's own are driven out, not another's", got_others)
    for form in ("text/event-stream", "application/x-ndjson"):
        late = [e for _, e in s.events(short["events"], after=2, form=form)]
        t.equal([(e["seq"], e["event"], e.get("gap")) for e in late],
                [(len(got) - 1, "warning", [3, len(got) - 1]), (len(got), "finished", None)], f"{form}: what is forgotten is told", late)
    late = s.events(short["events"], after=len(got) - 1)
    t.equal([(number, e["event"]) for number, e in late], [(len(got), "finished")], "who misses nothing is told of nothing")
    test_end(t, s, short["events"], len(got), "at the end of what is forgotten")
    s.ask("DELETE", f"/v1/executions/{other['id']}", token=OTHER)


def pages(s, limit):
    """The whole list, asked for in pages."""
    ids = []
    while True:
        more = f"&before={ids[-1]}" if ids else ""
        page = [x["id"] for x in s.get(f"/v1/executions?limit={limit}{more}").json["executions"]]
        ids += page
        if len(page) < limit or len(ids) > 1000:
            return ids


def test_pages(t, s):
    """Many come in a moment, more than run at a time, and end in another order than they came."""
    body = [json.dumps({"command": ["/bin/sleep", str((5 - i % 5) / 10)], "detach": True}).encode() for i in range(40)]
    head = b"POST /v1/execute HTTP/1.1\r\n" + s.bearer() + b"Content-Type: application/json\r\n"
    data = s.exchange(b"".join(head + b"Content-Length: %d\r\n\r\n%s" % (len(b), b) for b in body)
                      + b"GET /v1/languages HTTP/1.1\r\nConnection: close\r\n" + s.bearer() + b"\r\n")
    runs = re.findall(r'{"id":"([0-9a-f]{32})"', data.decode())
    t.equal(len(runs), len(body), "many are taken at once", data[-300:])
    during = pages(s, 3)
    t.equal(len(during), len(set(during)), "pages have each once while some run and some wait", during)
    for id in runs:
        s.until(id)
    whole = s.get("/v1/executions?limit=1000").json["executions"]
    times = [x["timestamp"] for x in whole]
    t.equal(times, sorted(times, reverse=True), "the list is in the order of its times")
    t.equal(times[-len(runs):], [s.get(f"/v1/executions/{x['id']}").json["timestamp"] for x in whole[-len(runs):]],
            "which are the results'")
    for limit in (1, 3, 7):
        got = pages(s, limit)
        t.equal(got, [x["id"] for x in whole], f"pages of {limit} are the whole list")
    history = [x["id"] for x in json.loads(s.mode.cay("history", "--json", "--limit", "40").out)]
    t.equal(history, [x["id"] for x in whole][:40], "the history has the same order")
    id = s.execute({**SLEEP, "detach": True}).json["id"]
    behind = s.get(f"/v1/executions?limit=1000&before={id}").json["executions"]
    t.equal([x["id"] for x in behind], [x["id"] for x in whole], "what is not on record yet has all others behind it")
    gone = [s.execute(bash("true")).json["id"] for _ in range(2)]
    for x in gone:
        t.ok(caytest.until(lambda x=x: s.ask("DELETE", f"/v1/executions/{x}").status == 204, 10), "one is removed")
    behind = s.get(f"/v1/executions?limit=1000&before={gone[1]}").json["executions"]
    t.equal([x["id"] for x in behind], [id] + [x["id"] for x in whole], "what is removed has its place all the same, before what still runs")
    s.ask("DELETE", f"/v1/executions/{id}")
    alien = s.execute(bash("true"), token=OTHER).json["id"]
    s.execute(bash("true"))
    answers = [s.get(f"/v1/executions?before={x}") for x in (alien, "0" * 32, "x")]
    t.equal([(r.status, r.body) for r in answers], [(404, answers[0].body)] * 3, "behind another tenant's there is what is behind none", answers)


ERRORS = (
    # name, method, path, body, headers, status, kind, words in message or hint
    ("no such path", "GET", "/v1/nothing", None, {}, 404, "notfound", "path"),
    ("a path that is not built yet", "POST", "/v1/sessions", {}, {}, 404, "notfound", "not built yet"),
    ("a path behind one that is", "GET", "/v1/check/x", None, {}, 404, "notfound", "/openapi.json lists the routes"),
    ("another method", "PUT", "/v1/execute", {}, {}, 405, "usage", "POST"),
    ("a form", "POST", "/v1/execute", "code=1", {"Content-Type": "application/x-www-form-urlencoded"}, 415, "usage", "JSON"),
    ("text", "POST", "/v1/execute", "{}", {"Content-Type": "text/plain"}, 415, "usage", "JSON"),
    ("no type", "POST", "/v1/execute", b"{}", {}, 415, "usage", "JSON"),
    ("what we can't give", "POST", "/v1/execute", {}, {"Accept": "image/png"}, 406, "usage", "Accept"),
    ("no JSON", "POST", "/v1/execute", "{", {"Content-Type": "application/json"}, 400, "usage", ""),
    ("an unknown field", "POST", "/v1/execute", {"languag": "python"}, {}, 400, "usage", "language"),
    ("a bad value", "POST", "/v1/execute", {"command": ["true"], "timeout": -1}, {}, 400, "usage", "timeout"),
    ("no time at all", "POST", "/v1/execute", {"command": ["true"], "timeout": 0}, {}, 400, "usage", "to 300"),
    ("too much", "POST", "/v1/execute", {"command": ["true"], "timeout": 9999}, {}, 400, "usage", "300"),
    ("more than a number holds", "POST", "/v1/execute", {"command": ["true"], "timeout": 10**23 - 1}, {}, 400, "usage",
     "timeout: '99999999999999999999999' is out of range; allowed is 0.001 to 300"),
    ("more than a number holds, of a check", "POST", "/v1/check", {"language": "python", "code": 10**23}, {}, 400, "usage", "code: expected a string, got a number"),
    ("a language that is not there", "POST", "/v1/execute", {"language": "pyton", "code": "1"}, {}, 404, "notfound", "python"),
    ("more memory than there is", "POST", "/v1/execute", {"command": ["true"], "limits": {"memory": "100000g"}}, {}, 400, "usage", "memory"),
    ("globs without end", "POST", "/v1/execute", {"command": ["true"], "collect": ["x"] * 30000}, {}, 400, "usage", "1024"),
    ("variables without end", "POST", "/v1/execute", {"command": ["true"], "env": {f"V{i}": "" for i in range(9000)}}, {}, 400, "usage", "1024"),
    ("a word that no program takes", "POST", "/v1/execute", {"command": ["true", "x" * 131072]}, {}, 400, "usage", "131071"),
    ("files without end", "POST", "/v1/execute", {"command": ["true"], "limits": {"inodes": 400000}}, {}, 400, "usage", "50000"),
    ("a result of any size", "POST", "/v1/execute", {"command": ["true"], "limits": {"max_output": "1g"}}, {}, 400, "usage", "4m"),
    ("a workspace", "POST", "/v1/execute", {"command": ["true"], "workspace": "/etc"}, {}, 403, "policy", "workspace"),
    ("a folder", "POST", "/v1/execute", {"command": ["true"], "ro": ["/etc"]}, {}, 403, "policy", "ro"),
    ("no sandbox", "POST", "/v1/execute", {"command": ["true"], "backend": "process"}, {}, 403, "policy", "backend"),
    ("no isolation", "POST", "/v1/execute", {"command": ["true"], "min_isolation": "none"}, {}, 403, "policy", "min_isolation"),
    ("an unsafe fallback", "POST", "/v1/execute", {"command": ["true"], "fallback": "unsafe"}, {}, 403, "policy", "fallback"),
    ("a bypass", "POST", "/v1/execute", {"command": ["true"], "policy_bypass": True}, {}, 403, "policy", "bypass"),
    ("a list of a sort that is not there", "GET", "/v1/executions?colour=red", None, {}, 400, "usage", "colour"),
    ("a list of a cause that is not there", "GET", "/v1/executions?cause=wal_timeout", None, {}, 400, "usage", "did you mean wall_timeout"),
    ("a list of a language that is not there", "GET", "/v1/executions?language=pyton", None, {}, 400, "usage", "python"),
    ("a list that is too long", "GET", "/v1/executions?limit=100000", None, {}, 400, "usage", "1000"),
    ("events behind nothing", "GET", "/v1/executions/" + "0" * 32 + "/events?after=x", None, {}, 400, "usage", "after"),
    ("an unknown id", "GET", "/v1/executions/" + "0" * 32, None, {}, 404, "notfound", "execution"),
)


def test_errors(t, s):
    for name, method, path, body, headers, status, kind, words in ERRORS:
        r = s.ask(method, path, body, headers=headers)
        text = f"{r.error.get('message')} {r.error.get('hint')} {r.headers.get('allow')}"
        t.ok((r.status, r.error.get("kind")) == (status, kind) and words in text, f"{name}: {status}", r)
    r = s.execute({"command": ["true"], "files": {"x": "y" * 300000}})
    t.equal((r.status, r.error.get("kind")), (413, "limit"), "too large a request: 413", r)
    post = b"POST /v1/execute HTTP/1.1\r\n" + s.bearer() + b"Content-Type: application/json\r\nExpect: 100-continue\r\n"
    data = s.exchange(post + b"Content-Length: 300000\r\n\r\n")
    t.equal(cayserve.statuses(data), [413], "who asks before sending it is not told to go on", data)
    r = s.ask("POST", "/v1/execute", {"command": ["true"]}, headers={"Content-Encoding": "gzip"})
    t.equal((r.status, r.error.get("kind")), (415, "usage"), "an encoded body: 415", r)
    connection, r = s.open("HEAD", "/v1/languages")
    t.ok(r.status == 200 and int(r.getheader("Content-Length")) > 100 and r.read() == b"", "HEAD has no body")
    for line in (b"HEAD /v1/languages#x HTTP/1.1", b"HEAD /v1/languages HTTP/1.1\r\nX", b"HEAD /v1/languages HTTP/1.1\r\nContent-Length: 1"):
        data = s.exchange(line + b"\r\n" + s.bearer() + b"\r\n")
        t.ok(data.partition(b" ")[2][:1] == b"4" and data.endswith(b"\r\n\r\n"), f"nor has one that is refused: {line[18:]}", data)
    connection.close()


def test_connections(t, s):
    """One connection for many requests, also when they are sent all at once."""
    connection = s.connection()
    answers = [s.execute({"command": ["/bin/echo", str(i)]}, connection=connection) for i in range(3)]
    t.equal([r.json["stdout"] for r in answers], ["0\n", "1\n", "2\n"], "a connection is kept")
    connection.close()
    body = [json.dumps({"command": ["/bin/sh", "-c", f"sleep 0.{5 - i}; echo {i}"]}).encode() for i in range(3)]
    head = b"POST /v1/execute HTTP/1.1\r\n" + s.bearer() + b"Content-Type: application/json\r\n"
    raw = s.raw(b"".join(head + b"Content-Length: %d\r\n\r\n%s" % (len(b), b) for b in body))
    got = [json.loads(read_answer(raw)[1])["stdout"] for _ in body]
    t.equal(got, ["0\n", "1\n", "2\n"], "what was sent ahead is answered in its order")
    raw.close()
    data = s.exchange(b"GET /v1/languages HTTP/1.1\r\nConnection: close\r\n" + s.bearer() + b"\r\n")
    t.ok(data and b"connection: close" in data.lower() and data.rstrip().endswith(b"]"), "Connection: close is heeded")
    data = s.exchange(2 * (b"GET /v1/languages HTTP/1.0\r\nConnection: keep-alive\r\n" + s.bearer() + b"\r\n")
                      + b"GET /v1/languages HTTP/1.0\r\n" + s.bearer() + b"\r\n")
    t.equal(re.findall(b"\r\nConnection: ([a-z-]+)", data or b""), [b"keep-alive", b"keep-alive", b"close"],
            "HTTP/1.0 is told whether its connection is kept", data)


def test_tenants(t, s):
    mine = s.execute({"command": ["/bin/true"]}).json["id"]
    his = s.execute({"command": ["/bin/true"]}, token=OTHER).json["id"]
    t.equal([s.get(f"/v1/executions/{x}", token=OTHER).status for x in (mine, his)], [404, 200], "tenants do not see each other")
    t.equal(s.ask("DELETE", f"/v1/executions/{mine}", token=OTHER).status, 404, "nor stop each other's runs")
    ids = [x["id"] for x in s.get("/v1/executions?limit=1000", token=OTHER).json["executions"]]
    t.ok(his in ids and mine not in ids, "nor find them in the list", ids)
    his, mine = [s.execute({"command": ["/bin/true"]}, token=f"token-of-{name}").json["id"] for name in LONG]
    ids = [x["id"] for x in s.get("/v1/executions?limit=1000", token=f"token-of-{LONG[1]}").json["executions"]]
    t.equal((his in ids, mine in ids), (False, True), "nor those of one whose name is as theirs but for a letter", ids)
    ids = [x["id"] for x in json.loads(s.mode.cay("history", "--json", "--tenant", LONG[1]).out)]
    t.equal((his in ids, mine in ids), (False, True), "which the history tells apart, too", ids)
    mine = s.execute({"command": ["/bin/true"]}).json["id"]
    first, second = [[x["id"] for x in s.get(f"/v1/executions?limit=2{more}").json["executions"]]
                     for more in ("", f"&before={mine}")]
    t.ok(len(first) == 2 and first[0] == mine and mine not in second, "the newest is first, and pages follow", first, second)
    t.equal(s.execute({"command": ["/bin/true"]}, token=NARROW).status, 403, "a token without the scope can't run")
    t.equal(s.get("/v1/languages", token=NARROW).status, 200, "but read")
    t.equal(s.get("/metrics", token=OTHER).status, 403, "metrics are another scope")
    s.write_tokens(TOKENS.replace(OTHER, NEWER))
    s.proc.send_signal(signal.SIGHUP)
    t.ok(caytest.until(lambda: s.get("/v1/languages", token=NEWER).status == 200, 20), "SIGHUP: a new token is known")
    t.equal(s.get("/v1/languages", token=OTHER).status, 401, "an old one is not")
    s.write_tokens(f"{OTHER} main everything\n")
    s.proc.send_signal(signal.SIGHUP)
    t.ok(caytest.until(lambda: "reload-failed" in s.words(), 20), "a file that can't be read is said")
    t.equal(s.get("/v1/languages", token=NEWER).status, 200, "and the old ones stay")


def test_information(t, s):
    languages = {x["name"]: x for x in s.get("/v1/languages").json}
    t.ok(languages["python"]["version"], "languages have their versions", languages.get("python"))
    health = s.get("/v1/health", token=None)
    t.equal((health.status, health.json["status"]), (200, "ok"), "health", health)
    api = s.get("/openapi.json", token=None).json
    t.ok("/v1/execute" in api["paths"] and api["openapi"].startswith("3."), "the OpenAPI document")
    text = s.get("/metrics").body.decode()
    runs = sum(float(x) for x in re.findall(r"^cay_runs_total\{[^}]*\} (\S+)$", text, re.M))
    t.ok(runs > 5 and "cay_pool_ready" in text, "metrics count runs", runs)


def test_memory_metrics(t, s):
    samples = dict(re.findall(r"^(cay_\w+_bytes) (\d+)$", s.get("/metrics").body.decode(), re.M))
    t.ok(int(samples.get("cay_pool_bytes", 0)) > 0 and int(samples.get("cay_events_kept_bytes", 0)) > 0,
         "the memory of pools and events is told as such", samples)


def test_compiler_time(t, s):
    """What a compiler used is the tenant's, too."""
    if not {x["name"]: x for x in s.get("/v1/languages").json}["c"]["version"]:
        t.skip("a compiler's CPU time", "there is none")
        return
    total = lambda: float(re.search(r"^cay_cpu_seconds_total (\S+)$", s.get("/metrics").body.decode(), re.M)[1])
    before = total()
    r = s.execute({"language": "c", "code": f"#include <stdio.h>\nint main(void) {{ return {os.getpid()} == 0; }}\n"})
    used = total() - before
    t.ok(r.json["meta"]["timing"]["compile"] > 0.01 and used > r.json["meta"]["usage"]["cpu_time"] + 0.01,
         "a compiler's CPU time is counted", used, r)


def test_unrecorded(t, s):
    """What can't be written down is said, and counted."""
    def count():
        return int(re.search(r"^cay_record_failed_total (\d+)$", s.get("/metrics").body.decode(), re.M)[1])

    open_files = [os.readlink(link) for link in Path(f"/proc/{s.pid}/fd").iterdir() if link.is_symlink()]
    journal = next(name for name in open_files if re.search("/journal/[0-9a-f]{32}$", name))
    before, mode = count(), stat.S_IMODE(os.stat(journal).st_mode)
    os.chmod(journal, 0o500)
    try:
        r = s.execute(bash("yes | head -c 100000"))
        detached = s.execute(bash("true", detach=True))
    finally:
        os.chmod(journal, mode)
    t.equal((detached.status, detached.error.get("kind"), "Location" in detached.headers), (503, "busy", False),
            "a detached run that would not be on record is refused", detached)
    t.equal(s.get("/v1/health").json["running"], 0, "and does not run")
    t.ok(any("not recorded in the state folder" in w for w in r.json["meta"]["warnings"]), "a record that can't be written is said", r)
    t.equal((before, count()), (0, 2), "and counted")
    told = re.findall(r"level=warn event=run id=(\S+) .*recorded=no", s.words())
    t.equal(told, [r.json["id"]], "and the log warns of it", s.words()[-500:])


def status_of(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    except OSError:
        return {}


def program_of(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def test_confined(t, s, mode):
    status = status_of(s.pid)
    t.equal((status["NoNewPrivs"], status["Seccomp"], int(status["CapPrm"], 16), int(status["CapBnd"], 16) if mode.is_root else 0),
            ("1", "2", 0, 0), "the front has a filter and no capability")
    t.ok(int(status["Uid"].split()[0]) != 0, "and is not root", status["Uid"])
    t.equal(stat.S_IMODE(os.stat(s.socket).st_mode), 0o600, "the socket is its owner's")
    recorders = [status_of(p.pid) for p in caytest.descendants() if words_of(p.pid)[1:2] == [b"recorder"]]
    workers = [x for x in recorders if x["Pid"] not in {y["PPid"] for y in recorders}]
    t.equal([(x["NoNewPrivs"], x["Seccomp"], int(x["CapPrm"], 16), int(x["CapEff"], 16)) for x in workers], [("1", "2", 0, 0)],
            "so has the recorder", recorders)


def test_check(t, s):
    """Who waits for a check waits alone: the workers stand still."""
    def check():
        return s.ask("POST", "/v1/check", {"language": "python", "code": "import os, socket"})
    t.equal(check().json["blocked_imports"], ["os", "socket"], "code can be checked")
    workers = [p.pid for p in caytest.descendants() if program_of(p.pid) == "cay-syntax"]
    t.ok(workers, "there is who does it", workers)
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    slow = s.raw(b"POST /v1/check HTTP/1.1\r\n" + s.bearer() + b"Content-Type: application/json\r\nContent-Length: 37\r\n\r\n"
                 b'{"language": "python", "code": "a=1"}')
    t.equal(s.get("/v1/languages").status, 200, "others are served meanwhile")
    for pid in workers:
        os.kill(pid, signal.SIGCONT)
    t.equal(read_answer(slow)[0], 200, "and it is answered")
    slow.close()


def test_check_shares(t, s):
    """A tenant who asks for many checks, each of which takes long, keeps no other from his."""
    def begin(token, language, code):
        body = json.dumps({"language": language, "code": code}).encode()
        return s.raw(b"POST /v1/check HTTP/1.1\r\n" + s.bearer(token) + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body, 60)

    def answered(list_of_sockets):
        return [x for x in list_of_sockets if select.select([x], [], [], 0)[0]]

    many = [begin(OTHER, "bash", "{" * 100_000) for _ in range(60)]
    t.ok(caytest.until(lambda: len(answered(many)) >= 12, 30), "of more than its share, a tenant's are refused", len(answered(many)))
    t.equal({read_answer(x)[0] for x in answered(many)[:12]} <= {200, 503}, True, "by 503")
    own = begin(TOKEN, "python", "import os")
    status, body = read_answer(own)
    t.equal((status, json.loads(body).get("blocked_imports")), (200, ["os"]), "another's is checked")
    t.ok(len(answered(many)) < 30, "before those that wait", len(answered(many)))
    for x in [own, *many]:
        x.close()


def words_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().split(b"\0")
    except OSError:
        return []


def wardens():
    """Those that were started as such: what a warden forks has its words too."""
    return [p.pid for p in caytest.descendants()
            if b"warden" in words_of(p.pid) and b"serve" in words_of(status_of(p.pid).get("PPid"))]


def the_warden():
    """The one there is, as soon as it is; processes come and go while they are looked through."""
    found = []
    caytest.until(lambda: found.extend(wardens()) or found, 20)
    return found[0]


def test_lost_warden(t, s):
    id = s.execute(bash("echo begun; sleep 60", detach=True)).json["id"]
    t.ok(s.until(id, "running") and s.events(f"/v1/executions/{id}/events", most=3), "a run goes on")
    lost = wardens()
    t.equal(len(lost), 1, "there is a warden", lost)
    os.kill(lost[0], signal.SIGKILL)
    page = s.until(id)
    t.equal(page and (page["verdict"]["cause"], page["language"]), ("infrastructure", "bash"), "without it, the run ends and says why", page)
    t.ok(page["stdout"] == "begun\n" and page["meta"]["usage"]["stdout_bytes"] == 6 and page["execution_time"] > 0,
         "with what it wrote until then", page)
    t.equal(json.loads(s.mode.cay("show", id, "--json").out or b"{}"), page, "and is on record")
    counted = s.get("/metrics").body
    t.ok(b'cay_runs_total{language="bash",cause="infrastructure"} 1\n' in counted, "and is counted as its language's",
         re.findall(rb"cay_runs_total.*infra.*", counted))
    t.ok(caytest.until(lambda: (s.execute({"command": ["/bin/true"]}).json or {}).get("success"), 30), "another one takes over")
    t.ok(caytest.until(lambda: s.get("/v1/health").json["warden"] == "ok", 30), "and health says so")


def test_lost_front(t, mode):
    """Killed with runs under way of which clients have the ids, and nothing more."""
    with Server(mode, env={"CAY_SPARES": "0", "CAY_WARM": "", "CAY_MAX_RUNNING": "2"}) as s:
        ended = s.execute(bash("echo ended", detach=True)).json["id"]
        t.ok(s.until(ended), "a detached run ends")
        ids = [s.execute(bash("echo begun; sleep 60", detach=True)).json["id"] for _ in range(3)]
        t.ok(s.until(ids[0], "running"), "others are under way, and one waits")
        s.proc.kill()
        s.proc.wait()
    def shown(id):
        return json.loads(mode.cay("show", id, "--json").out or b"{}")
    t.ok(caytest.until(lambda: all(shown(id) for id in ids), 20), "each has its result all the same")
    t.equal([(shown(id)["verdict"]["cause"], shown(id)["exit_code"], shown(id)["error_message"]) for id in ids],
            [("infrastructure", 125, "the server ended before the run did")] * 3, "which says what became of it")
    t.equal(shown(ended)["stdout"], "ended\n", "the one that had ended has its own")
    t.equal(mode.cay("audit", "verify").status, 0, "and the log is whole")


def recorders():
    return [p.pid for p in caytest.descendants() if words_of(p.pid)[1:2] == [b"recorder"]]


def test_lost_recorder(t, s):
    """All of it is killed, more than once."""
    for what in ("the first", "the monitor's"):
        lost = recorders()
        t.equal(len(lost), 2, f"a recorder, {what}: there it is", lost)
        for pid in lost:
            os.kill(pid, signal.SIGKILL)
        t.ok(caytest.until(lambda: "recorder-lost" in s.words(), 20), f"a recorder, {what}: its loss is said", s.words()[-500:])
        t.ok(caytest.until(lambda: len(set(recorders()) - set(lost)) == 2, 30), f"a recorder, {what}: there is another", recorders())
        t.ok(caytest.until(lambda: s.get("/v1/executions").json["complete"], 30), f"a recorder, {what}: which answers")
        t.equal(s.get("/v1/health").json["recorder"], "ok", f"a recorder, {what}: and health says so")
    id = s.execute(bash("echo on record")).json["id"]
    audit = Path("/var/lib/cay/audit.jsonl") if s.mode.uid is None else s.mode.home / ".local/state/cay/audit.jsonl"
    t.ok(caytest.until(lambda: id in audit.read_text(), 20), "and writes down what is run")


def zygotes(warden):
    return [p.pid for p in caytest.descendants()
            if program_of(p.pid) == "cay-zygote-python" and status_of(p.pid).get("PPid") == str(warden)]


def has_zygote(s):
    return re.search(r'^cay_pool_ready\{language="python",kind="zygote"\} 1$', s.get("/metrics").body.decode(), re.M)


def kernel():
    return tuple(int(x) for x in re.findall(r"\d+", os.uname().release)[:2])


def test_lost_zygote(t, s):
    """Programs that are still to be forked when it dies."""
    t.ok(caytest.until(lambda: has_zygote(s), 60), "a zygote is there")
    stopped = zygotes(the_warden())
    if not caytest.SANITIZED and kernel() >= (6, 7):
        held = [int(status_of(pid)["RssFile"].split()[0]) for pid in stopped]
        t.ok(held and max(held) < 2560, "which has of its files the pages alone that short programs need (zygote-pages.h)", held)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    ids = [s.execute({"language": "python", "code": "print(1)", "detach": True}).json["id"] for _ in range(6)]
    for pid in stopped:
        os.kill(pid, signal.SIGKILL)
    pages = [s.until(id) for id in ids]
    t.equal([(p["stdout"], p["verdict"]["cause"]) for p in pages if p], [("1\n", "ok")] * 6, "all run without it",
            *[(p["verdict"], p.get("error"), p["meta"]["start"]) for p in pages if p])
    t.ok("cold" in {p["meta"]["start"] for p in pages if p}, "those that it had not forked were started anew")


def warden_socket(pid):
    """Where commands of the same user connect to it; and the name that it was made under, by which the kernel lists it."""
    own = set()
    for x in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            own.add(os.readlink(f"/proc/{pid}/fd/{x}"))
    with open("/proc/net/unix") as f:
        rows = [line.split() for line in f]
    made = next(x[7] for x in rows if len(x) > 7 and f"socket:[{x[6]}]" in own and "/.warden-" in x[7])
    return made.replace("/.warden-", "/warden-"), made


LISTING = "import os\nprint([(n, oct(os.stat(n).st_mode & 0o777)) for n in sorted(os.listdir('.'))])\n"


def test_file_ahead(t, mode, begin):
    """The file of most runs is made ahead of them: one that has none, or another in its place, does not see it."""
    folder = Path(mode.cwd)
    (folder / "own.py").write_text(LISTING)
    (folder / "data").write_text("x")
    (folder / "data").chmod(0o700)
    (folder / "large").write_bytes(b"x" * 200_000)  # its files are written by pid 1
    own = ("own.py", "0o644")
    rows = {
        "none": ([], [own]),
        "a folder": (["--file", "main.py/x=data"], [("main.py", "0o755"), own]),
        "one that is another's": (["--file", "main.py=data"], [("main.py", "0o755"), own]),
        "none, and a large one": (["--file", "large=large"], [("large", "0o644"), own]),
        "a folder, and a large one": (["--file", "large=large", "--file", "main.py/x=data"], [("large", "0o644"), ("main.py", "0o755"), own]),
    }
    for name, (args, found) in rows.items():
        def run():
            return json.loads(begin("--json", *args, "own.py").communicate()[0] or b"{}")
        t.ok(caytest.until(lambda: (r := run()).get("meta", {}).get("start") == "warm" and r["stdout"] == f"{found}\n", 60),
             f"no main.py of its own: {name}", run())


def test_command(t, mode):
    """`cay run` through the server's warden, which others keep busy, or which ends."""
    mine = {"CAY_SERVER": "true", "SECURITY_MAX_EXECUTION_TIME": "217"}  # another server may be up: only ours has this cap
    def begin(*args, stdin=subprocess.DEVNULL):
        return subprocess.Popen([mode.binary, "run", *args], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**mode.env, **mine}, cwd=mode.cwd)
    dead = "/run/cay/warden-0123456789abcdef"
    os.makedirs(os.path.dirname(dead), exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as left:
        left.bind(dead)
    with Server(mode, env={**mine, "CAY_WARM": "python", "CAY_SPARES": "1", "CAY_SPARES_MAX": "1"}) as s:
        test_lost_zygote(t, s)
        (place, made), idle = warden_socket(the_warden()), []
        t.ok(not os.path.exists(dead), "what a killed server left beside it is swept")
        for _ in range(300):
            idle.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            idle[-1].connect(place)
        t.ok(caytest.until(lambda: has_zygote(s), 60), "there is a zygote again")
        def start():
            done = mode.cay("run", "--json", "-l", "python", "-e", "print(1)", env=mine)
            return json.loads(done.out or b"{}").get("meta", {}).get("start")
        t.ok(caytest.until(lambda: start() in ("warm", "fork", "spare"), 60), "whoever is idle keeps nobody out", start())
        for x in idle:
            x.close()
        test_file_ahead(t, mode, begin)
        pid = the_warden()
        os.kill(pid, signal.SIGSTOP)
        run = begin("--json", "-l", "python", "-e", "print(2)")
        unix = "/proc/net/unix"
        t.ok(caytest.until(lambda: open(unix).read().count(made) > 1, 20), "one connects")
        os.kill(pid, signal.SIGKILL)
        out = run.communicate()[0]
        t.equal((json.loads(out or b"{}").get("stdout"), run.returncode), ("2\n", 0), "what had not begun goes on without the server", out)
        t.ok(caytest.until(lambda: (s.execute({"command": ["/bin/true"]}).json or {}).get("success"), 30), "another warden is there")
        run = begin("-l", "bash", "-e", "echo begun; sleep 60")
        t.equal(run.stdout.readline(), b"begun\n", "one goes on")
        os.kill(the_warden(), signal.SIGKILL)
        words = run.communicate()[1]
        t.ok(run.returncode == 125 and b"the server that this run went through has ended" in words, "which says what ended it", words)
        t.ok(caytest.until(lambda: (s.execute({"command": ["/bin/true"]}).json or {}).get("success"), 30), "and another")
        test_hung_warden(t, s)
        lost = subprocess.run([BUILD / "tests" / "lost", mode.binary, str(the_warden())], env={**mode.env, **mine}, cwd=mode.cwd, capture_output=True)
        t.equal(lost.stdout, b"refused\n" * 2, "code whose check was open then is checked all the same", lost)


    with Server(mode, env={**mine, "CAY_WARM": "command", "CAY_SPARES": "0"}) as s:
        place = warden_socket(the_warden())[0]
        run = begin("-l", "bash", "-e", "echo begun; read x; echo $x", stdin=subprocess.PIPE)
        t.equal(run.stdout.readline(), b"begun\n", "one goes through the server's warden")
        t.ok(caytest.until(lambda: s.get("/v1/health").json["commands"] == 1, 30), "health counts it")
        s.proc.send_signal(signal.SIGTERM)
        t.ok(caytest.until(lambda: "event=draining active=1 commands=1" in s.words(), 20), "the end of the server counts it", s.words()[-500:])
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as late:
            t.ok(late.connect_ex(place) != 0, "nobody new comes to its warden")
        out, words = run.communicate(b"done\n")
        t.equal((out, run.returncode), (b"done\n", 0), "and waits for it", words)
        t.equal(s.wait(), 0, "then it ends", s.words()[-500:])


def test_hung_warden(t, s):
    """Health answers while the warden can't, and says so; SIGSTOP is what hangs it."""
    warden = the_warden()
    t.ok(caytest.until(lambda: s.get("/v1/health").json["warden"] == "ok", 30), "the warden is well")
    os.kill(warden, signal.SIGSTOP)
    try:
        t.ok(caytest.until(lambda: s.get("/v1/health").json["warden"] == "hung", 30), "health says that it hangs")
        r = s.get("/v1/health")
        t.equal((r.status, r.json["status"], r.json["message"]), (503, "failing", "the warden does not answer"), "and that nothing runs", r)
    finally:
        os.kill(warden, signal.SIGCONT)
    t.ok(caytest.until(lambda: s.get("/v1/health").status == 200, 30), "and is well again when it is")


def test_hung_helpers(t, mode):
    """All that the front has started hangs: it answers, SIGHUP holds nobody up, and at the second SIGTERM it ends."""
    with Server(mode, tokens=TOKENS, env={"CAY_DRAIN": "600", "CAY_DOCKER_HOST": "unix:///nowhere/engine.sock"}) as s:
        s.execute({"language": "python", "code": "1"})
        r = s.execute({"command": ["true"], "backend": "docker"})
        t.equal((r.status, r.error.get("kind"), r.error.get("hint")), (503, "unsupported", "ask the operator of this server: its log says more"),
                "how to set a host up is not told to clients", r)
        t.ok(caytest.until(lambda: re.search(r"event=run .*hint=", s.words()), 20), "but to the log", s.words()[-500:])
        below = {s.pid}
        for _ in range(5):
            below |= {p.pid for p in caytest.descendants() if int(status_of(p.pid).get("PPid", 0)) in below}
        helpers = below - {s.pid}
        t.ok(len(helpers) >= 4, "there are a monitor, a warden, a recorder and what checks code", [words_of(p) for p in helpers])
        monitor = next(p for p in helpers if words_of(p)[1:2] == [b"serve"])
        s.execute({"command": ["sleep", "600"], "timeout": 600, "detach": True})
        for pid in helpers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        try:
            os.kill(s.pid, signal.SIGHUP)
            t.ok(s.get("/v1/health").json["version"], "health answers")
            t.ok(caytest.until(lambda: "event=reload-failed" in s.words(), 20), "what can't be read again is said", s.words()[-300:])
            t.equal(s.get("/v1/executions?limit=1").json["complete"], False, "and a list without the recorder says so")
            s.write_tokens(TOKENS + f"{NEWER} newer read\n")
            os.kill(s.pid, signal.SIGHUP)
            t.equal(s.get("/v1/languages").status, 200, "nor does a second SIGHUP hold anybody up")
            os.kill(monitor, signal.SIGCONT)
            t.ok(caytest.until(lambda: s.get("/v1/languages", token=NEWER).status == 200, 20), "whose answer counts whenever it comes", s.words()[-300:])
            os.kill(monitor, signal.SIGSTOP)
            os.kill(s.pid, signal.SIGTERM)
            t.ok(caytest.until(lambda: "event=draining" in s.words(), 20), "SIGTERM: it waits for what runs", s.words()[-300:])
            os.kill(s.pid, signal.SIGTERM)
            t.equal(s.wait(40), 0, "a second one, and it ends all the same", s.words()[-500:])
        finally:
            for pid in helpers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        t.ok(caytest.until(lambda: not any(status_of(pid) for pid in helpers), 30), "and so do they, when they can", [words_of(p) for p in helpers])


def test_floor(t, mode):
    """What the administrator has set a client can tighten over HTTP, and never loosen."""
    floor = {"CAY_MIN_ISOLATION": "kernel", "CAY_POLICY": "block", "CAY_FALLBACK": "never", "CAY_NETWORK": "none",
             "CAY_MEMORY": "128m", "CAY_PIDS": "40", "CAY_TIMEOUT": "20", "CAY_BACKEND": "native"}
    looser = ({"min_isolation": "none"}, {"policy": "warn"}, {"policy": "off"}, {"fallback": "isolated"}, {"network": "full"},
              {"limits": {"memory": "129m"}}, {"limits": {"pids": 41}}, {"timeout": 21}, {"backend": "docker"})
    tighter = ({}, {"min_isolation": "kernel"}, {"policy": "block"}, {"fallback": "never"}, {"network": "none"},
               {"limits": {"memory": "127m"}}, {"limits": {"pids": 39}}, {"timeout": 19}, {"backend": "native"})
    with Server(mode, tokens=TOKENS, env=floor) as s:
        for field in looser:
            r = s.execute({"command": ["true"], **field})
            t.ok(r.status == 403 and next(iter(field.get("limits", field))) in r.error.get("message", ""), f"{json.dumps(field)} is refused", r)
        for field in tighter:
            r = s.execute({"command": ["true"], **field})
            t.ok(r.status == 200 and r.json["success"], f"{json.dumps(field)} is not", r)


def test_few_files(t, mode):
    """Strangers who connect and say nothing, where there are not files for all that is allowed."""
    with Server(mode, env={"CAY_SPARES": "1", "CAY_SPARES_MAX": "1", "CAY_WARM": "command"}, under=("prlimit", "--nofile=256:256")) as s:
        t.ok("the hard limit of 256 open files allows 64 connections" in s.words(), "few files are said", s.words())
        metrics = [s.get("/metrics").body.decode()]
        t.ok(caytest.until(lambda: s.execute(bash("true")).json["meta"]["start"] == "spare", 60), "sandboxes come to be made ahead")
        metrics.append(s.get("/metrics").body.decode())
        t.equal(['cay_pool_wanted{language="bash",kind="spare"} 1' in m for m in metrics], [False, True],
                "the metrics of pools are those of now, not of when they were last asked for")
        crowd = [s.raw() for _ in range(100)]
        kept = s.metric("cay_connections") if s.get("/v1/health").status == 200 else 0
        t.ok(60 <= kept <= 64, "few connections are kept then, and silent ones go first", kept)
        r = s.execute({"command": ["/bin/echo", "hi"]}, over="unix", token=None)
        t.equal((r.status, (r.json or {}).get("stdout")), (200, "hi\n"), "the owner comes in all the same, and runs have what they need", r)
        for raw in crowd:
            raw.close()
    with Server(mode, under=("prlimit", "--nofile=1024:1024")) as s:
        waits = [{"language": "python", "code": "import time; time.sleep(0.3)"}, bash("sleep 0.3")]
        many = [r.json["verdict"]["cause"] for r in caytest.together([lambda i=i: s.execute(waits[i % 2]) for i in range(40)])]
        t.equal(many, ["ok"] * 40, "many runs at once have what they need")
        open_files = lambda: len(os.listdir(f"/proc/{the_warden()}/fd"))
        t.ok(caytest.until(lambda: open_files() < 512, 20), "what is made ahead and kept leaves room for the next", open_files())


def test_sockets(t, mode, s):
    """Places that are taken, and one that is not any more."""
    t.ok("1 of 6 tokens are short enough to be guessed" in s.words(), "a token that can be guessed is said")
    said = mode.cay("serve", "--listen", "127.0.0.1:0", "--socket", "none", env={"CAY_WEBHOOK_ALLOW": "a.example,10.0.0.0/8"}).err.decode()
    t.matches(said, r"webhook_allow: '10.0.0.0/8' is not HOST or HOST:PORT", "an entry of webhook_allow that can match nothing is said")
    said = mode.cay("serve", "--listen", f"127.0.0.1:{s.port}", "--socket", "none").err.decode()
    t.matches(said, r"listen on 127.*: Address already in use", "a port that is taken is said")
    said = mode.cay("serve", "--no-tcp", "--socket", s.socket).err.decode()
    t.matches(said, "server is running on", "and a socket that is")
    for args, words in ((("--listen", "nowhere"), "is not an address"), (("--tls-cert", "x"), "belong together"),
                        (("--no-tcp", "--listen", "127.0.0.1:0"), "mutually exclusive"),
                        (("--listen", "127.0.0.1:0", "--socket", "none", "--token-file", "/nowhere"), "/nowhere"),
                        (("--no-tcp", "--socket", "none"), "nothing to listen on")):
        done = mode.cay("serve", *args)
        t.ok(done.status != 0 and words in done.err.decode(), f"{' '.join(args)}: is refused", *done.describe())


def test_preload(t, mode):
    """A module that can't be loaded ahead is told of, once; others are not."""
    with Server(mode, env={"CAY_PRELOAD": "json,no_such_module,lib2to3.__main__,ruby:no/such", "CAY_WARM": "command", "CAY_SPARES": "0"}) as s:
        want = [("python", "no_such_module", "No module named"), ("python", "lib2to3.__main__", "usage"), ("ruby", "no/such", "cannot load such file")]
        told = lambda: re.findall(r"level=warn event=preload language=(\S+) module=(\S+) error=(.*)", s.words())
        t.ok(caytest.until(lambda: len(told()) == len(want), 60), "each module that can't be imported is told of", s.words()[-600:])
        t.equal([(language, module, part in error) for (language, module, error), (_, _, part) in zip(told(), want)],
                [(language, module, True) for language, module, _ in want], "with its language, and what the interpreter says", told())


def test_drain(t, mode):
    """From a stale socket to its end; with a token of the server's own making."""
    place = os.path.join(mode.cwd, "stale")
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(place)
    stale.close()
    if mode.uid is not None:
        os.chown(place, mode.uid, mode.uid)
    with Server(mode, "--listen", "127.0.0.1:0", "--socket", place) as s:
        named = re.search(r"token: in (\S+)\n", s.words())[1]
        with open(named, encoding="ascii") as file:
            token = file.read().strip()
        t.ok(len(token) == 43 and token not in s.words(), "a log is told where the token is, never the token", s.words())
        s.socket = place
        t.equal(s.get("/v1/languages", token=token).status, 200, "the token that was made is the token")
        slow = s.open("POST", "/v1/execute", bash("echo begun; sleep 1; echo done"), token=token,
                      headers={"Accept": "application/x-ndjson"})
        kept = s.connection()
        s.get("/v1/languages", token=token, connection=kept)
        while b"begun" not in slow[1].readline():
            continue
        s.proc.send_signal(signal.SIGTERM)
        t.ok(caytest.until(lambda: "draining" in s.words(), 20), "SIGTERM drains")
        try:
            socket.create_connection(("127.0.0.1", s.port)).close()
            refused = False
        except OSError:
            refused = True
        t.ok(refused, "nobody new is let in")
        last = json.loads(slow[1].read().splitlines()[-1])
        t.equal((last["event"], last["result"]["stdout"]), ("finished", "begun\ndone\n"), "what runs is answered", last)
        t.equal(s.wait(), 0, "then it ends", s.words()[-500:])
        t.ok(not os.path.exists(place), "its socket is gone")
    done = mode.cay("show", last["result"]["id"], "--stdout")
    t.equal(done.out, b"begun\ndone\n", "and the run is on record", *done.describe())
    with Server(mode, "--listen", "127.0.0.1:0", "--socket", "none") as s:
        t.equal(f"token: in {named}\n" in s.words() and s.get("/v1/languages", token=token).status, 200,
                "the next server keeps the token that was made")
    for is_new in (False, True):
        if is_new:
            os.unlink(named)
        with Screen(mode, "serve", "--listen", "127.0.0.1:0", "--socket", "none") as at:
            t.ok(at.wait_for(b"token: "), "a server at a terminal speaks of its token", at.seen)
            said = at.seen.split(b"\r\n", 1)[0]
            with open(named, encoding="ascii") as file:
                token = file.read().strip()
            want = f"{token} (shown once; kept in {named})" if is_new else f"in {named}"
            t.equal(said.decode(), want, f"which it shows {'when it has just made it' if is_new else 'no second time'}")
            at.wait_for(b"listening on")  # before it is there, the signal just ends it
            os.kill(at.pid, signal.SIGTERM)
            t.equal(at.wait(), 0, "and ends", at.seen[-300:])
    old = last["result"]["id"]
    with Server(mode, env={"CAY_DRAIN": "0.2"}) as s:
        t.equal(s.get(f"/v1/executions/{old}").status, 404, "the next server: another tenant's is not found there")
        t.equal(s.get(f"/v1/executions/{old}", over="unix", token=None).json, last["result"], "who may see it does")
        r = s.get(f"/v1/executions/{old}/events", over="unix", token=None, headers={"Last-Event-ID": "2"})
        t.ok(b'"gap":[3,3]' in r.body and b"id: 4\nevent: finished\n" in r.body and b"begun" in r.body, "of its events there is the last one", r)
        t.equal(s.get(f"/v1/executions/{old}/events", over="unix", token=None, headers={"Last-Event-ID": "4"}).status, 204, "and that once")
        t.equal(s.get(f"/v1/executions/{old}/stdout", over="unix", token=None).body, b"begun\ndone\n", "and its output")
        ids = [x["id"] for x in s.get("/v1/executions?limit=1000", over="unix", token=None).json["executions"]]
        t.ok(old in ids, "it is in the list", ids[:5])
        t.equal(s.ask("DELETE", f"/v1/executions/{old}", over="unix", token=None).status, 204, "it can be removed")
        t.equal(s.get(f"/v1/executions/{old}", over="unix", token=None).status, 404, "and is gone then")
        id = s.execute({**SLEEP, "detach": True}).json["id"]
        reader = s.open("GET", f"/v1/executions/{id}/events", headers={"Accept": "application/x-ndjson"})[1]
        body = json.dumps(bash("head -c 1m /dev/zero | tr '\\0' '\\1'; sleep 60", limits={"max_output": "1m"})).encode()
        large = s.raw(b"POST /v1/execute HTTP/1.1\r\n" + s.bearer() + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        t.ok(caytest.until(lambda: s.get("/metrics").body.count(b"cay_running 2"), 20), "one has much to say, and nobody reads it")
        s.proc.send_signal(signal.SIGTERM)
        t.ok(caytest.until(lambda: s.words().count("cause=cancelled") == 2, 20), "both are stopped", s.words()[-500:])
        rest = cayserve.read_all(large)
        t.equal(len(rest.partition(b"\r\n\r\n")[2]), int(re.search(rb"Content-Length: (\d+)", rest)[1]), "who waited has all of the result", len(rest))
        try:
            last = json.loads(reader.read().splitlines()[-1])
        except http.client.IncompleteRead:
            last = {}
        t.equal(last.get("event"), "finished", "and the stream of events its end", last)
        t.equal(s.wait(), 0, "what does not end in time is stopped", s.words()[-500:])
    cause = json.loads(mode.cay("show", id, "--json").out or b"{}").get("verdict", {}).get("cause")
    t.equal(cause, "cancelled", "and recorded so")


class Receiver(http.server.BaseHTTPRequestHandler):
    """Keeps what is posted to it."""

    def do_POST(self):
        self.server.got.append((self.headers, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def receiver():
    r = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
    r.got = []
    threading.Thread(target=r.serve_forever, daemon=True).start()
    return r


def test_webhooks(t, s, hook):
    r = s.execute({"command": ["/bin/echo", "hook"], "detach": True, "webhook": f"http://127.0.0.1:{hook.server_port}/x?y"})
    t.equal(r.status, 202, "a run with a webhook", r)
    t.ok(caytest.until(lambda: hook.got, 20), "its result is posted", s.words()[-500:])
    headers, body = hook.got[0] if hook.got else ({}, b"{}")
    t.equal((json.loads(body).get("stdout"), headers.get("X-Cay-Event"), headers.get("X-Cay-Delivery")),
            ("hook\n", "finished", r.json["id"]), "as it is")
    for url in ("http://127.0.0.1:1/", "http://169.254.169.254/latest/", "http://[::1]/", "ftp://x.example/", "nonsense"):
        r = s.execute({"command": ["/bin/true"], "webhook": url})
        t.ok(r.status in (400, 403), f"no webhook goes to {url}", r)


def test_own_address(t, mode):
    """On all addresses: the one that was connected to is a name of the server's, others are not."""
    with Server(mode, "--listen", "0.0.0.0:0", "--socket", "none") as s:
        port = int(re.search(r"listening on http://0\.0\.0\.0:(\d+)", s.words())[1])
        got = []
        for host in ("127.0.0.5", f"127.0.0.5:{port}", "127.0.0.6", "evil.example"):
            with socket.create_connection(("127.0.0.5", port), timeout=20) as raw:
                raw.sendall(f"GET /v1/health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                got += cayserve.statuses(cayserve.read_all(raw))
        t.equal(got, [200, 200, 403, 403], "its own address is a name of its own", s.words())


def test_tls(t, mode):
    """TLS on TCP, with certificates that are read again; big bodies both ways."""
    folder = mode.cwd
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    shutil.copy(cayserve.TLS / "cert.pem", cert)
    shutil.copy(cayserve.TLS / "key.pem", key)
    os.chmod(key, 0o600)
    place = os.path.join(folder, "tls")
    tokens = os.path.join(folder, "tls-tokens")
    with open(tokens, "w") as f:
        os.fchmod(f.fileno(), 0o600)
        f.write(TOKENS)
    with Server(mode, "--listen", "127.0.0.1:0", "--socket", place, "--token-file", tokens, "--tls-cert", cert, "--tls-key",
                key) as s:
        connection = s.connection("tls")
        text = "x" * 300000
        for i in range(2):
            r = s.execute({"language": "python", "code": "print(input())", "stdin": text, "limits": {"max_output": "1m"}},
                          connection=connection)
            t.ok(r.status == 200 and r.json["stdout"] == text + "\n", f"TLS: a large request, {i + 1}", r)
        connection.close()
        got = [s.get("/v1/languages", headers={"Origin": f"{x}://127.0.0.1:{s.port}"}, over="tls").status for x in ("https", "http")]
        t.equal(got, [200, 403], "TLS: a page of the same name without it is foreign")
        data = s.exchange(b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        t.ok(cayserve.statuses(data) == [400] and b"https://" in data, "TLS: plain HTTP is told that it is", data)
        raw = s.connection("tls")
        raw.connect()
        raw.sock.suppress_ragged_eofs = False  # an end without a word from TLS is an error then
        raw.sock.sendall(b"GET /v1/health HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
        t.ok(b'"ok"' in cayserve.read_all(raw.sock), "TLS: an end is told from a cut")
        raw.close()
        s.proc.send_signal(signal.SIGHUP)
        t.ok(caytest.until(lambda: "certificate-reloaded" in s.words(), 20), "TLS: SIGHUP reads the certificate again")
        t.equal(s.get("/v1/languages", over="tls").status, 200, "TLS: which is as good as before")
        with open(cert, "w") as f:
            f.write("nonsense")
        s.proc.send_signal(signal.SIGHUP)
        t.ok(caytest.until(lambda: "reload-failed" in s.words(), 20), "TLS: one that is none is said")
        t.equal(s.get("/v1/languages", over="tls").status, 200, "TLS: and the old one stays")
    done = mode.cay("serve", "--listen", "127.0.0.1:0", "--socket", "none", "--tls-cert", cert, "--tls-key", key)
    t.ok(done.status != 0 and b"certificate" in done.err, "TLS: at the start it is an error", *done.describe())


def test(t, mode):
    if not mode.has_cgroup:
        t.skip("the server", "it needs a cgroup, and none is delegated to this user")
        return
    hook = receiver()
    with Server(mode, tokens=TOKENS, env={"CAY_MAX_BODY": "256k", "CAY_DRAIN": "5", "CAY_EVENT_LOG": "32m",
                                          "CAY_WEBHOOK_ALLOW": f"127.0.0.1:{hook.server_port}"}) as s:
        test_results(t, s)
        test_streams(t, s)
        test_policy(t, s)
        test_confined(t, s, mode)
        test_check(t, s)
        test_check_shares(t, s)
        if not mode.is_root:
            return
        test_whole_output(t, s)
        test_resume(t, s)
        test_cancel(t, s)
        test_alias(t, s)
        test_leaving(t, s)
        test_errors(t, s)
        test_connections(t, s)
        test_tenants(t, s)
        s.write_tokens(TOKENS)
        test_information(t, s)
        test_webhooks(t, s, hook)
        test_memory_metrics(t, s)
        test_compiler_time(t, s)
        test_unrecorded(t, s)
        test_lost_warden(t, s)
        test_lost_recorder(t, s)
        test_sockets(t, mode, s)
    with Server(mode, tokens=TOKENS, env={"CAY_MAX_RUNNING": "2", "CAY_MAX_QUEUE": "1", "CAY_DRAIN": "0.2", "CAY_EVENT_LOG": "64k"}) as s:
        test_queue(t, s)
        test_forgotten(t, s)
    with Server(mode, tokens=TOKENS, env={"CAY_MAX_RUNNING": "8", "CAY_MAX_QUEUE": "100", "CAY_DRAIN": "0.2",
                                          "CAY_EVENT_LOG": "4k"}) as s:
        test_pages(t, s)
    test_lost_front(t, mode)
    test_hung_helpers(t, mode)
    test_floor(t, mode)
    test_few_files(t, mode)
    test_command(t, mode)
    test_preload(t, mode)
    test_drain(t, mode)
    test_own_address(t, mode)
    test_tls(t, mode)


caytest.main(test, modes=("root", "deleg"))

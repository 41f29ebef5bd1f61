#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P16: the server. No parsing of a body before 401; Host and Origin checked; sizes, counts and times of everything bounded;
the token never in argv, logs or a sandbox's environment; framing that two readers could see differently is refused."""
import contextlib
import fcntl
import http.client
import json
import os
import secrets
import socket
import sys
import termios
import time
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest
from cayserve import ALL, TOKEN, Server, read_all, read_answer, statuses

OTHER = "another-token-0123456789abcdef"
LIMITS = {
    "CAY_MAX_BODY": "256k", "CAY_MAX_BODIES": "1m", "CAY_MAX_CONNECTIONS": "24", "CAY_HEAD_TIMEOUT": "0.4",
    "CAY_IDLE_TIMEOUT": "3", "CAY_WRITE_TIMEOUT": "0.5", "CAY_DRAIN": "1", "CAY_LOG_LEVEL": "debug",
}
TOOLS = Path(os.environ.get("CAY_BUILD") or caytest.CAY.parent) / "tests"
APART = TOOLS / "apart"
LARGE = {"command": ["/bin/true"], "stdin": "x" * 200000}
TRUE = json.dumps({"command": ["/bin/true"]}).encode()


def post(s, *fields, body=TRUE, token=TOKEN, length=True):
    head = b"POST /v1/execute HTTP/1.1\r\n" + (s.bearer(token) if token else b"Host: 127.0.0.1\r\n")
    head += b"Content-Type: application/json\r\n" + b"".join(f + b"\r\n" for f in fields)
    return head + (b"Content-Length: %d\r\n" % len(body) if length else b"") + b"\r\n" + body


def runs(s):
    text = s.get("/metrics").body.decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("cay_runs_total"))


def is_alive(s):
    return s.execute({"command": ["/bin/true"]}).status == 200


def test_token(t, s):
    big = b"POST /v1/execute HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 200000\r\n"
    for name, more in (("without a token", b""), ("with a wrong one", b"Authorization: Bearer " + b"x" * 30 + b"\r\n"),
                       ("with half of it", f"Authorization: Bearer {TOKEN[:-1]}\r\n".encode()),
                       ("with more than it", f"Authorization: Bearer {TOKEN}x\r\n".encode()),
                       ("with another scheme", f"Authorization: Basic {TOKEN}\r\n".encode())):
        data = s.exchange(big + more + b"\r\n")  # not one byte of the body is sent
        t.equal(statuses(data), [401], f"{name}: 401 before the body", data)
    data = s.exchange(post(s, body=b"{" * 1000, token=None))
    t.equal(statuses(data), [401], "nor is a body parsed that is there", data)
    paths = ("/", "/v1", "/v1/execute", "/v1/executions", "/v1/executions/" + "0" * 32, "/v1/languages", "/metrics",
             "/v1/sessions", "/mcp", "/nothing", "/v1/health/", "/openapi.json/x", "//v1/health")
    open_ones = [p for p in paths if s.get(p, token=None).status != 401]
    t.empty(open_ones, "everything else needs one")
    t.equal([s.get(p, token=None).status for p in ("/v1/health", "/openapi.json")], [200, 200], "health and openapi do not")
    for where in (f"/v1/languages?token={TOKEN}", f"/v1/languages?access_token={TOKEN}"):
        t.equal(s.get(where, token=None).status, 401, "a token in the path is none")


def test_names(t, s):
    for host in ("evil.example", f"evil.example:{s.port}", "127.0.0.1.evil.example", "localhost.evil.example", "0.0.0.0",
                 "127.0.0.2", "[::2]", "localhost@evil.example", ""):
        data = s.exchange(f"GET /v1/languages HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
                          .encode())
        t.ok(statuses(data) in ([403], [400]), f"Host {host!r} is refused", data)
    t.ok(statuses(s.exchange(f"GET /v1/languages HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())) in ([403], [400]),
         "no Host is refused")
    for origin in ("http://evil.example", "null", f"http://127.0.0.1.evil.example:{s.port}", "https://localhost:1",
                   f"http://localhost:{s.port + 1}"):
        got = [s.ask("POST", "/v1/execute", {"command": ["/bin/true"]}, headers={"Origin": origin}, over=over).status
               for over in ("tcp", "unix")]
        t.equal(got, [403, 403], f"Origin {origin} is refused", got)
    r = s.ask("OPTIONS", "/v1/execute", headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"})
    t.ok(r.status >= 400 and not any(k.startswith("access-control") for k in r.headers), "no page is let in by CORS", r)
    own = f"http://127.0.0.1:{s.port}"
    t.equal(s.get("/v1/languages", headers={"Origin": own}).status, 200, "its own origin is fine")
    t.equal(s.get("/v1/languages", headers={"Origin": own.replace("http", "https")}).status, 403, "that of another scheme is not")


SMUGGLED = b"GET /v1/languages HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def test_smuggling(t, s):
    n = len(TRUE)
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (n, TRUE)
    rows = (
        ("length and chunked", (b"Transfer-Encoding: chunked",), chunked, True),
        ("two lengths", (b"Content-Length: 0",), TRUE, True),
        ("the same length twice", (b"Content-Length: %d" % n,), TRUE, True),
        ("a list of lengths", (b"Content-Length: %d, %d" % (n, n),), TRUE, False),
        ("a signed length", (b"Content-Length: +%d" % n,), TRUE, False),
        ("a negative length", (b"Content-Length: -1",), TRUE, False),
        ("a hexadecimal length", (b"Content-Length: 0x1a",), TRUE, False),
        ("a length with a blank", (b"Content-Length: 1 0",), TRUE, False),
        ("a blank before the colon", (b"Content-Length : %d" % n,), TRUE, False),
        ("an unknown coding", (b"Transfer-Encoding: gzip, chunked",), chunked, False),
        ("chunked in disguise", (b"Transfer-Encoding: xchunked",), chunked, False),
        ("chunked twice", (b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), chunked, False),
        ("chunked with a tab", (b"Transfer-Encoding:\tchunked\x0b",), chunked, False),
        ("a folded line", (b"X: 1\r\n Content-Length: 0",), TRUE, True),
        ("a bare CR", (b"X: 1\rContent-Length: 0",), TRUE, True),
        ("a bare LF", (b"X: 1\nContent-Length: 0",), TRUE, True),
        ("a NUL", (b"X: \0",), TRUE, True),
        ("a second Host", (b"Host: 127.0.0.1",), TRUE, True),
        ("a chunk that is longer than it says", (b"Transfer-Encoding: chunked",), b"1\r\n" + TRUE + b"\r\n0\r\n\r\n", False),
        ("a chunk of an absurd size", (b"Transfer-Encoding: chunked",), b"fffffffffffffffff\r\n", False),
        ("a signed chunk", (b"Transfer-Encoding: chunked",), b"+1\r\n{\r\n0\r\n\r\n", False),
    )
    before = runs(s)
    for name, fields, body, has_length in rows:
        data = s.exchange(post(s, *fields, body=body, length=False).replace(
            b"\r\n\r\n", b"\r\nContent-Length: %d\r\n\r\n" % n, 1) + SMUGGLED if has_length
            else post(s, *fields, body=body, length=False) + SMUGGLED)
        got = statuses(data)
        t.ok(len(got) == 1 and got[0] in (400, 413, 431, 501), f"{name}: refused, and nothing behind it is read", data)
    t.equal(runs(s), before, "nothing of it has run")
    for line in (b"GET  /v1/languages HTTP/1.1", b"GET /v1/languages HTTP/2.0", b"GET /v1/languages", b"GET\t/v1/languages HTTP/1.1",
                 b"GET /v1/lang\0uages HTTP/1.1", b"CONNECT 127.0.0.1:22 HTTP/1.1", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"):
        got = statuses(s.exchange(line + b"\r\n" + s.bearer() + b"\r\n"))
        t.ok(len(got) == 1 and got[0] >= 400, f"a request line of {line[:30]!r} is refused", got)


def test_sizes(t, s):
    rows = (
        ("a long head", b"GET /v1/languages HTTP/1.1\r\nX: " + b"x" * 20000 + b"\r\n\r\n", (431, 400)),
        ("many headers", b"GET /v1/languages HTTP/1.1\r\n" + b"X: 1\r\n" * 200 + b"\r\n", (431,)),
        ("a long path", b"GET /" + b"x" * 12000 + b" HTTP/1.1\r\n\r\n", (414, 431)),
        ("a body past the limit", post(s, b"Content-Length: 300000", body=b"", length=False), (413,)),
        ("a body of an absurd size", post(s, b"Content-Length: 999999999999999", body=b"", length=False), (413,)),
        ("a chunked one past it", post(s, b"Transfer-Encoding: chunked", length=False,
                                       body=b"10000\r\n" + b"x" * 65536 + b"\r\n" + b"40000\r\n"), (413,)),
    )
    for name, data, want in rows:
        got = s.exchange(data)
        t.ok(len(statuses(got)) == 1 and statuses(got)[0] in want, f"{name}: {want[0]}", got)
    # Eight that promise twice of what may be held at all, and send next to nothing.
    held = [s.raw(post(s, b"Content-Length: 262144", body=b"{", length=False)) for _ in range(8)]
    t.equal([s.ask("POST", "/v1/execute", LARGE, token=token).status for token in (TOKEN, OTHER)], [200, 200], "promises take no room")
    for raw in held:
        raw.close()
    # Two that send a quarter each but for a byte, then a third.
    held = [s.raw(post(s, b"Content-Length: 262144", body=b"{" * 262143, length=False)) for _ in range(2)]
    # Asked by a promise, which takes none of it; a run would, for its output.
    promise = post(s, b"Content-Length: 262144", body=b"", length=False)
    t.ok(caytest.until(lambda: statuses(s.exchange(promise)) == [503], 20), "what a tenant sends is bounded by half")
    t.ok(not is_alive(s), "and a run has no room either")
    data = s.exchange(promise)
    t.equal(statuses(data), [503], "of which is told before it is sent", data)
    data = s.exchange(post(s, b"Transfer-Encoding: chunked", body=b"20\r\n" + b" " * 32 + b"\r\n", length=False))
    t.equal(statuses(data), [503], "chunked or not", data)
    r = s.ask("POST", "/v1/execute", LARGE, token=OTHER)
    t.equal(r.status, 200, "another finds room all the same", r)
    for raw in held:
        raw.close()
    t.ok(caytest.until(lambda: is_alive(s), 10), "and all is given back")


BODIES = (
    b"", b"null", b"[]", b"1", b'"x"', b"{", b"{}x", b"{\"a\":1,\"a\":2}", b"[" * 100000, b"{\"a\":" * 20000, b"\xff\xfe{}",
    b'{"code":"\xff"}', b'{"code":"\\ud800"}', b'{"language":"python","code":null}', b'{"command":"true"}', b'{"command":[]}',
    b'{"command":[1]}', b'{"command":["true"],"timeout":1e999}', b'{"command":["true"],"timeout":NaN}',
    b'{"command":["true"],"timeout":"1\\u0000"}', b'{"command":["true"],"env":{"A=B":"1"}}',
    b'{"command":["true"],"env":{"A":"\\u0000"}}', b'{"command":["true"],"files":{"../x":"1"}}',
    b'{"command":["true"],"files":{"/etc/x":"1"}}', b'{"command":["true"],"files":{"a\\u0000b":"1"}}',
    b'{"command":["true"],"files":{"a":{"base64":"!"}}}', b'{"command":["true"],"limits":{"memory":-1}}',
    b'{"command":["true"],"limits":{"memory":"99999999999999999999g"}}', b'{"command":["true"],"detach":"maybe"}',
    b'{"language":"../../etc/passwd","code":"1"}', b'{"command":["true"],"profile":"\\u001b[31m"}',
)


def test_bodies(t, s):
    before = runs(s)
    wrong = []
    for body in BODIES:
        r = s.ask("POST", "/v1/execute", body, headers={"Content-Type": "application/json"})
        if not 400 <= r.status < 500 or not r.error.get("message") or any(c < " " for c in r.error["message"]):
            wrong.append((body[:60], r))
    t.empty(wrong, "what is no request is a clear error")
    t.equal(runs(s), before, "and runs nothing")
    t.ok(is_alive(s), "the server is well")


def test_paths(t, s):
    id = s.execute({"command": ["/bin/true"]}).json["id"]
    tricks = ("/v1/../v1/languages", "/v1/./languages", "//v1/languages", "/v1//languages", "/v1/languages/", "/v1/%6canguages",
              "/V1/LANGUAGES", "/v1/languages%00", "/v1%2flanguages", f"/v1/executions/../executions/{id}",
              "/v1/executions/..%2f..%2ftoken", "/v1/executions/last", f"/v1/executions/{id[:8]}", f"/v1/executions/{id.upper()}",
              f"/v1/executions/{id}/../{id}", f"/v1/executions/{id}/changes", "/v1/executions/%2e%2e/stdout",
              f"/v1/executions/{'a' * 5000}", "/v1/executions/*/events", "/proc/self/environ", "/../../etc/passwd")
    found = [p for p in tricks if s.get(p).status not in (400, 404) and not (p == f"/v1/executions/{id.upper()}" and id.isdigit())]
    t.empty(found, "no path leads where it should not")


def test_ids(t, s):
    id = s.execute({"command": ["/bin/true"]}).json["id"]
    t.equal((len(id), len(set(s.execute({"command": ["/bin/true"]}).json["id"][:8] for _ in range(3)))), (32, 3), "ids are random")
    nobodys = secrets.token_hex(16)
    for method, tail in (("GET", ""), ("GET", "/events"), ("GET", "/stdout"), ("DELETE", "")):
        foreign, unknown = [s.ask(method, f"/v1/executions/{x}{tail}", token=OTHER) for x in (id, nobodys)]
        t.equal((foreign.status, foreign.body), (404, unknown.body), f"{method} {tail or '/'}: another's is as one that never was")
    t.equal(s.get(f"/v1/executions/{id}").status, 200, "and is still there")


def test_secrets(t, s):
    r = s.execute({"language": "bash", "code": "env; tr '\\0' '\\n' < /proc/self/environ; cat /proc/*/cmdline"})
    t.ok(r.status == 200 and TOKEN not in r.body.decode() and "CAY_" not in r.json["stdout"], "a program sees no token", r)
    s.get("/v1/languages", headers={"X-Other": TOKEN, "Referer": f"http://x/?token={TOKEN}"})
    s.get(f"/nothing/{TOKEN}?token={TOKEN}")
    s.get("/v1/languages", token=TOKEN + "x")
    s.get("/v1/\x1b[31m".replace("\x1b", "%1b"))
    s.exchange(b"GET /v1/lang\x1b[31muages HTTP/1.1\r\n" + s.bearer() + b"\r\n")
    log = s.words()
    t.ok("request" in log and TOKEN not in log and OTHER not in log, "no token is in the log")
    t.ok(not any(c < " " and c != "\n" for c in log), "and no control character")
    lines = []
    for p in caytest.descendants():
        for name in ("cmdline", "environ"):
            try:
                with open(f"/proc/{p.pid}/{name}", "rb") as f:
                    lines.append(f.read())
            except OSError:
                continue
    t.ok(lines and not any(TOKEN.encode() in x for x in lines), "nor in any process's argv or environment")


def test_slow(t, s):
    start = time.monotonic()
    half = [s.raw(b"GET /v1/languages HTTP/1.1\r\nHost: 127.0.0.1\r\nX") for _ in range(8)]
    drip = s.raw(b"GET /v1/lang")
    got = []
    for raw in half:
        got.append(statuses(read_all(raw)))
        raw.close()
    t.ok(all(g in ([408], []) for g in got), "half a head does not hold a connection", got)
    try:
        for _ in range(200):
            drip.sendall(b"x")
            drip.settimeout(0.05)
            try:
                if drip.recv(1000):
                    break
            except socket.timeout:
                continue
        ended = True
    except OSError:
        ended = True
    t.ok(ended and time.monotonic() - start < 20, "nor does one that drips in")
    drip.close()
    with s.raw() as idle:
        t.equal(read_all(idle), b"", "an idle connection is closed")
    with s.raw(post(s, b"Content-Length: 1000", body=b"{", length=False)) as raw:
        t.equal(statuses(read_all(raw)), [408], "half a body does not hold one either")


def test_crowd(t, s):
    t.ok(caytest.until(lambda: s.metric("cay_connections") == 1, 20), "those who left are gone")
    crowd = [s.raw() for _ in range(72)]
    data = s.exchange(b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    t.equal(statuses(data), [200], "those who say nothing shut nobody out", data)
    with s.raw(b"GET /v1/languages HTTP/1.1\r\n" + s.bearer() + b"\r\n") as known:
        first = read_answer(known)[0]
        crowd += [s.raw() for _ in range(48)]
        known.sendall(b"GET /v1/languages HTTP/1.1\r\n" + s.bearer() + b"\r\n")
        t.equal((first, read_answer(known)[0]), (200, 200), "nor do they take the place of one that has shown a token")
    for raw in crowd:
        raw.close()
    t.ok(caytest.until(lambda: s.metric("cay_connections") == 1, 20), "and they are gone")
    crowd = []
    for _ in range(100):  # the one that asked for the metrics may still be in the place of one of them
        raw = s.raw(b"GET /v1/languages HTTP/1.1\r\n" + s.bearer() + b"\r\n")
        with contextlib.suppress(OSError, http.client.HTTPException):
            if read_answer(raw)[0] == 200:
                crowd.append(raw)
        if len(crowd) == 24:
            break
        if raw not in crowd:
            raw.close()
    data = s.exchange(b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    t.equal(statuses(data), [503], "past the number of connections: 503", data)
    for raw in crowd:
        raw.close()
    t.ok(caytest.until(lambda: s.get("/v1/health").status == 200, 10), "and then it goes on")


def test_unread(t, s):
    """Those without a token who ask for what is open to all, again and again, and never read an answer."""
    wants = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1000
    crowd = [s.raw() for _ in range(24)]
    for raw in crowd:
        raw.setblocking(False)
        raw.send(wants)
    seen = []

    def is_full():
        seen.append([fcntl.ioctl(raw, termios.FIONREAD, b"\0" * 4) for raw in crowd])
        return b"\0" * 4 not in seen[-1] and len(seen) > 5 and all(x == seen[-1] for x in seen[-5:])

    t.ok(caytest.until(is_full, 30), "they have answers and read none")
    got = [s.get("/v1/languages").status for _ in range(4)]
    t.equal(got, [200] * 4, "they shut nobody out who has a token", got)
    for raw in crowd:
        raw.close()


def test_large(t, s):
    """A large request of one tenant is hashed in pieces: between the end of its program and its answer others are answered."""
    body = json.dumps({"command": ["/bin/true"], "stdin": "x" * (30 << 20)}).encode()
    been_served = 0
    for _ in range(10):  # it may be over before we come to look
        with s.raw(post(s, b"Accept: application/x-ndjson", body=body), timeout=60) as raw:
            got = b""
            while b'"event":"usage"' not in got and (piece := raw.recv(65536)):
                got += piece
            other = s.get("/v1/languages", token=OTHER).status
            raw.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                got += raw.recv(65536)
            been_served += other == 200 and b'"event":"finished"' not in got
            raw.setblocking(True)
            while b'"event":"finished"' not in got and (piece := raw.recv(65536)):
                got += piece
        if been_served:
            break
    t.ok(been_served, "another tenant is served while a large request is worked on", got[-300:])


def resident(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_slow_readers(t, s):
    """Streams of 48 MiB that nobody reads: memory stays what it was, and they end."""
    body = json.dumps({"language": "python", "code": "for i in range(768): print('x' * 65535)", "timeout": 20}).encode()
    before = resident(s.pid)
    raws = [s.raw(post(s, b"Accept: text/event-stream", body=body)) for _ in range(4)]
    most = before

    def step():
        nonlocal most
        most = max(most, resident(s.pid))
        return s.words().count("cancelled") >= 4 or s.get("/v1/health").json["running"] == 0

    t.ok(caytest.until(step, 40), "readers that do not read are let go")
    bound = 400 if caytest.SANITIZED else 80  # a sanitizer keeps what was freed, 256 MiB of it
    t.ok(most - before < bound * caytest.MIB, "the server's memory is bounded meanwhile", (most - before) / caytest.MIB)
    for raw in raws:
        raw.close()
    ahead = s.raw(b"GET /v1/languages HTTP/1.1\r\n" + s.bearer() + b"\r\n")
    ahead.settimeout(0.2)
    sent = 0
    try:
        while sent < 64 * caytest.MIB:
            sent += ahead.send((b"GET /v1/languages HTTP/1.1\r\n" + s.bearer() + b"\r\n") * 100)
    except OSError:
        pass
    t.ok(sent < 64 * caytest.MIB, "one that asks and asks and never reads is held back", sent)
    ahead.close()


def open_fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_neighbours(t, s):
    """Another user of the host can't use the unix socket."""
    uid = 46999
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        try:
            socket.socket(socket.AF_UNIX).connect(s.socket)
            os._exit(0)
        except PermissionError:
            os._exit(7)
    t.equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 7, "another user can't connect to the unix socket")


def uid_of(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(f.read().split("\nUid:")[1].split()[0])


def words_of(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as f:
        return f.read().split(b"\0")


def family(pid):
    """The processes below this one, each with its user and its words."""
    parents, found = {}, {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as f:
                parents[entry] = f.read().rsplit(")", 1)[1].split()[1]
            found[entry] = uid_of(entry), words_of(entry)
        except OSError:
            continue  # it is gone
    below = {str(pid)}
    while more := {p for p in parents if parents[p] in below} - below:
        below |= more
    return [found[p] for p in sorted(below - {str(pid)}) if p in found]


def test_front(t, mode, s):
    """Who takes the front over is nobody, and has nobody who does for him what he may not."""
    own, others = uid_of(s.pid), family(s.pid)
    t.ok(own != 0 and len(others) > 3, "the front is not root, and has helpers", own, others)
    t.empty([row for row in others if row[0] == own], "none is of its user: it can't look into their memory")
    t.equal(os.stat(f"/proc/{s.pid}/mem").st_uid, 0, "nor can they into its own: it is not dumpable")
    wardens = [words[1:3] for _, words in others if b"warden" in words]
    t.ok(wardens and all(w == [b"warden", b"apart"] for w in wardens), "its warden knows that it is apart", wardens)
    folder = caytest.workdir() / "roots"
    folder.mkdir()
    (folder / "secret").write_text("secret")
    (folder / "secret").chmod(0o600)
    folder.chmod(0o755)
    requests = ({"command": ["id"], "backend": "process", "min_isolation": "none", "policy": "off"},
                {"command": ["cat", "secret"], "workspace": str(folder)},
                {"command": ["sh", "-c", f"cat {folder}/*"], "ro": [str(folder)]},
                {"command": ["echo", "fine"]})
    done = caytest.run([APART, mode.binary, str(own), *map(json.dumps, requests)],
                       env={**mode.env, "HOME": "/nonexistent"})
    lines = done.out.decode().splitlines()
    t.equal([line.split(":")[0] for line in lines[:3]], ["refused"] * 3, "no run without isolation, no folder", done.describe())
    t.ok(len(lines) == 4 and json.loads(lines[3])["stdout"] == "fine\n", "a sandbox it gets", done.describe())


def warden_of(pid):
    return next(int(p) for p in filter(str.isdigit, os.listdir("/proc"))
                if (words := words_or_none(p)) and words[1:3] == [b"warden", b"apart"] and parent_of(parent_of(p)) == str(pid))


def words_or_none(pid):
    try:
        return words_of(pid)
    except OSError:
        return None


def parent_of(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[1]


def test_taken_over(t, mode, s):
    """Whoever has taken the front over makes its system calls: he finds nothing but what the front needs."""
    state = Path("/var/lib/cay") if mode.is_root else mode.home / ".local/state/cay"
    listens = next(Path("/run/cay" if mode.is_root else f"/tmp/cay-{mode.uid}").glob("warden-*"))
    secret = mode.cwd / "secret"
    secret.write_text("secret")
    secret.chmod(0o666)
    journal = next(x for x in Path(f"/proc/{s.pid}/fd").iterdir() if "/journal/" in os.readlink(x) and "/log-" not in os.readlink(x))
    journal = Path("/proc/self/fd") / journal.name
    mode.json("exec", "--", "true")  # is recorded, for the user himself
    warden = str(warden_of(s.pid))
    attacks = (
        ("connect", str(listens), "EAFNOSUPPORT", "connects to the warden"),
        ("connect", s.socket, "EAFNOSUPPORT", "connects to any unix socket"),
        ("datagrams", "-", "EPERM", "makes one that could"),
        ("signal", warden, "EPERM", "signals the warden"),
        ("own", warden, "EPERM", "has the kernel do it"),
        ("exec", "/usr/bin/id", "EPERM", "runs a program"),
        ("read", str(secret), "EACCES", "reads a file"),
        ("make", str(mode.cwd / "made"), "EACCES", "makes a file"),
        ("list", str(mode.home), "EACCES", "lists a folder"),
        ("read", "/etc/passwd", "EACCES", "reads what everybody can"),
        ("list", "/proc", "EACCES", "looks for processes"),
        ("list", str(state), "EACCES", "lists the state folder"),
        ("read", str(state / "audit.jsonl"), "EACCES", "reads the audit log"),
        ("list", str(state / "executions"), "EACCES", "lists what was recorded"),
        ("make", str(state / "compiled"), "EACCES", "makes compiled programs of others"),
    )
    needed = (
        ("signal", "self", "done", "its own end"),
        ("list", str(journal), "done", "its journal"),
        ("make", str(journal / "more"), "done", "more in it"),
        ("read", "/usr/bin/env", "done", "the system's libraries"),
    )
    rows = [*attacks, *needed]
    done = caytest.run([TOOLS / "takeover", str(s.pid), *(word for row in rows for word in row[:2])])
    if done.status == 77:
        t.skip("a front that was taken over", "there is nothing to take it over with on this machine")
        return
    lines = done.out.decode().splitlines()
    t.equal(len(lines), len(rows), "the front was taken over", done.describe())
    for (attack, arg, want, words), got in zip(rows, lines):
        t.equal(got, want, f"who has taken the front over {'has' if want == 'done' else 'never'} {words}", attack, arg)
    requests = ({"command": ["id"], "backend": "process", "min_isolation": "none", "policy": "off"},
                {"command": ["true"], "ro": [str(mode.cwd)]},
                {"command": ["echo", "fine"]})
    done = caytest.run([APART, f"@{listens}", str(mode.host_uid), *map(json.dumps, requests)], env=mode.env)
    lines = done.out.decode().splitlines()
    t.equal([line.split(":")[0] for line in lines[:2]], ["refused"] * 2,
            "who connects to its warden gets no run without isolation, and no folder", done.describe())
    t.ok(len(lines) == 3 and json.loads(lines[2])["stdout"] == "fine\n", "a sandbox he gets", done.describe())
    # A front that was taken over does not count, and neither does who connects (here, to a server for one run at once).
    wheres = {"front": mode.binary} if mode.is_root else {"front": mode.binary, "client": f"@{listens}"}
    for label, where in wheres.items():
        many = '24*{"command": ["sleep", "2"], "limits": {"memory": "32m"}}'
        done = caytest.run([APART, where, str(mode.host_uid), many], env={**mode.env, "CAY_MAX_RUNNING": "1"}, user=mode.uid)
        t.matches(done.out.decode(), "^18 ran, .*18 runs at once is the maximum", f"no more runs at once for a {label} than there can be", done.describe())
    # Who may have them makes a warden of his own for these.
    for flags in (("--backend", "process", "--min-isolation", "none"), ("--ro", str(mode.cwd)), ("--workspace", str(mode.cwd))):
        r = mode.json("exec", *flags, "--", "echo", "fine", env={"CAY_SERVER": "true", "SECURITY_ENABLE_SANDBOX": "false"})
        t.equal(r.get("stdout"), "fine\n", f"cay exec {flags[0]} works beside a server", *r.describe())
    t.ok(is_alive(s), "the front goes on as if nothing had happened")


def test(t, mode):
    if not mode.has_cgroup:
        t.skip("the server", "it needs a cgroup, and none is delegated to this user")
        return
    tokens = f"{TOKEN} main {ALL}\n{OTHER} other\n"
    if not mode.is_root:
        with Server(mode, tokens=tokens, env={**LIMITS, "CAY_MAX_RUNNING": "1"}) as s:
            test_taken_over(t, mode, s)
        return
    with Server(mode, tokens=tokens, env={**LIMITS, "CAY_WRITE_TIMEOUT": "120", "CAY_MAX_BODY": "32m", "CAY_MAX_BODIES": "128m"}) as s:
        test_unread(t, s)
        test_large(t, s)
    with Server(mode, tokens=tokens, env=LIMITS) as s:
        t.ok(is_alive(s), "a run over HTTP")
        fds = open_fds(s.pid)
        for part in (test_token, test_names, test_smuggling, test_sizes, test_bodies, test_paths, test_ids, test_secrets,
                     test_slow, test_crowd, test_slow_readers):
            part(t, s)
        if os.getuid() == 0:
            test_neighbours(t, s)
            test_front(t, mode, s)
            test_taken_over(t, mode, s)
        t.ok(is_alive(s), "after all that, it runs as before")
        # Two pipes are made ahead of the next run, and may not have been there yet.
        t.ok(caytest.until(lambda: open_fds(s.pid) <= fds + 6, 10), "and holds no more files", fds, open_fds(s.pid))


caytest.main(test, modes=("root", "deleg"))

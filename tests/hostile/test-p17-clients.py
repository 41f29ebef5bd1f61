#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P17: whatever clients send, leave unread or break off, the server lives, its memory is bounded and others are answered.

Random clients over TCP, TLS and the unix socket: pipelined, cut into pieces, half-closed, aborted, slow, silent; what they
send is valid, nearly valid or noise. Their number and seed give each one's doings, so that a failure can be tried again:

    tests/hostile/test-p17-clients.py --seconds 600 --seed 4711
"""
import contextlib
import http.client
import json
import os
import shutil
import socket
import ssl
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import cayfuzz
import caytest
from cayserve import ALL, TLS, TOKEN, Server, read_all, statuses

HOSTILE = "hostile-token-0123456789abcdef"
TOKENS = f"{TOKEN} main {ALL}\n{HOSTILE} hostile {ALL}\n"
# Those who behave have to be done with their handshake and head by then, beside all the others and on a busy machine.
HEAD = "8" if caytest.SANITIZED else "3"
LIMITS = {"CAY_HEAD_TIMEOUT": HEAD, "CAY_IDLE_TIMEOUT": "2", "CAY_WRITE_TIMEOUT": "1", "CAY_MAX_BODY": "1m", "CAY_DRAIN": "2",
          "CAY_LOG_LEVEL": "warn", "CAY_MAX_QUEUE": "64"}


# ---- what a client sends ----

def head(r, method, path, *fields, token=None):
    lines = [f"{method} {path} HTTP/1.{1 if r.random() < 0.9 else 0}", "Host: 127.0.0.1"]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    lines += fields
    if r.random() < 0.15:
        lines.append("Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def body_of(r):
    kind = r.randrange(6)
    if kind == 0:
        return {"command": ["/bin/true"]}
    if kind == 1:
        return {"command": ["/bin/sh", "-c", f"head -c {r.randrange(300000)} /dev/zero"], "timeout": 2}
    if kind == 2:
        return {"command": ["/bin/true"], "detach": True}
    if kind == 3:
        return {"command": ["/bin/true"], "stdin": "x" * r.randrange(200000)}
    if kind == 4:
        return {"command": ["/bin/true"], "timeout": r.choice(["x", -1, None, 1e99])}
    return {"command": ["/bin/sleep", "0.2"], "timeout": 2}


def execute(r, token):
    body = json.dumps(body_of(r)).encode()
    fields = ["Content-Type: application/json"]
    if r.random() < 0.4:
        fields.append("Accept: " + r.choice(["text/event-stream", "application/x-ndjson", "text/plain", "application/json"]))
    if r.random() < 0.1:
        fields.append("Expect: 100-continue")
    if r.random() < 0.3:
        at = r.randrange(len(body))
        pieces = [p for p in (body[:at], body[at:]) if p]
        return head(r, "POST", "/v1/execute", *fields, "Transfer-Encoding: chunked", token=token) + b"".join(
            b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"
    length = len(body) + (r.choice([-1, 1, 1000]) if r.random() < 0.1 else 0)
    return head(r, "POST", "/v1/execute", *fields, f"Content-Length: {length}", token=token) + body


def request(r, ids):
    token = r.choice([HOSTILE, HOSTILE, HOSTILE, None, "wrong" * 8])
    kind = r.randrange(12)
    if kind < 3:
        return execute(r, token)
    if kind < 6:
        return head(r, r.choice(["GET", "HEAD"]), r.choice(["/v1/health", "/openapi.json", "/v1/languages", "/metrics"]), token=token)
    if kind == 6:
        tail = r.choice(["", "/events", "/stdout", "/stderr"])
        return head(r, r.choice(["GET", "HEAD", "DELETE"]), f"/v1/executions/{r.choice(ids)}{tail}", token=token)
    if kind == 7:
        return head(r, "GET", r.choice(["/v1/executions", "/v1/executions?limit=1000", "/nothing", "*", "/v1/executions?limit=x"]), token=token)
    if kind == 8:
        code = json.dumps({"language": "python", "code": "import os\n" * r.randrange(100)}).encode()
        return head(r, "POST", "/v1/check", "Content-Type: application/json", f"Content-Length: {len(code)}", token=token) + code
    if kind == 9:
        return r.choice([b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * r.randrange(20), b"\0" * 30, b"GET /v1/health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                         b"POST /v1/execute HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n"])
    if kind == 10:
        return r.randbytes(r.randrange(200))
    data = bytearray(execute(r, token))
    for _ in range(r.randrange(1, 4)):
        data[r.randrange(min(len(data), 400))] = r.randrange(256)
    return bytes(data)


def bytes_of(r, ids):
    data = b"".join(request(r, ids) for _ in range(r.choice([1, 1, 2, 3, 8, 30])))
    if r.random() < 0.15:  # more than what may wait ahead
        ahead = head(r, "GET", r.choice(["/openapi.json", "/v1/health"]))
        data = ahead * r.randrange(100, 1500) + data + ahead * r.randrange(100, 1500)
    if r.random() < 0.2:
        data = data[:r.randrange(len(data) + 1)]
    return data


# ---- how it sends, reads and leaves ----

def connect(r, servers):
    s, over = r.choice(servers)
    if over == "unix":
        raw = socket.socket(socket.AF_UNIX)
        raw.settimeout(3)
        raw.connect(s.socket)
        return raw
    raw = socket.create_connection(("127.0.0.1", s.port), timeout=3)
    if r.random() < 0.3:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 131072)
    if over == "tls" and r.random() < 0.85:
        trust = ssl.create_default_context(cafile=TLS / "cert.pem")
        raw = trust.wrap_socket(raw, server_hostname="127.0.0.1")
    elif over == "tls" and r.random() < 0.3:
        raw.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + r.randbytes(r.randrange(600)))
    return raw


def read_some(r, raw):
    raw.settimeout(0.1)
    left = r.choice([0, 1, 1000, 100000, 1 << 24])
    while left > 0 and (piece := raw.recv(min(left, r.choice([1, 1000, 65536])))):
        left -= len(piece)


def speak(r, raw, data):
    cuts = sorted(r.randrange(len(data) + 1) for _ in range(r.choice([0, 0, 1, 5]))) if data else []
    raw.settimeout(0.2)
    for at, end in zip([0, *cuts], [*cuts, len(data)]):
        raw.sendall(data[at:end])
        if r.random() < 0.2:
            time.sleep(r.random() * 0.02)
        if r.random() < 0.2:
            with contextlib.suppress(TimeoutError):
                read_some(r, raw)
            raw.settimeout(0.2)


def leave(r, raw, kept):
    how = r.randrange(6)
    if how == 0:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif how == 1:
        raw.shutdown(socket.SHUT_WR)
        read_some(r, raw)
    elif how == 2:
        read_some(r, raw)
    elif how == 3 and len(kept) < 200:  # silent from here on, until the server has enough of it
        kept.append(raw)
        return
    raw.close()


def test_random(t, servers):
    ids = ["0" * 32, "x", *(s.execute({"command": ["/bin/echo", "x" * 1000]}, token=HOSTILE, over="unix").json["id"] for s, _ in servers)]
    kept = []

    def be_client(r, _):
        with contextlib.suppress(OSError, ValueError):  # ValueError: of a TLS socket that is closed already
            raw = connect(r, servers)
            with contextlib.suppress(TimeoutError):  # it is not read from: as it should be
                speak(r, raw, bytes_of(r, ids))
            leave(r, raw, kept)
        while len(kept) > 150:
            with contextlib.suppress(OSError, IndexError):
                kept.pop(0).close()

    cayfuzz.attack(t, servers, be_client)
    for raw in kept:
        raw.close()


# ---- answers that nobody reads ----

CONTROL = "import os\nfor fd in (1, 2):\n    left = 16 << 20\n    while left > 0:\n        left -= os.write(fd, b'\\1' * 65536)\n"


def unread(s, path="/v1/execute", body=None, accept="application/json", segment=None):
    """Asks, and reads nothing of what comes."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    if segment:  # of loopback's large ones the kernel itself would hold megabytes
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, segment)
    raw.settimeout(60)
    raw.connect(("127.0.0.1", s.port))
    data = json.dumps(body).encode() if body else b""
    raw.sendall(f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {HOSTILE}\r\nAccept: {accept}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    return raw


def most_output(s):
    """As much as may be asked for."""
    sizes = ("16m", "8m", "4m", "1m")
    return next(size for size in sizes if s.execute({"command": ["/bin/true"], "limits": {"max_output": size}}, token=HOSTILE).status == 200)


def test_unread(t, s):
    """Results as large as they get, of bytes that are six in JSON, and two hundred clients who ask for them and do not read."""
    most = [0]
    wrong, done, kept = [], [], []
    body = {"language": "python", "code": CONTROL, "limits": {"max_output": most_output(s)}}
    first = s.execute(body, token=HOSTILE)
    t.equal((first.status, first.json["verdict"]["cause"], first.json["meta"]["truncated"]), (200, "ok", True), "one of them is answered", first)
    t.equal({c for c in first.json["stdout"]} - set("\n[]. bytesleftou0123456789"), {"\x01"}, "with what was written")
    ids = [first.json["id"]]
    stop = threading.Event()

    def others():
        while not stop.is_set() and not wrong:
            try:
                r = s.execute({"command": ["/bin/echo", "fine"]})
                done.append(r.status)
                if r.status != 200 or r.json["stdout"] != "fine\n":
                    wrong.append(r)
            except OSError as e:
                wrong.append(repr(e))

    def look():
        while not stop.is_set():
            with contextlib.suppress(OSError):
                most[0] = max(most[0], cayfuzz.resident(s.pid))
            time.sleep(0.02)

    threads = [threading.Thread(target=others, daemon=True), threading.Thread(target=look, daemon=True)]
    for thread in threads:
        thread.start()
    for i in range(10):
        kept.append(unread(s, body=body, accept=("application/json", "text/event-stream", "application/x-ndjson")[i % 3]))
    r = s.execute({**body, "detach": True}, token=HOSTILE)
    if r.status == 202:
        ids.append(r.json["id"])
    for i in range(190):
        tail = ("", "/events", "/stdout", "/stderr")[i % 4]
        kept.append(unread(s, f"/v1/executions/{ids[i % len(ids)]}{tail}", accept="*/*"))
    caytest.until(lambda: s.get("/metrics").body.count(b"cay_running 0") or s.get("/metrics").body.count(b"cay_running 1"), 30)
    for raw in kept[:3]:  # who reads after all has something that is whole, and in the first kilobyte says what it is
        answer = http.client.HTTPResponse(raw)
        answer.begin()
        text = answer.read()
        result = text.partition(b'"result":')[2] or text
        t.ok(answer.status in (429, 503) or b'"stdout":"\\u0001' in result[:1000], f"{answer.status}: {len(text)} bytes in the end", text[:300])
    stop.set()
    for thread in threads:
        thread.join()
    for raw in kept:
        raw.close()
    t.ok(s.proc.poll() is None, "it lives", s.words()[-2000:])
    t.empty(wrong, f"all {len(done)} of another tenant's runs in between are answered")
    if not caytest.SANITIZED:
        t.ok(most[0] < cayfuzz.FRONT_MIB * caytest.MIB, f"its memory is bounded: {most[0] >> 20} MiB", most)


def test_pinned(t, s):
    """Results that were answered and are kept: each is read by one more client, which takes nothing, and holds it."""
    body = {"command": ["/bin/sh", "-c", "yes aaaaaaaaaaaaaaa | head -c 1700000"], "limits": {"max_output": "2m"}}
    before, kept, statuses_seen = cayfuzz.resident(s.pid), [], set()
    for i in range(70):
        r = s.execute(body, token=HOSTILE)
        statuses_seen.add(r.status)
        if r.status == 200:
            kept.append(unread(s, f"/v1/executions/{r.json['id']}{('', '/events')[i % 2]}", accept="*/*", segment=536))
            s.get("/v1/health")  # which is answered behind it
    t.ok(statuses_seen <= {200, 503} and kept, f"pinned: {len(kept)} of them are read, and the rest refused", statuses_seen)
    grown = cayfuzz.resident(s.pid) - before
    if not caytest.SANITIZED:
        t.ok(grown < 80 * caytest.MIB, f"pinned: what they hold is bounded: {grown >> 20} MiB", len(kept))
    t.equal(s.execute({"command": ["/bin/echo", "fine"]}).status, 200, "pinned: another tenant is answered")
    for raw in kept:
        raw.close()
    t.ok(caytest.until(lambda: s.execute(body, token=HOSTILE).status == 200, 30), "pinned: with the readers gone there is room again")


# ---- one by one ----

def test_last_while_paused(t, s):
    """So much ahead that it is not read from any more; then it reads, and what comes next is the last request."""
    many = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for name, last in (("Connection: close", many.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")), ("400", b"GET / HTTP/9.9\r\n\r\n")):
        with socket.create_connection(("127.0.0.1", s.port), timeout=20) as raw:
            raw.settimeout(0.3)
            data = many * 600 + last + b"x" * 400000
            with contextlib.suppress(TimeoutError):
                raw.sendall(data)
            raw.settimeout(20)
            got = statuses(read_all(raw))
        # What is left unread when it is closed may take many of them with it; and where this is slow, it is given up.
        t.ok(set(got[:600]) == {200}, f"{name} with much behind it: those before are answered", len(got))
        t.equal(s.get("/v1/health").status, 200, f"{name} with much behind it: the server lives")


def test(t, mode):
    if not mode.has_cgroup:
        t.skip("the server", "it needs a cgroup, and none is delegated to this user")
        return
    folder = mode.cwd
    cert, key = (os.path.join(folder, f"p17-{name}.pem") for name in ("cert", "key"))
    for name, to in (("cert.pem", cert), ("key.pem", key)):
        shutil.copy(TLS / name, to)
        os.chmod(to, 0o600)
        if mode.uid is not None:
            os.chown(to, mode.uid, mode.uid)
    with Server(mode, tokens=TOKENS, env=LIMITS) as plain:
        test_last_while_paused(t, plain)
        for part in (test_unread, test_pinned) if mode.is_root else ():  # which take long, and ask nothing of who we are
            with Server(mode, tokens=TOKENS, env={"CAY_LOG_LEVEL": "warn", "CAY_WRITE_TIMEOUT": "300"}) as s:
                part(t, s)
        place, tokens = (os.path.join(plain.folder, name) for name in ("tls-socket", "tokens"))
        with Server(mode, "--listen", "127.0.0.1:0", "--socket", place, "--token-file", tokens, "--tls-cert", cert, "--tls-key", key,
                    tokens=TOKENS, env=LIMITS) as tls:
            tls.socket = place
            test_random(t, [(plain, "tcp"), (plain, "unix"), (tls, "tls")])
            for s in (plain, tls):
                t.ok(caytest.until(lambda s=s: s.metric("cay_connections", over="unix") == 1, 20), "in the end nobody is left")
    for s in (plain, tls):
        t.equal(s.proc.returncode, 0, "and it ends well")


caytest.main(test, modes=("root", "deleg"))

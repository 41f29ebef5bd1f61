# SPDX-License-Identifier: Apache-2.0
"""A running `cay serve`, and ways to talk to it: whole requests, and raw bytes.

    with cayserve.Server(mode, tokens="TOKEN tenant\\n", env={"CAY_MAX_QUEUE": "1"}) as s:
        r = s.execute({"language": "python", "code": "print(1)"})
        t.equal((r.status, r.json["stdout"]), (200, "1\\n"), "it runs")

Leaving it asks the server to end, and kills it where it does not.
"""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import tempfile

import caytest

TLS = caytest.ROOT / "tests" / "lib" / "tls"
TOKEN = "test-token-of-0123456789abcdef"
ALL = "execute,read,cancel,metrics"


class Answer:
    """status, headers (names in lower case), body, and json where it is that."""

    def __init__(self, status, headers, body):
        self.status, self.body = status, body
        self.headers = {k.lower(): v for k, v in headers}
        self.json = None
        if "json" in self.headers.get("content-type", "") and "nd" not in self.headers["content-type"]:
            with contextlib.suppress(ValueError):
                self.json = json.loads(body)

    @property
    def error(self):
        return (self.json or {}).get("error") or {}

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


class _Unix(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Server:
    def __init__(self, mode, *args, tokens=f"{TOKEN} main {ALL}\n", env=None, is_ready=True, under=()):
        self.mode = mode
        self.folder = tempfile.mkdtemp(dir=mode.cwd, prefix="serve-")
        self.socket = os.path.join(self.folder, "s")
        self.token_file = os.path.join(self.folder, "tokens")
        self.write_tokens(tokens)
        if mode.uid is not None:
            os.chown(self.folder, mode.uid, mode.uid)
        # Appended to: its place is one for both of us, and words() moves it.
        self.log = open(os.path.join(self.folder, "log"), "a+b")
        args = args or ("--listen", "127.0.0.1:0", "--socket", self.socket, "--token-file", self.token_file)
        options = mode.options({"env": env})
        self.proc = subprocess.Popen(
            [*under, mode.binary, "serve", *args], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            env=options["env"], cwd=options["cwd"], start_new_session=True, **caytest._identity(options["user"]))
        self.pid = self.proc.pid
        self.port = None
        if is_ready:
            self.wait_ready()

    def write_tokens(self, text):
        with open(self.token_file, "w") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write(text)
        if self.mode.uid is not None:
            os.chown(self.token_file, self.mode.uid, self.mode.uid)

    def words(self):
        """All that it said so far."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def wait_ready(self, timeout=120):
        caytest.until(lambda: "listening on" in self.words() or self.proc.poll() is not None, timeout)
        found = re.search(r"listening on (?:https?://127\.0\.0\.1:(\d+))?", self.words())
        if not found:
            raise RuntimeError(f"the server did not start: {self.words()[-2000:]}")
        self.port = int(found[1]) if found[1] else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
        if self.wait(15) is None:
            self.proc.kill()
            self.proc.wait()
        self.log.close()

    def wait(self, timeout=30):
        """The exit status, or None when it still runs after `timeout`."""
        try:
            return self.proc.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    # --- whole requests ---

    def connection(self, over="tcp", timeout=60):
        if over == "unix":
            return _Unix(self.socket, timeout)
        if over == "tls":
            trust = ssl.create_default_context(cafile=TLS / "cert.pem")
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=trust)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def headers(self, token, more):
        return {**({"Authorization": f"Bearer {token}"} if token else {}), **(more or {})}

    def open(self, method, path, body=None, headers=None, token=TOKEN, over="tcp", connection=None):
        """Sends a request; gives back the connection and the answer's head, its body unread."""
        connection = connection or self.connection(over)
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers = {"Content-Type": "application/json", **(headers or {})}
        connection.request(method, path, body, self.headers(token, headers))
        return connection, connection.getresponse()

    def ask(self, method, path, body=None, **options):
        connection, r = self.open(method, path, body, **options)
        answer = Answer(r.status, r.getheaders(), r.read())
        if options.get("connection") is None:
            connection.close()
        return answer

    def get(self, path, **options):
        return self.ask("GET", path, **options)

    def metric(self, name, **options):
        """What /metrics says of one that has no labels; None where it is not to be had just now (a crowd of others)."""
        try:
            lines = self.get("/metrics", **options).body.decode().splitlines()
        except (OSError, http.client.HTTPException):
            return None
        return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), None)

    def execute(self, request, **options):
        return self.ask("POST", "/v1/execute", request, **options)

    def events(self, path, after=None, form="text/event-stream", body=None, token=TOKEN, most=None):
        """The events of a stream as (id, event) pairs, at most `most`, after which the connection is closed."""
        headers = {"Accept": form, **({"Last-Event-ID": str(after)} if after is not None else {})}
        connection, r = self.open("POST" if body else "GET", path, body, headers=headers, token=token)
        got = []
        if r.status != 200:
            raise RuntimeError(f"{r.status} {r.read()!r}")
        number = None
        while (line := r.readline()) and (most is None or len(got) < most):
            if line.startswith(b"id: "):
                number = int(line[4:])
            elif line.startswith(b"data: "):
                got.append((number, json.loads(line[6:])))
            elif line.startswith(b"{"):
                got.append((None, json.loads(line)))
        connection.close()
        return got

    def until(self, id, status="finished", timeout=30, token=TOKEN):
        """Waits for an execution to be in a state; gives back its page, or None."""
        page = None

        def step():
            nonlocal page
            r = self.get(f"/v1/executions/{id}", token=token)
            page = r.json
            return r.status == 200 and (page.get("status", "finished") == status)

        return page if caytest.until(step, timeout) else None

    # --- raw bytes ---

    def raw(self, data=b"", timeout=20):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        if data:
            with contextlib.suppress(OSError):
                s.sendall(data)
        return s

    def exchange(self, data, timeout=20):
        """Sends bytes and gives back all that comes until the server closes; None where it does not."""
        with self.raw(data, timeout) as s:
            return read_all(s)

    def bearer(self, token=TOKEN):
        return f"Host: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n".encode()


def read_all(s):
    got = b""
    try:
        while piece := s.recv(65536):
            got += piece
    except socket.timeout:
        return None
    except ConnectionError:
        pass
    return got


def read_answer(s):
    """One whole answer with a Content-Length, as (status, body)."""
    r = http.client.HTTPResponse(s)
    r.begin()
    return r.status, r.read()


def statuses(data):
    """The status codes of the answers in a stream of bytes."""
    return [int(x) for x in re.findall(rb"HTTP/1\.1 (\d{3}) ", data or b"")]

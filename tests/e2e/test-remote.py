#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cay run --server`: the same words, output and exit status as here, of a run that a server has."""
import json
import os
import signal
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest
from cayserve import TLS, TOKEN, Server

FOREVER = "import time\nprint('up', flush=True)\nwhile True: time.sleep(60)"


class Proxy:
    """Passes connections on to a port, and cuts each of the first `cuts` that ask for events after so many bytes."""

    def __init__(self, port, cuts, most):
        self.port, self.cuts, self.most, self.asked = port, cuts, most, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.serve, daemon=True).start()

    @property
    def own_port(self):
        return self.socket.getsockname()[1]

    def serve(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.passes, args=(client,), daemon=True).start()

    def passes(self, client):
        head = b""
        while b"\r\n\r\n" not in head and (piece := client.recv(65536)):
            head += piece
        self.asked.append(head.decode(errors="replace"))
        left = None
        if head.startswith(b"GET") and b"/events" in head and self.cuts > 0:
            self.cuts -= 1
            left = self.most
        with socket.create_connection(("127.0.0.1", self.port)) as server, client:
            server.sendall(head)
            while left is None or left > 0:
                piece = server.recv(65536 if left is None else min(left, 65536))
                if not piece:
                    return
                client.sendall(piece)
                left = None if left is None else left - len(piece)

    def close(self):
        self.socket.close()


def at(s, *flags):
    return ("--server", f"http://127.0.0.1:{s.port}", "--token-file", s.token_file, *flags)


def same_as_here(t, mode, s):
    (mode.cwd / "prog.py").write_text("import sys\nprint(sys.argv[1:], open('data.bin', 'rb').read(), sys.stdin.read())")
    (mode.cwd / "data.bin").write_bytes(b"\xff\0\xfe")
    (mode.cwd / "note.txt").write_text("of a file\n")
    for name, words, stdin in (
        ("code", ("run", "-l", "python", "-e", "print(1)"), ""),
        ("a file, whose name tells the language; arguments, files, input",
         ("run", "prog.py", "--file", "data.bin", "--", "a", "b c"), "in\n"),
        ("stderr and an exit code", ("run", "-l", "bash", "-e", "echo out; echo err >&2; exit 7"), ""),
        ("a variable", ("run", "-l", "sh", "--env", "A=1", "--env", "A=b=c", "-e", "echo $A"), ""),
        ("code from stdin", ("run", "-l", "python", "-"), "print('from stdin')"),
        ("a command", ("exec", "--file", "note.txt", "--", "cat", "note.txt"), ""),
        ("limits", ("run", "-l", "python", "--timeout", "0.5", "-e", "while True: pass"), ""),
        ("a signal", ("run", "-l", "sh", "-e", "kill -SEGV $$"), ""),
        ("bytes that are no text", ("run", "-l", "python", "-e", "import os; os.write(1, b'\\xff\\xfe\\0x')"), ""),
        ("a policy that blocks", ("run", "-l", "python", "--policy", "block", "-e", "import ctypes"), ""),
        ("a syntax error", ("run", "-l", "python", "-e", "print("), ""),
        ("a request", ("run", "--request", "-"), json.dumps({"language": "python", "code": "print(2)", "limits": {"memory": "64m"}})),
        ("no such language", ("run", "-l", "nothing", "-e", "x"), ""),
        ("nothing of it is for a server", ("exec", "--", "echo", "--server", "x"), ""),
    ):
        here = mode.cay(*words, stdin=stdin)
        there = mode.cay(words[0], *at(s), *words[1:], stdin=stdin)
        t.equal((there.status, there.out), (here.status, here.out), f"as here: {name}", *there.describe(), *here.describe())
        t.ok(bool(there.err) == bool(here.err), f"as here: {name}: words on stderr, or none", *there.describe(), *here.describe())
    here = mode.json("run", "-l", "python", "-e", "print(1)")
    there = mode.json("run", *at(s), "-l", "python", "-e", "print(1)")
    t.result(there, "--json", "1\n", cause="ok")
    t.equal((set(there.data), set(there.data["meta"])), (set(here.data), set(here.data["meta"])), "with the same fields")
    done = mode.cay("run", *at(s), "--events", "-l", "python", "-e", "print('a\\u00e9\\0')")
    events = [json.loads(line) for line in done.out.splitlines()]
    told = [e for e in events if e["event"] != "usage"]  # of which there are more on a busy machine
    t.equal([e["event"] for e in told], ["started", "stage", "stdout", "finished"], "--events", *done.describe())
    t.equal([e["seq"] for e in events], list(range(1, len(events) + 1)), "with their numbers")
    t.equal(told[2]["data"], "a\u00e9\0\n", "and their data")
    page = s.get(f"/v1/executions/{there.data['id']}")
    t.equal((page.status, page.json["stdout"]), (200, "1\n"), "the server has it by its id", page)
    r = mode.json("run", *at(s), "--collect", "*.txt", "-l", "sh", "-e", "echo x > a.txt")
    t.equal([f["path"] for f in r.get("files")], ["/sandbox/a.txt"], "--collect: the file is in the result", *r.describe())
    (mode.cwd / "bin").write_bytes(b"\xff")
    for name, words in (("code", ("run", *at(s), "-l", "python", "bin")), ("stdin", ("exec", *at(s), "--", "cat"))):
        done = mode.cay(*words, stdin=b"\xff")
        t.ok(done.status == 2 and b"UTF-8" in done.err, f"{name} that JSON can't hold is refused", *done.describe())


def refused(t, mode, s):
    for name, words, text in (
        ("a workspace", ("--workspace", "."), "workspace: not available with --server"),
        ("a folder", ("--ro", "/usr"), "ro: not available with --server"),
        ("a folder to write to", ("--workspace-rw", "."), "workspace_rw: not available with --server"),
        ("a terminal", ("-t",), "tty: not available with --server"),
        ("--plan", ("--plan",), "--plan and --server are mutually exclusive"),
        ("--repeat", ("--repeat", "2"), "--repeat and --server are mutually exclusive"),
        ("--no-server", ("--no-server",), "--no-server and --server are mutually exclusive"),
    ):
        done = mode.cay("run", *at(s), *words, "-l", "python", "-e", "print('RAN')")
        t.ok(done.status == 2 and text in done.err.decode() and b"RAN" not in done.out, f"refused: {name}", *done.describe())
    done = mode.cay("run", *at(s), "--fallback", "unsafe", "-l", "python", "-e", "print('RAN')")
    t.ok(done.status == 126 and b"over HTTP" in done.err, "what the server refuses is its word", *done.describe())
    for name, words, env, status, text in (
        ("no token", ("--server", f"http://127.0.0.1:{s.port}"), {}, 125, "CAY_TOKEN"),
        ("a wrong token", ("--server", f"http://127.0.0.1:{s.port}"), {"CAY_TOKEN": "wrong-token-of-0123456789"}, 125, "401"),
        ("a token that is no header", ("--server", f"http://127.0.0.1:{s.port}"), {"CAY_TOKEN": "a\nX: b"}, 2, "token"),
        ("no token file", ("--server", f"http://127.0.0.1:{s.port}", "--token-file", "nowhere"), {}, 2, "nowhere"),
        ("no address", ("--server", "ftp://x"), {}, 2, "http://HOST:PORT"),
        ("nobody there", ("--server", "http://127.0.0.1:1"), {}, 125, "Connection refused"),
        ("no such socket", ("--server", "/nowhere/s"), {}, 125, "/nowhere/s"),
        ("an unknown host", ("--server", "http://no-such-host.invalid"), {}, 125, "no-such-host.invalid"),
    ):
        done = mode.cay("run", *words, "-l", "python", "-e", "print('RAN')", env=env)
        t.ok(done.status == status and text in done.err.decode() and b"RAN" not in done.out, f"refused: {name}", *done.describe())
    done = mode.cay("run", "--json", "--server", f"http://127.0.0.1:{s.port}", "-l", "python", "-e", "1")
    t.ok(done.status == 125 and "error_message" in json.loads(done.out), "--json has a result then too", *done.describe())
    with socket.create_server(("127.0.0.1", 0)) as other:
        def answer():
            client, _ = other.accept()
            client.recv(65536)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
            client.close()
        threading.Thread(target=answer, daemon=True).start()
        done = mode.cay("run", "--server", f"http://127.0.0.1:{other.getsockname()[1]}", "-l", "python", "-e", "1")
        t.ok(done.status == 125 and b"is it cay?" in done.err, "what is no cay is told from one", *done.describe())


def other_ways(t, mode, s):
    for name, server in (("a path", s.socket), ("unix:", f"unix:{s.socket}"), ("unix://", f"unix://{s.socket}")):
        done = mode.cay("run", "--server", server, "-l", "python", "-e", "print(1)")
        t.equal((done.status, done.out, done.err), (0, b"1\n", b""), f"the socket, by {name}: no token", *done.describe())
    done = mode.cay("run", f"--server=http://localhost:{s.port}/", "-l", "python", "-e", "print(1)", env={"CAY_TOKEN": TOKEN})
    t.equal((done.status, done.out, done.err), (0, b"1\n", b""), "the token in the environment, and a name for a host", *done.describe())


def tls(t, mode):
    folder = mode.cwd / "of-tls"
    folder.mkdir(mode=0o755)
    for name, data in (("key.pem", (TLS / "key.pem").read_bytes()), ("tokens", f"{TOKEN} main\n".encode())):
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o600)
    for path in (folder, *folder.iterdir()) if mode.uid is not None else ():
        os.chown(path, mode.uid, mode.uid)
    with Server(mode, "--listen", "127.0.0.1:0", "--socket", str(folder / "s"), "--token-file", str(folder / "tokens"),
                "--tls-cert", str(TLS / "cert.pem"), "--tls-key", str(folder / "key.pem")) as s:
        flags = ("--server", f"https://localhost:{s.port}")
        done = mode.cay("run", *flags, "--ca-file", str(TLS / "cert.pem"), "-l", "python", "-e", "print(1)", env={"CAY_TOKEN": TOKEN})
        t.equal((done.status, done.out), (0, b"1\n"), "https", *done.describe())
        done = mode.cay("run", *flags, "-l", "python", "-e", "print(1)", env={"CAY_TOKEN": TOKEN})
        t.ok(done.status == 125 and b"certificate" in done.err, "https of somebody unknown is refused", *done.describe())


def cancelled(t, mode, s):
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 137)):
        with mode.live("run", *at(s), "-l", "python", "-e", FOREVER) as live:
            live.end_input()
            t.ok(live.wait_for("up"), f"{number.name}: output comes while it runs")
            live.signal(number)
            t.equal(live.wait(), status, f"{number.name}: the exit status")
        newest = s.get("/v1/executions?limit=1").json["executions"][0]
        t.equal(newest.get("cause"), "cancelled", f"{number.name}: and the run is cancelled there", newest)
    with mode.live("run", *at(s), "-l", "python", "-e", "while True: print('x' * 1000, flush=True)") as live:
        live.end_input()
        live.wait_for("xxx")
        live.proc.stdout.close()
        t.ok(live.wait() is not None, "a reader that goes away ends it")


def lost(t, mode):
    with Server(mode) as s:
        proxy = Proxy(s.port, cuts=3, most=700)
        code = "import time\nfor i in range(40):\n  print(i, flush=True)\n  time.sleep(.05)"
        done = mode.cay("run", "--server", f"http://127.0.0.1:{proxy.own_port}", "--token-file", s.token_file, "-l", "python", "-e", code)
        t.equal((done.status, done.out.split()), (0, [str(i).encode() for i in range(40)]),
                "connections that are lost: nothing of the output is, nor is it there twice", *done.describe())
        again = [head for head in proxy.asked if "last-event-id:" in head.lower()]
        t.equal(len(again), 3, "each was made anew behind the last event", proxy.asked)
        proxy.close()
        with mode.live("run", *at(s), "-l", "python", "-e", FOREVER) as live:
            live.end_input()
            live.wait_for("up")
            s.proc.kill()
            s.proc.wait()
            t.equal(live.wait(60), 125, "a server that is gone for good")
            t.matches(live.errors().decode(), "connection to the server was lost", "is said to be")


def test(t, mode):
    with Server(mode) as s:
        same_as_here(t, mode, s)
        other_ways(t, mode, s)
        refused(t, mode, s)
        cancelled(t, mode, s)
    tls(t, mode)
    lost(t, mode)


caytest.main(test, modes=("root", "deleg"))

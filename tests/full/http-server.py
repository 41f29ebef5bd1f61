# SPDX-License-Identifier: Apache-2.0
"""The other side of tests/full: answers by path, checks webhooks' signatures with Python's own hmac.

    http-server.py SECRET CERT KEY SOCKET [dns]

First line of stdout: the ports for http and https. Then one for each POST, before its answer:
"PATH STATUS DELIVERY EVENT SIGNED BODY". It leaves when its stdin closes. With "dns" it also is the
name server at 127.0.0.1:53, for names whose addresses are in the table below.
"""
import hashlib
import hmac
import http.server
import os
import socket
import socketserver
import ssl
import sys
import threading

secret, cert, key, path = sys.argv[1:5]
tries = {}
stop = threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def raw(self, data):
        self.wfile.write(data)
        self.close_connection = True

    def answer(self, status, body=b"", **fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.answer(200, b"hello")

    def do_GET(self):
        if self.path == "/ok":
            self.answer(200, b"hello", X_Host=self.headers["Host"])
        elif self.path == "/chunked":
            self.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                     b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n")
        elif self.path == "/close":
            self.raw(b"HTTP/1.1 200 OK\r\n\r\nhello")
        elif self.path == "/interim":
            self.raw(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        elif self.path == "/cut":
            self.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello")
        elif self.path == "/smuggled":
            self.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello")
        elif self.path == "/nothing":
            self.close_connection = True
        elif self.path == "/big":
            self.answer(200, b"x" * (4 << 20))
        elif self.path == "/silent":
            stop.wait()
        elif self.path == "/half":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello")
            self.wfile.flush()
            stop.wait()
        else:
            self.answer(404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        tries[self.path] = tries.get(self.path, 0) + 1
        status = 200
        fields = {}
        if self.path == "/sum":
            self.answer(200, b"%d" % sum(body))
            return
        if self.path.startswith("/flaky"):
            status = 503 if tries[self.path] < 3 else 204
        elif self.path.startswith("/status/"):
            status = int(self.path.split("/")[2])
        if 300 <= status < 400:
            fields["Location"] = "/followed"
        stamp = self.headers["X-Cay-Timestamp"]
        wanted = hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
        given = self.headers["X-Cay-Signature"]
        signed = "unsigned" if given is None else "signed" if given == "sha256=" + wanted else "forged"
        # One write: print() makes many, and the threads' lines would be mixed.
        line = (self.path, status, self.headers["X-Cay-Delivery"], self.headers["X-Cay-Event"], signed, body.decode())
        os.write(1, (" ".join(map(str, line)) + "\n").encode())
        self.answer(status, **fields)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass


class UnixServer(Server):
    address_family = socket.AF_UNIX

    def server_bind(self):
        self.socket.bind(self.server_address)

    def get_request(self):
        request, _ = self.socket.accept()
        return request, ("unix", 0)


class TlsServer(Server):
    """The handshake in the connection's own thread: one that fails holds nobody up."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def finish_request(self, request, client_address):
        with self.context.wrap_socket(request, server_side=True) as wrapped:
            super().finish_request(wrapped, client_address)
            wrapped.unwrap()


# What a question is answered with, the first time, the second, …; the last ones go on.
NAMES = {
    "inside.test": [["127.0.0.1"]],
    "mixed.test": [["93.184.216.34", "10.0.0.1"]],
    "mapped.test": [["::ffff:127.0.0.1"]],
    "rebound.test": [["93.184.216.34"], ["127.0.0.1"]],
    "listed.test": [["127.0.0.1"]],
    "empty.test": [[]],
}


def serve_names(names_socket):
    asked = {}
    while True:
        query, sender = names_socket.recvfrom(512)
        end, labels = 12, []
        while query[end]:
            labels.append(query[end + 1:end + 1 + query[end]])
            end += query[end] + 1
        kind = query[end + 2]
        name = b".".join(labels).decode().lower()  # evdns varies the case
        answers = NAMES.get(name)
        turn = asked[name, kind] = asked.get((name, kind), -1) + 1
        records = []
        for text in answers[min(turn, len(answers) - 1)] if answers else []:
            family = socket.AF_INET6 if ":" in text else socket.AF_INET
            if kind == (28 if ":" in text else 1):
                data = socket.inet_pton(family, text)
                records.append(b"\xc0\x0c\0" + bytes([kind]) + b"\0\1\0\0\0\1\0" +
                               bytes([len(data)]) + data)
        names_socket.sendto(query[:2] + (b"\x81\x80" if answers else b"\x81\x83") + b"\0\1\0" +
                            bytes([len(records)]) + b"\0\0\0\0" + query[12:end + 5] +
                            b"".join(records), sender)


if sys.argv[5:] == ["dns"]:
    names_socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names_socket.bind(("127.0.0.1", 53))
    threading.Thread(target=serve_names, args=(names_socket,), daemon=True).start()
plain = Server(("127.0.0.1", 0), Handler)
tls = TlsServer(("127.0.0.1", 0), Handler)
tls.context.load_cert_chain(cert, key)
unix = UnixServer(path, Handler)
for server in plain, tls, unix:
    threading.Thread(target=server.serve_forever, daemon=True).start()
print(plain.server_port, tls.server_port, flush=True)
sys.stdin.read()
os._exit(0)

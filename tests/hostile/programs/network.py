# SPDX-License-Identifier: Apache-2.0
# Tries to reach the host. Takes one JSON object with addresses; prints what worked.
import fcntl, json, os, socket, struct, sys

targets = json.loads(sys.argv[1])
said = {"connected": [], "sent": [], "errors": {}}


def attempt(label, family, kind, address, payload=b"hello"):
    s = socket.socket(family, kind)
    s.settimeout(0.5)
    try:
        s.connect(address)
        said["connected"].append(label)
        s.send(payload)
        said["sent"].append(label)
        # A datagram to a closed port is "sent"; only an answer proves that somebody was there.
        if kind == socket.SOCK_DGRAM:
            s.recv(1)
    except OSError as e:
        said["errors"][label] = e.errno
    finally:
        s.close()


for host, port in targets["tcp"]:
    attempt(f"tcp {host}", socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, (host, port))
for host, port in targets["udp"]:
    attempt(f"udp {host}", socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM, (host, port))
for name in targets["abstract"]:
    attempt("abstract", socket.AF_UNIX, socket.SOCK_STREAM, "\0" + name)
for path in targets["paths"]:
    for name in (path, "/proc/1/root" + path, "/proc/self/root" + path):
        attempt("path " + name, socket.AF_UNIX, socket.SOCK_STREAM, name)

said["interfaces"] = [name for _, name in socket.if_nameindex()]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
flags = struct.unpack("16sH", fcntl.ioctl(s, 0x8913, struct.pack("16s16x", b"lo"))[:18])[1]
said["lo_up"] = bool(flags & 1)
said["routes"] = open("/proc/net/route").read().splitlines()[1:]
said["routes6"] = [line.split()[-1] for line in open("/proc/net/ipv6_route").read().splitlines()] \
    if os.path.exists("/proc/net/ipv6_route") else []
try:
    fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", b"lo", flags))  # the same flags: harmless where it is allowed
    said["lo_set"] = True
except OSError:
    said["lo_set"] = False
said["resolved"] = []
for name in targets["names"]:
    try:
        said["resolved"].append(socket.gethostbyname(name))
    except OSError:
        pass

a = socket.socket()
a.bind(("127.0.0.1", 0))
a.listen()
b = socket.create_connection(a.getsockname(), 2)
c, _ = a.accept()
c.send(b"x")
said["own_loopback"] = b.recv(1) == b"x"
print(json.dumps(said))

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P7: only a loopback of its own; no service of the host answers, by TCP, UDP, abstract or path socket."""
import json
import os
import select
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest


def own_address():
    """An address of the host other than loopback, if it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))
            return s.getsockname()[0]
        except OSError:
            return None


class Services:
    """Listeners on the host that note whoever comes."""

    def __init__(self, folder):
        self.sockets = {}
        self.targets = {"tcp": [], "udp": [], "abstract": [], "paths": [], "names": []}
        hosts = [("127.0.0.1", socket.AF_INET)]
        if own_address():
            hosts.append((own_address(), socket.AF_INET))
        if socket.has_ipv6 and os.path.exists("/proc/net/if_inet6"):
            hosts.append(("::1", socket.AF_INET6))
        for host, family in hosts:
            for kind, name in ((socket.SOCK_STREAM, "tcp"), (socket.SOCK_DGRAM, "udp")):
                s = socket.socket(family, kind)
                try:
                    s.bind((host, 0))
                except OSError:
                    continue
                self.targets[name].append((host, s.getsockname()[1]))
                self.add(f"{name} {host}", s, kind)
        name = f"cay-test-{os.urandom(6).hex()}"
        s = socket.socket(socket.AF_UNIX)
        s.bind("\0" + name)
        self.targets["abstract"].append(name)
        self.add("abstract", s, socket.SOCK_STREAM)
        for place in (folder, "/tmp", "/dev/shm"):
            path = os.path.join(place, "cay-test.sock")
            s = socket.socket(socket.AF_UNIX)
            s.bind(path)
            os.chmod(path, 0o777)
            self.targets["paths"].append(path)
            self.add(f"path {place}", s, socket.SOCK_STREAM)

    def add(self, label, s, kind):
        if kind == socket.SOCK_STREAM:
            s.listen()
        self.sockets[label] = s

    def visited(self):
        ready, _, _ = select.select(list(self.sockets.values()), [], [], 0)
        return [label for label, s in self.sockets.items() if s in ready]

    def close(self):
        for s in self.sockets.values():
            s.close()
        for path in self.targets["paths"]:
            os.unlink(path)


def test(t, mode):
    services = Services(mode.cwd)
    try:
        argument = json.dumps({**services.targets, "names": ["debian.org", socket.gethostname()]})
        r = mode.python("network.py", args=[argument])
        visited = services.visited()
        control = mode.command(sys.executable, "-c", caytest.program_text("network.py"), json.dumps(services.targets),
                               user=mode.uid or (47999 if os.getuid() == 0 else None))
        seen = services.visited()
    finally:
        services.close()
    t.result(r, "the program ran", cause="ok")
    said = r.reported()
    if not t.ok(said, "the program reported", r.stdout[:300]):
        return
    t.empty(visited, "outside: no listener of the host was reached")
    t.empty([c for c in said["connected"] if not c.startswith("udp")], "inside: no connection was made")
    t.equal(said["interfaces"], ["lo"], "only lo is there")
    t.ok(said["lo_up"], "lo is up")
    t.ok(not said["lo_set"], "lo cannot be changed")
    t.empty(said["routes"], "no routes")
    t.empty([x for x in said["routes6"] if x != "lo"], "no routes for IPv6")
    t.empty(said["resolved"], "no name is resolved")
    t.ok(said["own_loopback"], "its own loopback works")
    t.empty([k for k in services.sockets if k not in seen], "control: every listener can be reached outside",
            *control.describe())

    r = mode.python("import socket\nsocket.create_connection(('192.0.2.1', 80), 3)")
    t.result(r, "an unreachable network is told as such", cause="network", exit_code=1)
    r = mode.python("import socket\ntry:\n    socket.create_connection(('192.0.2.1', 80), 3)\n"
                    "except OSError:\n    print('offline')")
    t.result(r, "a program that does without it has succeeded", cause="ok", stdout="offline\n")
    t.ok([w for w in r.get("meta.warnings") if "network is off" in w], "and what it tried is told",
         r.get("meta.warnings"))
    r = mode.python("print(1)")
    t.empty([w for w in r.get("meta.warnings") if "network is off" in w], "one that did not try is not warned of")


caytest.main(test)

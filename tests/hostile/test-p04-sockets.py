#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P4: UNIX, INET, INET6 and route netlink sockets, no raw ones, nothing else by any entry."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
STREAM, DGRAM, RAW, SEQPACKET = 1, 2, 3, 5
# A raw UNIX socket is a datagram one under another name: allowed or not, it makes no difference.
ALLOWED = {(UNIX, t) for t in (STREAM, DGRAM, RAW, SEQPACKET)} | {(f, t) for f in (INET, INET6) for t in (STREAM, DGRAM)}
NEEDED = {("socket", UNIX, STREAM), ("socket", UNIX, DGRAM), ("socket", INET, STREAM), ("socket", INET, DGRAM),
          ("socket", INET6, STREAM), ("socket", INET6, DGRAM), ("socket", NETLINK, RAW), ("socketpair", UNIX, STREAM)}


def test(t, mode):
    r = mode.program("sockets", "--max-output", "200k")
    t.result(r, "the attempts ran", cause="ok")
    given = [line.split() for line in r.stdout.splitlines()]
    rows = [(call, int(family), int(kind), int(protocol), how[0] if how else "")
            for call, family, kind, protocol, *how in given]
    bad = [x for x in rows if (x[1], x[2]) not in ALLOWED and not (x[1] == NETLINK and x[2] in (DGRAM, RAW) and x[3] == 0)]
    t.empty(bad, "no other family, type or netlink protocol is given")
    t.empty([x for x in rows if x[1] in (INET, INET6) and x[3] in (1, 58)], "no ping sockets")
    t.empty(NEEDED - {x[:3] for x in rows}, "what honest programs need is given")
    if os.getuid() == 0:
        control = caytest.run([caytest.workdir() / "sockets"])
        t.ok(b"socket 17 3" in control.out and b"socket 2 3" in control.out, "control: root gets raw ones outside")


caytest.main(test, programs=["sockets"])

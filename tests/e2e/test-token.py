#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cay token`: a token that it made is good, one that it removed is not, and the server that runs meanwhile is told by SIGHUP."""
import json
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import cayserve
import caytest
from caytest import until


def test_first(t, mode):
    """An ordinary user's first token, where not even ~/.config is there."""
    if mode.is_root:
        return  # root's file is /etc/cay/tokens
    for args in (("list",), ("remove", "eve")):
        done = mode.cay("token", *args)
        t.ok(done.status == 127 and b"there are no tokens yet" in done.err and b"cay token add" in done.err, f"{args[0]}: no tokens yet", *done.describe())
    done = mode.cay("token", "add", "eve")
    t.ok(done.status == 0 and (mode.home / ".config/cay/tokens").exists(), "add makes the folders it needs", *done.describe())
    t.ok(b"eve" in mode.cay("token", "list").out, "and list shows it")


def test(t, mode):
    test_first(t, mode)
    with cayserve.Server(mode) as s:
        def token(*args):
            return mode.cay("token", *args, "--token-file", s.token_file)

        def status(text):
            return s.get("/v1/languages", token=text).status

        def reload():
            said = s.words().count("tokens-reloaded")
            s.proc.send_signal(signal.SIGHUP)
            return until(lambda: s.words().count("tokens-reloaded") > said, 20)

        added = token("add", "alice", "--scopes", "read")
        alice = added.out.decode().strip()
        t.ok(added.status == 0 and len(alice) == 43 and alice.encode() not in added.err, "add shows the token, on stdout alone", added.err)
        t.equal(status(alice), 401, "the server does not know it yet")
        t.ok(reload(), "SIGHUP", s.words()[-500:])
        t.equal((status(alice), status(cayserve.TOKEN)), (200, 200), "now it does, and what was there before is still good")
        t.equal(s.execute({"command": ["true"]}, token=alice).status, 403, "and it has its scopes and no others")
        listed = json.loads(token("list", "--json").out)
        t.equal([(row["tenant"], row["scopes"]) for row in listed], [("main", "execute,read,cancel,metrics"), ("alice", "read")], "list")
        t.ok(alice not in json.dumps(listed) and cayserve.TOKEN not in json.dumps(listed), "which holds no token")
        done = token("remove", listed[1]["id"])
        t.ok(done.status == 0 and reload(), "remove by its id", *done.describe())
        t.equal((status(alice), status(cayserve.TOKEN)), (401, 200), "it is gone, and the other is not")
        for args, code, words in ((("add",), 2, b"which tenant"), (("add", "a b"), 2, b"tenant's name"), (("add", "x", "--scopes", "reed"), 2, b"read"),
                                  (("remove", "nobody"), 127, b"nobody"), (("remove", "main"), 2, b"without a token"), ((), 2, b"add, list"),
                                  (("list", "x"), 2, b"x"), (("lst",), 2, b"add list remove")):
            done = token(*args)
            t.ok(done.status == code and words in done.err and not done.out, f"token {' '.join(args)}: {code}", *done.describe())
        t.equal(len(json.loads(token("list", "--json").out)), 1, "what was refused changed nothing")


caytest.main(test, modes=("root", "deleg"))

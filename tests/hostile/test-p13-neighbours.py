#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P13: two runs share no file, socket, key, memory, process, lock, random or interpreter state, in turn or at once."""
import ctypes
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest


def documented(*words):
    """What two runs can signal each other by is to be denied, or written down as a channel."""
    for folder, _, names in os.walk(caytest.ROOT / "docs"):
        for name in names:
            with open(os.path.join(folder, name), errors="replace") as f:
                text = f.read().lower()
            if any(word in text for word in words):
                return True
    return False


def look(t, r, label):
    t.result(r, f"{label}: the search ran", cause="ok")
    said = r.reported()
    t.empty(said.get("found", ["no report"]), f"{label}: nothing of the other is found")
    t.empty(said.get("files", []), f"{label}: /tmp and /dev/shm are empty")
    return said


GREEDY = """
import ctypes, sys
libc, n = ctypes.CDLL(None), 0
while n < 1000 and libc.inotify_init1(0) >= 0:
    n += 1
print("taken", n, flush=True)
sys.stdin.read()
"""


MANY_WATCHES = """
import ctypes, os
libc, watched = ctypes.CDLL(None), set()  # a file by its second name is the same watch
fds = [libc.inotify_init1(0) for _ in range(4)]
for at, _, files in os.walk("/usr"):
    for name in files:
        fd = fds[len(watched) % 4]
        wd = libc.inotify_add_watch(fd, os.fsencode(os.path.join(at, name)), 2) if len(watched) < 20000 else -1
        if wd >= 0:
            watched.add((fd, wd))
        elif watched and not os.path.islink(os.path.join(at, name)):
            print(len(watched))
            raise SystemExit
print(len(watched))
"""


def watches():
    """How many inotify instances this user can still have."""
    libc, fds = ctypes.CDLL(None), []
    while len(fds) < 1000 and (fd := libc.inotify_init1(0)) >= 0:
        fds.append(fd)
    for fd in fds:
        os.close(fd)
    return len(fds)


def quotas(t, mode):
    """What the kernel counts for each user: a run has its own, and the one who started it keeps his."""
    before = watches() if mode.is_root else None
    with mode.live("run", "-l", "python", "-e", GREEDY) as other:
        if t.ok(other.wait_for("taken"), "quotas: the other takes what it gets", other.errors()):
            t.ok(0 < int(other.seen.split()[1]) <= 16, "quotas: that is bounded", other.seen)
            if mode.is_root:
                t.ok(watches() >= before - 8, "quotas: root has what it had", before)  # others are at work here too
            r = mode.python("import ctypes; print(ctypes.CDLL(None).inotify_init1(0) >= 0)")
            t.result(r, "quotas: the next run has some", "True\n", cause="ok")
        other.end_input()
        other.wait()
    r = mode.python(MANY_WATCHES)
    t.result(r, "quotas: files that are watched", cause="ok")
    t.ok(0 < int(r.stdout or 0) <= 8200, "quotas: they are bounded too", r.stdout)
    r = mode.python("import resource; print(resource.getrlimit(resource.RLIMIT_SIGPENDING)[1] <= 1024)")
    t.result(r, "quotas: so are signals that wait", "True\n", cause="ok")


# Sockets to itself with bytes that nobody reads, and options that would keep the kernel from giving them up.
STAYS = """
import json, socket
refused = []
to = socket.socket()
to.bind(("127.0.0.1", 0))
to.listen()
by = socket.create_connection(to.getsockname())
by.setblocking(False)
try:
    while True: by.send(bytes(65536))
except BlockingIOError: pass
for level, option in ((0, 21), (41, 73), (6, 14), (6, 32), (6, 38)):
    try: by.setsockopt(level, option, 255 if level != 6 else bytes(216))
    except OSError as e: refused.append(e.errno)
by.setsockopt(6, 18, 2 ** 31 - 1)
print(json.dumps(refused))
"""


def orphans():
    """TCP sockets on this host whose processes are gone."""
    with open("/proc/net/sockstat") as f:
        return int(f.read().partition("orphan ")[2].split()[0])


def stays(t, mode):
    before = orphans()
    r = mode.python(STAYS)
    t.result(r, "sockets: what would keep one alive is refused", "[1, 1, 1, 1, 1]\n", cause="ok")
    t.ok(caytest.until(lambda: orphans() <= before), "sockets: none is left", before, orphans())


# A futex of a page that both see: the one waits on it, the other wakes it.
FUTEX = """
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
f = open("/usr/bin/env", "rb")
libc.mmap.restype = ctypes.c_void_p
at = ctypes.c_void_p(libc.mmap(None, 4096, 1, 1, f.fileno(), 0))
nr = {"x86_64": 202, "aarch64": 98}[os.uname().machine]
word = int.from_bytes(f.read(4), "little")
if sys.argv[1] == "wait":
    print("waits", flush=True)
    libc.syscall(nr, at, 0, word, ctypes.byref((ctypes.c_long * 2)(20, 0)), None, 0)
else:
    print(libc.syscall(nr, at, 1, 1, None, None, 0))
"""
LOCK = """
import fcntl, sys
f = open("/tmp/lock", "w")
fcntl.lockf(f, fcntl.LOCK_EX, 1, 123456789012)
print("locked", flush=True)
sys.stdin.read()
"""


def test(t, mode):
    code = caytest.program_text("neighbour.py")
    r = mode.python(code, args=["leave"], stdin="")
    t.result(r, "in turn: the first run", cause="ok")
    finds = [look(t, mode.python(code, args=["find"]), "in turn")]

    with mode.live("run", "-l", "python", "-e", code, "--", "leave") as other:
        if t.ok(other.wait_for("}"), "at once: the other runs", other.errors()):
            left = json.loads(other.seen)
            finds.append(look(t, mode.python(code, args=["find"]), "at once"))
            channel = left["locked"] and not finds[-1].get("lock_free", True)
            t.ok(not channel or documented("file lock", "flock"), "at once: locks on shared files are denied or documented as a channel",
                 "flock on /usr/bin/env is seen by the other run, and no page under docs/ speaks of it")
        other.end_input()
        t.equal(other.wait(), 0, "at once: the other was not disturbed", other.errors())

    with mode.live("run", "-l", "python", "-e", FUTEX, "--", "wait") as other:
        if t.ok(other.wait_for("waits"), "futex: the other waits", other.errors()):
            channel = caytest.until(lambda: mode.python(FUTEX, args=["wake"]).stdout == "1\n", 5)
            t.ok(not channel or documented("futex"), "futex: of a shared file it is denied or documented as a channel")
        other.end_input()
        t.equal(other.wait(), 0, "futex: the other was not disturbed", other.errors())

    # Where a lock is can be chosen. (Those of an open file, which no pid namespace hides, are refused: test-seccomp.)
    with mode.live("run", "-l", "python", "-e", LOCK) as other:
        if t.ok(other.wait_for("locked"), "locks: the other has one", other.errors()):
            r = mode.python("print(open('/proc/locks').read())")
            t.ok("123456789012" not in r.stdout, "locks: none of another run's is listed", *r.describe())
        other.end_input()
        t.equal(other.wait(), 0, "locks: the other was not disturbed", other.errors())

    if not mode.is_docker:
        quotas(t, mode)
        stays(t, mode)

    finds += [mode.python(code, args=["find"]).reported() for _ in range(3)]
    finds += [mode.python(code, "--strict", args=["find"]).reported()]
    for kind in ("random", "uuid", "urandom"):
        values = [f.get(kind) for f in finds]
        t.ok(len(set(values)) == len(values) and None not in values, f"{kind}: never the same twice", values)

    jobs = [lambda i=i: mode.python(f"import time\nopen('/tmp/mine', 'x').write('{i}')\ntime.sleep(0.3)\n"
                                    "print(open('/tmp/mine').read())") for i in range(6)]
    answers = [r.stdout for r in caytest.together(jobs, workers=6)]
    t.equal(answers, [f"{i}\n" for i in range(6)], "six at once write the same name, each its own file")
    # Starts and ends that overlap in every way: what one sweeps away must never be another's.
    jobs = [lambda: mode.cay("exec", "--", "/bin/true")] * (1000 if caytest.LONG else 40 if mode.is_docker else 200)
    disturbed = [(d.status, d.err[:200]) for d in caytest.together(jobs, workers=8) if d.status != 0]
    t.empty(disturbed, f"{len(jobs)} short runs, eight at a time: none is disturbed")
    r1, r2 = mode.python("print(1)"), mode.python("print(1)")
    t.ok(r1.get("id") and r1.get("id") != r2.get("id"), "ids are not used twice", r1.get("id"), r2.get("id"))


caytest.main(test, modes=("root", "user", "deleg"))

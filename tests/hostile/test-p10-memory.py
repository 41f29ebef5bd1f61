#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P10: every kind of memory counts, and all kinds are one sum: at most 115 % of the limit, 150 % without a cgroup.

hog writes a letter for each mebibyte that it really holds, so what was reached is counted here, not believed."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

LIMIT = 64
KINDS = ("heap", "anon", "shared", "populate", "memfd", "sysv", "sysv-detached", "sysv-messages", "sockets", "pipes",
         "pipes-and-heap", "sum", "many", "many-shared", "many-without-leader", "one-space", "left-streams", "left-datagrams",
         "resets")
# Charged to no cgroup, so that pid 1 has to look at them.
UNCHARGED = ("netlink", "corked", "corked-by-many", "error-queues", "unaccepted")
# What a kernel takes for a program's sake in no buffer, with limits that let it: none of it, or as much as is counted.
KEPT = {"options": ("--open-files", "8192"), "control": ("--open-files", "8192", "--pids", "4000"),
        "polls": ("--open-files", "16384"), "mappings": (), "names": (), "locks": ()}
CREWS = ("sockets", "many", "many-shared", "many-without-leader")
FILES = ("tmp", "dev-shm")
PYTHON = "x = []\nwhile len(x) < 256:\n    x.append(bytearray(b'y') * (1 << 20))\n    print('x', end='', flush=True)\n"
# Python starts these by vfork, after which parent and child have the same memory for a while.
SPAWNS = """
import subprocess
x = b"a" * (36 << 20)
for _ in range(100):
    subprocess.run(["/bin/true"], close_fds=False)
print("fine")
"""
FEW_SOCKETS = """
import socket, time
kept = [socket.socket() for _ in range(6)] + [socket.socketpair() for _ in range(20)]
for _ in range(8):
    by, to = socket.socketpair()
    by.send(bytes(300))
    by.close()
    kept.append(to)
time.sleep(0.1)
print("fine")
"""


def held(r):
    """Mebibytes that the program said it holds."""
    return len(r.stdout.partition("--")[0].strip())


def pipe_bound():
    """Mebibytes of pipe buffers that one user can have, all processes together."""
    with open("/proc/sys/fs/pipe-user-pages-soft") as f:
        return int(f.read()) * 4096 // caytest.MIB


def bounded(t, mode, r, label, most):
    reached, what = held(r), "were held"
    if label in CREWS and mode.has_cgroup:
        # An OOM kill takes one of a crew and the others go on with what it gave back: letters tell no peak then.
        reached, what = (r.get("meta.usage.memory_peak") or 0) // caytest.MIB, "were the peak"
    t.ok("NOT CONTAINED" not in r.stdout, f"{label}: there is an end to it", f"{reached} MiB", *r.describe())
    t.ok(0 <= reached <= most, f"{label}: at most {most} MiB {what}", f"{reached} MiB")


# Datagrams that nobody reads, as many as are taken.
UDP = """
import os, socket, sys
kept = []
for _ in range(3):
    if os.fork() == 0:
        break
while len(kept) < 450:
    to, by = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    to.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    to.bind(("127.0.0.1", 0))
    by.connect(to.getsockname())
    for _ in range(12):
        by.send(bytes(32000))
    kept.append(to)
print("ready", flush=True)
sys.stdin.read()
"""


# Pages of files are no memory that is held: the kernel drops them when it needs room.
READS = """
import socket, time
with open("/workspace/pages", "rb") as f:
    while f.read(1 << 20):
        pass
kept = []
for _ in range(4):
    to = socket.create_server(("127.0.0.1", 0))
    by = socket.create_connection(to.getsockname())
    kept += [to, by, to.accept()[0]]
    by.setblocking(False)
    try:
        while True:
            by.send(bytes(65536))
    except BlockingIOError:
        pass
time.sleep(0.3)
print("fine")
"""


def reads(t, mode, flags):
    folder = mode.cwd / "reads"
    folder.mkdir(exist_ok=True)
    with open(folder / "pages", "wb") as f:
        for _ in range(2 * LIMIT):
            f.write(bytes(caytest.MIB))
        f.flush()
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if mode.uid is not None:
        os.chown(folder, mode.uid, mode.uid)
        os.chown(folder / "pages", mode.uid, mode.uid)
    r = mode.python(READS, *flags, "--workspace", folder)
    t.result(r, "a file that was read, and a few connections: fine", cause="ok", stdout="fine\n")
    os.unlink(folder / "pages")


def held_by_datagrams():
    """Mebibytes, of all on this machine: the kernel has no count for one namespace."""
    with open("/proc/net/sockstat") as f:
        for line in f:
            if line.startswith("UDP:"):
                return int(line.split("mem ")[1]) * 4096 // caytest.MIB
    return 0


def datagrams(t, mode, flags):
    before = held_by_datagrams()
    with mode.live("run", *flags, "-l", "python", "-e", UDP) as run:
        if t.ok(run.wait_for("ready\nready\nready\nready"), "datagrams: they were sent", run.errors()):
            held = held_by_datagrams() - before
            t.ok(held <= LIMIT * 15 // 100, "datagrams: what is held beside the rest is a small part of the limit", f"{held} MiB")
        run.end_input()
        run.wait()


def test(t, mode):
    # A sanitizer is in pid 1, which is the watcher, and takes a good part of its time.
    most = LIMIT * (115 if mode.has_cgroup else 250 if caytest.SANITIZED else 150) // 100
    flags = ("--memory", f"{LIMIT}m", "--timeout", "20")
    expected = dict(cause="memory", limit_name="memory", limit=LIMIT * caytest.MIB, exit_code=137)
    # Held by looking, which a sanitizer makes slow; and only root can see to it that pid 1 gets its turn where it shares
    # the program's cpu group.
    looks = not caytest.SANITIZED and not mode.is_docker and (mode.is_root or not mode.has_cgroup)
    for kind in (*KINDS, *(() if mode.is_docker else KEPT), *(UNCHARGED if looks else ())):
        files = ("--open-files", "8192") if kind in UNCHARGED else KEPT.get(kind, ())
        r = mode.program("hog", *flags, *files, args=[kind])
        # No file tells a watcher of pipe buffers; the kernel has a bound of its own for each user.
        extra = pipe_bound() if kind.startswith("pipes") and not mode.has_cgroup else 0
        # What is held by looking depends on how soon one gets to look.
        bounded(t, mode, r, kind, LIMIT * 15 // 4 if kind in UNCHARGED else most + extra)
        if "-- refused" in r.stdout and r.cause in ("exit", "pids"):
            # The kernel said no to the program, which lived to tell: a bound as well.
            t.result(r, f"{kind}: refused, and told so", exit_code=1)
        elif mode.is_docker and kind == "sum":  # /tmp has a part of the disk for itself, and is full first
            t.result(r, f"{kind}: the verdict is disk", cause="disk", exit_code=1)
        else:
            t.result(r, f"{kind}: the verdict is memory", **expected)
    for kind in FILES:
        r = mode.program("hog", *flags, args=[kind])
        bounded(t, mode, r, kind, LIMIT // 2)
        t.result(r, f"{kind}: the verdict is disk, half of the memory", cause="disk", limit_name="disk", exit_code=1,
                 meta__resource_limits__disk=LIMIT // 2 * caytest.MIB)

    r = mode.python(PYTHON, *flags)
    bounded(t, mode, r, "python", most)
    t.result(r, "python: memory, or its own MemoryError", cause="memory" if mode.has_cgroup else ("memory", "exit"))
    layers = [x for x in r.layers if x.startswith("cgroup:memory")]
    t.equal(bool(layers), mode.has_cgroup, "the result says whether a cgroup held it", r.layers)
    peak = r.get("meta.usage.memory_peak")
    t.ok(peak is None or 8 * caytest.MIB < peak <= most * caytest.MIB, "the peak that it states is within the bound", peak)

    if mode.has_cgroup and not mode.is_docker:
        datagrams(t, mode, flags)
        reads(t, mode, flags)

    r = mode.python("import socket, time\nkept = [socket.socket() for _ in range(60)]\ntime.sleep(0.5)\nprint('fine')", *flags)
    t.result(r, "sockets that were never used: hold nothing", cause="ok", stdout="fine\n")
    r = mode.python("x = bytearray(20 << 20)\nprint('fine')", *flags)
    t.result(r, "below the limit: fine", cause="ok", stdout="fine\n")
    r = mode.python(SPAWNS, *flags)
    t.result(r, "children in their parent's memory: it counts once", cause="ok", stdout="fine\n")
    peak = r.get("meta.usage.memory_peak")
    t.ok(peak is None or peak <= LIMIT * caytest.MIB, "children in their parent's memory: nor twice in the peak", peak)
    r = mode.python(FEW_SOCKETS, *flags)
    t.result(r, "a few sockets unused, a few messages unread: fine", cause="ok", stdout="fine\n")
    for value in ("0", "-1", "1", "64q", "99999999999g", ""):
        done = mode.cay("exec", "--memory=" + value, "--", "/bin/echo", "RAN")
        t.ok(done.status in (2, 125) and b"memory" in done.err and b"RAN" not in done.out, f"memory {value!r} is refused",
             *done.describe())


caytest.main(test, modes=("root", "user", "deleg"), programs=["hog"])

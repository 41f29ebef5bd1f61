# SPDX-License-Identifier: Apache-2.0
"""The host, seen from outside a sandbox: processes, namespaces, mounts, cgroups, IPC objects and files.

Everything is read from the kernel's own files; nothing is asked of cay. `Host` is a look at all of it before a run, whose
left() tells what is there after it."""

import contextlib
import os
import stat
import time
from pathlib import Path

PRIVATE_DIRS = ("/tmp", "/var/tmp", "/dev/shm")
private = set()  # those of PRIVATE_DIRS that only this script sees
kept = set()  # what is of the host there all the same: the checkout
test_uids = set()  # users made up by this script
engine = None  # a container engine that this script started (caydocker.py): its own things are the host's


def contained():
    """Whether this script has a pid namespace of its own, whose pid 1 is its parent."""
    return os.environ.get("CAY_TEST_CONTAINED") == "1"


def until(condition, timeout=10.0, pause=0.02):
    """Polls until condition() is true; gives back its last value."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value or time.monotonic() >= deadline:
            return value
        time.sleep(pause)


class Process:
    """One line of /proc: pid, parent, state, start (clock ticks), args."""

    def __init__(self, pid):
        self.pid = pid
        text = Path(f"/proc/{pid}/stat").read_text()
        fields = text[text.rindex(")") + 2 :].split()
        self.name = text[text.index("(") + 1 : text.rindex(")")]
        self.state, self.parent, self.start = fields[0], int(fields[1]), int(fields[19])
        self.args = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]

    def status(self):
        """/proc/PID/status as a dict of strings."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return {k: v.strip() for k, _, v in (line.partition(":") for line in lines)}

    def alive(self):
        return self.state not in "ZX"

    def can_run(self):
        """False for the dead, and for those the kernel holds in exit or exit_group."""
        if not self.alive():
            return False
        with contextlib.suppress(OSError, ValueError):
            call = Path(f"/proc/{self.pid}/syscall").read_text().split()[0]
            return call not in ("60", "231")
        return os.path.exists(f"/proc/{self.pid}")

    def __repr__(self):
        words = b" ".join(self.args).decode(errors="replace")[:120]
        return f"{self.pid} {self.state} parent {self.parent} {self.name}: {words}"


def processes():
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                found.append(Process(int(entry)))
    return found


def is_engines(p):
    """Whether it is a part of the engine. What lives in a container is in a pid namespace of its own and never is."""
    if engine is None or p.name.split(":")[0] not in engine.PARTS:
        return False
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{p.pid}/ns/pid") == os.readlink("/proc/self/ns/pid")
    return True


def descendants(root=None):
    """Living processes below `root`; without it, all that this script started, orphans included."""
    everything = processes()
    top = root or (1 if contained() else os.getpid())
    children = {}
    for p in everything:
        children.setdefault(p.parent, []).append(p)
    found, todo = [], [top]
    while todo:
        for p in children.get(todo.pop(), []):
            found.append(p)
            todo.append(p.pid)
    return [p for p in found if p.alive() and p.pid != os.getpid() and not is_engines(p)]


def marked(mark, root=None):
    """Those of descendants() with `mark` in an argument."""
    mark = mark.encode() if isinstance(mark, str) else mark
    return [p for p in descendants(root) if any(mark in a for a in p.args)]


def inside(root=None):
    """Those of descendants() that live in another pid namespace than this script."""
    mine = os.readlink("/proc/self/ns/pid")
    found = []
    for p in descendants(root):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{p.pid}/ns/pid") != mine:
                found.append(p)
    return found


def namespaces(pid="self"):
    """kind → identity, of the namespaces that can be read."""
    found = {}
    for kind in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
        with contextlib.suppress(OSError):
            found[kind] = os.readlink(f"/proc/{pid}/ns/{kind}")
    return found


def mounts():
    """Mount points of this script's mount namespace, with type and source."""
    found = set()
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if engine is None or not left.split()[4].startswith(str(engine.folder)):
            found.add(f"{left.split()[4]} {right.split()[0]} {right.split()[1]}")
    return found


def cgroups():
    """Every cgroup directory of every hierarchy, but for those a neighbour's processes live in: a pid of another
    namespace is shown as 0, and one of ours is below us."""
    found = set()
    ours = {p.pid for p in descendants()}
    for here, folders, _ in os.walk("/sys/fs/cgroup", onerror=lambda e: None):
        for path in (os.path.join(here, d) for d in folders):
            pids = set()
            with contextlib.suppress(OSError, ValueError):
                pids = {int(line) for line in Path(path, "cgroup.procs").read_text().split()}
            if not os.path.islink(path) and (not pids or pids & ours):
                found.add(path)
    return found


def ipc():
    found = set()
    for kind in ("shm", "sem", "msg"):
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]
            found.update(f"{kind} key {line.split()[0]} id {line.split()[1]}" for line in lines)
    with contextlib.suppress(OSError):
        found.update("mqueue " + name for name in os.listdir("/dev/mqueue"))
    return found


def tree(top, skip=()):
    """Every path below `top`, links not followed, the `skip` folders left out."""
    found = set()
    for here, folders, names in os.walk(top, onerror=lambda e: None):
        folders[:] = [d for d in folders if os.path.join(here, d) not in skip]
        found.update(os.path.join(here, n) for n in folders + names)
    return found


class Host:
    """A look at everything a run could leave behind. `left()` gives back what is there now and was not before.

    Other tests may run cay on this machine at the same time: their processes and mounts cannot be seen from here,
    where root runs them nor can their files, and on cgroup v1 nor can their cgroups; elsewhere these go away by
    themselves, so settle() polls."""

    def __init__(self, *folders):
        self.folders = [str(f) for f in folders]
        self.before = self._look()

    def _files(self):
        found = set()
        for top in dict.fromkeys((*PRIVATE_DIRS, "/run", *self.folders)):
            if top not in private and top not in self.folders:
                found |= self._strangers(top)
                continue
            skip = [os.path.join(f, ".local/state/cay") for f in self.folders] + ["/run/cay", *kept]
            found |= tree(top, skip)
        # Lock files are how cay's instances meet; anything else in its run folder would be something left.
        for path in tree("/run/cay"):
            with contextlib.suppress(OSError):
                st = os.lstat(path)
                if not (stat.S_ISREG(st.st_mode) and st.st_size <= 64) and not stat.S_ISDIR(st.st_mode):
                    found.add(path)
        return found

    @staticmethod
    def _strangers(top):
        """A folder that others use too, /run or an ordinary user's /tmp: what is ours by name or by owner."""
        found = set()
        with contextlib.suppress(OSError):
            for entry in os.scandir(top):
                with contextlib.suppress(OSError):
                    is_ours = entry.name.startswith("cay") or entry.stat(follow_symlinks=False).st_uid in test_uids
                    if is_ours and not entry.name.startswith(("cay-test-", "cay-fresh", "cay-canary")):
                        found.add(entry.path)
        return found

    def _look(self):
        return {
            "process": {(p.pid, p.start): p for p in descendants()},
            "mount": {m: m for m in mounts()},
            "cgroup": {c: c for c in cgroups()},
            "ipc": {i: i for i in ipc()},
            "file": {f: f for f in self._files()},
        }

    def left(self):
        now = self._look()
        return [f"{kind} {now[kind][k]}" for kind in now for k in now[kind] if k not in self.before[kind]]

    def settle(self, timeout=10):
        """What is there in every look until `timeout` seconds have gone by: a neighbour's things come and go."""
        stays = set(self.left())

        def look():
            stays.intersection_update(self.left())
            return not stays

        until(look, timeout, 0.1)
        return sorted(stays)

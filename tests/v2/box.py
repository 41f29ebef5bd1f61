# SPDX-License-Identifier: Apache-2.0
"""box.py CGROUP COMMAND...: runs a command as a container does, with CGROUP as all it sees of cgroup v2.

A cgroup namespace takes its root from where its maker is, so this enters CGROUP, makes the namespace,
mounts what it shows, and steps down into a leaf, for a group with processes in it has no controllers
to give to its children.
"""
import ctypes
import os
import sys

CLONE_NEWNS, CLONE_NEWCGROUP, MS_REC, MS_PRIVATE = 0x20000, 0x2000000, 0x4000, 0x40000
ROOT = "/sys/fs/cgroup"
libc = ctypes.CDLL(None, use_errno=True)


def must(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def enter(path):
    with open(path + "/cgroup.procs", "w") as f:
        f.write("0")


enter(f"{ROOT}/{sys.argv[1]}")
must(libc.unshare(CLONE_NEWNS | CLONE_NEWCGROUP))
must(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
must(libc.umount2(ROOT.encode(), 2))
must(libc.mount(b"cgroup2", ROOT.encode(), b"cgroup2", 0, None))
os.makedirs(ROOT + "/leaf", exist_ok=True)
enter(ROOT + "/leaf")
os.execvp(sys.argv[2], sys.argv[2:])

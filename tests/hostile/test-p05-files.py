#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P5: no host file readable outside the language trees, none writable; /dev, /etc, /proc and /sys hold nothing to use."""
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

SWAPPED = 16
DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9)}
BESIDES = {"shm", "fd", "stdin", "stdout", "stderr"}
SECRET_ETC = {"shadow", "gshadow", "shadow-", "gshadow-", "passwd-", "group-", "sudoers", "sudoers.d", "ssh", "machine-id",
              "fstab", "crontab", "cron.d", "subuid", "subgid", "krb5.conf", "apt", "systemd", "docker", "ssl/private"}
MADE_FOR_IT = {"tmpfs", "ramfs", "proc"}
# What an engine puts into each container; the masks over some of it are /dev/null and empty folders.
ENGINES_FILES = {"/.cay-inside", "/.dockerenv"}
ENGINES_DEV = {"pts", "ptmx", "mqueue", "tty"}
CANARY = f"cay-canary-{os.urandom(4).hex()}"  # of this script: another may run beside it


def canaries(mode):
    """World-readable files all over the host; a sandbox that shows any of them shows too much."""
    places = [mode.cwd, mode.home, caytest.workdir(), "/tmp", "/var/tmp", "/dev/shm"]
    if os.getuid() == 0:
        places += ["/srv", "/mnt", "/media", f"/run/{CANARY}", "/home", "/root", f"/opt/{CANARY}"]
    made = []
    for place in places:
        if place in ("/srv", "/mnt", "/media"):  # our mount namespace: nobody else sees it
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755,size=1m", "cay-test", place], check=True)
        try:
            os.makedirs(place, exist_ok=True)
            path = os.path.join(place, f"{CANARY}-file")
            with open(path, "w") as f:
                f.write("canary\n")
            os.chmod(path, 0o644)
            made.append(path)
        except OSError:
            continue
    return made


def remove(made):
    for path in made:
        os.unlink(path)
        if os.path.dirname(path).endswith(CANARY):
            os.rmdir(os.path.dirname(path))
    for place in ("/srv", "/mnt", "/media"):
        if os.getuid() == 0:
            subprocess.run(["umount", place], check=True)


def compiler(t, mode):
    """The compiler is a program of the sandbox as well: what it may read is what the program may."""
    secret = mode.cwd / "secret.h"
    secret.write_text('char found[] = "canary";\n')
    for path in ("/etc/shadow", str(secret), f"/proc/1/root{secret}", "/proc/1/environ"):
        for label, code in (("incbin", f'__asm__(".incbin \\"{path}\\"");'), ("include", f'#include "{path}"\n')):
            r = mode.json("run", "-l", "c", "-e", code + "int main(void) { return 0; }")
            if r.done.status == 127:
                t.skip("compiler", "there is no C here", "c")
                return
            t.result(r, f"compiler: {label} of {path} finds nothing", cause="compile")
            t.ok("canary" not in r.get("stderr", "") and "root:" not in r.get("stderr", ""),
                 f"compiler: {label} of {path} shows nothing", r.get("stderr"))
    secret.unlink()


def names(t, mode):
    """Files go into the sandbox by name: no name leads out of it."""
    for name in ("../x", "/etc/x", "a/../../x", "a/../b", "..", ".", "", "a//b", "a\nb", "a\x1bb", "x" * 256, "a/" * 5000):
        done = mode.cay("exec", "--file", f"{name}=/etc/hostname", "--", "/bin/echo", "RAN")
        t.ok(done.status == 2 and b"RAN" not in done.out, f"file name {name[:20]!r} is refused", *done.describe())
    for path in ("/dev/zero", "/", "/nowhere"):
        done = mode.cay("exec", "--file", f"x={path}", "--", "/bin/echo", "RAN", timeout=20)
        t.ok(done.status not in (0, None) and not done.timed_out and b"RAN" not in done.out,
             f"content from {os.path.basename(path) or path} is refused", *done.describe())
    secret = {"CAY_CANARY_SECRET": "canary-value", "LD_PRELOAD": "", "PYTHONSTARTUP": "/tmp/x"}
    r = mode.json("exec", "--", "/usr/bin/env", env=secret)
    t.result(r, "environment: it runs", cause="ok")
    passed = [line for line in r.stdout.splitlines() if line.split("=")[0] in secret]
    t.empty(passed, "environment: the caller's is not passed on")


# In each of the places where a process finds the folder of its network namespace.
NUMBERS = """
import glob, json, os
shown, others = [], 0
for top in ("/proc/net", "/proc/self/net", "/proc/thread-self/net", *glob.glob("/proc/[0-9]*/net"), *glob.glob("/proc/self/task/*/net")):
    for name in ("sockstat", "protocols", "softnet_stat", "stat", "stat/rt_cache", "stat/arp_cache"):
        path = os.path.join(top, name)
        try: os.chmod(path, 0o755)
        except OSError: pass
        try: shown += [path] if (os.listdir(path) if name == "stat" else open(path).read()) else []
        except OSError: pass
    try: others += len(open(top + "/dev").read()) > 0
    except OSError: pass
print(json.dumps([shown, others]))
"""


def numbers(t, mode):
    """What /proc/net shows of the whole host belongs to the namespace's root: nobody where root runs cay, else the host's."""
    if not mode.is_root or mode.is_docker:
        return
    r = mode.python(NUMBERS)
    shown, others = json.loads(r.stdout) if r.cause == "ok" else (["no report"], 0)
    t.empty(shown, "no number of the host's in /proc/net", *r.describe())
    t.ok(others >= 4, "the namespace's own can be read", others)


def swap_forever(folder, uid):
    """Another user, whose folder it is: links and closed folders change places, without an end."""
    libc = ctypes.CDLL(None)
    libc.prctl(1, signal.SIGKILL)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.chdir(folder)
    while True:
        for i in range(SWAPPED):
            libc.renameat2(-100, b"link%d" % i, -100, b"shut%d" % i, 2)


def swapped(t, mode):
    """Root's workspace that has to be copied, while another user swaps what is in it: nothing outside of it changes."""
    if not mode.is_root or mode.is_docker:
        return
    folder, victims = mode.cwd / "anothers", mode.cwd / "victims"
    folder.mkdir()
    victims.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "ramfs", "cay-test", folder], check=True)  # which knows no idmapped mounts
    for i in range(SWAPPED):
        (victims / f"file{i}").write_text("")
        (victims / f"file{i}").chmod(0o600)
        (folder / f"link{i}").symlink_to(victims / f"file{i}")
        (folder / f"shut{i}").mkdir()
        (folder / f"shut{i}").chmod(0o066)
        os.chown(folder / f"shut{i}", 65534, 65534)
        os.chown(folder / f"link{i}", 65534, 65534, follow_symlinks=False)
    os.chown(folder, 65534, 65534)
    swapper = os.fork()
    if swapper == 0:
        try:
            swap_forever(folder, 65534)
        finally:
            os._exit(1)
    try:
        # One that meets a name as it changes ends before it begins.
        causes = [mode.json("run", "--workspace", folder, "-l", "bash", "-e", ":").cause for _ in range(12)]
    finally:
        os.kill(swapper, signal.SIGKILL)
        os.waitpid(swapper, 0)
    t.ok("ok" in causes, "swapped: some were copied", causes)
    seen = [os.lstat(victims / f"file{i}") for i in range(SWAPPED)]
    t.empty([oct(st.st_mode) for st in seen if st.st_mode & 0o777 != 0o600 or st.st_uid != 0], "swapped: no host file's mode or owner changes")
    subprocess.run(["umount", folder], check=True)


def test(t, mode):
    names(t, mode)
    numbers(t, mode)
    swapped(t, mode)
    compiler(t, mode)
    made = canaries(mode)
    if os.getuid() == 0:  # our UTS namespace
        Path("/proc/sys/kernel/domainname").write_text("cay-canary")
    try:
        r = mode.python("files.py", "--timeout", "60", "--max-output", "2m", "--memory", "512m",
                        args=[*made, str(mode.binary), str(caytest.CAY), str(caytest.ROOT)], timeout=90)
        after = {os.path.join(top, n) for top in ("/tmp", "/dev/shm", mode.cwd, mode.home, "/sandbox")
                 if os.path.isdir(top) for n in os.listdir(top)}
    finally:
        remove(made)
    if not t.result(r, "the search ran", cause="ok"):
        return
    said = r.reported()
    if not t.ok(said, "the search reported", r.stdout[:300]):
        return
    # A fresh, empty folder of that name tells nothing; a listing or content does.
    t.empty(said["read"], "no secret or canary can be read by any name")
    # A container's init is a file of the container's own.
    t.empty([x for x in said["proc_leak"] if not (mode.is_docker and x[0] == "cmdline")],
            "init shows neither its program nor its folders")
    known = ENGINES_FILES if mode.is_docker else set()
    t.empty([p for p in said["outside"] if not p.startswith(("/etc/", "/opt/")) and p not in known],
            "no readable file outside the language trees and /etc")
    t.empty([p for p in said["outside"] if "cay-canary" in p], "no canary anywhere")
    t.empty(SECRET_ETC & set(said["etc"]), "/etc holds no secrets")
    accounts = [line.split(":")[0] for line in said["passwd"].splitlines()]
    t.ok(1 <= len(accounts) <= 4, "/etc/passwd is a fresh, minimal one", accounts)
    t.ok(said["hostname"] != socket.gethostname(), "the host's name is not shown", said["hostname"])
    if os.getuid() == 0 and not mode.is_docker:  # an engine's containers have the host's
        t.equal(said["domain"], "(none)", "nor its NIS domain")

    t.empty(said["writable"], "no folder can be written but its own")
    t.empty(said["written"], "no file can be opened for writing but its own")
    t.empty(said["changed"], "nothing of the host can be changed")
    t.empty(said["made"], "no device node can be made")
    t.empty(said["kernel"], "no file under /proc/sys or /sys can be opened for writing")
    t.equal(said["kallsyms"], 0, "no kernel addresses")
    # A device is one file of the host's; neither its mount's flags nor its folder can be reached through it.
    devices = {f"/dev/{name}" for name in DEVICES} if mode.is_docker else set()
    own = {*MADE_FOR_IT, "devpts", "mqueue"} if mode.is_docker else MADE_FOR_IT
    t.empty([m for m in said["mounts"] if m[1] == "rw" and m[2] not in own and m[0] not in devices],
            "every writable mount is made for the run")
    t.empty([m for m in said["mounts"] if m[2] in ("cgroup", "cgroup2") and m[1] != "ro"], "no writable cgroup mount")
    if not mode.is_docker:  # where no_new_privs alone holds
        t.empty([m for m in said["mounts"] if not m[4] and m[3].lstrip("/") not in DEVICES], "every mount is nosuid")
    t.empty([p for p in after if "cay-wrote-this" in p], "what it writes is not on the host")
    if not mode.is_docker:
        before = os.stat("/dev/null").st_mtime_ns
        mode.json("exec", "--", "/bin/touch", "/dev/null")
        t.equal(os.stat("/dev/null").st_mtime_ns, before, "the times of a device are the host's own")

    nodes = {os.path.basename(p): (major, minor) for p, major, minor in said["devices"]}
    engines = {"tty": (5, 0), "resolv.conf": DEVICES["null"]} if mode.is_docker else {}
    t.equal(nodes, {**DEVICES, **engines}, "exactly five devices")
    t.empty([p for p, *number in said["devices"] if os.path.dirname(p) != "/dev" and not (mode.is_docker and number == [1, 3])],
            "no device outside /dev")
    t.ok(said["tty"] in ((2, 6) if mode.is_docker else (2,)), "no /dev/tty where no terminal was asked for (ENOENT)", said["tty"])
    t.equal(said["terminals"], 0, "and none can be made")
    t.empty(set(said["dev"]) - set(DEVICES) - BESIDES - (ENGINES_DEV if mode.is_docker else set()), "/dev holds nothing else")
    t.empty(said.get("broken", []), "the devices work")
    t.ok(len(said["pids"]) <= 4, "/proc shows the run's own processes only", said["pids"])


caytest.main(test)

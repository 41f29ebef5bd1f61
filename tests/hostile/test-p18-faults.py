#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P18: a server under load whose processes are killed or stopped, or that lacks disk, inodes or files: no answered run is
lost without a word, it recovers by itself or ends in words, and nothing is left.

Clients run all the while; each answer that they get must be right, or say that the run could not be. What was answered is
looked for in the audit log afterwards, which has to be whole."""
import contextlib
import http.client
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest
from cayserve import Server

ENV = {"CAY_WARM": "python", "CAY_SPARES": "1", "CAY_SPARES_MAX": "1", "CAY_DRAIN": "2", "CAY_LOG_LEVEL": "warn"}
CLIENTS = 3
# What another answers who could not be asked: in words. 200: see is_right.
REFUSALS = {429, 500, 503}
IMPORTS = {"language": "python", "code": "import os, socket"}


class Load:
    """Clients who run one after another. `good` counts right answers, `answered` has the ids of all that were given."""

    def __init__(self, s):
        self.s, self.good, self.answered, self.unrecorded, self.wrong, self.is_over = s, 0, set(), set(), [], False
        self.threads = [threading.Thread(target=self.client, args=(i,)) for i in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def client(self, which):
        number = which
        while not self.is_over:
            number += CLIENTS
            rows = ({"command": ["/bin/echo", str(number)]}, {"language": "python", "code": f"print({number})"},
                    {"language": "bash", "code": f"echo {number}; yes | head -c 30000 >&2"})
            try:
                self.take(number, self.s.execute(rows[number // CLIENTS % 3]))
            except (OSError, http.client.HTTPException):  # the front is gone, or stands still
                time.sleep(0.02)

    def take(self, number, r):
        if r.status in REFUSALS and r.error.get("message"):
            return
        if r.status != 200 or r.json is None:
            self.wrong.append(r)
            return
        self.answered.add(r.json["id"])
        if any(w.startswith(("not recorded in the state folder", "not in the audit log")) for w in r.json["meta"]["warnings"]):
            self.unrecorded.add(r.json["id"])
        if r.json["stdout"] == f"{number}\n" and r.json["success"]:
            self.good += 1
        elif r.json["verdict"]["cause"] != "infrastructure" or not r.json["error_message"]:
            self.wrong.append(r)

    def goes_on(self, timeout=60):
        """Whether good answers come, from now on."""
        enough = self.good + 2 * CLIENTS
        return caytest.until(lambda: self.good >= enough, timeout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_over = True
        for thread in self.threads:
            thread.join()


def of_role(s, role):
    """The pids of a server's processes of one kind; of those that have children of their own kind, keepers and workers."""
    everybody = [p for p in caytest.descendants() if p.alive()]
    serving = {p.pid for p in everybody if p.args[1:2] == [b"serve"] and p.parent == s.pid}

    def is_of(p, kind):
        if kind == "recorder":
            return p.args[1:2] == [b"recorder"]
        with contextlib.suppress(OSError):
            return os.path.basename(os.readlink(f"/proc/{p.pid}/exe")).startswith("cay-" + kind)
        return False

    if role in ("front", "nobody"):
        return {s.pid} if role == "front" else set()
    if role == "monitor":
        return serving
    if role == "warden":
        return {p.pid for p in everybody if b"warden" in p.args and p.parent in serving}
    if role == "zygote":  # and none of its programs, which are of the same file
        wardens = of_role(s, "warden")
        return {p.pid for p in everybody if p.parent in wardens and is_of(p, role)}
    kind, _, part = role.partition(" ")
    found = [p for p in everybody if is_of(p, kind)]
    keepers = {p.parent for p in found} & {p.pid for p in found}
    return {p.pid for p in found if not part or (p.pid in keepers) == (part == "keeper")}


def signal_all(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def is_well(s):
    with contextlib.suppress(OSError, http.client.HTTPException):
        return s.get("/v1/health").status == 200
    return False


def checks(s):
    with contextlib.suppress(OSError, http.client.HTTPException):
        return (s.ask("POST", "/v1/check", IMPORTS).json or {}).get("blocked_imports") == ["os", "socket"]
    return False


def missing(mode, ids):
    """Those that are not in the audit log."""
    audit = Path("/var/lib/cay/audit.jsonl") if mode.uid is None else mode.home / ".local/state/cay/audit.jsonl"
    there = audit.read_text() if audit.exists() else ""
    return [id for id in sorted(ids) if id not in there]


def records(mode, load, timeout=30):
    """Whether all that was answered up to now comes to be in the log, but for what was said not to."""
    ids = load.answered - load.unrecorded
    return caytest.until(lambda: not missing(mode, ids), timeout)


def whole(t, mode, load, what, *more):
    t.empty(load.wrong[:3], f"{what}: every answer was right, or said what is wrong")
    records(mode, load)
    t.empty(missing(mode, load.answered - load.unrecorded)[:5], f"{what}: all of {len(load.answered)} that were answered are in the audit log", *more)
    done = mode.cay("audit", "verify")
    t.equal(done.status, 0, f"{what}: which is whole", *done.describe())


# ---- killed and stopped ----

HELPERS = ("warden", "zygote", "recorder keeper", "recorder worker", "recorder", "syntax worker", "syntax keeper")


def killed(t, mode):
    with Server(mode, env=ENV) as s:
        with Load(s) as load:
            t.ok(load.goes_on() and checks(s), "a server under load")
            for role in HELPERS:
                t.ok(caytest.until(lambda role=role: of_role(s, role), 30), f"kill -9 of the {role}: there is one")
                signal_all(of_role(s, role), signal.SIGKILL)
                t.ok(load.goes_on(), f"kill -9 of the {role}: runs go on", s.words()[-500:])
                t.ok(caytest.until(lambda: is_well(s), 30), f"kill -9 of the {role}: health says so", s.get("/v1/health"))
                t.ok(caytest.until(lambda: checks(s), 30), f"kill -9 of the {role}: code is checked")
                t.ok(records(mode, load), f"kill -9 of the {role}: and what is answered is recorded")
            for role in ("monitor", "front"):
                if s.proc.poll() is not None:
                    break
                signal_all(of_role(s, role), signal.SIGKILL)
                t.ok(caytest.until(lambda: s.proc.poll() is not None, 3 if role == "monitor" else 30) or (role == "monitor" and load.goes_on()),
                     f"kill -9 of the {role}: it ends, or goes on")
        t.ok(s.wait(30) is not None, "kill -9: it is gone")
    with Server(mode, env=ENV) as s, Load(s) as after:
        t.ok(after.goes_on(), "kill -9: the next one runs")
        whole(t, mode, load, "kill -9")
    whole(t, mode, after, "the next one")


def stopped(t, mode):
    with Server(mode, env=ENV) as s:
        with Load(s) as load:
            t.ok(load.goes_on() and checks(s), "a server under load, again")
            for role in ("front", "monitor", *HELPERS):
                t.ok(caytest.until(lambda role=role: of_role(s, role), 30), f"SIGSTOP of the {role}: there is one")
                pids = of_role(s, role)
                signal_all(pids, signal.SIGSTOP)
                if role != "front":
                    said = [s.get("/v1/health") for _ in range(20)]
                    t.ok({r.status for r in said} <= {200, 503}, f"SIGSTOP of the {role}: health answers", said[-1])
                signal_all(pids, signal.SIGCONT)
                t.ok(load.goes_on(), f"SIGSTOP of the {role}: then runs go on", s.words()[-500:])
                t.ok(caytest.until(lambda: is_well(s), 30), f"SIGSTOP of the {role}: and health says so")
        whole(t, mode, load, "SIGSTOP")


def stopped_to_the_end(t, mode):
    for role in ("nobody", "warden", "recorder", "syntax", "monitor"):
        with Server(mode, env=ENV) as s:
            with Load(s) as load:
                t.ok(load.goes_on() and checks(s), f"SIGTERM with the {role} stopped: it runs")
                pids = of_role(s, role)
                signal_all(pids, signal.SIGSTOP)
                s.proc.send_signal(signal.SIGTERM)
                is_over = s.wait(2 + 8) is not None  # the drain time, and what a busy machine needs
                t.ok((pids or role == "nobody") and is_over, f"SIGTERM with the {role} stopped: it ends in time", s.words()[-500:])
                if role != "monitor":  # which alone could have others go on
                    alive = lambda pids=pids: pids & {p.pid for p in caytest.descendants() if p.alive()}
                    t.ok(caytest.until(lambda: not alive(), 30), f"SIGTERM with the {role} stopped: and so does that", alive())
            signal_all(pids, signal.SIGCONT)
        with Server(mode, env=ENV):  # takes in what the other could not
            whole(t, mode, load, f"SIGTERM with the {role} stopped")


# ---- too little of something ----

@contextlib.contextmanager
def small_state(options):
    """A state folder on a file system of its own; what all scripts share of root's stays that."""
    folder = Path(tempfile.mkdtemp(dir="/run/cay"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=0700,{options}", "cay-test", folder], check=True)
    for name in caytest.STATE_OF_ALL:
        if (caytest.STATE / name).is_dir():
            (folder / name).mkdir(mode=0o700)
        else:
            (folder / name).touch(mode=0o600)
        subprocess.run(["mount", "--bind", caytest.STATE / name, folder / name], check=True)
    subprocess.run(["mount", "--rbind", folder, caytest.STATE], check=True)
    try:
        yield folder
    finally:
        for place in (caytest.STATE, *(folder / name for name in caytest.STATE_OF_ALL), folder):
            subprocess.run(["umount", "--lazy", place], check=True)
        folder.rmdir()


def fill_disk(folder):
    with open(folder / "filler", "wb", buffering=0) as f, contextlib.suppress(OSError):
        while f.write(b"x" * 4096):
            pass


def fill_inodes(folder):
    (folder / "filler").mkdir()
    with contextlib.suppress(OSError):
        for i in range(1 << 20):
            (folder / "filler" / str(i)).touch()


def full(t, mode):
    for what, options, fill in (("disk full", "size=64m", fill_disk), ("inodes full", "size=64m,nr_inodes=2k", fill_inodes)):
        with small_state(options) as folder:
            with Server(mode, env=ENV) as s:
                with Load(s) as load:
                    t.ok(load.goes_on(), f"{what}: before it is")
                    fill(folder)
                    before = len(load.answered) + len(load.wrong)
                    # It answers, in one way or another, while it is full.
                    t.ok(caytest.until(lambda: len(load.answered) + len(load.wrong) >= before + 2 * CLIENTS or not is_well(s), 30),
                         f"{what}: it answers, or health says why not", s.words()[-500:])
                    t.ok(s.proc.poll() is None, f"{what}: it lives", s.words()[-500:])
                    filler = folder / "filler"
                    shutil.rmtree(filler) if filler.is_dir() else filler.unlink()
                    t.ok(load.goes_on(), f"{what}: it goes on when there is room again", s.words()[-500:])
                    t.ok(caytest.until(lambda: is_well(s), 60), f"{what}: and health says so", s.get("/v1/health"))
                whole(t, mode, load, what, s.words()[-2000:], s.get("/v1/health"))
            t.equal(s.proc.returncode, 0, f"{what}: it ends well")


def few_files(t, mode):
    for n in (24, 48, 96):
        under = ("prlimit", f"--nofile={n}:{n}")
        with Server(mode, env=ENV, under=under, is_ready=False) as s:
            try:
                s.wait_ready()
            except RuntimeError:
                t.ok(s.proc.returncode not in (None, 0) and s.proc.returncode > 0 and "cay: " in s.words(), f"{n} open files: it says why it does not start", s.words())
                continue
            with Load(s) as load:
                t.ok(caytest.until(lambda: load.good >= 2 * CLIENTS or not is_well(s), 60), f"{n} open files: it runs, or health says why not",
                     s.words()[-500:], load.wrong[:2])
            whole(t, mode, load, f"{n} open files")


def two_servers(t, mode):
    with Server(mode, env=ENV) as one, Server(mode, env=ENV) as other:
        with Load(one) as first, Load(other) as second:
            t.ok(first.goes_on() and second.goes_on(), "two servers on one state folder run")
            one.proc.kill()
            one.proc.wait()
            t.ok(second.goes_on(), "two servers: the other one goes on")
        whole(t, mode, first, "two servers: of the one that was killed")
        whole(t, mode, second, "two servers: of the other one")


def test(t, mode):
    if not mode.has_cgroup:
        t.skip("the server", "it needs a cgroup, and none is delegated to this user")
        return
    host = mode.host()
    faults = (killed, stopped, stopped_to_the_end, full, few_files, two_servers)
    if not mode.is_root:
        faults = (killed,)  # the others take long, or take root to bring about
    for fault in faults[::3] if caytest.SANITIZED else faults:
        fault(t, mode)
        for left in Path(mode.cwd).glob("serve-*"):
            shutil.rmtree(left)
        left = [x for x in host.settle(30) if x != f"file /tmp/cay-{mode.uid}"]  # a user's folder for sockets stays
        t.empty(left, f"{fault.__name__}: nothing is left")
    t.skip("a clock that jumps", "the machine's clock is everybody's, and time namespaces have no CLOCK_REALTIME")


caytest.main(test, modes=("root", "deleg"))

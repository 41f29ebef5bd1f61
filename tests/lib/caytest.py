# SPDX-License-Identifier: Apache-2.0
"""What every Python test of cay stands on: TAP output, running cay in each mode, and the two looks at what it did.

A test script is a black box against the contract:

    import caytest

    def test(t, mode):
        r = mode.python("print(1)")
        t.result(r, "prints", cause="ok", stdout="1\n")

    caytest.main(test, modes=("root", "user"))

Run as root, main() first puts the whole script into a pid namespace of its own (everything in it dies with the
script), with a private /tmp, /var/tmp, /dev/shm and /run/cay, a state folder and cgroups of its own, and calls test()
once for each mode:

    root    cay run by root
    user    cay run by an ordinary user without delegated cgroups
    deleg   the same after `cay setup UID`: memory, pids and cpu come from the cgroup

Run by an ordinary user it calls test() once, in mode "user". Names under `CAY_TEST_REQUIRE` (comma separated) turn
a skip for the lack of that feature into a failure; `CAY_TEST_LONG=1` asks for the long loops.

The result is checked in cayresult.py, the host looked at in cayhost.py; their names can be had from here.

It does not know how cay works inside: nothing here may depend on its file, process or cgroup names.
"""

import contextlib
import ctypes
import fcntl
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cayhost
from cayhost import PRIVATE_DIRS, Host, contained, descendants, until
from cayresult import Result

inside, marked, namespaces = cayhost.inside, cayhost.marked, cayhost.namespaces

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "hostile" / "programs"
LONG = os.environ.get("CAY_TEST_LONG", "") not in ("", "0")
SANITIZED = bool(os.environ.get("CAY_SANITIZED"))
# Those that look at nothing but their own runs: anywhere they can run at the same time.
SIDE_BY_SIDE = ("test-audit", "test-check", "test-completion", "test-examples", "test-failures", "test-folders",
                "test-lang-compiled", "test-lang-scripts", "test-languages", "test-output", "test-records",
                "test-restricted-shell", "test-settings", "test-usage", "test-workspace")
# Under the sanitizers once is enough: another user's run takes the same way through our code.
ONE_MODE = (*SIDE_BY_SIDE, "test-compiled", "test-conformance", "test-doctor", "test-images", "test-remote", "test-repeat",
            "test-serve", "test-terminal", "test-tty", "test-watch", "test-p05-files", "test-p08-time", "test-p11-counts",
            "test-p13-neighbours", "test-p13-zygotes", "test-p14-truth", "test-p17-clients", "test-p18-faults", "test-p18-records")
MIB = 1 << 20
STATE = Path("/var/lib/cay")  # root's
STATE_OF_ALL = ("slots", "versions", "compiled")


def some(rows):
    """All rows; under the sanitizers, where a process costs ten times as much, every third."""
    return list(rows)[::3] if SANITIZED else list(rows)


_cay = os.environ.get("CAY", "build/cay")
CAY = Path(_cay) if os.path.isabs(_cay) else ROOT / _cay

_libc = ctypes.CDLL(None, use_errno=True)


# --- TAP ------------------------------------------------------------------------------------------------------------


class Tap:
    """Writes test lines as they come, and the plan at the end."""

    def __init__(self):
        self.count = 0
        self.failed = 0
        self.prefix = ""
        self.required = set(filter(None, os.environ.get("CAY_TEST_REQUIRE", "").split(",")))

    def _line(self, text):
        print(text.replace("\n", "\\n"), flush=True)

    def diag(self, *lines):
        for line in lines:
            for part in str(line).splitlines() or [""]:
                self._line("# " + part[:1000])

    def ok(self, condition, name, *why):
        """One test line; `why` is shown only when it fails."""
        self.count += 1
        name = self.prefix + name.replace("#", "%")
        if condition:
            self._line(f"ok {self.count} - {name}")
        else:
            self.failed += 1
            self._line(f"not ok {self.count} - {name}")
            self.diag(*why)
        return bool(condition)

    def equal(self, got, want, name, *why):
        return self.ok(got == want, name, f"got  {got!r}", f"want {want!r}", *why)

    def empty(self, things, name, *why):
        """Passes when the collection holds nothing; shows what it holds otherwise."""
        listed = list(things.items()) if isinstance(things, dict) else list(things)
        return self.ok(not listed, name, *[f"has {x!r}" for x in listed[:12]], *why)

    def matches(self, text, pattern, name, *why):
        return self.ok(re.search(pattern, text or "", re.I), name, f"got {text!r}", f"want /{pattern}/", *why)

    def skip(self, name, reason, feature=None):
        if feature in self.required:
            return self.ok(False, name, f"{feature} is required, but: {reason}")
        self.count += 1
        self._line(f"ok {self.count} - {self.prefix}{name} # SKIP {name}: {reason}")
        return True

    def result(self, r, name, stdout=None, **want):
        """One line for one run: the schema holds, cay's exit status is the result's, and each named field is as told.

        Fields are dotted paths with `__` for the dot; `cause`, `limit_name` are short for those of the verdict. A
        tuple stands for any one of its members."""
        short = {"cause": "verdict.cause", "limit_name": "verdict.limit_name", "limit": "verdict.limit"}
        wrong = list(r.problems)
        for key, value in want.items():
            path = short.get(key, key.replace("__", "."))
            got = r.get(path)
            allowed = value if isinstance(value, tuple) else (value,)
            if not any(got == v and isinstance(got, bool) == isinstance(v, bool) for v in allowed):
                wrong.append(f"{path} is {got!r}, not {value!r}")
        if stdout is not None and r.get("stdout") != stdout:
            wrong.append(f"stdout is {r.get('stdout')!r}, not {stdout!r}")
        return self.ok(not wrong, name, *wrong, *(r.describe() if wrong else []))

    def finish(self):
        self._line(f"1..{self.count}")
        if self.failed:
            self.diag(f"{self.failed} of {self.count} failed")
        return 1 if self.failed or not self.count else 0


# --- running things -------------------------------------------------------------------------------------------------


class Done:
    """What a finished command left: status (negative: killed by that signal), out, err, seconds, timed_out."""

    def __init__(self, args, status, out, err, seconds, timed_out):
        self.args, self.status, self.out, self.err = args, status, out, err
        self.seconds, self.timed_out = seconds, timed_out

    def describe(self):
        return [
            "command: " + " ".join(str(a) if len(str(a)) < 80 else str(a)[:77] + "..." for a in self.args),
            f"status {self.status}{' (killed by the test: too slow)' if self.timed_out else ''}, {self.seconds:.2f} s",
            f"stdout {self.out[:400]!r}",
            f"stderr {self.err[:600]!r}",
        ]


def _words(args):
    return [str(a) if isinstance(a, int) else os.fspath(a) for a in args]


def _identity(user):
    """subprocess arguments that make the child an ordinary user with no supplementary groups."""
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


def _read(file, most):
    """At most so much of a file, and no room for more than there is: meson has malloc fill all that is asked for."""
    file.seek(0)
    return file.read(min(most, os.fstat(file.fileno()).st_size))


def run(args, stdin=b"", env=None, user=None, timeout=60, cwd=None, pass_fds=(), stdin_fd=None):
    """Runs a command to its end and gives back a Done. Waits for the command only, not for its pipes to close; past
    `timeout` seconds the command is killed and the Done says so."""
    if isinstance(stdin, str):
        stdin = stdin.encode()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as given:
        if stdin_fd is None:
            given.write(stdin)
            given.seek(0)
            stdin_fd = given
        start = time.monotonic()
        proc = subprocess.Popen(
            _words(args), stdin=stdin_fd, stdout=out, stderr=err, env=env, cwd=cwd, pass_fds=pass_fds,
            start_new_session=True, **_identity(user),
        )
        timed_out = False
        try:
            proc.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            proc.kill()
            proc.wait()
        seconds = time.monotonic() - start
        return Done(args, proc.returncode, _read(out, 64 * MIB), _read(err, MIB), seconds, timed_out)


class Live:
    """A command that is still running, its stdout and stdin at hand. Use as a context manager: leaving it kills the
    command (that one process only) if it still runs."""

    def __init__(self, args, env=None, user=None, cwd=None):
        self.args = args
        self.proc = subprocess.Popen(
            _words(args), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=cwd,
            start_new_session=True, bufsize=0, **_identity(user),
        )
        self.pid = self.proc.pid
        self.seen = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()
        for pipe in (self.proc.stdin, self.proc.stdout, self.proc.stderr):
            with contextlib.suppress(OSError):
                pipe.close()

    def wait_for(self, mark, timeout=20):
        """Reads stdout until `mark` has come; False when it ends or `timeout` passes before."""
        fd = self.proc.stdout.fileno()
        os.set_blocking(fd, False)
        mark = mark.encode() if isinstance(mark, str) else mark

        def step():
            with contextlib.suppress(BlockingIOError):
                piece = os.read(fd, 65536)
                self.seen += piece
                return mark in self.seen or piece == b""
            return False

        until(step, timeout)
        return mark in self.seen

    def end_input(self):
        self.proc.stdin.close()

    def signal(self, number):
        os.kill(self.pid, number)

    def wait(self, timeout=30):
        """The exit status, or None when it still runs after `timeout`."""
        try:
            return self.proc.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def errors(self):
        """What came on stderr; call after the end. Never waits for a pipe that somebody still holds."""
        fd = self.proc.stderr.fileno()
        os.set_blocking(fd, False)
        text = b""
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(fd, 65536):
                text += piece
        return text


def together(jobs, workers=4):
    """Runs callables at once and gives back their values in order."""
    with ThreadPoolExecutor(workers) as pool:
        return [f.result() for f in [pool.submit(job) for job in jobs]]


def cay_json(*args, **options):
    """`cay_json("run", "-l", "python", "-e", code)` runs `cay run --json -l python -e code` and gives back a Result.
    Options are those of run()."""
    return Result(run([CAY, args[0], "--json", *args[1:]], **options))


# --- compiled programs ----------------------------------------------------------------------------------------------

_workdir = None


def workdir():
    """A folder for this script, readable by every user, removed at its end."""
    global _workdir
    if _workdir is None:
        _workdir = tempfile.mkdtemp(prefix="cay-test-")
        os.chmod(_workdir, 0o755)
    return Path(_workdir)


def compiled(*names):
    """Compiles programs/NAME.c (statically) or NAME.S (32 bit, no libc), all at once; gives back their paths."""
    jobs = []
    for name in names:
        target = workdir() / name
        source = PROGRAMS / f"{name}.c"
        if source.exists():
            args = ["gcc", "-static", "-O1", "-pthread", "-D_GNU_SOURCE", "-Wall", "-o", target, source]
        else:
            args = ["gcc", "-m32", "-static", "-nostdlib", "-o", target, PROGRAMS / f"{name}.S"]
        jobs.append((name, target, subprocess.Popen(args, stderr=subprocess.PIPE)))
    for name, _, job in jobs:
        errors = job.communicate()[1]
        if job.returncode:
            raise RuntimeError(f"{name} does not compile: {errors.decode()[:600]}")
    return [target for _, target, _ in jobs]


def program_text(name):
    return (PROGRAMS / name).read_text()


# --- modes ----------------------------------------------------------------------------------------------------------


class Mode:
    """One way to run cay: as whom, and with which cgroups. `uid` is None for the caller's own."""

    is_docker = False  # in containers of an engine (caydocker.py): a fixed uid inside, and files of an image

    def __init__(self, name, uid, has_cgroup):
        self.name, self.uid, self.has_cgroup = name, uid, has_cgroup
        self.host_uid = os.getuid() if uid is None else uid
        self.home = workdir() / f"home-{name}"
        self.cwd = workdir() / f"cwd-{name}"
        for folder in (self.home, self.cwd):
            folder.mkdir(mode=0o755, exist_ok=True)
            if uid is not None:
                os.chown(folder, uid, uid)
        self.env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8",
                    "CAY_SERVER": "false"}  # this machine may have one; a test that wants it says so
        self.env.update({k: v for k, v in os.environ.items() if k in ("ASAN_OPTIONS", "UBSAN_OPTIONS")})
        self.binary = _reachable(CAY, uid)

    @property
    def is_root(self):
        return self.host_uid == 0

    def options(self, options):
        options.setdefault("user", self.uid)
        options.setdefault("cwd", self.cwd)
        options["env"] = {**self.env, **(options.get("env") or {})}
        return options

    def command(self, *args, **options):
        """Any command as this mode's user."""
        return run(args, **self.options(options))

    def cay(self, *args, **options):
        return self.command(self.binary, *args, **options)

    def json(self, *args, **options):
        return Result(self.cay(args[0], "--json", *args[1:], **options))

    def python(self, code, *flags, args=(), **options):
        """A Python program, by its text or by its name under programs/."""
        code = program_text(code) if re.fullmatch(r"[\w-]+\.py", code) else code
        tail = ("--", *args) if args else ()
        return self.json("run", "-l", "python", *flags, "-e", code, *tail, **options)

    def program_args(self, name, *flags, args=()):
        return ("exec", *flags, "--file", f"x={workdir() / name}", "--", "/sandbox/x", *map(str, args))

    def program(self, name, *flags, args=(), **options):
        """A program made by compiled()."""
        return self.json(*self.program_args(name, *flags, args=args), **options)

    def live(self, *args):
        return Live([self.binary, *args], env=self.env, user=self.uid, cwd=self.cwd)

    def live_program(self, name, *flags, args=()):
        return self.live(*self.program_args(name, *flags, args=args))

    def terminal(self, *args, timeout=30, typed=""):
        """Runs cay as the leader of a terminal of its own, `typed` on its keyboard; gives back the bytes that came out."""
        pid, master = pty.fork()
        if pid == 0:
            if self.uid is not None:
                os.setgroups([])
                os.setresgid(self.uid, self.uid, self.uid)
                os.setresuid(self.uid, self.uid, self.uid)
            os.chdir(self.cwd)
            os.execve(self.binary, [os.fspath(self.binary), *args], {**self.env, "TERM": "xterm-256color"})
        text = b""
        os.write(master, typed.encode())
        os.set_blocking(master, False)

        def step():
            nonlocal text
            try:
                piece = os.read(master, 65536)
            except BlockingIOError:
                return False
            except OSError:  # how the end of a terminal looks to its master
                return True
            text += piece
            return piece == b""

        if not until(step, timeout):
            os.kill(pid, signal.SIGKILL)
        os.close(master)
        os.waitpid(pid, 0)
        return text.replace(b"\r\n", b"\n")

    def host(self):
        """A look at the host before a run of this mode, but after a first one: what cay keeps for good is no leftover."""
        self.cay("exec", "--", "/bin/true")
        return Host(self.home, self.cwd)


def _reachable(path, uid):
    """`path`, or a copy of it that user `uid` can reach, its shared libraries beside it."""
    if uid is None:
        return path
    check = subprocess.run(["test", "-x", path], **_identity(uid))
    if check.returncode == 0:
        return path
    folder = workdir() / "bin"
    if not folder.exists():
        folder.mkdir(mode=0o755)
        shutil.copy2(path, folder)
        for beside in (*path.parent.glob("*.so*"), *path.parent.glob("cay-*")):
            if beside.is_file():
                shutil.copy2(beside, folder)
    return folder / path.name


def _own_cgroups():
    """On cgroup v1: a group of our own in every hierarchy, with us in it, so that nobody else's come into view. Gives back
    (mount point, type, mount options, open top) of each. On v2 a group with processes cannot hand controllers down: none
    there, but where it is beside v1 and has no controllers (a container engine makes groups in it all the same)."""
    groups = []
    rows = [line.partition(" - ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    has_v1 = any(right.split()[0] == "cgroup" for _, _, right in rows)
    for left, _, right in rows:
        point, (kind, _, options) = left.split()[4], right.split()
        if kind != "cgroup" and (kind != "cgroup2" or not has_v1):
            continue
        words = options.split(",")
        named = [w for w in words if w.startswith("name=")]
        plain = [w for w in words if w not in ("rw", "ro", "xattr", "clone_children") and "=" not in w]
        top = f"/proc/self/fd/{os.open(point, os.O_RDONLY | os.O_DIRECTORY)}"
        folder = os.path.join(top, _group_name())
        os.mkdir(folder)
        if "cpuset" in words:
            for name in ("cpuset.cpus", "cpuset.mems"):
                Path(folder, name).write_text(Path(top, name).read_text())
        Path(folder, _members(kind)).write_text("0")
        groups.append((point, kind, ",".join(["none", *named] if named else plain), top))
    return groups


def _members(kind):
    return "tasks" if kind == "cgroup" else "cgroup.procs"


def _group_name():
    return f"caytest-{_outer_pid()}"


def _see_own_cgroups(groups):
    """A cgroup namespace whose top is our own group, and its hierarchies in the place of the host's."""
    if _libc.unshare(0x02000000) != 0:  # CLONE_NEWCGROUP
        raise OSError(ctypes.get_errno(), "unshare a cgroup namespace")
    for point, kind, options, top in groups:
        subprocess.run(["umount", "--lazy", point], check=True)
        subprocess.run(["mount", "-t", kind, *(["-o", options] if options else []), "cay-test", point], check=True)
        os.close(int(os.path.basename(top)))


def _leave_cgroups(groups):
    """Back to the top, and our groups gone with all that a failed test left in them."""
    for _, kind, _, top in groups:
        with contextlib.suppress(OSError):
            Path(top, _members(kind)).write_text("0")
        for here, _, _ in os.walk(os.path.join(top, _group_name()), topdown=False):
            until(lambda here=here: _is_removed(here), 2, 0.01)


def _is_removed(folder):
    with contextlib.suppress(OSError):
        os.rmdir(folder)
    return not os.path.exists(folder)


def _mount(*words):
    subprocess.run(["mount", *map(str, words)], check=True)


def _own_temporary(folder):
    """An empty file system on `folder`, in which the checkout is where it was."""
    kept = {p for p in (ROOT, CAY.resolve().parent) if p.is_relative_to(folder)}
    kept = [p for p in kept if not any(p != q and p.is_relative_to(q) for q in kept)]
    for number, path in enumerate(kept):  # by way of a place that nothing hides
        os.makedirs(f"/run/cay/kept-{number}")
        _mount("--bind", path, f"/run/cay/kept-{number}")
    _mount("-t", "tmpfs", "-o", "mode=1777,size=2g", "cay-test", folder)
    for number, path in enumerate(kept):
        path.mkdir(mode=0o755, parents=True)
        _mount("--move", f"/run/cay/kept-{number}", path)
        os.rmdir(f"/run/cay/kept-{number}")
        cayhost.kept.add(str(path))
    cayhost.private.add(folder)


def _own_state():
    """What root's cay keeps, of this script alone, on the disk that it is on otherwise: runs of others are in no list.
    Three things are everybody's: the uids in use, and what is known of this machine's languages and of compiled programs.
    Gives back the folder behind it."""
    STATE.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in STATE.parent.glob("cay-test-*"):  # of a script that was killed
        with contextlib.suppress(FileNotFoundError):  # or of one that has just ended
            if time.time() - old.stat().st_mtime > 86400:
                shutil.rmtree(old, ignore_errors=True)
    own = Path(tempfile.mkdtemp(prefix="cay-test-", dir=STATE.parent))
    for top in (STATE, own):
        (top / "compiled").mkdir(mode=0o700, exist_ok=True)
        for name in ("slots", "versions"):
            (top / name).touch(mode=0o600)
    for name in STATE_OF_ALL:
        _mount("--bind", STATE / name, own / name)
    _mount("--rbind", own, STATE)
    return own


def _leave_state(own):
    for path in (STATE, *(own / name for name in STATE_OF_ALL)):
        subprocess.run(["umount", "--lazy", path], check=True)
    shutil.rmtree(own, ignore_errors=True)


def _contain():
    """As root: pid, mount, ipc and uts namespaces of our own around the rest of the script, whose pid 1 only reaps, and
    then clears away. Gives back whether nothing of other scripts can be seen from here."""
    if not contained():
        os.environ["CAY_TEST_CONTAINED"] = "1"
        os.execv("/usr/bin/unshare", ["unshare", "--pid", "--ipc", "--uts", "--fork", "--mount-proc", "--kill-child",
                                      "--", sys.executable, "-B", *sys.argv])
    groups = _own_cgroups()
    os.makedirs("/run/cay", mode=0o755, exist_ok=True)
    _mount("-t", "tmpfs", "-o", "mode=755", "cay-test", "/run/cay")
    own = _own_state()
    worker = os.fork()
    if worker:
        while True:
            with contextlib.suppress(InterruptedError):
                pid, status = os.wait()
                if pid == worker:
                    _leave_cgroups(groups)
                    _leave_state(own)
                    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    if groups:
        _see_own_cgroups(groups)
    for folder in PRIVATE_DIRS:
        _own_temporary(folder)
    os.environ.pop("TMPDIR", None)
    return bool(groups)


def _modes(t, wanted):
    """Yields each Mode that this caller can have, and undoes it after use."""
    if os.getuid() != 0:
        yield Mode("user", None, False)
        return
    # A number of its own for each script, so that neighbours do not meet; far from system and login users, and from nobody.
    uid = 47000 + _outer_pid() % 8000
    for name in wanted:
        if name == "root":
            yield Mode("root", None, True)
        elif name == "user":
            cayhost.test_uids.add(uid)
            yield Mode("user", uid, False)
        elif name == "deleg":
            cayhost.test_uids.add(uid + 10000)
            done = run([CAY, "setup", str(uid + 10000)])
            if not t.ok(done.status == 0, f"deleg: cay setup {uid + 10000}", *done.describe()):
                continue
            try:
                yield Mode("deleg", uid + 10000, True)
            finally:
                done = run([CAY, "setup", "--remove", str(uid + 10000)])
                t.prefix = ""
                t.ok(done.status == 0, f"deleg: cay setup --remove {uid + 10000}", *done.describe())


def _outer_pid():
    return int(os.environ.get("CAY_TEST_OUTER_PID") or os.getpid())


def main(test, modes=("root", "user"), programs=()):
    """Runs test(t, mode) in every mode that this caller can have, prints TAP, and exits."""
    if not os.access(CAY, os.X_OK):
        print(f"Bail out! there is no cay at {CAY}")
        sys.exit(1)
    os.environ.setdefault("CAY_TEST_OUTER_PID", str(os.getpid()))
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup cay would rightly ignore it too
    signal.signal(signal.SIGINT, signal.default_int_handler)  # and this one in a shell's background
    name = Path(sys.argv[0]).stem
    is_unprivileged = False
    if os.getuid() == 0:
        is_unprivileged = _contain()
    else:
        _libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: what cay leaves behind becomes our child
    # Who sees others' things takes them for left ones: one at a time. A folder can be locked without leaving a file.
    lock = os.open(PROGRAMS, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(lock, fcntl.LOCK_SH if is_unprivileged or name in SIDE_BY_SIDE else fcntl.LOCK_EX)
    if SANITIZED and name in ONE_MODE:
        modes = modes[:1]

    t = Tap()
    only = set(filter(None, os.environ.get("CAY_TEST_MODES", "").split(",")))
    try:
        compiled(*programs)
        for mode in _modes(t, [m for m in modes if not only or m in only]):
            t.prefix = mode.name + ": "
            try:
                test(t, mode)
            except Exception as e:  # a broken test is a failed test, and the others still run
                t.ok(False, f"the test itself: {type(e).__name__}", traceback.format_exc())
            _kill_leftovers()
            t.prefix = ""
    finally:
        _kill_leftovers()
        if _workdir:
            shutil.rmtree(_workdir, ignore_errors=True)
    sys.exit(t.finish())


def _kill_leftovers():
    """Ends what escaped a failed test: only our own descendants."""
    for p in descendants():
        if not contained() or p.pid != 1:
            with contextlib.suppress(OSError):
                os.kill(p.pid, signal.SIGKILL)

# SPDX-License-Identifier: Apache-2.0
"""Hostile programs, images and runtimes on the docker backend, for tests/e2e/test-docker.py, whose engine they share:
the scripts of this folder as they are, and what only a container has: an init of ours within reach of its program, an
image that wants more than it should have, an engine that does less than it is asked for."""
import importlib.util
import json
import os
import pathlib
import struct
import subprocess
import traceback
import urllib.parse

import caydocker
import caytest

HERE = pathlib.Path(__file__).resolve().parent
# Those that cost little, and whose look from outside goes another way here; the others in `make test-docker`.
QUICK = ("test-p01-identity", "test-p02-namespaces", "test-p04-sockets", "test-p07-network", "test-p09-processes")
NOT_HERE = ("test-p13-zygotes", "test-p16-server")  # of native's forks, and of a server's doors


def load(path):
    """A test script as a module: what it hands to caytest.main, by name, and the module."""
    box = {}
    kept, caytest.main = caytest.main, lambda test, **options: box.update(options, test=test)
    try:
        spec = importlib.util.spec_from_file_location(path.stem.replace("-", "_"), path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        caytest.main = kept
    return box, module


def scripts(t, mode, is_whole):
    outer = t.prefix
    for path in sorted(HERE.glob("test-p*.py")):
        if path.stem in NOT_HERE or (not is_whole and path.stem not in QUICK):
            continue
        t.prefix = f"{outer}{path.stem}: "
        box, _ = load(path)
        caytest.compiled(*box.get("programs", ()))
        try:
            box["test"](t, mode)
        except Exception as e:
            t.ok(False, f"the test itself: {type(e).__name__}", traceback.format_exc())
    t.prefix = outer


# --- the init, which has the same uid as the program ---------------------------------------------------------------

# Everything that a process can do to another of its own uid. Prints what was done, and ends with a code of its own.
AT_INIT = r"""
import ctypes, json, os, signal
libc = ctypes.CDLL(None, use_errno=True)
done = []
def attempt(name, call, *args):
    ctypes.set_errno(0)
    if libc.syscall(call, *args) >= 0:
        done.append(name)
for number in range(1, 65):  # a pid 1 is deaf to what its children send; some may be told so
    libc.syscall(62, 1, number); libc.syscall(234, 1, 1, number); libc.syscall(200, 1, number)
pidfd = libc.syscall(434, 1, 0)
if pidfd >= 0:
    for number in (9, 15, 19):
        libc.syscall(424, pidfd, number, 0, 0)
limit = (ctypes.c_ulong * 2)(0, 0)
for resource in range(16):
    attempt(f"prlimit {resource}", 302, 1, resource, limit, 0)
attempt("setpriority", 141, 0, 1, 19)
attempt("sched_setscheduler", 144, 1, 5, (ctypes.c_int * 1)(0))
attempt("sched_setaffinity", 203, 1, 8, (ctypes.c_ulong * 1)(1))
attempt("ioprio_set", 251, 1, 1, 3 << 13)
attempt("ptrace attach", 101, 16, 1, 0, 0)
attempt("ptrace seize", 101, 0x4206, 1, 0, 0)
attempt("process_vm_readv", 310, 1, 0, 0, 0, 0, 0)
attempt("process_madvise", 440, pidfd, 0, 0, 4, 0)
attempt("pidfd_getfd", 438, pidfd, 1, 0)
attempt("kcmp", 312, 1, os.getpid(), 0, 0, 0)
attempt("move_pages", 279, 1, 0, 0, 0, 0, 0)
attempt("migrate_pages", 256, 1, 0, 0, 0)
attempt("setpgid", 109, 1, 0)
for name in os.listdir("/proc/1"):
    for flags in (os.O_WRONLY, os.O_RDWR):
        try:
            os.close(os.open(f"/proc/1/{name}", flags))
            done.append(f"opened {name}")
        except OSError:
            pass
for name in ("environ", "maps", "auxv", "syscall", "stack", "pagemap", "personality", "io", "fd/0", "fd/1", "fdinfo/1",
             "map_files", "ns/pid", "cwd", "root", "exe", "task/1/fd/1"):
    try:
        os.close(os.open(f"/proc/1/{name}", os.O_RDONLY))
        done.append(f"read {name}")
    except OSError:
        pass
print(json.dumps(done), flush=True)
os._exit(7)
"""
# So much to do that init never rests: nobody reaped, signals all the time, and no end of output.
BUSY = r"""
import os, signal, time
for i in range(40):
    if os.fork() == 0:
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            os.kill(1, signal.SIGCHLD)
            if os.fork() == 0:
                os._exit(0)
            os.waitpid(-1, 0)
        os._exit(0)
time.sleep(1)
os.write(1, b"x" * 300000)
os._exit(8)
"""


# gVisor of 2022 shows these of any process to everybody; they tell nothing that is not the same in every run.
GVISOR_SHOWS = {"read environ", "read maps", "read auxv", "read fdinfo/1", "read ns/pid"}


KERNELS = [("runc", (), set())]
if os.path.exists("/usr/bin/runsc"):
    KERNELS.append(("gVisor", ("--runtime", "runsc"), GVISOR_SHOWS))


def at_init(t, mode, _):
    for name, flags, shown in KERNELS:
        r = mode.python(AT_INIT, *flags)
        t.result(r, f"everything at pid 1, {name}: the end is the program's own", cause="exit", exit_code=7)
        t.empty(set(json.loads(r.stdout or '["no report"]')) - shown, f"everything at pid 1, {name}: nothing was possible")
    r = mode.python(BUSY, "--max-output", "1k")
    t.result(r, "an init that never rests: all comes through", cause="exit", exit_code=8, meta__usage__stdout_bytes=300000)
    # What the init and its keeper say to each other (wire.h), said by the program: OPEN to ENDED, all of it lies.
    lies = b"".join(struct.pack("HHI", kind, 0, 96) + bytes(96) for kind in range(0, 24))
    engines = struct.pack(">BxxxI", 1, len(lies)) + lies
    for stream in (1, 2):
        r = mode.python(f"import os\nos.write({stream}, {lies + engines!r})\nos._exit(3)")
        t.result(r, f"its words on {('stdout', 'stderr')[stream - 1]}: only words", cause="exit", exit_code=3)
        t.equal(r.get(f"meta.usage.{('stdout', 'stderr')[stream - 1]}_bytes"), len(lies + engines), "each byte of them")


# --- images --------------------------------------------------------------------------------------------------------

# An owner that is dead, on this machine: what a container that was left says of itself.
def dead_owner():
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.stat('/proc/self/ns/pid').st_ino} 4194303 1"


def make_image(engine, name, *changes):
    """The tests' image with something more in it."""
    body = json.dumps({"Image": caydocker.IMAGE, "Cmd": ["mkdir", "-m", "1777", "/data"],
                       "HostConfig": {"NetworkMode": "none"}}).encode()
    made = json.loads(engine.call("POST", "/containers/create", body)[1])["Id"]
    engine.call("POST", f"/containers/{made}/start")
    engine.call("POST", f"/containers/{made}/wait")
    query = urllib.parse.urlencode([("container", made), ("repo", name), ("tag", "latest"),
                                    *(("changes", x) for x in changes)])
    status, answer = engine.call("POST", f"/commit?{query}", b"{}")
    engine.call("DELETE", f"/containers/{made}?force=true")
    if status != 201:
        raise RuntimeError(f"commit: {status} {answer[-500:]}")


TRICKS = ('VOLUME ["/data", "/tmp", "/sandbox/deep"]', "USER root", 'ENTRYPOINT ["/bin/echo", "entry"]', 'CMD ["cmd"]',
          "ENV LD_PRELOAD=/data/x.so CAY_FROM_IMAGE=1 PATH=/data", "WORKDIR /data", "EXPOSE 80",
          'HEALTHCHECK --interval=1s CMD ["touch", "/tmp/health"]')
IN_TRICKS = r"""
import json, os
def tried(path):
    try:
        with open(path, "wb") as f:
            f.write(bytes(1 << 20))
        return "written"
    except OSError as e:
        return e.errno
print(json.dumps([os.getuid(), os.getcwd(), sorted(k for k in os.environ if k in ("LD_PRELOAD", "CAY_FROM_IMAGE")),
                  [tried(p) for p in ("/data/x", "/sandbox/deep/x")], os.path.exists("/tmp/health"),
                  os.statvfs("/tmp").f_blocks * 4096 <= 128 << 20]))
"""


def images(t, mode, engine):
    owner = dead_owner()
    make_image(engine, "cay-tricks", *TRICKS, f'LABEL cay.run="x" cay.owner="{owner}"')
    for name, flags, _ in KERNELS:
        r = mode.python(IN_TRICKS, "--image", "cay-tricks", *flags)
        t.result(r, f"an image full of tricks, {name}: it runs", cause="ok")
        got = json.loads(r.stdout or "null") or [None] * 6
        t.ok(got[0] == 1000 and got[1] == "/sandbox" and got[2] == [] and "written" not in got[3] and not got[4] and got[5],
             f"an image full of tricks, {name}: gets none of what it wants", got)
    volumes = (engine.json("GET", "/volumes") or {}).get("Volumes") or []
    t.empty([v["Name"] for v in volumes], "an image full of tricks: no volume is left")

    # Somebody else's container, of an image that has our labels.
    body = json.dumps({"Image": "cay-tricks", "HostConfig": {"NetworkMode": "none"}}).encode()
    other = json.loads(engine.call("POST", "/containers/create?name=somebodys", body)[1])["Id"]
    done = mode.cay("cleanup")
    t.equal(done.status, 0, "labels of an image: cay cleanup", *done.describe())
    t.equal(engine.call("GET", f"/containers/{other}/json")[0], 200, "labels of an image: somebody's container stays")
    engine.call("DELETE", f"/containers/{other}?force=true&v=true")
    # And one of ours whose maker is dead.
    body = json.dumps({"Image": caydocker.IMAGE, "Labels": {"cay.run": "0" * 32, "cay.owner": owner},
                       "HostConfig": {"NetworkMode": "none"}}).encode()
    engine.call("POST", f"/containers/create?name=cay-{'0' * 32}", body)
    mode.cay("cleanup")
    t.empty(engine.containers(), "labels of our own: what was left is removed")
    engine.call("DELETE", "/images/cay-tricks?force=true")
    for name in ("../../containers/x", "a b", "x:y:z", "-v/:/host", "A", "cay-test@sha256:0", "x" * 159, "a\nb", "%2e%2e/x", ""):
        r = mode.json("exec", "--image", name, "--", "/bin/echo", "RAN")
        t.ok(r.stdout != "RAN\n" and r.done.status in (2, 125) and r.done.err, f"an image named {name[:20]!r}", *r.describe())


# --- an engine that does less than it is asked for --------------------------------------------------------------------

# An OCI runtime that changes what the engine wants, then has runc do it. Its name says what: weak-pid.
RUNTIME = r'''#!/usr/bin/python3 -IS
import json, os, sys
what, args = sys.argv[1], sys.argv[2:]
if "create" in args:
    path = os.path.join(args[args.index("--bundle") + 1], "config.json")
    with open(path) as f:
        spec = json.load(f)
    def drop(kind):
        spec["linux"]["namespaces"] = [n for n in spec["linux"]["namespaces"] if n["type"] != kind]
    rights = ["CAP_SYS_ADMIN", "CAP_NET_RAW"]
    if what == "pid":
        drop("pid")
    elif what == "network":  # the engine's, in place of one of its own: the engine turns IPv6 off in whatever that is
        import subprocess
        for words in ("add weak0 type veth peer name weak1", "set weak0 up"):
            subprocess.run(["/bin/ip", "link", *words.split()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
        drop("network")
        spec["linux"].pop("sysctl", None)
    elif what == "root":
        spec["root"]["readonly"] = False
    elif what == "user":
        spec["process"]["user"] = {"uid": 0, "gid": 0}
    elif what == "caps":
        spec["process"]["capabilities"] = {k: rights for k in ("bounding", "effective", "permitted", "inheritable")}
    elif what == "filter":
        spec["linux"].pop("seccomp", None)
        spec["process"]["noNewPrivileges"] = False
        spec["process"]["rlimits"] = []
    with open(path, "w") as f:
        json.dump(spec, f)
os.execv("/usr/sbin/runc", ["runc", *args])
'''
WEAK = {"pid": "pid_ns", "network": "net_ns", "root": "root can be written", "user": "capabilities", "caps": "capabilities"}


def weak_runtimes(folder):
    """For the engine's configuration."""
    path = folder / "weak"
    path.write_text(RUNTIME)
    path.chmod(0o755)
    return {f"weak-{name}": {"path": str(path), "runtimeArgs": [name]} for name in (*WEAK, "filter")}


def has_veth():
    """Whether the kernel can show a namespace an interface beside its loopback."""
    return subprocess.run(["unshare", "-n", "/bin/ip", "link", "add", "weak0", "type", "veth", "peer", "name", "weak1"],
                          capture_output=True).returncode == 0


def weak_engine(t, mode, engine):
    for name, words in WEAK.items():
        if name == "network" and not has_veth():
            t.skip("a runtime without its network", "veth: this kernel has none to show")
            continue
        r = mode.json("exec", "--runtime", f"weak-{name}", "--", "/bin/echo", "RAN")
        t.result(r, f"a runtime without its {name}: refused", "", cause="infrastructure", exit_code=125)
        t.matches(r.get("error_message"), words, f"a runtime without its {name}: and why")
    r = mode.json("exec", "--runtime", "weak-filter", "--", "/bin/cat", "/proc/self/status")
    view = dict(line.split(":", 1) for line in r.stdout.splitlines() if ":" in line)
    t.equal((r.cause, view.get("Seccomp", "").strip(), view.get("NoNewPrivs", "").strip()), ("ok", "2", "1"),
            "a runtime without its filter: the init's own holds", *r.describe())
    for layer in ("user_ns", "watcher"):
        r = mode.json("exec", "--require", layer, "--", "/bin/echo", "RAN")
        t.result(r, f"{layer} required: refused", "", cause="infrastructure", exit_code=125)
        t.matches(r.get("error_message"), layer, f"{layer} required: by name")
    if os.path.exists("/usr/bin/runsc"):
        r = mode.json("exec", "--runtime", "runsc", "--require", "landlock", "--", "/bin/echo", "RAN")
        t.result(r, "landlock required of gVisor: refused", "", cause="infrastructure", exit_code=125)
        t.matches(r.get("error_message"), "landlock", "landlock required of gVisor: by name")


TESTS = (at_init, images, weak_engine)

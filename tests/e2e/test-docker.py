#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The docker backend on a real engine that this script starts: the conformance suite, promises that are asked from
inside, and what only a container engine has. CAY_DOCKER_LONG=1 (make test-docker) asks for 200 runs, a third of them
killed, and for all of tests/hostile."""
import json
import os
import pathlib
import signal
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "../lib"), str(HERE / "../hostile")]
import caydocker
import caystate
import caytest
import on_docker
from caytest import until

IS_LONG = os.environ.get("CAY_DOCKER_LONG", "") not in ("", "0")
RUNS = 200 if IS_LONG else 12
FLAGS = ("--backend", "docker")
WAITS = "import time\nprint('ready', flush=True)\ntime.sleep(600)"


def none_left(t, engine, name, seconds=20):
    t.ok(until(lambda: engine.containers() == [], seconds), name, engine.containers())


# --- what it is made of ---------------------------------------------------------------------------------------------


def container(t, mode, engine):
    """How the engine describes the container of a run, and what the program finds in it."""
    with mode.live("run", *FLAGS, "--events", "--memory", "300m", "--pids", "40", "--cpus", "0.5", "-l", "python", "-e",
                   WAITS) as run:
        t.ok(run.wait_for("ready"), "a run is up", run.seen)
        ids = [c["Id"] for c in engine.containers()]
        t.equal(len(ids), 1, "it has a container")
        own = engine.json("GET", f"/containers/{ids[0]}/json")
        host, labels = own["HostConfig"], own["Config"]["Labels"]
        first = json.loads(run.seen.decode().splitlines()[0])
        t.equal(labels.get("cay.run"), first.get("data"), "labelled with the run's id", first)
        t.ok(labels.get("cay.owner"), "and with its owner")
        want = dict(Memory=300 << 20, MemorySwap=300 << 20, PidsLimit=41, CpuQuota=50000, ReadonlyRootfs=True,
                    Privileged=False, NetworkMode="none", CapDrop=["ALL"], AutoRemove=True)
        t.equal({k: host.get(k) for k in want}, want, "with the limits of the request, and nothing more")
        t.equal(own["Config"]["User"], "1000:1000", "as an ordinary user")
        t.ok("no-new-privileges" in host["SecurityOpt"] and any(x.startswith("seccomp={") for x in host["SecurityOpt"]),
             "and a filter of cay's own", host["SecurityOpt"])
        sizes = [int(x.split("size=")[1].split(",")[0]) for x in host["Tmpfs"].values()]
        t.ok(sum(sizes) <= 128 << 20, "what can be written is within disk", host["Tmpfs"])
        run.signal(signal.SIGTERM)
        run.wait()
    none_left(t, engine, "and is gone with it")


INSIDE = r"""
import ctypes, json, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def tried(f, *args):
    try:
        f(*args)
        return "done"
    except OSError as e:
        return os.strerror(e.errno)
def call(number, *args):
    ctypes.set_errno(0)
    return "done" if libc.syscall(number, *args) >= 0 else os.strerror(ctypes.get_errno())
status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
print(json.dumps({
    "uids": os.getresuid(), "groups": os.getgroups(),
    "caps": [status["Cap" + x] for x in ("Inh", "Prm", "Eff", "Bnd", "Amb")],
    "nnp": status["NoNewPrivs"], "seccomp": status["Seccomp"],
    "sys": os.listdir("/sys"), "interfaces": [n for _, n in socket.if_nameindex()],
    "init": [tried(os.listdir, "/proc/1/fd"), tried(open, "/proc/1/mem", "wb"), tried(open, "/proc/1/environ", "rb")],
    "init_fd": tried(os.open, "/proc/1/fd/1", os.O_WRONLY),
    "writes": [tried(open, p, "w") for p in ("/x", "/etc/x", "/usr/x", "/dev/x", "/proc/sys/kernel/core_pattern",
                                             "/.cay-inside", "/proc/sysrq-trigger")],
    "unshare": call(272, 0x10000000), "mount": call(165, 0, 0, 0, 0, 0), "ptrace": call(101, 16, 1, 0, 0),
    "io_uring": call(425, 1, 0), "clone3": call(435, 0, 0), "bpf": call(321, 0, 0, 0), "keyctl": call(250, 0, 0),
}))
tried(os.kill, 1, 9), tried(os.kill, 1, 15)
print("still here")
"""


def promises(t, mode, engine):
    r = mode.python(INSIDE, *FLAGS)
    first, _, rest = r.stdout.partition("\n")
    t.result(r, "a look from inside", cause="ok", meta__isolation__tier="kernel")
    got = json.loads(first or "{}")
    t.equal((got.get("uids"), set(got.get("groups", [0])) - {1000}), ([1000] * 3, set()), "P1: one user")
    t.equal((got.get("caps"), got.get("nnp"), got.get("seccomp")), (["0" * 16] * 5, "1", "2"), "P1: no rights")
    t.equal(rest, "still here\n", "P2: pid 1 is not to be killed from inside")
    for name in ("unshare", "mount", "ptrace", "bpf", "keyctl"):
        t.ok(got.get(name) in ("Operation not permitted", "Function not implemented"), f"P3: {name}", got.get(name))
    t.equal((got.get("io_uring"), got.get("clone3")), ("Function not implemented",) * 2, "P3: as on an old kernel")
    t.empty([x for x in got.get("writes", ["none told"]) if x == "done"], "P5: nothing of the root can be written")
    t.equal(got.get("sys"), [], "P5: there is no /sys")
    t.equal((got.get("init"), got.get("init_fd")), (["Permission denied"] * 3, "Permission denied"),
            "P14: the streams that the facts go by are out of reach")
    t.equal(got.get("interfaces"), ["lo"], "P7: no network but its own")


def hostile(t, mode, engine):
    """What tests/hostile has, and the attacks on what is this backend's own."""
    outer, docker = t.prefix, caydocker.DockerMode(engine)
    on_docker.scripts(t, docker, IS_LONG)
    for one in on_docker.TESTS:
        t.prefix = f"{outer}{one.__name__}: "
        one(t, docker, engine)
    t.prefix = outer


def workspace(t, mode, engine):
    top, ro = mode.cwd / "ws", mode.cwd / "ro"
    (top / "sub").mkdir(parents=True)
    (top / "closed").mkdir()
    ro.mkdir()
    for name, text in (("keep", "kept"), ("change", "old"), ("sub/gone", "x"), ("closed/in", "y")):
        (top / name).write_text(text)
    (top / "link").symlink_to("keep")
    (top / "closed").chmod(0o555)
    (ro / "data").write_text("from the host")
    code = ("import os\nprint(os.getcwd(), sorted(os.listdir('.')), open('link').read(), open('/data/data').read())\n"
            "open('change', 'w').write('new'); os.remove('sub/gone'); open('made', 'w').write('made')\n"
            "try: open('/data/x', 'w')\nexcept OSError as e: print(e.errno)")
    r = mode.python(code, *FLAGS, "--workspace", str(top), "--ro", f"{ro}=/data", "--collect", "made")
    t.result(r, "a workspace, copied in and out",
             "/workspace ['change', 'closed', 'keep', 'link', 'sub'] kept from the host\n13\n", cause="ok")
    t.equal({f["path"].removeprefix("/workspace/"): f["change"] for f in r.get("files")},
            {"change": "changed", "made": "created", "sub/gone": "deleted"}, "what it changed is told", r.get("files"))
    t.equal(((top / "change").read_text(), (top / "sub/gone").exists()), ("old", True), "and the folder is untouched")
    (top / "closed").chmod(0o755)
    caytest.run(["rm", "-rf", top, ro])


# --- images ---------------------------------------------------------------------------------------------------------


def busybox(path, **modes):
    """A root with a shell, and folders of these modes."""
    with tarfile.open(path, "w") as tar:
        for name, mode in {"bin": 0o755, **modes}.items():
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, mode
            tar.addfile(info)
        tar.add("/bin/busybox", "bin/busybox")
        for name in ("sh", "cat", "dd"):
            info = tarfile.TarInfo(f"bin/{name}")
            info.type, info.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(info)


def built_on_demand(t, mode, engine, tar):
    """What Debian's packages are is not of interest: what puts them together writes a tar that is there already."""
    if not caytest.contained() or not os.path.exists("/usr/bin/mmdebstrap"):
        t.skip("building it", "needs a mount namespace of its own, and mmdebstrap", "mount")
        return
    program = caytest.workdir() / "mmdebstrap"
    program.write_text(f"#!/bin/sh\nexec cat {tar}\n")
    program.chmod(0o755)
    caytest.run(["mount", "--bind", program, "/usr/bin/mmdebstrap"])
    r = mode.json("exec", *FLAGS, "--yes", "--image", "cay/bash", "--", "sh", "-c", "cat", stdin="in")
    t.result(r, "an image that is missing is built and handed over", "in", cause="ok", meta__image="cay/bash")
    t.ok(engine.json("GET", "/images/cay/bash/json"), "and stays there")
    caytest.run(["umount", "/usr/bin/mmdebstrap"])


def images(t, mode, engine):
    """An image that cay made, and one of somebody's whose /tmp is nobody's to write; and what the result says of them."""
    folder, tar = caystate.private_records(mode, part="images"), mode.cwd / "made.tar"
    folder.chmod(0o755)
    busybox(tar)
    done = mode.cay("image", "import", tar, "--engine", "docker")
    t.equal(done.status, 0, "an image is made and handed over", *done.describe())
    busybox(tar, tmp=0o755)
    engine.call("POST", "/images/create?fromSrc=-&repo=closed&tag=1", tar, "application/x-tar")
    writes = "for d in /tmp /sandbox /dev/shm; do echo $d > $d/x && cat $d/x; done"
    for image in ("cay/made", "closed:1"):
        r = mode.json("exec", *FLAGS, "--image", image, "--", "sh", "-c", writes)
        own = engine.json("GET", f"/images/{image}/json")["Id"]
        t.result(r, f"{image}: what is to be written to can be", "/tmp\n/sandbox\n/dev/shm\n", cause="ok", meta__image=image,
                 meta__image_digest=own, meta__language_version=None)
    built_on_demand(t, mode, engine, tar)
    tar.unlink()
    caystate.unmount_records(folder)
    own = engine.json("GET", f"/images/{caydocker.IMAGE}/json")["Id"]
    want = ".".join(map(str, sys.version_info[:3])) if sys.executable == "/usr/bin/python3" else \
        caytest.run(["/usr/bin/python3", "--version"]).out.decode().split()[1]
    for what, code in (("asked", "print(1)"), ("known", "import time; time.sleep(60)")):
        r = mode.python(code, *FLAGS, "--timeout", "5")
        t.result(r, f"its Python is {what}", meta__image=caydocker.IMAGE, meta__image_digest=own, meta__language_version=want)
    row = next(x for x in json.loads(mode.cay("history", "--json", "--limit", "5").out) if x.get("backend") == "docker")
    t.equal(row.get("image"), caydocker.IMAGE, "and the history has its name", row)


def parts(t, mode, engine):
    """Each place has a part of the disk: which one was full is told."""
    for place, size in (("/tmp", "24m"), ("/sandbox", "32m"), ("/dev/shm", "8m")):
        code = f"open('{place}/x', 'wb').write(bytes(40 << 20))"
        r = mode.python(code, *FLAGS, "--memory", "128m")
        t.result(r, f"{place} is full", cause="disk", limit_name="disk", limit=64 << 20,
                 error_message=f"Execution failed: the limit disk (64m) was reached: {place} has {size} of it")
        t.matches(r.get("verdict.remedy"), f"raise disk .*: {place} has {size} of it", "and said in the remedy")
    code = "try: open('/tmp/x', 'wb').write(bytes(40 << 20))\nexcept OSError: print('full')"
    r = mode.python(code, *FLAGS, "--memory", "128m")
    t.result(r, "one that goes on", "full\n", cause="ok")
    t.ok("the limit disk (64m) was reached: /tmp has 24m of it" in r.get("meta.warnings"), "has it as a warning", r.get("meta.warnings"))
    code = "for i in range(10000): open(f'/dev/shm/{i}', 'w')"
    r = mode.python(code, *FLAGS, "--inodes", "800")
    t.result(r, "no inodes", cause="disk", limit_name="inodes", limit=800)
    t.matches(r.get("error_message"), "inodes .800. was reached: /dev/shm has 100 of it", "of one place")


# --- where the engine is ---------------------------------------------------------------------------------------------


def apart(t, mode, engine):
    """An engine that does not see this machine's files, by its socket and by TCP: cay is where only cay can see it."""
    hide = 'mount -t tmpfs none /mnt && cp "$1" "$2" /mnt && ln -s cay /mnt/cay-full && shift 2 && exec /mnt/cay "$@"'
    with caydocker.Forward(engine.sock) as tcp:
        for name, env in (("a socket", {}), ("TCP", {"DOCKER_HOST": tcp})):
            done = mode.command("unshare", "--mount", "sh", "-c", hide, "sh", mode.binary, mode.binary.parent / "cay-inside",
                                "exec", "--json", *FLAGS, "--", "sh", "-c", "cat; ls -a /.cay; echo x > /.cay/x", stdin="in", env=env)
            r = caytest.Result(done)
            t.result(r, f"another machine's engine by {name}: the init is copied in", "in.\n..\ncay-inside\n", cause="exit",
                     exit_code=2)
            t.matches(r.get("stderr"), "ermission denied", f"another machine's engine by {name}: where nobody can write")
        r = mode.python("import sys; print(sys.stdin.read())", *FLAGS, stdin="over TCP", env={"DOCKER_HOST": tcp})
        t.result(r, "TCP: input and output", "over TCP\n", cause="ok")
    none_left(t, engine, "no container is left")
    t.empty((engine.json("GET", "/volumes") or {}).get("Volumes") or [], "and no volume")


# --- who may, and what is missing -----------------------------------------------------------------------------------


def ordinary_user(t, mode, engine):
    user = caytest.Mode("docker-user", 47000 + os.getpid() % 10000, False)
    user.env.update(DOCKER_HOST=engine.host, SECURITY_DOCKER_IMAGE=caydocker.IMAGE)
    os.chown(engine.sock, 0, 0)
    r = user.python("print(1)", *FLAGS)
    t.result(r, "a user without the engine's group", cause="infrastructure", exit_code=125)
    t.matches(r.get("error_message"), "Cannot connect to Docker daemon.*Permission denied", "is told so")
    t.matches(r.done.err.decode(), "docker", "and what helps")
    os.chown(engine.sock, 0, user.uid)
    r = user.python("import os; print(os.getuid())", *FLAGS)
    t.result(r, "one that is in it", "1000\n", cause="ok", meta__runtime="docker")


def missing(t, mode, engine):
    rows = (
        ("image", ("--image", "no-such:image"), {}, "no such image: 'no-such:image'", "`docker pull no-such:image`"),
        ("default image", ("--image", "coding-agent-sandbox:latest"), {}, "no such image: 'coding-agent-sandbox:latest'",
         "`cay image build python-node --engine docker --tag coding-agent-sandbox:latest` makes it"),
        ("image of cay's", ("--image", "cay/ruby"), {}, "no such image: 'cay/ruby'",
         "`cay image build ruby --engine docker --tag cay/ruby` makes it"),
        ("runtime", ("--runtime", "no-such"), {}, "no runtime 'no-such'", "daemon.json"),
        ("daemon", (), {"DOCKER_HOST": "unix:///no/such.sock"}, "Cannot connect to Docker daemon", "docker"),
        ("program", ("--image", caydocker.IMAGE), {}, "no-such-program: command not found", "--image"),
    )
    for name, flags, env, words, hint in rows:
        r = mode.json("exec", *FLAGS, *flags, "--", "no-such-program" if name == "program" else "true", env=env)
        t.ok(r.cause == "infrastructure" and r.get("exit_code") in (2, 125, 127), f"no such {name}", *r.describe())
        t.matches(r.get("error_message"), words, "is said")
        t.matches(r.done.err.decode(), hint, "with what helps")
    done = mode.cay("exec", *FLAGS, "--", "true", env={"DOCKER_HOST": "ssh://x"})
    t.ok(done.status == 2 and b"docker_host: 'ssh://x' is not" in done.err, "an address of another kind", *done.describe())
    r = mode.python("print(1)", "--backend", "native", "--runtime", "runsc")
    t.matches(r.get("error_message"), "runtime: not supported by backend native", "a runtime goes with a container engine only")


def gvisor(t, mode, engine):
    if not os.path.exists("/usr/bin/runsc"):
        t.skip("gVisor", "runsc is not installed", "runsc")
        return
    code = "import sys; print(open('/proc/version').read().split()[2]); sys.exit(3)"
    r = mode.python(code, "--runtime", "runsc", "--min-isolation", "gvisor")
    t.result(r, "gVisor by one word", "4.4.0\n", cause="exit", exit_code=3, meta__isolation__tier="gvisor",
             meta__runtime="docker")
    r = mode.python(code, "--min-isolation", "gvisor")
    t.result(r, "or by the tier that is asked for", "4.4.0\n", cause="exit", exit_code=3, meta__isolation__tier="gvisor",
             meta__runtime="docker", meta__fallback=None)
    top = mode.cwd / "gvisor"
    top.mkdir()
    (top / "in").write_text("from the host")
    code = ("import os\nprint(os.getresuid(), os.getresgid(), os.getgroups(), open('in').read())\nopen('in', 'a').write('!')\n"
            "os.makedirs('/sandbox/a'); open('/sandbox/a/out', 'w').write('x'); os.chmod('/sandbox/a', 0o700)\n"
            "print([x.split()[1] for x in open('/proc/self/status') if x.startswith('Cap')])")
    r = mode.python(code, "--runtime", "runsc", "--workspace", str(top), "--collect", "/sandbox/a/*")
    t.result(r, "gVisor: an ordinary user without rights, with folders and files", "(1000, 1000, 1000) (1000, 1000, 1000) [] "
             f"from the host\n{['0' * 16] * 4}\n", cause="ok")
    t.equal(sorted((f["path"], f["change"]) for f in r.get("files")), [("/sandbox/a/out", "created"), ("/workspace/in", "changed")],
            "gVisor: what it left is told")
    r = mode.json("run", "--runtime", "runsc", "-l", "c", "-e", "int main(void) { return 4; }")
    t.result(r, "gVisor: a compiled program", cause="exit", exit_code=4)
    caytest.run(["rm", "-rf", top])


# --- what is left ---------------------------------------------------------------------------------------------------


def leftovers(t, mode, engine):
    """A third killed in the middle, by SIGKILL of the command, of its warden, or of all of it."""
    def one(number):
        if number % 3:
            return mode.python("print(1)", *FLAGS).cause == "ok"
        with mode.live("run", *FLAGS, "--events", "-l", "python", "-e", WAITS) as run:
            if number % 2:
                if not run.wait_for("ready", 60):
                    return False
            family = [p.pid for p in caytest.descendants() if p.parent == run.pid]
            family += [p.pid for p in caytest.descendants() if p.parent in family]
            for pid in [run.pid, *(family if number % 4 else [])]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            return run.wait() is not None

    good = caytest.together([lambda i=i: one(i) for i in range(RUNS)], workers=4)
    t.equal(good.count(True), RUNS, f"{RUNS} runs, a third of them killed")
    until(lambda: all(c["State"] == "created" for c in engine.containers()), 20)
    done = mode.cay("cleanup")
    t.equal(done.status, 0, "cay cleanup", *done.describe())
    none_left(t, engine, "no container is left")


def pool(t, mode, engine):
    served(t, mode, engine)
    none_left(t, engine, "and all go with the server")


def served(t, mode, engine):
    """A server has containers ahead."""
    env = {"CAY_SERVER": "true"}
    with mode.live("serve", "--listen", "127.0.0.1:0") as server:
        # Who finds no server does without, and would leave it nothing to be ready for.
        t.ok(until(lambda: list(pathlib.Path("/run/cay").glob("warden-*")), 60), "a server is up", server.errors())
        r = mode.python("open('left', 'w')", *FLAGS, env=env)
        if not t.result(r, "the first one makes its own", cause="ok", meta__start="cold"):
            return
        t.ok(until(lambda: len([c for c in engine.containers() if c["State"] == "running"]) >= 1, 60), "then some are ahead",
             engine.containers(), engine.words())

        def taken(*flags):
            return mode.python("import os; print(os.listdir('.'))", *FLAGS, *flags, env=env)

        r = caytest.Result(taken().done)
        ok = until(lambda: taken().get("meta.start") == "spare", 60, 0.3)
        t.ok(ok, "and are taken", *r.describe())
        until(lambda: len([c for c in engine.containers() if c["State"] == "running"]) >= 1, 60)
        r = None

        def limited():
            nonlocal r
            r = mode.python("import os\ntry:\n  while True: os.fork() or os.pause()\nexcept Exception as e: print(type(e).__name__)"
                            .replace("os.pause()", "__import__('signal').pause()"), *FLAGS, "--pids", "7", env=env)
            return r.get("meta.start") == "spare"

        t.ok(until(limited, 60, 0.3), "with limits of its own", *r.describe())
        t.equal((r.stdout, r.get("meta.resource_limits.pids")), ("BlockingIOError\n", 7), "which hold")
        t.equal(taken().stdout, "['main.py']\n", "and nothing of the one before")
        server.signal(signal.SIGTERM)
        server.wait(60)


def without_gvisor(t, mode):
    """An engine that does not have its runtime says so."""
    tar = mode.cwd / "small.tar"
    busybox(tar)
    with caydocker.Engine(has_gvisor=False) as engine:
        engine.call("POST", "/images/create?fromSrc=-&repo=small&tag=latest", tar, "application/x-tar")
        r = mode.json("exec", "--min-isolation", "gvisor", "--", "sh", "-c", "echo RAN",
                      env=dict(DOCKER_HOST=engine.host, SECURITY_DOCKER_IMAGE="small"))
        t.result(r, "without gVisor: refused", "", cause="infrastructure", exit_code=125)
        t.matches(r.get("error_message"), "the engine has no runtime 'runsc'", "without gVisor: why")
        t.matches(r.done.err.decode(), "apt-get install runsc; .*daemon.json", "without gVisor: what helps")
    tar.unlink()


def podman(t, mode):
    """Another engine that speaks the same language, with an accent."""
    if not os.path.exists("/usr/bin/podman"):
        t.skip("podman", "it is not installed", "podman")
        return
    with caydocker.Podman() as engine:
        engine.make_image(with_c=False)
        env = dict(DOCKER_HOST=engine.host, SECURITY_DOCKER_IMAGE=caydocker.IMAGE)
        r = mode.python("print(1)", *FLAGS, env=env)
        if r.cause != "ok":  # on cgroup v1
            t.matches(r.get("error_message"), "layer cgroup_ns is missing", "podman: a layer that it lacks is named")
            env["CAY_REQUIRE"] = "seccomp,landlock"
            r = mode.python("print(1)", *FLAGS, env=env)
        t.result(r, "podman: runs", "1\n", cause="ok")
        r = mode.python("import sys; open('out', 'w').write(sys.stdin.read()); sys.exit(3)", *FLAGS, "--collect", "out", env=env,
                        stdin="in")
        t.result(r, "podman: input, files, exit code", cause="exit", exit_code=3)
        t.equal([f["path"] for f in r.get("files")], ["/sandbox/out"], "podman: what is collected")
        r = mode.python("import time; time.sleep(60)", *FLAGS, "--timeout", "1", env=env)
        t.result(r, "podman: the wall clock", cause="wall_timeout", exit_code=124)
        r = mode.python("x = bytearray(1 << 30)", *FLAGS, "--memory", "128m", env=env)
        t.result(r, "podman: memory", cause="memory", exit_code=137)
        r = mode.python("open('/run/x', 'w')", *FLAGS, env=env)
        t.matches(r.get("stderr"), "Permission denied", "podman: what it lets be written, landlock does not")
        none_left(t, engine, "podman: no container is left")


TESTS = (container, promises, hostile, images, parts, apart, workspace, ordinary_user, missing, gvisor, pool, leftovers)


def test(t, mode):
    why = caydocker.missing()
    if why:
        t.skip("docker", why, "docker")
        return
    _, conformance = on_docker.load(HERE / "test-conformance.py")
    with caydocker.Engine(on_docker.weak_runtimes) as engine:
        engine.make_image()
        mode.env.update(DOCKER_HOST=engine.host, SECURITY_DOCKER_IMAGE=caydocker.IMAGE)
        outer = t.prefix
        only = os.environ.get("CAY_DOCKER_ONLY", "").split()
        for one in TESTS:
            t.prefix = f"{outer}{one.__name__}: "
            if caytest.SANITIZED and one in (promises, hostile, gvisor):
                continue  # of what the kernels do, not of our code
            if not only or one.__name__ in only:
                one(t, mode, engine)
        t.prefix = outer
        if not only:
            conformance.conform(t, mode, "docker")
    t.prefix = outer
    if not only or "without_gvisor" in only:
        without_gvisor(t, mode)
    if IS_LONG or "podman" in only:
        podman(t, mode)


if __name__ == "__main__":
    caytest.main(test, modes=("root",))

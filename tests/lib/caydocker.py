# SPDX-License-Identifier: Apache-2.0
"""A container engine for the tests: dockerd, started by hand in a network namespace of its own with everything in a
temporary folder, and an image made of this machine's own files, for no registry can be reached."""
import contextlib
import glob
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import cayhost
import caytest
from cayhost import contained

IMAGE = "cay-test:latest"

# What the image has of this machine: programs with the libraries they are linked with, and folders.
PROGRAMS = ("python3 sh bash cat cp echo env false head id kill ls mkdir rm setsid sleep touch true wc").split()
FOLDERS = ("/usr/lib/python3.11",)
LEFT_OUT = ("config-3.11-", "/test/", "/idlelib/", "/ensurepip/", "/lib2to3/", "/turtledemo/", "/tkinter/", "/dist-packages/")
# A C compiler without what only other languages, LTO and static programs need.
C_PROGRAMS = ("gcc as ld").split()
C_FILES = (
    "/usr/lib/gcc/x86_64-linux-gnu/12/cc1", "/usr/lib/gcc/x86_64-linux-gnu/12/collect2",
    "/usr/lib/gcc/x86_64-linux-gnu/12/*.o", "/usr/lib/gcc/x86_64-linux-gnu/12/libgcc*",
    "/usr/lib/gcc/x86_64-linux-gnu/12/liblto_plugin.so", "/usr/lib/x86_64-linux-gnu/*crt*.o",
    "/usr/lib/x86_64-linux-gnu/libc.so", "/usr/lib/x86_64-linux-gnu/libc_nonshared.a",
    "/usr/lib/x86_64-linux-gnu/libm.so", "/usr/lib/x86_64-linux-gnu/libmvec*", "/usr/lib/x86_64-linux-gnu/libm-*",
    "/usr/lib/x86_64-linux-gnu/libgcc_s.so*", "/usr/lib/x86_64-linux-gnu/libpthread.a",
)
C_FOLDERS = ("/usr/lib/gcc/x86_64-linux-gnu/12/include", "/usr/include/x86_64-linux-gnu", "/usr/include/bits",
             "/usr/include/linux", "/usr/include/asm-generic")


def missing():
    """Why there can be no engine here, or None."""
    for name in ("dockerd", "runc", "containerd"):
        if not shutil.which(name, path="/usr/bin:/usr/sbin:/bin:/sbin"):
            return f"{name} is not installed"
    if os.geteuid() != 0:
        return "starting dockerd takes root"
    return None


def _linked(programs):
    """The libraries that these programs load."""
    done = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False)
    return {w for w in done.stdout.split() if w.startswith("/") and not w.endswith(":")}


def _with_targets(paths):
    """Each path without links in its folders, and what it leads to."""
    todo, seen = list(paths), set()
    while todo:
        path = todo.pop()
        path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        if path in seen or not os.path.lexists(path):
            continue
        seen.add(path)
        if os.path.islink(path):
            todo.append(os.path.join(os.path.dirname(path), os.readlink(path)))
    return seen


def make_root(path, with_c=True):
    """Writes the image's root file system as a tar."""
    names = PROGRAMS + (C_PROGRAMS if with_c else [])
    programs = [shutil.which(name, path="/usr/bin:/bin") for name in names]
    files = [one for pattern in C_FILES + ("/usr/include/*.h",) for one in glob.glob(pattern)] if with_c else []
    for folder in FOLDERS + (C_FOLDERS if with_c else ()):
        files += [os.path.join(where, name) for where, _, found in os.walk(folder) for name in found]
    files = [one for one in files if not any(part in one for part in LEFT_OUT)]
    loaded = [one for one in files if one.endswith((".so", "/cc1", "/collect2")) and "/lib/x86" not in one]
    every = _with_targets([*programs, *files, *_linked(programs + loaded)])
    folders = {str(parent) for one in every for parent in pathlib.PurePath(one).parents} - {"/"}
    own = pathlib.Path(f"{path}.d/etc")
    own.mkdir(parents=True)
    (own / "passwd").write_text("root:x:0:0:root:/:/bin/sh\nsandbox:x:1000:1000::/sandbox:/bin/sh\n")
    (own / "group").write_text("root:x:0:\nsandbox:x:1000:\n")
    tops = ["/bin", "/sbin", "/lib", "/lib64", "/proc", "/sys", "/dev", "/tmp", "/run", "/etc"]
    names = "\0".join(sorted({*tops, *folders, *every}))
    subprocess.run(["tar", "-cf", path, "--no-recursion", "--null", "-P", "--transform", "s,^/,,S", "--files-from=-"],
                   input=names.encode(), check=True)
    subprocess.run(["tar", "-rf", path, "-C", own.parent, "etc/passwd", "etc/group"], check=True)
    shutil.rmtree(own.parent)


class Engine:
    """dockerd. `with Engine() as engine:`; engine.host is what DOCKER_HOST should be."""

    PARTS = ("dockerd", "containerd", "containerd-shim", "runc")  # names of its processes, as the kernel cuts them

    def __init__(self, runtimes=None, has_gvisor=True):
        """runtimes: OCI runtimes beside runc and gVisor's, as daemon.json has them, of a function that gets a folder."""
        self.runtimes = runtimes
        self.has_gvisor = has_gvisor and os.path.exists("/usr/bin/runsc")
        # Not where leftovers of cay's are looked for: an engine keeps its own things until it likes.
        place = "/tmp"
        if contained():
            place = "/boot"  # of this script's own mount namespace; nothing in it has to do with us
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755,size=2g", "cay-docker", place], check=True)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cay-docker-", dir=place))
        self.sock = self.folder / "sock"
        self.host = f"unix://{self.sock}"
        self.proc = None

    def command(self):
        config = self.folder / "daemon.json"
        runtimes = {"runsc": {"path": "/usr/bin/runsc", "runtimeArgs": ["--platform=ptrace", "--network=none"]}}
        runtimes = runtimes if self.has_gvisor else {}
        config.write_text(json.dumps({"runtimes": {**runtimes, **(self.runtimes(self.folder) if self.runtimes else {})}}))
        return ["unshare", "-n", "dockerd", "--config-file", config, "--data-root", self.folder / "data", "--exec-root",
                self.folder / "exec", "--pidfile", self.folder / "pid", "--host", self.host, "--iptables=false",
                "--bridge=none", "--group", "root"]

    def __enter__(self):
        self.folder.chmod(0o755)
        self.log = open(self.folder / "log", "wb")
        self.proc = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                     cwd=self.folder, start_new_session=True)  # conmon leaves a file where it stands
        deadline = time.monotonic() + 120
        while not self.answers():
            if self.proc.poll() is not None or time.monotonic() > deadline:
                words = self.words()
                self.stop()
                raise RuntimeError(f"the engine did not come up:\n{words}")
            time.sleep(0.05)
        cayhost.engine = self
        return self

    def __exit__(self, *_):
        cayhost.engine = None
        self.stop()

    def answers(self):
        try:
            return self.call("GET", "/_ping")[0] == 200
        except OSError:
            return False

    def call(self, method, target, body=b"", content="application/json"):
        """One call of the engine's API: its status, and its answer."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(120)
            s.connect(str(self.sock))
            head = f"{method} {target} HTTP/1.0\r\nHost: docker\r\nContent-Type: {content}\r\nContent-Length: "
            if isinstance(body, pathlib.Path):
                s.sendall(f"{head}{body.stat().st_size}\r\n\r\n".encode())
                with open(body, "rb") as f:
                    s.sendfile(f)
            else:
                s.sendall(f"{head}{len(body)}\r\n\r\n".encode() + body)
            data = b""
            while piece := s.recv(65536):
                data += piece
        head, _, rest = data.partition(b"\r\n\r\n")
        return int(head.split()[1]), rest

    def json(self, method, target):
        status, body = self.call(method, target)
        return json.loads(body) if status == 200 else None

    def make_image(self, with_c=True):
        path = self.folder / "root.tar"
        make_root(path, with_c)
        repo, tag = IMAGE.split(":")
        status, body = self.call("POST", f"/images/create?fromSrc=-&repo={repo}&tag={tag}", path, "application/x-tar")
        path.unlink()
        if status != 200 or b"error" in body:
            raise RuntimeError(f"import: {status} {body[-500:]}")

    def words(self):
        """The last that it wrote into its log."""
        return (self.folder / "log").read_text(errors="replace")[-3000:]

    def containers(self):
        """Those that are there in any state, of cay's; each as the engine describes it."""
        return self.json("GET", '/containers/json?all=true&filters=%7B%22label%22%3A%5B%22cay.run%22%5D%7D')

    def stop(self):
        if self.proc and self.proc.poll() is None:
            self.proc.terminate()
            try:
                self.proc.wait(60)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        self.log.close()
        # What a killed engine leaves mounted.
        with open("/proc/self/mounts") as f:
            mounts = [line.split()[1] for line in f if str(self.folder) in line.split()[1]]
        for path in reversed(mounts):
            subprocess.run(["umount", "-l", path], check=False, capture_output=True)
        with contextlib.suppress(OSError):
            shutil.rmtree(self.folder)
        if contained():
            subprocess.run(["umount", "-l", "/boot"], check=False)


class Podman(Engine):
    """podman's service, which speaks Docker's language. By runc: crun wants one version of cgroups only."""

    PARTS = ("podman", "conmon", "runc")

    def command(self):
        places = (("--root", "root"), ("--runroot", "run"), ("--tmpdir", "tmp"))
        return ["unshare", "-n", "podman", *(x for option, name in places for x in (option, self.folder / name)), "--runtime",
                "/usr/sbin/runc", "--cgroup-manager", "cgroupfs", "--events-backend", "file", "system", "service", "--time", "0",
                self.host]


class Forward:
    """The engine's socket at a TCP port of this machine's loopback; `with Forward(sock) as host:` is what DOCKER_HOST is."""

    def __init__(self, sock):
        self.sock = str(sock)
        self.listener = socket.create_server(("127.0.0.1", 0))

    def __enter__(self):
        threading.Thread(target=self._serve, daemon=True).start()
        return f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                outer, _ = self.listener.accept()
                inner = socket.socket(socket.AF_UNIX)
                inner.connect(self.sock)
                for pair in ((outer, inner), (inner, outer)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    @staticmethod
    def _carry(source, target):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


class DockerMode(caytest.Mode):
    """cay run by root, everything in containers of that engine: what the scripts of tests/hostile run in."""

    is_docker = True

    def __init__(self, engine):
        super().__init__("docker", None, True)
        self.engine = engine
        self.env.update(SANDBOX_TYPE="docker", DOCKER_HOST=engine.host, SECURITY_DOCKER_IMAGE=IMAGE)

# SPDX-License-Identifier: Apache-2.0
"""A container engine for the tests: dockerd, started by hand in a network namespace of its own with everything in a
temporary folder, and an image made of this machine's own files, for no registry can be reached."""
import contextlib
import glob
import io
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time

IMAGE = "cay-test:latest"

# What the image has of this machine: programs with the libraries they are linked with, and folders.
PROGRAMS = ("python3 sh bash cat cp echo env false head id kill ls mkdir rm sleep touch true").split()
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
    "/usr/lib/x86_64-linux-gnu/libgcc_s.so*",
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


class Root:
    """A root file system, gathered file by file into a tar."""

    def __init__(self, path):
        self.tar = tarfile.open(path, "w")
        self.seen = set()
        for name in ("proc", "sys", "dev", "tmp", "etc", "sandbox", "run", "var", "usr"):
            self.folder(name)
        for name in ("bin", "sbin", "lib", "lib64"):
            self.link(name, f"usr/{name}")
        self.text("etc/passwd", "root:x:0:0:root:/:/bin/sh\nsandbox:x:1000:1000::/sandbox:/bin/sh\n")
        self.text("etc/group", "root:x:0:\nsandbox:x:1000:\n")

    def folder(self, name):
        if name in self.seen:
            return
        self.seen.add(name)
        info = tarfile.TarInfo(name)
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        self.tar.addfile(info)

    def link(self, name, target):
        if name in self.seen:
            return
        self.seen.add(name)
        info = tarfile.TarInfo(name)
        info.type, info.linkname = tarfile.SYMTYPE, target
        self.tar.addfile(info)

    def text(self, name, text):
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(text), 0o644
        self.tar.addfile(info, io.BytesIO(text.encode()))

    def file(self, path):
        """The file and, if it is a link, what it leads to; by a path that goes through no linked folder."""
        path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        name = path.lstrip("/")
        if name in self.seen or not os.path.lexists(path):
            return
        parts = pathlib.PurePath(name).parents
        for parent in reversed(list(parts)[:-1]):
            self.folder(str(parent))
        if os.path.islink(path):
            self.link(name, os.readlink(path))
            self.file(os.path.join(os.path.dirname(path), os.readlink(path)))
        else:
            self.seen.add(name)
            self.tar.add(path, name, recursive=False)

    def program(self, path):
        self.file(path)
        done = subprocess.run(["ldd", path], capture_output=True, text=True, check=False)
        for word in done.stdout.split():
            if word.startswith("/") and os.path.exists(word):
                self.file(word)

    def tree(self, folder):
        for where, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(where, name)
                if not any(part in path for part in LEFT_OUT):
                    self.file(path)


def make_root(path, with_c=True):
    root = Root(path)
    for name in PROGRAMS + (C_PROGRAMS if with_c else []):
        root.program(shutil.which(name, path="/usr/bin:/bin"))
    for folder in FOLDERS + (C_FOLDERS if with_c else ()):
        root.tree(folder)
    for extension in glob.glob("/usr/lib/python3.11/lib-dynload/_hashlib*.so"):
        root.program(extension)
    if with_c:
        for pattern in C_FILES:
            for one in glob.glob(pattern):
                root.program(one) if os.access(one, os.X_OK) and not os.path.islink(one) else root.file(one)
        for one in glob.glob("/usr/include/*.h"):
            root.file(one)
    root.tar.close()


class Engine:
    """dockerd. `with Engine() as engine:`; engine.host is what DOCKER_HOST should be."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cay-docker-", dir="/tmp"))
        self.sock = self.folder / "sock"
        self.host = f"unix://{self.sock}"
        self.proc = None

    def __enter__(self):
        self.folder.chmod(0o755)
        config = self.folder / "daemon.json"
        runtimes = {"runsc": {"path": "/usr/bin/runsc", "runtimeArgs": ["--platform=ptrace"]}}
        config.write_text(json.dumps({"runtimes": runtimes if os.path.exists("/usr/bin/runsc") else {}}))
        self.log = open(self.folder / "log", "wb")
        self.proc = subprocess.Popen(
            ["unshare", "-n", "dockerd", "--config-file", config, "--data-root", self.folder / "data", "--exec-root",
             self.folder / "exec", "--pidfile", self.folder / "pid", "--host", self.host, "--iptables=false",
             "--bridge=none", "--group", "root"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
        deadline = time.monotonic() + 120
        while not self.answers():
            if self.proc.poll() is not None or time.monotonic() > deadline:
                words = (self.folder / "log").read_text(errors="replace")[-2000:]
                self.stop()
                raise RuntimeError(f"dockerd did not come up:\n{words}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
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

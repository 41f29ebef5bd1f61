#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Images: a tar becomes a root that runs can have and never change; a hostile tar becomes nothing."""
import io
import json
import os
import signal
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import cayserve
import caystate
import caytest
from cayterm import Screen

TAKEOVER = Path(os.environ.get("CAY_BUILD") or caytest.CAY.parent) / "tests" / "takeover"
PYTHON_PARTS = ("encodings", "collections", "importlib", "re", "json")

INSIDE = """
import errno, json, os
def write(path):
    try:
        open(path, "w").close()
        return "written"
    except OSError as e:
        return errno.errorcode[e.errno]
print(json.dumps({
    "release": open("/etc/os-release").read(),
    "writes": {p: write(p) for p in ("/x", "/etc/x", "/usr/x", "/etc/os-release", "/tmp/x", "/sandbox/x", "/dev/shm/x", "/var/tmp/y")},
    "mounts": open("/proc/self/mountinfo").read(),
    "uid": os.getuid(), "user": open("/etc/passwd").read(),
    "mode": os.stat("/usr/bin/setuid").st_mode, "devices": os.path.exists("/usr/bin/null"),
    "top": sorted(os.listdir("/")), "cwd": os.getcwd(), "hidden": os.listdir("/dev"),
}))
"""


def add(tar, name, data=b"", mode=0o755, kind=tarfile.REGTYPE, target=""):
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.type, info.linkname = len(data), mode, kind, target
    tar.addfile(info, io.BytesIO(data))


def tar_of(*entries, mode="w"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=tarfile.PAX_FORMAT) as tar:
        for entry in entries:
            add(tar, *entry[:1], **entry[1])
    return out.getvalue()


def link(name, target):
    return (name, {"kind": tarfile.SYMTYPE, "target": target})


def hard(name, target):
    return (name, {"kind": tarfile.LNKTYPE, "target": target})


def libraries(program):
    text = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return sorted({word for word in text.split() if word.startswith("/")})


def tiny(path):
    """Busybox, and as much of this machine's Python as starts."""
    program = os.path.realpath("/usr/bin/python3")
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"

    def all_root(info):
        info.uid = info.gid = 4711  # nobody's: owners mean nothing
        info.name = info.name.lstrip("/")
        return None if "__pycache__" in info.name else info

    with tarfile.open(path, "w") as tar:
        add(tar, "./usr/bin/busybox", open("/bin/busybox", "rb").read())
        for name in ("sh", "ls", "cat", "bash"):
            add(tar, f"usr/bin/{name}", kind=tarfile.SYMTYPE, target="busybox")
        add(tar, "bin", kind=tarfile.SYMTYPE, target="usr/bin")
        tar.add(program, f"usr/bin/{os.path.basename(program)}", filter=all_root)
        add(tar, "usr/bin/python3", kind=tarfile.SYMTYPE, target=f"/usr/bin/{os.path.basename(program)}")
        add(tar, "usr/bin/setuid", b"#!/bin/sh\n", mode=0o4755)
        add(tar, "usr/bin/hard", kind=tarfile.LNKTYPE, target="./usr/bin/setuid")
        add(tar, "usr/bin/null", kind=tarfile.CHRTYPE)
        add(tar, "dev/extra", b"not shown")
        add(tar, "tmp/extra", b"not shown")
        add(tar, "etc/os-release", b"ID=tiny\n", mode=0o644)
        add(tar, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\nother:x:1000:1000::/:/bin/sh\n", mode=0o644)
        add(tar, "home/", kind=tarfile.DIRTYPE)
        add(tar, "root", kind=tarfile.DIRTYPE, mode=0o700)
        for library in libraries(program):
            tar.add(os.path.realpath(library), library.lstrip("/"), filter=all_root)
        for part in (*PYTHON_PARTS, *(f.name for f in os.scandir(f"/usr/lib/{version}") if f.name.endswith(".py"))):
            tar.add(f"/usr/lib/{version}/{part}", f"usr/lib/{version}/{part}", filter=all_root)
    os.chmod(path, 0o644)


def listed(mode):
    return {row["name"]: row for row in json.loads(mode.cay("image", "list", "--json").out)}


def hidden(folder):
    return [name for name in os.listdir(folder) if name.startswith(".")]


def imports(t, mode, folder, tar):
    done = mode.cay("image", "import", tar)
    t.ok(done.status == 0 and b"1 device" in done.err, "a tar is imported, its device is left out", *done.describe())
    row = listed(mode).get("tiny", {})
    t.ok(row.get("size", 0) > 1e6 and row.get("digest", "").startswith("sha256:") and row.get("used_by") == 0 and
         row.get("from") == "import tiny.tar", "and listed", row)
    t.ok(not hidden(folder), "nothing is left beside it", os.listdir(folder))

    r = mode.json("run", "--image", "tiny", "-l", "python", "-e", INSIDE)
    if not t.result(r, "Python runs in it", cause="ok", meta__start="cold", meta__image="tiny", meta__image_digest=row.get("digest")):
        return
    seen = json.loads(r.get("stdout"))
    t.equal((seen["release"], seen["uid"], seen["cwd"]), ("ID=tiny\n", 1000, "/sandbox"), "its files are the image's")
    t.equal({k: v for k, v in seen["writes"].items() if v != "EROFS"},
            dict.fromkeys(("/tmp/x", "/sandbox/x", "/dev/shm/x", "/var/tmp/y"), "written"), "what can be written is the sandbox's own")
    t.equal(stat.S_IMODE(seen["mode"]), 0o755, "a setuid bit is no more")
    t.ok(not seen["devices"] and "extra" not in seen["hidden"], "nor is a device", seen["hidden"])
    t.ok(seen["user"].startswith("sandbox:x:1000:"), "uid 1000 is sandbox", seen["user"])
    rows = [line.split() for line in seen["mounts"].splitlines()]
    shown = [(row[4], row[5]) for row in rows if row[4] in ("/usr", "/etc", "/var", "/home", "/root")]
    t.ok(shown and all({"ro", "nosuid", "nodev"} <= set(flags.split(",")) for _, flags in shown), "it is mounted read-only, nosuid, nodev", *shown)
    t.ok("images/" not in seen["mounts"] and "tiny" not in seen["mounts"], "no path of the host's is told", seen["mounts"])
    host = mode.json("run", "-l", "python", "-e", "1")
    t.equal(r.get("meta.isolation"), host.get("meta.isolation"), "every layer is in force, as without an image")

    (mode.cwd / "w").mkdir(exist_ok=True)
    (mode.cwd / "w" / "given").write_text("yes")
    os.chmod(mode.cwd / "w", 0o777)
    r = mode.json("exec", "--image", "tiny", "--workspace", "w", "--ro", "w=/home/me/data", "--", "sh", "-c",
                  "cat given /home/me/data/given; busybox touch new")
    t.result(r, "a workspace, and a folder in an empty folder of the image", cause="ok", stdout="yesyes")
    r = mode.json("exec", "--image", "tiny", "--ro", "w=/root/x", "--", "ls", "/root/x")
    t.result(r, "an empty folder of the image is a place too", cause="ok", stdout="given\n")

    done = mode.cay("run", "--image", "tiny", "-l", "ruby", "-e", "1")
    t.ok(done.status == 127 and b"not in image 'tiny'" in done.err, "a runtime that it lacks", *done.describe())
    done = mode.cay("exec", "--image", "tiny", "--", "gcc")
    t.ok(done.status == 127 and b"gcc: command not found in image tiny" in done.err, "a command that it lacks", *done.describe())
    row = json.loads(mode.cay("history", "--json", "--limit", "1").out or "[{}]")[0]
    t.ok(any(x.get("image", "").startswith("tiny@sha256:") for x in json.loads(mode.cay("history", "--json", "--limit", "50").out)),
         "the history tells it", row)


def exports(t, mode):
    digest = listed(mode)["tiny"]["digest"]
    done = mode.cay("image", "export", "tiny")
    t.ok(done.status == 0, "it is exported", done.status, done.err)
    with tarfile.open(fileobj=io.BytesIO(done.out)) as tar:
        names = {m.name: m for m in tar}
    t.ok({"usr/bin/busybox", "tmp", "sandbox", "etc/passwd"} <= set(names) and names["etc/passwd"].uid == 0 and
         {names["usr/bin/setuid"].type, names["usr/bin/hard"].type} == {tarfile.REGTYPE, tarfile.LNKTYPE},
         "as a tar that others can read", *sorted(names)[:20])
    t.equal({n: names[n].mode for n in ("tmp", "sandbox", "var/tmp") if n in names and names[n].isdir()}, {"tmp": 0o1777, "sandbox": 0o755},
            "whose /tmp is everybody's")
    mode.cay("image", "export", "tiny", "-o", "out.tar.zst")
    done = mode.cay("image", "import", "out.tar.zst", "again")
    t.ok(done.status == 0 and listed(mode)["again"]["digest"] == digest, "imported again it is the same", *done.describe())
    t.equal(mode.cay("image", "remove", "again").status, 0, "and removed")
    t.ok("again" not in listed(mode), "it is gone")


def refuses(t, mode, folder):
    """Each of these is somebody's attack, or somebody's mistake."""
    outside = caytest.workdir() / f"outside-{mode.name}"
    outside.mkdir(exist_ok=True)
    os.chmod(outside, 0o777)
    (outside / "secret").write_text("host\n")
    os.chmod(outside / "secret", 0o666)
    way = str(outside)
    file = ("f", {"data": b"x"})
    cases = {
        "a name with ..": (tar_of(("a/../../../../pwn", {"data": b"x"})), 126, b"leads out"),
        "through a link out": (tar_of(link("a", way), ("a/pwn", {"data": b"x"})), 126, b"goes through a link"),
        "through two links": (tar_of(link("b", way), link("a", "b"), ("a/pwn", {"data": b"x"})), 126, b"goes through a link"),
        "a folder over a link": (tar_of(link("a", way), ("a", {"kind": tarfile.DIRTYPE}), ("a/pwn", {"data": b"x"})), 126, b"refused"),
        "/etc is a link": (tar_of(link("etc", way)), 126, b"goes through a link"),
        "a hard link out": (tar_of(hard("a", f"{way}/secret")), 126, b"hard link"),
        "a hard link by ..": (tar_of(hard("a", "../" * 20 + way + "/secret")), 126, b"hard link"),
        "a hard link to a link": (tar_of(link("l", f"{way}/secret"), hard("a", "l"), ("a", {"data": b"pwn"})), 126, b"hard link"),
        "a hard link through a link": (tar_of(link("l", way), hard("a", "l/secret")), 126, b"hard link"),
        "a folder in the way": (tar_of(("d/x", {"data": b"x"}), ("d", {"data": b"x"})), 126, b"in the way"),
        "too deep": (tar_of(("d/" * 200 + "x", {"data": b"x"})), 126, b"too long"),
        "too large": (tar_of(("big", {"data": bytes(300000)}), mode="w:gz"), 125, b"larger than 200000 bytes"),
        "cut off": (tar_of(("big", {"data": os.urandom(100000)}))[:70000], 2, b"can't be read"),
        "no archive": (b"what is this?" * 100, 2, b"can't be read"),
        "nothing": (b"", 2, b""),
        "layers": (tar_of(("manifest.json", {"data": b"[]"}), ("abc/layer.tar", {"data": b""})), 125, b"docker export"),
    }
    before = listed(mode)
    for name, (data, status, words) in cases.items():
        done = mode.cay("image", "import", "--max-size", "200000", "-", "bad", stdin=data)
        t.ok(done.status == status and words in done.err, f"refused: {name}", *done.describe())
    t.equal(listed(mode), before, "none of them is an image")
    t.equal((sorted(os.listdir(outside)), (outside / "secret").read_text()), (["secret"], "host\n"), "nothing outside was touched")
    t.equal(hidden(folder), [], "and nothing is left of them")

    done = mode.cay("image", "import", "-", "fine", stdin=tar_of(("/abs", {"data": b"x"}), ("f", {"data": b"1"}), file, ("f2", {"data": b"x"}),
                                                                 link("f2", "/etc/passwd"), link("lib", "../.."), mode="w:xz"))
    t.ok(done.status == 0, "absolute names, repeated ones and links to anywhere stay inside", *done.describe())
    root = folder / "fine" / "rootfs"
    t.ok((root / "abs").read_text() == "x" and (root / "f").read_text() == "x" and os.readlink(root / "f2") == "/etc/passwd", "as they are told last")
    done = mode.cay("run", "--plan", "--image", "fine", "-l", "bash", "-e", "1")
    t.ok(done.status == 127, "a root without a shell has no shell", *done.describe())
    for name in ("../fine", "Fine", ".fine", "fi/ne", "f" * 64, "host", ""):
        done = mode.cay("image", "import", "-", name, stdin=tar_of(file))
        t.ok(done.status == 2 and b"image:" in done.err, f"no name: '{name[:10]}'", *done.describe())
    for flags, status, words in (
            (("--image", "nosuch"), 127, b"no image is named 'nosuch'"),
            (("--image", "../fine"), 2, b"not the name of an image"),
            (("--image", "tiny", "--shell-allow", "ls"), 125, b"only available with image host"),
            (("--image", "tiny", "--backend", "process", "--min-isolation", "none"), 125, b"backend process cannot use 'tiny'"),
    ):
        done = mode.cay("run", *flags, "-l", "bash", "-e", "1", env={"SECURITY_ENABLE_SANDBOX": "false"})
        t.ok(done.status == status and words in done.err, f"refused: {' '.join(flags)}", *done.describe())
    for flags, status, words in ((("--engine", "dokcer"), 2, b"docker"), (("--engine", "docker"), 125, b"cannot connect")):
        done = mode.cay("image", "import", *flags, "-", "fine", stdin=tar_of(file), env={"DOCKER_HOST": "unix:///nowhere/s"})
        t.ok(done.status == status and words in done.err, f"refused: {' '.join(flags)}", *done.describe())
    t.equal(mode.cay("image", "remove", "fine", "nosuch").status, 127, "one is removed, one is not there")


def endings(t, mode, folder):
    data = tar_of(("big", {"data": os.urandom(200000)}))
    with mode.live("image", "import", "-", "half") as live:
        live.proc.stdin.write(data[:150000])
        t.ok(caytest.until(lambda: hidden(folder) and any((folder / hidden(folder)[0]).rglob("big")), 20), "an import is under way")
        t.ok("half" not in listed(mode), "which is not listed")
        live.signal(signal.SIGINT)
        t.equal(live.wait(), 130, "Ctrl-C ends it")
    t.equal(hidden(folder), [], "and nothing is left")
    with mode.live("image", "import", "-", "half") as live:
        live.proc.stdin.write(data[:150000])
        caytest.until(lambda: hidden(folder) and any((folder / hidden(folder)[0]).rglob("big")), 20)
        done = mode.cay("cleanup")
        t.ok(b"unfinished" not in done.out and hidden(folder), "cleanup leaves it alone while it lives", *done.describe())
        live.signal(signal.SIGKILL)
        live.wait()

    def is_swept():
        return b"unfinished image" in mode.cay("cleanup").out

    t.ok(caytest.until(is_swept, 20, 0.1), "after kill -9, cleanup takes it away")
    t.ok(not hidden(folder) and "half" not in listed(mode), "and it was never an image", os.listdir(folder))


def taken_over(t, mode, folder):
    """Whoever has taken the process over that reads an archive, which waits for more of it."""
    if os.getuid() != 0:
        t.skip("a reader that was taken over", "only root can look into it")
        return
    with mode.live("image", "import", "-", "half") as live:
        live.proc.stdin.write(tar_of(("first", {"data": b"x"}), ("big", {"data": b"x" * 1_000_000}))[:500_000])
        t.ok(caytest.until(lambda: hidden(folder) and any((folder / hidden(folder)[0]).rglob("big")), 20), "an import is under way")
        reader = next(p.pid for p in caytest.descendants() if int(stat_of(p.pid)[1]) == live.pid)
        t.ok(caytest.until(lambda: stat_of(reader)[0] == "S", 20), "its reader waits")
        place = folder / hidden(folder)[0] / "rootfs"
        rows = (("exec", "/usr/bin/id", "EPERM"), ("connect", "/nowhere", "EPERM"), ("signal", str(live.pid), "EPERM"),
                ("read", "/etc/passwd", "EACCES"), ("make", str(folder / "beside"), "EACCES"), ("setuid", str(place / "set"), "EPERM"),
                ("make", str(place / "more"), "done"))
        done = caytest.run([TAKEOVER, str(reader), *(word for row in rows for word in row[:2])])
        if done.status != 77:
            t.equal(done.out.decode().split(), [row[2] for row in rows], "who has taken it over has the image and nothing else", *done.describe())


def stat_of(pid):
    """Its state, its parent, and the rest."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def asks(t, mode, tar):
    """One that is missing and can be built is, where somebody at a terminal wants it. The packages are not of interest here:
    what is asked to put them together writes a tar that is there already (tests/images/run.py has real ones)."""
    program = caytest.workdir() / "mmdebstrap"
    program.write_text(f"#!/bin/sh\nexec cat {tar}\n")
    program.chmod(0o755)
    args = ("exec", "--image", "bash", "--", "sh", "-c", "cat /etc/os-release; wc -c")
    before = listed(mode)

    done = mode.cay(*args)
    t.ok(done.status == 127 and b"`cay image build bash` makes it" in done.err and b"[Y/n]" not in done.err,
         "nobody to ask: a hint that works", *done.describe())
    for answer in (b"n\n", b"\x03", b"\x04", b"who knows\n"):
        with Screen(mode, *args) as s:
            ok = s.wait_for(b"no image is named 'bash'") and s.wait_for(b"`cay image build bash`") and s.wait_for(b"[Y/n]")
            s.type(answer)
            t.ok(ok and s.wait() == 127 and b"no image is named 'bash'" in s.seen, f"asked, and answered {answer!r}: refused", s.status, s.seen)
    t.equal(listed(mode), before, "nothing was built")
    done = mode.cay("exec", "--yes", "--image", "nosuch", "--", "ls")
    t.ok(done.status == 127 and b"cay image list --available" in done.err, "one that nobody knows", *done.describe())
    if not caytest.contained() or os.getuid() != 0 or not os.path.exists("/usr/bin/mmdebstrap"):
        t.skip("building it", "needs a mount namespace of its own, and mmdebstrap", "mount")
        return
    subprocess.run(["mount", "--bind", program, "/usr/bin/mmdebstrap"], check=True)
    with Screen(mode, *args) as s:
        s.wait_for(b"[Y/n]")
        s.type(b"\n")
        t.ok(s.wait_for(b"image bash: ") and s.wait_for(b"ID=tiny"), "wanted: it is built, and the run has it", s.seen)
        s.type(b"typed\n\x04")
        t.ok(s.wait_for(b"6\r\n") and s.wait() == 0, "with what is typed after it", s.status, s.seen)
    mode.cay("image", "remove", "bash")
    r = mode.json("exec", "--yes", "--image", "bash", "--", "sh", "-c", "cat /etc/os-release; wc -c", stdin="four")
    t.result(r, "--yes: without a word", "ID=tiny\n4\n", cause="ok", meta__image="bash")
    mode.cay("image", "remove", "bash")
    program.write_text("#!/bin/sh\necho 'E: no mirror' >&2\nexit 1\n")
    done = mode.cay("exec", "--yes", "--image", "bash", "--", "ls")
    t.ok(done.status == 127 and b"no mirror" in done.err and b"no image is named" in done.err, "one that can't be built", *done.describe())
    t.equal(listed(mode), before, "none of it is left")
    subprocess.run(["umount", "/usr/bin/mmdebstrap"], check=True)


def in_use(t, mode, tar):
    with mode.live("exec", "--image", "tiny", "--", "sh", "-c", "echo up; read x; cat /etc/os-release") as live:
        t.ok(live.wait_for("up\n"), "a run has the image", live.seen)
        t.equal(listed(mode)["tiny"]["used_by"], 1, "the list says so")
        done = mode.cay("image", "remove", "tiny")
        t.ok(done.status == 125 and b"in use" in done.err, "it is not removed", *done.describe())
        done = mode.cay("image", "import", "-", "tiny", stdin=tar_of(("etc/os-release", {"data": b"ID=other\n"})))
        t.ok(done.status == 0 and listed(mode)["tiny"]["files"] < 10, "another takes its place", *done.describe())
        live.proc.stdin.write(b"\n")
        t.ok(live.wait_for("ID=tiny"), "the run keeps the old one", live.seen)
        t.equal(live.wait(), 0, "to its end")
    done = mode.cay("image", "import", tar)
    t.equal(done.status, 0, "it is put back", *done.describe())


def served(t, mode):
    with cayserve.Server(mode, env={"CAY_WARM": "command"}) as s:
        r = s.execute({"command": ["cat", "/etc/os-release"], "image": "tiny"})
        t.ok(r.status == 200 and r.json["stdout"] == "ID=tiny\n" and r.json["meta"]["start"] == "cold", "a server has it too, from a cold start", r)
        r = s.execute({"command": ["ls"], "image": "nosuch"})
        t.ok(r.status == 404 and "nosuch" in r.error.get("message", ""), "or says that there is none", r)


def system(t, mode, folder, tar):
    """What root has made, for everybody."""
    root = caytest.Mode("root", None, True)
    shared = caystate.private_records(root, part="images")
    os.chmod(shared, 0o755)
    try:
        done = root.cay("image", "import", tar, "shared")
        t.equal(done.status, 0, "root imports one", *done.describe())
        t.equal(listed(mode).get("shared", {}).get("where"), "system", "a user sees it")
        r = mode.json("exec", "--image", "shared", "--", "cat", "/etc/os-release")
        t.result(r, "and has it", cause="ok", stdout="ID=tiny\n")
        done = mode.cay("image", "remove", "shared")
        t.ok(done.status == 126 and b"sudo" in done.err, "but does not remove it", *done.describe())
        loose = tar_of(("d", {"kind": tarfile.DIRTYPE, "mode": 0o1777}), ("d/f", {"data": b"x", "mode": 0o666}), ("d/x", {"data": b"x", "mode": 0o775}))
        done = root.cay("image", "import", "-", "loose", stdin=loose)
        found = {str(p): oct(p.lstat().st_mode) for p in Path(shared, "loose").rglob("*") if not p.is_symlink() and p.lstat().st_mode & 0o7022}
        t.ok(done.status == 0 and not found, "nothing in one that others could write to", *done.describe(), found)
        root.cay("image", "remove", "loose")
        os.chmod(shared, 0o777)
        done = mode.cay("exec", "--image", "shared", "--", "ls")
        t.ok(done.status == 126 and b"written by others" in done.err, "nor is it trusted where others could write", *done.describe())
        t.ok("shared" not in listed(mode), "or listed")
    finally:
        caystate.unmount_records(shared)


def test(t, mode):
    if not os.path.exists("/bin/busybox"):
        t.skip("images", "busybox is not installed", "busybox")
        return
    folder = caystate.private_records(mode, part="images")
    if mode.is_root and caytest.contained():
        os.chmod(folder, 0o755)
    tar = caytest.workdir() / "tiny.tar"
    if not tar.exists():
        tiny(tar)
    imports(t, mode, folder, tar)
    exports(t, mode)
    refuses(t, mode, folder)
    endings(t, mode, folder)
    taken_over(t, mode, folder)
    asks(t, mode, tar)
    in_use(t, mode, tar)
    if mode.is_root:
        served(t, mode)
    if not mode.is_root and os.getuid() == 0:
        system(t, mode, folder, tar)
    t.equal(mode.cay("image", "remove", "tiny").status, 0, "removed at last")
    if mode.is_root and caytest.contained():
        caystate.unmount_records(folder)


caytest.main(test)

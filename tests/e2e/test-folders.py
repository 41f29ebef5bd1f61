#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Folders of the host's inside: --workspace and --ro, seen from the program; the host's side is looked at after each."""
import base64
import json
import os
import shutil
import signal
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

REACH = """import os, socket
for folder in ("/data", "/workspace"):
    try:
        socket.socket(socket.AF_UNIX).connect(folder + "/socket")
        print("CONNECTED")
    except OSError as e:
        print(e.errno)
try:
    os.close(os.open("/data/fifo", os.O_WRONLY | os.O_NONBLOCK))
    print("OPENED")
except OSError:
    print("no fifo")
"""
CHANGE = """set -e
echo more >> src/a.txt
rm src/b.txt
mkdir -p new/deep && echo x > new/deep/file
ln -s /etc/passwd link
mv src/c.txt new/
rm -r gone && mkdir gone && echo y > gone/again
chmod 700 src
cat src/a.txt new/c.txt gone/again
ls gone
"""


def make_project(mode):
    top = mode.cwd / "project"
    shutil.rmtree(top, ignore_errors=True)
    for name, text in (("src/a.txt", "a\n"), ("src/b.txt", "b\n"), ("src/c.txt", "c\n"), ("gone/old", "o\n"),
                       ("pkg/helper.py", "VALUE = 41\n"), ("pkg/main.py", "import helper, sys, os\nprint(helper.VALUE + 1, sys.argv[1], os.getcwd())\n"),
                       ("tool.py", "ANSWER = 7\n"), ("private", "secret\n")):
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    os.chmod(top / "private", 0o600)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(top / "socket"))
    os.chmod(top / "socket", 0o777)
    os.mkfifo(top / "fifo", 0o666)
    os.chmod(top / "fifo", 0o666)
    for folder, _, names in os.walk(top):
        for name in [folder, *(os.path.join(folder, n) for n in names)]:
            os.chown(name, mode.host_uid, mode.host_uid)
    return top


def snapshot(top):
    """Everything about a tree but times of access."""
    seen = {}
    for folder, _, names in os.walk(top):
        for name in [folder, *(os.path.join(folder, n) for n in names)]:
            st = os.lstat(name)
            is_file = os.path.isfile(name) and not os.path.islink(name)
            seen[name] = (st.st_mode, st.st_uid, st.st_mtime_ns, st.st_ctime_ns, st.st_ino, open(name, "rb").read() if is_file else b"")
    return seen


def copied(t, mode):
    """Root's workspace on a file system without idmapped mounts is a copy; nothing else is different."""
    if not mode.is_root:
        return
    base = mode.cwd / "stack"
    for name in ("lower/gone/deep", "upper", "work", "merged"):
        (base / name).mkdir(parents=True)
    for name, text in (("a", "a\n"), ("same", "same\n"), ("gone/deep/x", "x\n"), ("quiet", "1234\n")):
        (base / "lower" / name).write_text(text)
    os.chmod(base / "lower/same", 0o600)
    os.symlink("a", base / "lower/link")
    merged = base / "merged"
    done = mode.command("mount", "-t", "overlay", "overlay", "-o",
                        f"lowerdir={base}/lower,upperdir={base}/upper,workdir={base}/work", merged)
    if done.status != 0:
        t.skip("a workspace that has to be copied", "overlayfs: can't be mounted on this file system", "overlayfs")
        return
    before = snapshot(merged)
    r = mode.json("run", "--workspace", merged, "--collect", "same", "-l", "bash", "-e",
                  "echo b >> a; rm -r gone; ln -sf b link; mkdir new; touch new/n; touch -r quiet /tmp/t; echo 4321 > quiet; "
                  "touch -r /tmp/t quiet; stat -c %U same; cat same; chmod 700 new; mv new newer")
    t.result(r, "a workspace that is a copy", "sandbox\nsame\n", cause="ok")
    t.equal(snapshot(merged), before, "the host's folder is as it was")
    t.equal([(f["path"][11:], f["change"]) for f in r.get("files") or []],
            [("a", "changed"), ("gone", "deleted"), ("gone/deep", "deleted"), ("gone/deep/x", "deleted"), ("link", "changed"),
             ("newer", "created"), ("newer/n", "created"), ("quiet", "changed"), ("same", "unchanged")],
            "its change set is exact, also where a time was set back")
    mode.command("umount", merged)


STOPPED = "files are not listed: the run was stopped before it could tell of them"
SPIN = "while True: pass"
FLOOD = "while True: print('x' * 9999)"


def test_stopped(t, mode, top, before):
    """What a run left that reached a limit is told as after any other end; not what was cancelled."""
    rows = (
        ("wall_timeout", ("--timeout", "1"), "import time; time.sleep(100)"),
        ("cpu_timeout", ("--cpu-time", "1"), SPIN),
        ("output", ("--output-cap", "1m"), FLOOD),
    )
    for cause, flags, then in rows:
        r = mode.json("run", "--workspace", top, "--collect", "*.log", *flags, "-l", "python", "-e",
                      f"open('a.log', 'w').write('begun')\nopen('tool.py', 'w').write('')\n{then}")
        found = [(f["path"], f["change"], f.get("base64")) for f in r.get("files") or []]
        t.result(r, f"{cause}: it is told so", cause=cause, signal=None)
        t.equal(found, [("/workspace/a.log", "created", "YmVndW4="), ("/workspace/tool.py", "changed", None)],
                f"{cause}: with the files that it left", *r.done.describe())
    t.equal(snapshot(top), before, "and the folder is as it was")

    # Somebody else still writes when the time is up: nobody does any more when what they left is told.
    writer = "(while :; do echo x >> more; done) & while [ ! -s more ]; do :; done; sleep 100"
    r = mode.json("run", "--workspace", top, "--collect", "more", "--timeout", "1", "-l", "bash", "-e", writer)
    file = (r.get("files") or [{}])[0]
    t.ok(file.get("size", 0) > 0 and len(base64.b64decode(file.get("base64", ""))) == file["size"], "of a file that grew, the whole", file.get("size"))

    with mode.live("run", "--events", "--workspace", str(top), "-l", "bash", "-e", "echo > new; echo begun; sleep 100") as run:
        t.ok(run.wait_for("begun"), "one that is cancelled: it runs", run.errors())
        run.signal(signal.SIGINT)
        t.ok(run.wait_for('"event":"finished"', 30) and run.wait(30) == 130, "one that is cancelled: and ends", run.errors())
        run.wait_for("\0", 5)  # there is none: to the end
        result = json.loads(run.seen.decode().splitlines()[-1])["result"]
        t.equal((result["verdict"]["cause"], result["files"]), ("cancelled", []), "one that is cancelled: lists no files")
        t.ok(STOPPED in result["meta"]["warnings"], "one that is cancelled: and says so", result["meta"]["warnings"])


def test(t, mode):
    top = make_project(mode)
    before = snapshot(top)

    r = mode.json("run", "--workspace", top, "-l", "bash", "-e", CHANGE)
    t.result(r, "a workspace can be changed in every way", "a\nmore\nc\ny\nagain\n", cause="ok")
    t.equal(snapshot(top), before, "and the host's folder is as it was")
    r = mode.json("run", "--workspace", top, "-l", "bash", "-e", "cat private; stat -c '%U %a' private src; pwd; echo > /workspace/x && ls -A /.cay")
    t.result(r, "its files belong to the program's user", "secret\nsandbox 600\nsandbox 755\n/workspace\n", cause="ok")
    r = mode.json("run", "--workspace", top, top / "pkg/main.py", "--", "arg")
    t.result(r, "a file of the workspace runs at its own place", "42 arg /workspace\n", cause="ok")
    r = mode.json("run", "--workspace", top, "-l", "python", "-e", "import tool; print(tool.ANSWER, __file__)")
    t.result(r, "other code can import from it", "7 /sandbox/main.py\n", cause="ok")
    r = mode.json("exec", "--workspace", "project", "--", "cat", "src/a.txt")
    t.result(r, "a relative folder; a command starts in it", "a\n", cause="ok")
    r = mode.json("run", "--workspace", top, "--disk", "1m", "-l", "bash", "-e", "head -c 3m /dev/zero > big")
    t.result(r, "what is written to it counts as disk", cause="disk", limit_name="disk")

    test_stopped(t, mode, top, before)
    r = mode.json("run", "--workspace", top, "-l", "c", "-e", "int main(void) { return missing; }")
    t.result(r, "one that does not compile changes nothing", cause="compile", files=[])
    t.ok(not any("files" in warning for warning in r.get("meta.warnings")), "and there is nothing to say of files", r.get("meta.warnings"))

    r = mode.json("run", "--ro", f"{top}=/data", "-l", "bash", "-e", "cat /data/src/a.txt; echo x > /data/new; rm /data/src/a.txt; chmod 700 /data/src; ls -A / | grep -c cay")
    t.result(r, "a read-only folder can be read only", stdout="a\n1\n")
    r = mode.json("run", "--ro", top, "-l", "bash", "-e", f"cat {top}/src/a.txt")
    t.result(r, "at its own path, unless told", "a\n", cause="ok")
    r = mode.json("run", "--ro", f"{top}=/data", "--ro", f"{top}/src=/opt/src", "--workspace", top, "-l", "bash", "-e", "ls /opt/src; cat /data/tool.py; ls src | wc -l")
    t.result(r, "several of them beside a workspace", "a.txt\nb.txt\nc.txt\nANSWER = 7\n3\n", cause="ok")

    listener = socket.socket(socket.AF_UNIX)
    os.unlink(top / "socket")
    listener.bind(str(top / "socket"))
    listener.listen()
    os.chmod(top / "socket", 0o777)
    os.chown(top / "socket", mode.host_uid, mode.host_uid)
    reader = os.open(top / "fifo", os.O_RDWR | os.O_NONBLOCK)
    r = mode.python(REACH, "--ro", f"{top}=/data", "--workspace", str(top))
    t.result(r, "no socket and no fifo in them leads out", "111\n111\nno fifo\n", cause="ok")
    os.close(reader)
    listener.close()

    r = mode.json("run", "--workspace", top, "-l", "bash", "-e", "ln -s ../../../../../../../../etc/hostname up; cat up; ln -sfn / root; ls root/home 2>&1 | head -1")
    t.ok("cay\n" in r.stdout and "No such file" in r.stdout, "links out of it stay in the sandbox", *r.describe())

    copied(t, mode)

    venv = top / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "lib/python3.11/site-packages").mkdir(parents=True)
    os.symlink("/usr/bin/python3", venv / "bin/python3")
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    version = mode.command("/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").out.decode().strip()
    site = venv / f"lib/python{version}/site-packages"
    site.mkdir(parents=True, exist_ok=True)
    (site / "installed.py").write_text("NAME = 'from the virtualenv'\n")
    r = mode.python("import installed, sys; print(installed.NAME, sys.prefix)", "--workspace", str(top))
    t.result(r, "a virtualenv in it is used", "from the virtualenv /workspace/.venv\n", cause="ok")
    script = venv / "bin/installed-tool"
    script.write_text(f"#!{venv}/bin/python3 -B\nimport installed\nprint(installed.NAME)\nopen({str(top / 'made')!r}, 'w').write('x')\n")
    script.chmod(0o755)
    r = mode.json("exec", "--workspace", top, "--", "installed-tool")
    t.result(r, "and its scripts, which name it by its path on the host", "from the virtualenv\n", cause="ok")
    t.equal([f["path"] for f in r.get("files")], ["/workspace/made"], "that path is the workspace's", *r.describe())
    t.ok(not (top / "made").exists(), "and not the host's folder")
    r = mode.json("exec", "--workspace", top, "--ro", f"{top}={top.parent}", "--", "/workspace/.venv/bin/python3", "-c", "print(1)")
    t.result(r, "a read-only folder at that path is shown instead", "1\n", cause="ok")

    for flags, word in ((("--workspace", "/nowhere"), "/nowhere"), (("--workspace", "/"), "whole system"), (("--workspace", str(top / "tool.py")), "tool.py"),
                        (("--ro", "/nowhere"), "/nowhere"), (("--ro", f"{top}=/etc"), "/etc"), (("--ro", f"{top}=rel"), "rel"),
                        (("--collect", "/etc/*"), "/etc/*"), (("--collect", "/workspace/x"), "/workspace")):
        done = mode.cay("run", *flags, "-l", "bash", "-e", "echo RAN")
        t.ok(done.status in (2, 125) and word in done.err.decode() and done.out == b"", f"{' '.join(flags[:1])} {word}: refused, and said why", *done.describe())
    closed = mode.cwd / "closed"
    closed.mkdir(exist_ok=True)
    os.chmod(closed, 0)
    if not mode.is_root:
        done = mode.cay("run", "--workspace", closed, "-l", "bash", "-e", "echo RAN")
        t.ok(done.status == 125 and b"workspace" in done.err and done.out == b"", "a folder that is closed to the caller is refused", *done.describe())
    closed.rmdir()


caytest.main(test, modes=("root", "user", "deleg"))

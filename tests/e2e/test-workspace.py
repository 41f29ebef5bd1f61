#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A workspace from end to end: a program that does everything to 10,000 files leaves the host's folder as it was; its
change set is exact; applying makes the folder what the program saw. Tricks with links and races lead nowhere outside."""
import base64
import ctypes
import hashlib
import json
import os
import random
import shutil
import stat
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import cayserve
import caystate
import caytest

FILES, FOLDERS = 10000, 100
ROOMY = ("--memory", "2g", "--disk", "1g", "--inodes", "200000", "--timeout", "250")

# Runs inside as well as here: everything in a tree, by path below it.
MANIFEST = """
import hashlib, os, stat
def manifest(top):
    found = {}
    for here, folders, names in os.walk(top):
        for name in folders + names:
            path = os.path.join(here, name)
            st = os.lstat(path)
            if stat.S_ISLNK(st.st_mode):
                what = ["link", os.readlink(path)]
            elif stat.S_ISDIR(st.st_mode):
                what = ["dir", st.st_mode & 0o777]
            elif stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    what = ["file", st.st_mode & 0o777, hashlib.sha256(f.read()).hexdigest()]
            else:
                what = ["special"]
            found[os.path.relpath(path, top)] = what
    return found
"""
here = {}
exec(MANIFEST, here)
manifest = here["manifest"]

HAVOC = MANIFEST + """
import json, shutil
os.chdir("/workspace")
for i in range(%d):
    path = "d%%02d/f%%05d" %% (i %% %d, i)
    how = i // 100 %% 10
    if how == 0:
        os.unlink(path)
    elif how == 1:
        os.rename(path, path + ".renamed")
    elif how == 2:
        os.chmod(path, 0o640 if i %% 2 else 0o755)
    elif how == 3:
        os.unlink(path)
        os.symlink("/etc/passwd" if i %% 2 else "../d00", path)
    elif how == 4:
        with open(path, "r+b") as f:
            f.write(b"REWRITTEN")
    elif how == 5:
        with open(path, "ab") as f:
            f.write(b"appended")
    elif how == 6:  # the same bytes again: no change
        with open(path, "rb") as f:
            text = f.read()
        with open(path, "wb") as f:
            f.write(text)
    elif how == 7:
        os.utime(path, (1, 1))
shutil.rmtree("d07")
shutil.rmtree("d08")
os.mkdir("d08")
open("d08/only", "w").write("made anew")
shutil.move("d09", "moved")
shutil.rmtree("d10")
open("d10", "w").write("was a folder")
os.unlink("d11/f00011") if os.path.exists("d11/f00011") else None
os.makedirs("d11/f00011/deeper/still")
open("d11/f00011/deeper/still/x", "wb").write(bytes(range(256)))
os.chmod("d12", 0o700)
os.symlink("d12", "link-to-folder")
open(b"name\\xff\\n\\x1b[31m", "w").write("odd name")
os.mkdir("closed")
open("closed/in", "w").write("x")
os.chmod("closed/in", 0o400)
found = manifest(".")
os.chmod("closed", 0o500)
found["closed"] = ["dir", 0o500]
print(json.dumps(found))
""" % (FILES, FOLDERS)


def make_project(mode, name):
    top = mode.cwd / name
    shutil.rmtree(top, ignore_errors=True)
    top.mkdir()
    return top


def give(mode, top):
    for here, folders, names in os.walk(top):
        for one in [here, *(os.path.join(here, n) for n in folders + names)]:
            os.lchown(one, mode.host_uid, mode.host_uid)


def snapshot(top):
    """All that can be asked of a tree without changing it: times, inodes and owners too."""
    found = {}
    for here, folders, names in os.walk(top):
        for path in [here, *(os.path.join(here, n) for n in folders + names)]:
            st = os.lstat(path)
            found[path] = (st.st_ino, st.st_mode, st.st_uid, st.st_size, st.st_mtime_ns, st.st_ctime_ns)
    return found


def path_of(file):
    raw = base64.b64decode(file["path_base64"]) if "path_base64" in file else file["path"].encode()
    return os.fsdecode(raw[len(b"/workspace/"):])


def expected(before, after):
    """The change set that leads from one manifest to the other."""
    want = {p: "deleted" for p in before.keys() - after.keys()}
    want.update({p: "created" for p in after.keys() - before.keys()})
    want.update({p: "changed" for p in before.keys() & after.keys() if before[p] != after[p]})
    return want


def differences(got, want):
    return [f"{p!r}: {got.get(p)!r}, not {want.get(p)!r}" for p in sorted(got.keys() | want.keys(), key=os.fsencode)
            if got.get(p) != want.get(p)]


def test_havoc(t, mode):
    top = make_project(mode, "havoc")
    source = random.Random(5)
    for i in range(FOLDERS):
        (top / f"d{i:02}").mkdir()
    for i in range(FILES):
        (top / f"d{i % FOLDERS:02}" / f"f{i:05}").write_bytes(source.randbytes(20 + i % 100))
    give(mode, top)
    before, looked = manifest(top), snapshot(top)
    done = mode.cay("run", "--json", *ROOMY, "--workspace", top, "-l", "python", "-", stdin=HAVOC, timeout=280)
    result = json.loads(done.out)
    t.equal((result["exit_code"], result["stderr"]), (0, ""), "a program does everything to 10,000 files",
            *done.describe())
    t.empty(differences(snapshot(top), looked), "the folder is exactly as it was")
    inside = json.loads(mode.cay("show", result["id"], "--stdout").out)
    t.ok(len(inside) > 8000, "the program saw what it had done", len(inside))
    got = {path_of(f): f["change"] for f in result["files"]}
    t.empty(differences(got, expected(before, inside)), "the change set is exact")
    sizes = {path_of(f): f["size"] for f in result["files"] if f["change"] == "deleted" and "type" not in f}
    real = {p: os.lstat(top / p).st_size for p in sizes}
    t.equal(sizes, real, "deleted files are told with their sizes")

    done = mode.cay("apply", result["id"], "--dry-run", timeout=120)
    t.equal(done.status, 0, "apply --dry-run finds nothing in the way", *done.describe())
    t.empty(differences(snapshot(top), looked), "and writes nothing")
    done = mode.cay("apply", result["id"], timeout=120)
    t.equal(done.status, 2, "without a terminal, apply wants --yes", *done.describe())
    t.empty(differences(snapshot(top), looked), "and writes nothing")
    done = mode.cay("apply", result["id"], "--yes", timeout=280)
    t.equal(done.status, 0, "apply --yes", *done.describe())
    t.empty(differences(manifest(top), inside), "makes the folder what the program saw")
    t.empty([p for p in manifest(top) if os.lstat(top / p).st_uid != mode.host_uid], "and everything its owner's")
    done = mode.cay("apply", result["id"], "--yes")
    t.ok(done.status == 126 and b"applied already" in done.err, "a second time is refused", *done.describe())
    done = mode.cay("discard", result["id"])
    t.ok(done.status == 126 and b"applied already" in done.err, "and it can't be discarded any more", *done.describe())
    os.chmod(top / "closed", 0o700)
    shutil.rmtree(top)


def shell(mode, top, code, *flags):
    done = mode.cay("run", "--json", *flags, "--workspace", top, "-l", "bash", "-", stdin=code)
    return json.loads(done.out) if done.out else {"describe": done.describe()}


def test_words(t, mode):
    """What people read."""
    top = make_project(mode, "words")
    (top / "a.txt").write_text("one\ntwo\nthree\n")
    (top / "big").write_bytes(b"x" * 45_000_000)
    for i in range(2):
        (top / f"old{i}").write_text("")
    give(mode, top)
    code = "sed -i s/two/2/ a.txt; rm big old*; printf 'new \\033[2J\\n' > b.txt; printf '\\0' > bin; chmod +x b.txt"
    done = mode.cay("run", "--diff", "--workspace", top, "-l", "bash", "-", stdin=code)
    err = done.err.decode()
    for name, text in (("a hunk", "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"), ("a new file", "+new"),
                       ("a binary one", "(binary: 0 bytes, now 1)"),
                       ("the sums", "workspace: 2 created, 1 changed, 3 deleted"),
                       ("what it destroys", "would delete 3 files, 45 MB"), ("how to go on", "`cay apply ")):
        t.ok(text in err, f"run --diff says on stderr: {name}", *done.describe())
    t.equal((done.out, done.status), (b"", 0), "and nothing on stdout")
    t.ok((top / "big").exists(), "nothing was deleted yet")
    shown = mode.cay("show", "last", "--diff")
    t.ok(b"-two\n+2\n" in shown.out and shown.err == b"", "show --diff", *shown.describe())
    screen = mode.terminal("show", "last", "--diff")
    t.ok(b"\033[31m-two\033[0m" in screen and b"\033[2J" not in screen and b"+new ^[[2J" in screen,
         "on a terminal in colours, with control characters made visible", screen)
    t.ok(b"\033[" not in mode.terminal("show", "last", "--diff", "--no-color"), "--no-color")
    quiet = mode.cay("run", "--workspace", top, "-l", "bash", "-", stdin="cat a.txt; touch a.txt")
    t.equal((quiet.out, quiet.err), (b"one\ntwo\nthree\n", b""), "a run that changes nothing says nothing")
    done = mode.cay("discard", "last")
    t.equal(done.status, 2, "and has nothing to discard", *done.describe())
    r = shell(mode, top, "rm a.txt")
    done = mode.cay("discard", r["id"])
    t.equal(done.status, 0, "discard", *done.describe())
    done = mode.cay("apply", r["id"], "--yes")
    t.ok(done.status == 126 and b"discarded" in done.err and (top / "a.txt").exists(), "what is discarded stays so",
         *done.describe())
    t.equal(mode.cay("show", r["id"], "--json").status, 0, "but its result is still there")
    shutil.rmtree(top)


def test_only(t, mode):
    top = make_project(mode, "only")
    (top / "src").mkdir()
    (top / "src/x.c").write_text("x")
    (top / "y").write_text("y")
    give(mode, top)
    r = shell(mode, top, "mkdir -p new/deep; echo 1 > new/deep/a; echo 2 > src/x.c; rm y; echo 3 > new/b")
    done = mode.cay("apply", r["id"], "--yes", "--only", "nothing-like-it")
    t.equal(done.status, 2, "apply --only of nothing", *done.describe())
    done = mode.cay("apply", r["id"], "--yes", "--only", "src/*", "--only", "new/deep/a")
    t.equal((done.status, (top / "src/x.c").read_text(), (top / "new/deep/a").read_text(), (top / "y").exists(),
             (top / "new/b").exists()), (0, "2\n", "1\n", True, False), "apply --only", *done.describe())
    done = mode.cay("apply", r["id"], "--yes")
    t.equal((done.status, (top / "y").exists(), (top / "new/b").read_text()), (0, False, "3\n"), "then the rest",
            *done.describe())
    shutil.rmtree(top)


def test_meanwhile(t, mode):
    """The folder changes between run and apply, or while the program runs."""
    top = make_project(mode, "meanwhile")
    (top / "d").mkdir()
    for name in ("a", "b", "d/c"):
        (top / name).write_text(name)
    give(mode, top)
    r = shell(mode, top, "echo 2 > a; rm b; rm -r d; echo n > n")
    (top / "a").write_text("mine")
    (top / "n").write_text("mine")
    (top / "d/more").write_text("mine")
    looked = snapshot(top)
    done = mode.cay("apply", r["id"], "--yes")
    t.equal(done.status, 126, "a folder that was changed meanwhile is refused", *done.describe())
    err = done.err.decode()
    t.ok(all(f"cay: {p}: " in err for p in ("a", "n", "d/more")) and "cay: b: " not in err, "each path is named", err)
    t.empty(differences(snapshot(top), looked), "and nothing is written")

    with mode.live("exec", "--workspace", str(top), "--", "/bin/sh", "-c",
                   "echo 3 > a; echo ready; read x; echo done") as run:
        ready = run.wait_for("ready")
        (top / "a").write_text("mine again")
        run.proc.stdin.write(b"\n")
        t.ok(ready and run.wait() == 0, "a run during which the folder changes")
        said = run.errors().decode()
    t.ok("changed on the host" in said, "it is said after the run", said)
    done = mode.cay("apply", "last", "--yes")
    t.ok(done.status == 126 and (top / "a").read_text() == "mine again", "and refused by apply", *done.describe())

    os.rename(top, str(top) + ".away")
    top.mkdir()
    give(mode, top)
    done = mode.cay("apply", r["id"], "--yes")
    t.ok(done.status == 126 and not list(top.iterdir()), "another folder in its place is refused", *done.describe())
    shutil.rmtree(top)
    done = mode.cay("apply", r["id"], "--yes")
    t.ok(done.status == 125 and not top.exists(), "no folder in its place too", *done.describe())
    shutil.rmtree(str(top) + ".away")


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def exchange(a, b):
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.renameat2(-100, os.fsencode(a), -100, os.fsencode(b), 2)


def test_tricks(t, mode):
    top, outside = make_project(mode, "tricks"), make_project(mode, "outside")
    (outside / "f").write_text("outside")
    (outside / "keep").write_text("outside")
    (top / "d").mkdir()
    (top / "d/f").write_text("inside")
    os.symlink(outside, top / "link")
    os.symlink(outside / "f", top / "file-link")
    give(mode, top)
    give(mode, outside)
    looked = snapshot(outside)
    r = shell(mode, top, "rm link; mkdir link; echo evil > link/f; rm file-link; echo evil > file-link; "
                         "ln -s ../outside/f up; ln -s / root; echo x > d/f; mkfifo pipe; chmod 4755 d/f")
    got = {f["path"]: (f["change"], f.get("type")) for f in r.get("files", [])}
    t.equal(got, {"/workspace/link": ("changed", "directory"), "/workspace/link/f": ("created", None),
                  "/workspace/file-link": ("changed", None), "/workspace/up": ("created", "symlink"),
                  "/workspace/root": ("created", "symlink"), "/workspace/d/f": ("changed", None),
                  "/workspace/pipe": ("created", "special")}, "links, folders and fifos in place of each other", r)
    done = mode.cay("apply", r["id"], "--yes")
    t.equal((done.status, manifest(top)), (0, {
        "d": ["dir", 0o755], "d/f": ["file", 0o755, sha("x\n")], "link": ["dir", 0o755],
        "link/f": ["file", 0o644, sha("evil\n")], "file-link": ["file", 0o644, sha("evil\n")],
        "up": ["link", "../outside/f"], "root": ["link", "/"]}), "applied inside; no fifo, no setuid", *done.describe())
    t.equal(stat.S_IMODE(os.stat(top / "d/f").st_mode), 0o755, "no setuid bit either")
    t.empty([w for w in r["meta"]["warnings"] if "cgroup" not in w and not w.startswith("policy: ")], "nothing to warn of")
    t.empty(differences(snapshot(outside), looked), "what links led to is untouched")

    # The folder that is written to changes places with a link that leads out, all the time.
    os.symlink(outside, top / "swap")
    give(mode, top)
    written = 0
    for i in range(12):
        r = shell(mode, top, f"for i in 1 2 3 4 5 6 7 8; do echo evil{i} > d/new{i}-$i; done; rm -f d/f d/keep; echo {i} > d/f")
        stop = threading.Event()

        def flip():
            while not stop.is_set():
                exchange(top / "d", top / "swap")

        flipper = threading.Thread(target=flip)
        flipper.start()
        done = mode.cay("apply", r["id"], "--yes")
        stop.set()
        flipper.join()
        written += done.status == 0
        if (top / "d").is_symlink():
            exchange(top / "d", top / "swap")
        if done.status not in (0, 125, 126):
            t.ok(False, "apply during a race ends in order", *done.describe())
    t.diag(f"{written} of 12 were applied during the race")
    t.empty(differences(snapshot(outside), looked), "a race with a link that leads out is never won")
    shutil.rmtree(top)
    shutil.rmtree(outside)


def test_collect(t, mode):
    top = make_project(mode, "collect")
    (top / "old.csv").write_text("old")
    (top / "same.csv").write_text("same")
    give(mode, top)
    done = mode.cay("exec", "--json", "--workspace", top, "--collect", "*.csv", "--collect", "/sandbox/**", "--file",
                    "given=/etc/hostname", "--file", "edited=/etc/hostname", "--", "/bin/sh", "-c",
                    "echo new > new.csv; echo x >> old.csv; echo e >> /sandbox/edited; mkdir /sandbox/d; "
                    "printf '\\377\\0' > /sandbox/d/out; ln -s /etc/passwd /sandbox/link; echo no > other.txt")
    r = json.loads(done.out)
    got = {f["path"]: (f["change"], base64.b64decode(f["base64"]) if "base64" in f else None) for f in r["files"]}
    host = open("/etc/hostname", "rb").read()
    t.equal(got, {"/workspace/new.csv": ("created", b"new\n"), "/workspace/old.csv": ("changed", b"oldx\n"),
                  "/workspace/same.csv": ("unchanged", b"same"), "/workspace/other.txt": ("created", None),
                  "/sandbox/given": ("unchanged", host), "/sandbox/edited": ("changed", host + b"e\n"),
                  "/sandbox/d/out": ("created", b"\377\0")}, "collected files come back, told apart", *done.describe())
    out = mode.cay("show", r["id"], "--file", "/sandbox/d/out")
    t.equal((out.status, out.out), (0, b"\377\0"), "show --file gives a collected one", *out.describe())
    out = mode.cay("show", r["id"], "--file", "/workspace/other.txt")
    t.equal((out.status, out.out), (0, b"no\n"), "and a changed one", *out.describe())
    out = mode.cay("show", r["id"], "--file", "/etc/passwd")
    t.equal((out.status, out.out), (127, b""), "and no other", *out.describe())
    done = mode.cay("exec", "--json", "--collect", "/sandbox/*", "--", "/bin/sh", "-c",
                    "cd /sandbox; i=0; while [ $i -lt 1005 ]; do echo $i > n$i; i=$((i + 1)); done")
    r = json.loads(done.out)
    t.equal((len(r["files"]), sum("base64" in f for f in r["files"])), (1005, 1000), "at most 1000 files come back")
    t.ok(any("collect: 5 files were left out" in w for w in r["meta"]["warnings"]), "and the result says so",
         r["meta"]["warnings"])
    shutil.rmtree(top)


def test_crash(t, mode):
    """apply is killed in the middle: each file is the old or the new one, and another apply does the rest."""
    top = make_project(mode, "crash")
    for i in range(3000):
        (top / f"f{i:04}").write_text(f"old {i}\n" * 20)
    give(mode, top)
    r = shell(mode, top, "for f in f*; do echo new > $f; done; rm f1*; mkdir -m 500 d; ", *ROOMY)
    done = mode.cay("apply", r["id"], "--dry-run")
    t.equal(done.status, 0, "3000 files are to be changed", *done.describe(), r)
    with mode.live("apply", r["id"], "--yes") as run:
        caytest.until(lambda: (top / "f0000").stat().st_size == 4 or run.proc.poll() is not None, 60, 0.001)
        run.signal(9)
        run.wait()
    texts = {path.name: path.read_text() for path in top.iterdir() if path.name.startswith("f")}
    wrong = [n for n, text in texts.items() if text not in ("new\n", f"old {int(n[1:])}\n" * 20)]
    t.empty(wrong, "killed in the middle, each file is the old or the new one")
    t.diag(f"{sum(x == 'new' + chr(10) for x in texts.values())} of {len(texts)} were new")
    done = mode.cay("apply", r["id"], "--yes")
    t.ok(done.status == 0 or b"applied already" in done.err, "apply goes on", *done.describe())
    want = {f"f{i:04}": "new\n" for i in range(3000) if i // 1000 != 1}
    got = {path.name: path.read_text() for path in top.iterdir() if path.is_file()}
    t.empty(differences(got, want), "and the folder is what it should be")
    t.equal(sorted(p.name for p in top.iterdir() if not p.is_file()), ["d"], "with nothing of apply's own left in it")
    shutil.rmtree(top)


def test_others(t, mode):
    """Root runs in a folder of another user's, parts of which only that user can read."""
    top = make_project(mode, "others")
    (top / "private").mkdir()
    for name in ("a", "private/same", "private/gone"):
        (top / name).write_text("1")
    for path in (top, top / "private", top / "a", top / "private/same", top / "private/gone"):
        os.chmod(path, 0o700 if path.is_dir() else 0o600)
        os.chown(path, 4321, 4322)
    r = shell(mode, top, "echo 2 > a; printf 1 > private/same; rm private/gone; mkdir new; echo n > new/f")
    got = {f["path"]: f["change"] for f in r.get("files", [])}
    t.equal(got, {"/workspace/a": "changed", "/workspace/private/gone": "deleted", "/workspace/new": "created",
                  "/workspace/new/f": "created"}, "a folder that only another user can read", r)
    done = mode.cay("apply", r["id"], "--yes")
    t.equal((done.status, (top / "a").read_text(), (top / "private/gone").exists()), (0, "2\n", False), "is applied to",
            *done.describe())
    t.equal({(os.stat(top / p).st_uid, os.stat(top / p).st_gid) for p in ("a", "new", "new/f", "private")},
            {(4321, 4322)}, "and stays the other user's")
    shutil.rmtree(top)


def test_closed(t, mode):
    """Folders that are closed to their owner, as those of a Go module cache are."""
    top = make_project(mode, "closed")
    for name in ("gone/sub", "kept"):
        (top / name).mkdir(parents=True)
        (top / name / "f").write_text("1")
    give(mode, top)
    for name in ("gone/sub", "gone", "kept"):
        os.chmod(top / name, 0o555)
    r = shell(mode, top, "chmod -R u+w gone kept; rm -r gone; rm kept/f; chmod u-w kept; truncate -s 6G large")
    t.ok(any("large" in w and "too large to keep" in w for w in r["meta"]["warnings"]), "a file that is too large to be kept is told of", r)
    done = mode.cay("apply", r["id"], "--yes", "--only", "gone")
    t.ok(done.status == 0 and not (top / "gone").exists(), "a closed folder is deleted with what is in it", *done.describe())
    done = mode.cay("apply", r["id"], "--yes", "--only", "kept/f")
    if mode.is_root:
        t.ok(done.status == 0 and not (top / "kept/f").exists(), "root writes to one", *done.describe())
    else:
        t.ok(done.status == 126 and b"chmod u+w" in done.err and (top / "kept/f").exists(), "one that stays is not opened, and the hint says how", *done.describe())
        os.chmod(top / "kept", 0o755)
        done = mode.cay("apply", r["id"], "--yes", "--only", "kept/f")
        t.ok(done.status == 0 and not (top / "kept/f").exists(), "which does it", *done.describe())
    done = mode.cay("apply", r["id"], "--yes")
    t.ok(done.status == 126 and b"larger disk" in done.err, "what was not kept can't be applied", *done.describe())
    shutil.rmtree(top)


def test_last(t, mode):
    """The last run is seldom meant where it has no changes: the one that has is named."""
    top = make_project(mode, "last")
    give(mode, top)
    r = shell(mode, top, "touch f")
    mode.cay("run", "-l", "bash", "-e", "true")
    for command in ("apply", "discard"):
        done = mode.cay(command, "last")
        t.ok(done.status == 2 and r["id"][:8].encode() in done.err, f"{command} names the run that has changes", *done.describe())
    shutil.rmtree(top)


def test_ask(t, mode):
    """On a terminal, apply asks."""
    top = make_project(mode, "ask")
    (top / "f").write_text("1")
    give(mode, top)
    r = shell(mode, top, "echo 2 > f")
    for answer, want in (("n\n", "1"), ("\n", "1"), ("y\n", "2\n")):
        screen = mode.terminal("apply", r["id"], typed=answer)
        t.ok(b"\xe2\x9d\x9a\x1b[0m cay: write this to " in screen and b"[y/N]" in screen and (top / "f").read_text() == want, f"the answer {answer!r}", screen)
    shutil.rmtree(top)


WRITABLE = """
import os, pathlib, errno
print(os.getcwd(), pathlib.Path('a').read_text())
pathlib.Path('a').write_text('changed')
os.remove('gone')
os.mkdir('new')
pathlib.Path('new/f').write_text('made')
os.rename('old', 'moved')
for name, call in (
    ('chmod', lambda: os.chmod('new/f', 0o4755)),
    ('fchmod', lambda: os.fchmod(os.open('new/f', os.O_RDONLY), 0o2755)),
    ('open', lambda: os.open('suid', os.O_CREAT | os.O_WRONLY, 0o4755)),
    ('tmpfile', lambda: os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o4755)),
    ('mknod', lambda: os.mknod('suid', 0o104755)),
):
    try:
        call()
        print(name, 'was let')
    except OSError as e:
        print(name, errno.errorcode[e.errno])
os.chmod('new/f', 0o755)
for path in ('/workspace/../other', '/usr/x', '/x'):
    try:
        open(path, 'w')
        print(path, 'was let')
    except OSError:
        pass
"""


def test_writable(t, mode):
    """--workspace-rw: the folder itself, and nothing beside it."""
    top = make_project(mode, "writable")
    for name in ("a", "gone"):
        (top / name).write_text(name)
    (top / "old").mkdir()
    (top / "link").symlink_to("/etc/passwd")
    give(mode, top)
    owner = top.stat().st_uid
    r = mode.json("run", "--workspace-rw", top, "--collect", "new/*", "-l", "python", "-e", WRITABLE)
    said = "/workspace a\n" + "".join(f"{name} EPERM\n" for name in ("chmod", "fchmod", "open", "tmpfile", "mknod"))
    t.result(r, "the program works in the folder itself; no file of it becomes setuid", said, cause="ok")
    t.equal(sorted(p.name for p in top.iterdir()), ["a", "link", "moved", "new"], "what it did stays")
    t.equal(((top / "a").read_text(), (top / "new/f").read_text()), ("changed", "made"), "with its data")
    made = (top / "new/f").stat()
    t.equal((made.st_uid, stat.S_IMODE(made.st_mode)), (owner, 0o755), "new files are the folder's owner's")
    t.ok(not (top.parent / "other").exists(), "nothing is made beside it")
    t.equal([(f["path"], f["change"]) for f in r.get("files")], [("/workspace/new/f", "unchanged")], "collect brings its files back")
    t.ok(any(str(top) in text and "UNSAFE" in text for text in r.get("meta.warnings")), "the result says so", r.get("meta.warnings"))
    listed = [json.loads(line) for line in mode.cay("audit", "export").out.splitlines()]
    mine = [entry for entry in listed if entry.get("id") == r.get("id")]
    t.equal([entry.get("workspace_rw") for entry in mine], [str(top)], "and the audit log")
    done = mode.cay("show", r.get("id"))
    t.ok(done.status == 0, "cay show knows the run", *done.describe())
    done = mode.cay("apply", "--yes", r.get("id"))
    t.ok(done.status != 0, "there is nothing to apply", *done.describe())
    done = mode.cay("run", "-q", "--workspace-rw", "writable", "-l", "sh", "-e", "cat a")
    t.ok(done.out == b"changed" and b"UNSAFE" in done.err and str(top).encode() in done.err, "it is said on stderr, with -q too", *done.describe())
    (top / "main.py").write_text("import beside; print(beside.x)")
    (top / "beside.py").write_text("x = 7")
    r = mode.json("run", "--workspace-rw", "writable", "writable/main.py")
    t.result(r, "a code file in it runs at its place", "7\n", cause="ok")
    link = top.parent / "to-writable"
    link.symlink_to(top)
    for name, flags, status, words in (
        ("a link", ("--workspace-rw", link), 2, "symbolic link"),
        ("a link on the way", ("--workspace-rw", link / "new"), 2, "symbolic link"),
        ("a file", ("--workspace-rw", top / "a"), 2, "not a folder"),
        ("nothing there", ("--workspace-rw", top / "nowhere"), 2, "not a folder"),
        ("the whole system", ("--workspace-rw", "/"), 2, "whole system"),
        ("both", ("--workspace-rw", top, "--workspace", top), 2, "mutually exclusive"),
        ("another backend", ("--workspace-rw", top, "--backend", "docker"), 125, "not supported by backend"),
        ("no isolation", ("--workspace-rw", top, "--backend", "process", "--min-isolation", "none"), 125, "not supported by backend"),
    ):
        done = mode.cay("run", *flags, "-l", "sh", "-e", "echo RAN")
        t.ok(done.status == status and words in done.err.decode() and b"RAN" not in done.out, f"refused: {name}", *done.describe())
    (mode.cwd / ".cay.toml").write_text(f"workspace_rw = '{top}'\n")
    done = mode.cay("run", "-l", "sh", "-e", "echo RAN")
    t.ok(done.status == 2 and b"RAN" not in done.out, "a project's file can't ask for it", *done.describe())
    (mode.cwd / ".cay.toml").unlink()
    if mode.is_root:
        closed = top / "closed"
        closed.mkdir(mode=0o700)
        os.chown(closed, 12345, 12345)
        (closed / "f").write_text("x")
        r = mode.json("run", "--workspace-rw", top, "-l", "sh", "-e", "cat closed/f; echo y > closed/g")
        t.ok(r.get("exit_code") != 0 and not (closed / "g").exists(), "what another user has closed in it stays closed", *r.describe())
        r = mode.json("run", "--workspace-rw", closed, "-l", "sh", "-e", "cat f; echo y > g")
        t.equal((closed / "g").stat().st_uid, 12345, "a folder of another user's: new files are that user's", *r.describe())
        with cayserve.Server(mode) as s:
            r = s.execute({"language": "sh", "code": "true", "workspace_rw": str(top)})
            t.equal((r.status, r.error.get("kind")), (403, "policy"), "not over HTTP", r)
            done = mode.cay("run", "--workspace-rw", top, "-l", "sh", "-e", "echo z > by-own", env={"CAY_SERVER": "true"})
            t.equal((done.status, (top / "by-own").exists()), (0, True), "beside a server, by a warden of its own", *done.describe())
    link.unlink()
    shutil.rmtree(top)


def test(t, mode):
    folder = caystate.private_records(mode)
    try:
        for part in (test_havoc, test_words, test_only, test_meanwhile, test_tricks, test_collect, test_crash, test_closed, test_last, test_ask,
                     test_writable):
            part(t, mode)
        if mode.is_root:
            test_others(t, mode)
    finally:
        if mode.is_root and caytest.contained():
            caystate.unmount_records(folder)


caytest.main(test, modes=("root", "user"))

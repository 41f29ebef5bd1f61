#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P11: processes, threads, open files, bytes, inodes and output end at their limits, and the verdict says which."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

EMFILE, ENOSPC, EAGAIN = 24, 28, 11
PIDS = 20
# A shell bomb of at most 511 processes that live for 6 s: harmless where nothing stops it.
SHELL = "b() { [ $1 -gt 0 ] && { b $(($1 - 1)) & b $(($1 - 1)) & }; sleep 6; }; echo ready; b 8; exit 3"
FLOOD = """
import os, sys
block = b'%s' * 65536
for i in range(4096):
    os.write(%d, block)
"""
BOTH = "import os\nfor i in range(4096):\n    os.write(1, b'o' * 65536); os.write(2, b'e' * 65536)\n"


def got(r):
    found = re.search(r"got (\d+) errno (\d+)", r.stdout)
    return (int(found[1]), int(found[2])) if found else (None, None)


def processes(t, mode):
    for kind in ("forks", "threads"):
        r = mode.program("bomb", "--pids", PIDS, args=[kind])
        count, reason = got(r)
        # The one that asks counts too; cay may count its init.
        t.ok(count is not None and PIDS // 2 <= count < PIDS, f"{kind}: end at {PIDS}", count, *r.describe())
        t.equal(reason, EAGAIN, f"{kind}: the program is told EAGAIN")
        # Without a cgroup they are counted when the first process has ended, and its threads end with it.
        is_certain = mode.has_cgroup or kind == "forks"
        t.result(r, f"{kind}: the verdict", cause="pids" if is_certain else ("pids", "exit"), exit_code=1)
        if r.cause == "pids":
            t.result(r, f"{kind}: names the limit", limit_name="pids", limit=PIDS)

    most = 0
    with mode.live("run", "-l", "bash", "--pids", str(PIDS), "--timeout", "4", "-e", SHELL) as run:
        run.wait_for("ready")

        def look():
            nonlocal most
            most = max(most, len(caytest.inside(None if mode.is_docker else run.pid)))
            return run.proc.poll() is not None

        t.ok(caytest.until(look, 20), "shell bomb: the run ends", most)
    # Children of the shell's own fork loops retry; what counts is how many there ever were. One more for init.
    t.ok(3 < most <= PIDS + 1, f"shell bomb: at most {PIDS} processes seen from outside", most)
    t.ok(caytest.until(lambda: not caytest.descendants(), 10), "shell bomb: nothing is left", *caytest.descendants()[:5])


def storage(t, mode):
    r = mode.program("bomb", "--disk", "8m", args=["bytes"])
    count, reason = got(r)
    t.ok(count is not None and 4 << 20 <= count <= 8 << 20, "bytes: /tmp, /dev/shm and /sandbox share 8 MiB", count)
    t.equal(reason, ENOSPC, "bytes: the program is told ENOSPC")
    t.result(r, "bytes: the verdict", cause="disk", limit_name="disk", limit=8 << 20, exit_code=1)

    r = mode.program("bomb", "--inodes", "100", args=["inodes"])
    count, reason = got(r)
    t.ok(count is not None and 20 <= count <= 100, "inodes: one count for all folders", count)
    t.equal(reason, ENOSPC, "inodes: the program is told ENOSPC")
    t.result(r, "inodes: the verdict", cause="disk", limit_name="inodes", limit=100, exit_code=1)

    r = mode.python("f = open('/tmp/sparse', 'wb')\nf.truncate(1 << 40)\nf.seek(1 << 39)\nf.write(b'x')\nprint('made')")
    t.result(r, "a sparse file of a tebibyte harms nobody", cause=("ok", "exit", "disk"))
    t.ok(r.done.seconds < 20, "a sparse file costs no time", r.done.seconds)
    r = mode.python("import os\nos.chdir('/sandbox')\n"
                    "for i in range(1500):\n    os.mkdir('d'); os.chdir('d')\n"
                    "for i in range(3):\n    os.chmod('.', 0); print('deep')\n    break\n"
                    "open('/sandbox/\\udcff\\n-rf *', 'w'); os.mkfifo('/sandbox/fifo'); os.symlink('/', '/sandbox/root')\n")
    t.result(r, "a tree that is hard to delete", cause="ok", stdout="deep\n")
    t.ok(r.done.seconds < 20, "a tree that is hard to delete costs no time", r.done.seconds)


def collected(t, mode):
    """What is brought back is bounded in number and bytes, and is regular files of the sandbox's own only."""
    r = mode.python("""import os
for i in range(3000):
    open(f"f{i}.txt", "w").write("x")
os.symlink("/etc/passwd", "link.txt")
os.symlink("/etc", "folder")
os.mkfifo("fifo.txt")
with open("sparse.txt", "w") as f:
    f.truncate(1 << 40)
""", "--collect", "**")
    t.result(r, "collect: thousands of files, links and a hole of a tebibyte", cause="ok")
    files = r.get("files") or []
    with_data = [f for f in files if "base64" in f]
    t.ok(0 < len(with_data) <= 1000, "collect: so many and no more", len(with_data))
    t.ok(len(r.done.out) < 8 << 20, "collect: the report stays small", len(r.done.out))
    t.empty([f for f in files if f["path"].startswith("/sandbox/folder/") or f["path"] == "/sandbox/link.txt" or "fifo" in f["path"]],
            "collect: nothing through links, no fifo")
    t.ok(r.get("meta.warnings"), "collect: what was left out is said", r.get("meta.warnings"))


def open_files(t, mode):
    for flags, limit in (((), 1024), (("--open-files", "64"), 64)):
        r = mode.program("bomb", *flags, args=["files"])
        count, reason = got(r)
        t.equal((count, reason), (limit - 3, EMFILE), f"open files: {limit} and no more, raised or not", *r.describe())
    if mode.is_docker:
        return
    # Past 16384 of all together, each is left the hundredth part of that, for there can be a hundred.
    for kind in ("all-files", "threads-files"):
        r = mode.program("bomb", args=[kind])
        count, reason = got(r)
        t.ok(count and 16000 < count <= 20000 and reason == EMFILE, f"{kind}: no more once there are too many in all",
             count, *r.describe())
        t.ok("too many files" in str(r.get("meta.warnings")), f"{kind}: and that is said", r.get("meta.warnings"))
    r = mode.program("bomb", args=["mapped-files"])
    count, reason = got(r)
    # Pid 1 looks when it gets its turn; 180000 could be had.
    t.ok(reason == EMFILE and count and 8000 < count < 100000,
         "mapped-files: none any more once 32768 are open or held by mappings", count, *r.describe())
    t.ok("too many files" in str(r.get("meta.warnings")), "mapped-files: and that is said", r.get("meta.warnings"))
    r = mode.program("bomb", args=["one-table"])
    t.ok("too many files" not in str(r.get("meta.warnings")), "one-table: nothing is said", r.get("meta.warnings"))
    t.equal(got(r), (1024, 0), "one-table: what threads share counts once", *r.describe())


def output(t, mode):
    flags = ("--output-cap", "1m", "--max-output", "1k", "--timeout", "20")
    for label, code in {"stdout": FLOOD % ("x", 1), "stderr": FLOOD % ("x", 2), "newlines": FLOOD % ("\\n", 1),
                        "zeros": FLOOD % ("\\0", 1), "not UTF-8": FLOOD % ("\\xff", 1), "both": BOTH}.items():
        r = mode.python(code, *flags)
        t.result(r, f"output, {label}: the verdict", cause="output", limit_name="output_cap", limit=1 << 20, exit_code=137,
                 meta__truncated=True)
        t.ok(len(r.done.out) < 64 << 10, f"output, {label}: the report stays small", len(r.done.out))
        kept = [len(r.get(s, "").encode()) for s in ("stdout", "stderr")]
        # Zeros and broken bytes are one byte each to the program, up to three shown as U+FFFD.
        each = 3 if label == "not UTF-8" else 1
        t.ok(all(n <= each * 2048 for n in kept), f"output, {label}: at most twice the limit is kept", kept)
    r = mode.python("print('a' * 5000 + 'b' * 5000)", "--max-output", "1k")
    t.result(r, "long output: ok, shortened", cause="ok", meta__truncated=True)
    t.ok(r.stdout.startswith("aaa") and r.stdout.rstrip().endswith("bbb"), "long output: head and tail are kept")
    t.equal(r.get("meta.usage.stdout_bytes"), 10001, "long output: its true length is told")
    # A daemon's flood counts as well.
    r = mode.python("import os, time\nif os.fork() == 0:\n    os.setsid()\n    for i in range(4096): os.write(1, b'd' * 65536)\n"
                    "    os._exit(0)\ntime.sleep(15)", *flags)
    t.result(r, "output of a daemon: the verdict", cause="output", exit_code=137)


def input_and_source(t, mode):
    """What goes in has bounds too, and so has what is made of it before it runs."""
    r = mode.json("exec", "--", "/bin/true", stdin=b"x" * (32 << 20))
    t.result(r, "input that nobody reads does not hold the run", cause="ok")
    r = mode.json("exec", "--", "/usr/bin/wc", "-c", stdin=b"x" * (8 << 20))
    t.result(r, "input that is read comes whole", cause="ok", stdout=f"{8 << 20}\n")
    bombs = {"/dev/zero": '#include "/dev/zero"', "a gibibyte of data": "char a[1 << 30] = { 1 };"}
    if caytest.LONG:
        bombs["itself, twice"] = "#include __FILE__\n#include __FILE__"
    for label, code in bombs.items():
        r = mode.json("run", "-l", "c", "-e", code + "\nint main(void) { return 0; }", timeout=120)
        if r.done.status == 127:
            t.skip("compile bombs", "there is no C here", "c")
            return
        t.result(r, f"compile bomb, {label}: ends as a compile error", cause="compile")
        t.ok(len(r.done.out) < 256 << 10, f"compile bomb, {label}: the report stays small", len(r.done.out))


def test(t, mode):
    host = mode.host()
    input_and_source(t, mode)
    processes(t, mode)
    storage(t, mode)
    collected(t, mode)
    open_files(t, mode)
    output(t, mode)
    t.empty(host.settle(), "nothing is left on the host")
    for flag in ("pids", "disk", "inodes", "open-files", "max-output", "output-cap"):
        for value in ("-1", "abc", "", "18446744073709551616"):
            done = mode.cay("exec", f"--{flag}={value}", "--", "/bin/echo", "RAN")
            t.ok(done.status == 2 and b"RAN" not in done.out and re.search(flag.replace("-", "[-_]").encode(), done.err),
                 f"{flag} {value!r} is refused by name", *done.describe())


caytest.main(test, modes=("root", "user", "deleg"), programs=["bomb"])

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P3: an allow list of at most 300 calls, nothing by a foreign entry, dangerous calls denied by the filter itself.

Two looks. From inside, every number is called and what answers neither EPERM nor ENOSYS counts as reached; a filter that
denies with another errno is counted against cay, a call that the kernel itself refuses is not seen. So, as root, the
filters are also read out of the kernel and walked: all paths for each number, arguments unknown. That count is exact."""
import ast
import ctypes
import errno
import os
import resource
import signal
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

MOST = 300
LAST = 500
X86_64, I386 = 0xC000003E, 0x40000003
ALLOWED = {0x7FFF0000, 0x7FFC0000, 0x7FF00000, 0x7FC00000}  # allow, log, trace, notify: not denied by the filter
KILLED = {0x80000000, 0x00000000}
AF_INET, AF_ALG, AF_VSOCK, AF_PACKET, AF_KEY, AF_XDP = 2, 38, 40, 17, 15, 44
SOCKET, SOCKETPAIR, CLONE, CLONE3, UNSHARE, IOCTL = 41, 53, 56, 435, 272, 16

# Calls that answer otherwise than EPERM or ENOSYS where no filter is: only these rows prove the filter by themselves.
SPEAKING = """ptrace personality process_vm_readv process_vm_writev keyctl add_key request_key io_uring_setup io_uring_enter
    pidfd_getfd vmsplice clock_adjtime adjtimex open_tree setns kcmp fsconfig clone3 ioctl-TIOCSTI ioctl-TIOCSTI-high
    ioctl-TIOCLINUX ioctl-TIOCLINUX-high""".split()
DENIED_NUMBERS = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "userfaultfd": 323, "bpf": 321,
    "perf_event_open": 298, "keyctl": 250, "add_key": 248, "request_key": 249, "ptrace": 101, "process_vm_readv": 310,
    "process_vm_writev": 311, "pidfd_getfd": 438, "open_by_handle_at": 304, "vmsplice": 278, "kexec_load": 246,
    "kexec_file_load": 320, "init_module": 175, "finit_module": 313, "delete_module": 176, "swapon": 167, "swapoff": 168,
    "reboot": 169, "settimeofday": 164, "clock_settime": 227, "clock_adjtime": 305, "adjtimex": 159, "iopl": 172,
    "ioperm": 173, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "fsopen": 430, "fsconfig": 431,
    "fsmount": 432, "fspick": 433, "open_tree": 428, "move_mount": 429, "mount_setattr": 442, "setns": 308, "acct": 163,
    "quotactl": 179, "syslog": 103, "sethostname": 170, "setdomainname": 171, "kcmp": 312, "fanotify_init": 300,
    "clone3": 435, "lookup_dcookie": 212, "vhangup": 153, "nfsservctl": 180, "uselib": 134, "quotactl_fd": 443,
}


# --- classic BPF, walked with unknown arguments ---


def outcomes(code, known, start=0):
    """Every action the filter can return, where `known` gives some words of seccomp_data by their offset."""
    found, todo, visited = set(), [(start, None, None, ())], set()
    while todo:
        state = todo.pop()
        if state in visited:
            continue
        visited.add(state)
        pc, acc, index, memory = state
        op, jt, jf, k = code[pc]
        cells = dict(memory)
        kind = op & 7
        if kind == 6:  # RET
            value = acc if op & 0x18 == 0x10 else k
            found.add(None if value is None else value & 0xFFFF0000)
        elif kind in (0, 1):  # LD, LDX
            mode = op & 0xE0
            value = {0x20: known.get(k), 0x00: k, 0x60: cells.get(k), 0x80: 64}[mode]
            todo.append((pc + 1, acc, value, memory) if kind == 1 else (pc + 1, value, index, memory))
        elif kind in (2, 3):  # ST, STX
            cells[k] = acc if kind == 2 else index
            todo.append((pc + 1, acc, index, tuple(sorted(cells.items()))))
        elif kind == 4:  # ALU
            operand = index if op & 8 else k
            todo.append((pc + 1, _alu(op & 0xF0, acc, operand), index, memory))
        elif kind == 5:  # JMP
            if op & 0xF0 == 0:
                todo.append((pc + 1 + k, acc, index, memory))
                continue
            operand = index if op & 8 else k
            if acc is None or operand is None:
                ways = (jt, jf)
            else:
                true = {0x10: acc == operand, 0x20: acc > operand, 0x30: acc >= operand, 0x40: acc & operand != 0}
                ways = (jt if true[op & 0xF0] else jf,)
            todo.extend((pc + 1 + way, acc, index, memory) for way in ways)
        else:  # MISC
            todo.append((pc + 1, acc, acc, memory) if op & 0xF8 == 0 else (pc + 1, index, index, memory))
    return found


def _alu(op, a, b):
    if a is None or (b is None and op != 0x80):
        return None
    table = {0x00: lambda: a + b, 0x10: lambda: a - b, 0x20: lambda: a * b, 0x30: lambda: a // b if b else 0,
             0x40: lambda: a | b, 0x50: lambda: a & b, 0x60: lambda: a << b, 0x70: lambda: a >> b, 0x80: lambda: -a,
             0xA0: lambda: a ^ b}
    return table[op]() & 0xFFFFFFFF


def data(nr, arch=X86_64, **args):
    """Words of seccomp_data by offset; argN gives both halves of an argument."""
    known = {0: nr, 4: arch}
    for name, value in args.items():
        at = 16 + 8 * int(name[3:])
        known[at], known[at + 4] = value & 0xFFFFFFFF, value >> 32
    return known


def can_pass(filters, known):
    return all(outcomes(code, known) & (ALLOWED | {None}) for code in filters)


def always_killed(filters, known):
    return any(outcomes(code, known) <= KILLED for code in filters)


def dump(pid):
    """The seccomp filters of a process, by ptrace: newest first."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(0x4206, pid, None, None) < 0:  # PTRACE_SEIZE
        raise OSError(ctypes.get_errno(), "seize")
    try:
        libc.ptrace(0x4207, pid, None, None)  # PTRACE_INTERRUPT
        os.waitpid(pid, 0x40000000)  # __WALL
        found = []
        while (n := libc.ptrace(0x420C, pid, len(found), None)) > 0:  # PTRACE_SECCOMP_GET_FILTER
            raw = ctypes.create_string_buffer(8 * n)
            libc.ptrace(0x420C, pid, len(found), raw)
            found.append([struct.unpack_from("HBBI", raw.raw, 8 * i) for i in range(n)])
        if not found:
            raise OSError(ctypes.get_errno(), "get filter")
        return found
    finally:
        libc.ptrace(17, pid, None, None)  # PTRACE_DETACH


def by_filter(t, mode):
    with mode.live_program("stay", args=("waits", "mark-bpf")) as run:
        if not t.ok(run.wait_for("ready"), "filter: a quiet run", run.errors()):
            return
        found = [p for p in caytest.marked("mark-bpf") if p.args[0] == b"/sandbox/x"]
        try:
            filters = dump(found[0].pid)
        except OSError as e:
            t.skip("filter: read from the kernel", f"ptrace: {e}", "ptrace")
            return
        finally:
            run.end_input()
        run.wait()
    t.diag(f"{len(filters)} filters of {[len(f) for f in filters]} instructions")
    passing = [nr for nr in range(0, 1024) if can_pass(filters, data(nr))]
    t.diag(f"{len(passing)} calls can pass: {passing}")
    t.ok(20 < len(passing) <= MOST, f"filter: at most {MOST} calls reach the kernel", f"{len(passing)} do")
    newest = max(passing, default=0)
    t.empty([nr for nr in (*range(475, 1024), 4095, 65535, 0x3FFFFFFF) if can_pass(filters, data(nr))],
            "filter: numbers newer than the build are denied", f"newest allowed: {newest}")
    t.empty([n for n, nr in DENIED_NUMBERS.items() if can_pass(filters, data(nr))], "filter: dangerous calls are denied")
    t.empty([nr for nr in range(0, 500) if not always_killed(filters, data(nr, arch=I386))],
            "filter: every 32-bit call is killed")
    t.empty([nr for nr in range(0, 600) if not always_killed(filters, data(nr | 0x40000000))],
            "filter: every x32 call is killed")
    t.ok(always_killed(filters, data(39, arch=0xC00000B7)), "filter: another architecture is killed")
    killed = [nr for nr in range(0, 1024) if always_killed(filters, data(nr))]
    t.empty(killed, "filter: native calls are answered, never killed")

    families = [f for f in range(0, 128) if can_pass(filters, data(SOCKET, arg0=f, arg2=0))]
    t.equal(families, [1, 2, 10, 16], "filter: only UNIX, INET, INET6 and netlink sockets")
    pairs = [f for f in range(0, 128) if can_pass(filters, data(SOCKETPAIR, arg0=f))]
    t.ok(set(pairs) <= {1, 2, 10, 16}, "filter: the same families for socketpair", pairs)
    high = [f for f in range(0, 128) if can_pass(filters, data(SOCKET, arg0=f | 1 << 32)) and f not in (1, 2, 10, 16)]
    t.empty(high, "filter: junk above the family's 32 bits opens nothing")
    raw = [(f, ty) for f in (2, 10) for ty in (3, 3 | 0o2000000, 3 | 0o4000, 3 | 1 << 32)
           if can_pass(filters, data(SOCKET, arg0=f, arg1=ty))]
    t.empty(raw, "filter: no raw sockets, with flags or junk either")
    netlink = [p for p in range(1, 33) if can_pass(filters, data(SOCKET, arg0=16, arg1=3, arg2=p))]
    t.empty(netlink, "filter: netlink for routes only")
    bits = {"user": 1 << 28, "pid": 1 << 29, "net": 1 << 30, "mnt": 1 << 17, "cgroup": 1 << 25, "uts": 1 << 26,
            "ipc": 1 << 27}
    t.empty([n for n, b in bits.items() if can_pass(filters, data(CLONE, arg0=b | 17))], "filter: clone makes no namespace")
    t.empty([n for n, b in bits.items() if can_pass(filters, data(CLONE, arg0=b | 17 | 1 << 32))],
            "filter: nor with junk above the flags")
    t.empty([n for n, b in {**bits, "time": 1 << 7}.items() if can_pass(filters, data(UNSHARE, arg0=b))],
            "filter: unshare makes no namespace")
    requests = {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541C}
    t.empty([n for n, q in requests.items() for h in (0, 1 << 32, 0xFFFFFFFF << 32)
             if can_pass(filters, data(IOCTL, arg1=q | h))], "filter: terminal injection is denied on the low 32 bits")


def by_calling(t, mode):
    r = mode.program("sweep", "--timeout", "60", "--max-output", "100k", args=[LAST])
    rows = [line.split() for line in r.stdout.splitlines()]
    t.result(r, "sweep: all numbers were called", cause="ok")
    if not t.equal(len(rows), LAST + 1 - 2, "sweep: every number answered"):
        return
    denied = {str(errno.EPERM), str(errno.ENOSYS)}
    reached = [row[0] for row in rows if not set(row[1:]) <= denied]
    t.diag(f"{len(reached)} numbers answer otherwise than EPERM or ENOSYS")
    t.ok(20 < len(reached) <= MOST, f"sweep: at most {MOST} numbers reach the kernel", f"{len(reached)} do")
    t.empty([row for row in rows if "s31" in row], "sweep: no native number is killed")
    t.empty([row for row in rows if int(row[0]) > 470 and row[1:] != [str(errno.ENOSYS)] * 2],
            "sweep: numbers newer than the build answer ENOSYS")


def by_name(t, mode):
    r = mode.program("calls")
    t.result(r, "calls: all were made", cause="ok")
    inside = dict(line.split() for line in r.stdout.splitlines())
    control = mode.command(caytest.workdir() / "calls", user=mode.uid or 47999) if os.getuid() == 0 else \
        mode.command(caytest.workdir() / "calls")
    outside = dict(line.split() for line in control.out.decode().splitlines())
    denied = {str(errno.EPERM), str(errno.ENOSYS)}
    t.ok(len(outside) > 50 and set(inside) == set(outside), "calls: the same rows inside and outside",
         set(inside) ^ set(outside))
    t.empty([(n, a) for n, a in inside.items() if a not in denied and n != "vmsplice"], "calls: each is denied, none kills")
    t.ok(inside.get("vmsplice") not in (None, "0"), "calls: vmsplice is denied", inside.get("vmsplice"))
    t.equal(inside.get("clone3"), str(errno.ENOSYS), "calls: clone3 answers ENOSYS")
    mute = [n for n in SPEAKING if outside.get(n) in denied]
    t.empty(mute, "calls: control: they mean something outside")


def inherited(t, mode):
    """A caller without address randomisation (a debugger's) does not hand that on to a program that may not ask for it."""
    if mode.is_docker:  # whose programs are the engine's to start
        code = "print({l[:26].strip(): l[26:].split()[:2] for l in open('/proc/self/limits')})"
        r = mode.python(code)
        rows = ast.literal_eval(r.stdout or "{}")
        t.equal([rows.get(f"Max {n}") for n in ("locked memory", "nice priority", "realtime priority", "file size", "address space")],
                [[str(8 << 20)] * 2, ["0"] * 2, ["0"] * 2, ["unlimited"] * 2, ["unlimited"] * 2], "no limit is the engine's", *r.describe())
        return
    r = caytest.Result(mode.command("/usr/bin/setarch", "-R", "-B", "-Z", mode.binary, "exec", "--json", "--", "/bin/cat",
                                    "/proc/self/personality"))
    t.result(r, "a caller's persona stays the caller's", "00000000\n", cause="ok")
    # And a caller's limits: a program is ended for what it did, and goes before nobody.
    space = () if caytest.SANITIZED else ("--as=1099511627776:",)  # a sanitizer takes more of it
    more = ("--rtprio=50", "--nice=30") if mode.is_root and mode.command("/usr/bin/prlimit", "--rtprio=50", "/bin/true").status == 0 else ()
    r = caytest.Result(mode.command("/usr/bin/prlimit", "--fsize=1073741824:", "--cpu=100000:", *space, "--rttime=1000000:", *more,
                                    mode.binary, "exec", "--json", "--", "/bin/grep", "-E", "size|space|cpu|time|prio|locked", "/proc/self/limits"))
    rows = {line[:26].strip(): line[26:].split()[:2] for line in r.stdout.splitlines()}
    t.equal([rows.get(f"Max {n}") for n in ("file size", "cpu time", "address space", "realtime timeout")], [["unlimited"] * 2] * 4,
            "a caller's limits stay the caller's", *r.describe())
    t.equal([rows.get(f"Max {n}") for n in ("nice priority", "realtime priority")], [["0"] * 2] * 2, "nobody goes before others", *r.describe())
    most = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    locked = 8 << 20 if most < 0 else min(8 << 20, most)
    t.equal(rows.get("Max locked memory"), [str(locked)] * 2, "8m of locked memory, as docs/limits.md says", *r.describe())
    # Real-time is a right that few have; this one stands for it.
    policy = "import os; print(os.sched_getscheduler(0) == os.SCHED_OTHER)"
    r = caytest.Result(mode.command("/usr/bin/chrt", "-b", "0", mode.binary, "run", "--json", "-l", "python", "-e", policy))
    t.result(r, "a caller's scheduling policy stays the caller's", "True\n", cause="ok")


# What would flush the host's disk or leave a device node, by way of everyday programs: they do not see a difference.
HONEST = """
import mmap, os, shutil, sqlite3, stat
db = sqlite3.connect("x.db")
db.execute("pragma journal_mode=wal"); db.execute("create table t (x)")
for i in range(20):
    with db: db.execute("insert into t values (?)", (i,))
print(db.execute("select sum(x) from t").fetchone()[0])
f = open("f", "w+b"); f.write(b"abc" * 2000); f.flush(); os.fsync(f.fileno()); os.fdatasync(f.fileno())
with mmap.mmap(f.fileno(), 0) as m: m[:3] = b"xyz"; m.flush()
os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
shutil.copy("f", "g"); os.replace("g", "h"); print(open("h", "rb").read(3))
d = os.open("/usr", os.O_RDONLY); os.fsync(d); os.fsync(os.open("/usr/bin/env", os.O_RDONLY))
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.renameat2(-100, b"h", -100, b"i", 4), ctypes.get_errno(), [n for n in os.listdir() if stat.S_ISCHR(os.lstat(n).st_mode)])
print(open("/proc/cmdline").read() == "")
"""


def honest(t, mode):
    t.result(mode.python(HONEST), "files are flushed as ever, and no device node is made", "190\nb'xyz'\n-1 22 []\nTrue\n", cause="ok")


def by_foreign_entry(t, mode):
    for how in ("int80", "x32"):
        r = mode.program("foreign", args=[how])
        t.result(r, f"{how}: killed at the first call", cause="syscall", signal=signal.SIGSYS, exit_code=128 + 31)
        t.ok("answered" not in r.stdout, f"{how}: nothing came back", r.stdout)
    r = mode.program("elf32")
    t.ok("ran32" not in r.stdout and r.get("exit_code") != 7, "a 32-bit program gets nothing done", *r.describe())
    control = mode.command(caytest.workdir() / "elf32")
    t.ok(b"ran32" in control.out or control.status != 7, "control: the 32-bit program works where the host has that entry")


def test(t, mode):
    by_calling(t, mode)
    by_name(t, mode)
    by_foreign_entry(t, mode)
    honest(t, mode)
    inherited(t, mode)
    if os.getuid() == 0:
        by_filter(t, mode)
    else:
        t.skip("filter: read from the kernel", "only root can read a filter", "root")


caytest.main(test, programs=["sweep", "calls", "foreign", "elf32", "stay"])

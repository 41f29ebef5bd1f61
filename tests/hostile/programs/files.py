# SPDX-License-Identifier: Apache-2.0
# Looks for files: what can be read, written, made. Takes the paths of host canaries as arguments; prints one JSON object.
import json, os, stat, sys

OWN = ("/sandbox", "/tmp", "/dev/shm", "/workspace")
TREES = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin")
found = {k: [] for k in ("read", "proc_leak", "written", "writable", "devices", "outside", "made", "changed")}


def under(path, tops):
    return any(path == t or path.startswith(t + "/") for t in tops)


def readable(path):
    try:
        if os.path.isdir(path):
            return os.listdir(path) or None
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return os.read(fd, 64).decode(errors="replace") or None
        finally:
            os.close(fd)
    except OSError:
        return None


# 1. Canaries and secrets, by every name there may be for them.
secrets = sys.argv[1:] + ["/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/root", "/home", "/var/lib", "/var/log", "/var/mail",
                          "/var/cache", "/run", "/boot", "/srv", "/mnt", "/media", "/etc/machine-id", "/etc/ssh",
                          "/proc/kcore", "/proc/kmsg", "/proc/1/environ", "/proc/1/maps", "/proc/1/mem", "/proc/1/root",
                          "/proc/1/cwd", "/proc/1/fd", "/proc/keys", "/sys/kernel", "/sys/fs/cgroup",
                          "/sys/firmware"]
for path in secrets:
    for name in (path, "/proc/self/root" + path, "/proc/self/cwd/../../../../.." + path, "/../../.." + path,
                 "/proc/1/root" + path, "/proc/thread-self/root/.." + path):
        if (got := readable(name)) is not None:
            found["read"].append([name, got if isinstance(got, str) else sorted(got)[:5]])
for link in ("exe", "root", "cwd"):
    try:
        found["proc_leak"].append([link, os.readlink(f"/proc/1/{link}")])
    except OSError:
        pass
with open("/proc/1/cmdline", "rb") as f:
    if b"/" in (words := f.read()):
        found["proc_leak"].append(["cmdline", words.decode(errors="replace")])

# 2. The whole tree: every file outside the language trees, every device, every place to write.
writable_now = 0
tops = {}
for here, folders, names in os.walk("/", onerror=lambda e: None):
    folders[:] = [d for d in folders if not (here == "/" and d in ("proc", "sys"))]
    deep = under(here, TREES) and here.count("/") > 4
    if not deep:
        probe = os.path.join(here, ".cay-probe")
        try:
            os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            os.unlink(probe)
            if not under(here, OWN):
                found["writable"].append(here)
        except OSError:
            pass
    for name in names:
        path = os.path.join(here, name)
        try:
            st = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISCHR(st.st_mode) or stat.S_ISBLK(st.st_mode):
            found["devices"].append([path, os.major(st.st_rdev), os.minor(st.st_rdev)])
            continue
        if not stat.S_ISREG(st.st_mode) or under(path, OWN):
            continue
        if not under(path, TREES) and os.access(path, os.R_OK):
            found["outside"].append(path)
        if not deep:
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK))
                found["written"].append(path)
            except OSError:
                pass

# 3. Changes to what is there, other than by writing. Each is one that changes nothing where it is allowed.
bait = os.stat("/usr/bin/env")


def allowed_rmdir(path):
    """A folder that is not empty cannot go; the errno tells whether it might have."""
    try:
        os.rmdir(path)
    except OSError as e:
        if e.errno != 39:  # ENOTEMPTY
            raise


def mark():
    os.setxattr("/usr/bin/env", "user.cay", b"1")
    os.removexattr("/usr/bin/env", "user.cay")


for label, change in {
    "chmod /usr/bin/env": lambda: os.chmod("/usr/bin/env", stat.S_IMODE(bait.st_mode)),
    "chown /usr/bin/env": lambda: os.chown("/usr/bin/env", bait.st_uid, bait.st_gid),
    "utime /usr/bin/env": lambda: os.utime("/usr/bin/env", ns=(bait.st_atime_ns, bait.st_mtime_ns)),
    "truncate /usr/bin/env": lambda: os.truncate("/usr/bin/env", bait.st_size),
    "setxattr /usr/bin/env": mark,
    "rmdir /usr/bin": lambda: allowed_rmdir("/usr/bin"),
    "rmdir /etc": lambda: allowed_rmdir("/etc"),
    "mkdir /": lambda: (os.mkdir("/cay-made"), os.rmdir("/cay-made")),
    "symlink /": lambda: (os.symlink("/", "/cay-link"), os.unlink("/cay-link")),
}.items():
    try:
        change()
        found["changed"].append(label)
    except OSError:
        pass
for label, kind, device in (("mem", stat.S_IFCHR, os.makedev(1, 1)), ("kmsg", stat.S_IFCHR, os.makedev(1, 11)),
                            ("null", stat.S_IFCHR, os.makedev(1, 3)), ("disk", stat.S_IFBLK, os.makedev(254, 0)),
                            ("fuse", stat.S_IFCHR, os.makedev(10, 229))):
    for folder in ("/tmp", "/dev/shm", "/sandbox"):
        try:
            os.mknod(f"{folder}/cay-{label}", kind | 0o600, device)
            found["made"].append(f"{folder}/{label}")
        except OSError:
            pass

# 4. The kernel's own files. Opening is enough: nothing is written that would change a host.
kernel = []
for top in ("/proc/sys", "/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/scsi"):
    for here, folders, names in os.walk(top, onerror=lambda e: None):
        for name in names:
            path = os.path.join(here, name)
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                kernel.append(path)
            except OSError:
                pass
for path in ("/proc/sysrq-trigger", "/proc/self/uid_map", "/proc/self/gid_map", "/proc/mtrr", "/proc/timer_list",
             "/proc/self/ns/mnt", "/proc/1/oom_score_adj", "/proc/1/mem", "/proc/1/setgroups"):
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            # The maps can be opened by anybody; a sandbox must not be able to write them.
            if path.endswith("_map"):
                os.write(fd, b"0 0 1\n")
            kernel.append(path)
        finally:
            os.close(fd)
    except OSError:
        pass
found["kernel"] = kernel
try:
    found["kallsyms"] = max(int(line.split()[0], 16) for line in open("/proc/kallsyms").read().splitlines()[:100])
except (OSError, ValueError):
    found["kallsyms"] = 0

mounts = []
for line in open("/proc/self/mountinfo").read().splitlines():
    left, _, right = line.partition(" - ")
    f, r = left.split(), right.split()
    mounts.append([f[4], f[5].split(",")[0], r[0], f[3], "nosuid" in f[5], "nodev" in f[5]])
found["mounts"] = mounts
found["etc"] = sorted(os.listdir("/etc")) if os.path.isdir("/etc") else []
found["dev"] = {n: oct(os.lstat("/dev/" + n).st_mode & 0o170000) for n in os.listdir("/dev")}
found["passwd"] = open("/etc/passwd").read() if os.path.exists("/etc/passwd") else ""
found["hostname"] = os.uname().nodename
found["domain"] = open("/proc/sys/kernel/domainname").read().strip()
found["pids"] = [int(p) for p in os.listdir("/proc") if p.isdigit()]
for label, action in {"null": lambda: open("/dev/null", "wb").write(b"x"), "zero": lambda: open("/dev/zero", "rb").read(8),
                      "urandom": lambda: open("/dev/urandom", "rb").read(8),
                      "random": lambda: open("/dev/random", "rb").read(8)}.items():
    try:
        action()
    except OSError as e:
        found.setdefault("broken", []).append([label, e.errno])
try:
    os.close(os.open("/dev/tty", os.O_RDWR))
    found["tty"] = "opened"
except OSError as e:
    found["tty"] = e.errno
terminals = []
try:
    while len(terminals) < 200:
        terminals.append(os.openpty())
except OSError:
    pass
found["terminals"] = len(terminals)
for folder in ("/tmp", "/dev/shm", "/sandbox"):
    with open(folder + "/cay-wrote-this", "w") as f:
        f.write("x")
print(json.dumps(found))

# SPDX-License-Identifier: Apache-2.0
# Who am I? As the kernel says, in every thread, in a child, and after exec. Prints one JSON object.
import ctypes, json, os, subprocess, sys, threading

WANTED = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
libc = ctypes.CDLL(None, use_errno=True)


def parse(text):
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {k: lines[k].strip() for k in WANTED}


def errno_of(result):
    return 0 if result >= 0 else ctypes.get_errno()


views = {}
go, done = threading.Event(), threading.Barrier(4)
for i in range(3):
    threading.Thread(target=lambda: (done.wait(), go.wait()), daemon=True).start()
done.wait()
for task in os.listdir("/proc/self/task"):
    views["thread " + task] = parse(open(f"/proc/self/task/{task}/status").read())
go.set()

read_end, write_end = os.pipe()
if os.fork() == 0:
    os.write(write_end, open("/proc/self/status").read().encode())
    os._exit(0)
os.wait()
views["fork"] = parse(os.read(read_end, 65536).decode())
show = "import sys; sys.stdout.write(open('/proc/self/status').read())"
for name, argv in {
    "exec cat": ["/bin/cat", "/proc/self/status"],
    "exec sh": ["/bin/sh", "-c", "exec /bin/cat /proc/self/status"],
    "exec python": [sys.executable, "-c", show],
    "exec setsid": ["/usr/bin/setsid", "-w", "/bin/cat", "/proc/self/status"],
}.items():
    answer = subprocess.run(argv, capture_output=True, text=True)
    views[name] = parse(answer.stdout) if answer.returncode == 0 else answer.stderr

# Setuid programs, where there are any, must not change who we are.
setuid = [p for p in ("/usr/bin/su", "/usr/bin/mount", "/usr/bin/passwd", "/usr/bin/sudo", "/usr/bin/newgrp")
          if os.path.exists(p) and os.stat(p).st_mode & 0o4000]
tries = {
    "setuid 0": errno_of(libc.setuid(0)), "setgid 0": errno_of(libc.setgid(0)),
    "setresuid 0": errno_of(libc.setresuid(0, 0, 0)),
    "setuid 1": errno_of(libc.setuid(1)) if os.getuid() != 1 else -1,
    "setgroups 0": errno_of(libc.setgroups(1, (ctypes.c_uint * 1)(0))),
    "no_new_privs off": errno_of(libc.prctl(38, 0, 0, 0, 0)),
    "ambient raise": errno_of(libc.prctl(47, 2, 21, 0, 0)),
    "keepcaps, then setuid": (libc.prctl(8, 1, 0, 0, 0), errno_of(libc.setuid(0)))[1],
}
header, data = (ctypes.c_uint * 2)(0x20080522, 0), (ctypes.c_uint * 6)(*[0xFFFFFFFF] * 6)
tries["capset all"] = errno_of(libc.syscall(126, header, data))
print(json.dumps({
    "views": views, "tries": tries, "pid": os.getpid(), "setuid": setuid, "uid_map": open("/proc/self/uid_map").read().split(),
    "after": parse(open("/proc/self/status").read()),
}))

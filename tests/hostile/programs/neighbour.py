# SPDX-License-Identifier: Apache-2.0
# "leave" makes one of everything under known names and waits; "find" looks for each of them and prints what it found.
import ctypes, fcntl, json, os, socket, sys

libc = ctypes.CDLL(None, use_errno=True)
KEY, NAME, PORT = 0x4341590A, "cay-neighbour", 34567
FOLDERS = ("/tmp", "/dev/shm", "/sandbox", "/var/tmp", "/run", "/home", os.environ.get("HOME", "/tmp"))
SHARED = "/usr/bin/env"


def listening(family, address):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.bind(address)
    s.listen()
    return s


def quietly(action):
    try:
        return action()
    except OSError:
        return None


if sys.argv[1] == "leave":
    keep = []
    for folder in FOLDERS:
        quietly(lambda: open(f"{folder}/{NAME}", "w").write("x"))
    libc.shmget(KEY, 4096, 0o1666), libc.semget(KEY, 1, 0o1666), libc.msgget(KEY, 0o1666)
    keep.append(quietly(lambda: listening(socket.AF_UNIX, "\0" + NAME)))
    keep.append(quietly(lambda: listening(socket.AF_INET, ("127.0.0.1", PORT))))
    libc.mq_open(b"/" + NAME.encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
    libc.syscall(248, b"user", NAME.encode(), b"x", 1, -5)  # the user session keyring, shared by all of one uid
    shared = open(SHARED)
    locked = quietly(lambda: fcntl.flock(shared, fcntl.LOCK_EX | fcntl.LOCK_NB) or True)
    import builtins, random
    builtins.cay_neighbour = os.environ["CAY_NEIGHBOUR"] = "x"
    print(json.dumps({"locked": bool(locked), "random": random.random()}), flush=True)
    sys.stdin.read()
else:
    found = [f"{f}/{NAME}" for f in FOLDERS if os.path.exists(f"{f}/{NAME}")]
    for name, call in (("shm", lambda: libc.shmget(KEY, 1, 0)), ("sem", lambda: libc.semget(KEY, 1, 0)),
                       ("msg", lambda: libc.msgget(KEY, 0)), ("mq", lambda: libc.mq_open(b"/" + NAME.encode(), os.O_RDWR))):
        if call() >= 0:
            found.append(name)
    if libc.syscall(250, 10, -5, b"user", NAME.encode(), 0) >= 0 or libc.syscall(249, b"user", NAME.encode(), 0, 0) >= 0:
        found.append("key")
    for family, address in ((socket.AF_UNIX, "\0" + NAME), (socket.AF_INET, ("127.0.0.1", PORT))):
        s = socket.socket(family, socket.SOCK_STREAM)
        s.settimeout(2)
        if quietly(lambda: s.connect(address) or True):
            found.append(f"socket {address!r}")
    mine = {os.getpid(), os.getppid(), 1}
    found += [f"process {p}" for p in os.listdir("/proc") if p.isdigit() and int(p) not in mine]
    for pid in range(1, 33000):
        if pid not in mine and libc.kill(pid, 0) == 0:
            found.append(f"signal to {pid}")
    import builtins, random, uuid
    if hasattr(builtins, "cay_neighbour") or "CAY_NEIGHBOUR" in os.environ:
        found.append("interpreter state")
    free = quietly(lambda: fcntl.flock(open(SHARED), fcntl.LOCK_EX | fcntl.LOCK_NB) or True)
    print(json.dumps({"found": found, "lock_free": bool(free), "random": random.random(), "uuid": str(uuid.uuid4()),
                      "urandom": os.urandom(8).hex(), "files": os.listdir("/tmp") + os.listdir("/dev/shm")}))

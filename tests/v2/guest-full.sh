# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154,SC2086
#
# The long part of guest-tests.sh, which sources it (and sets $out, $err, $rc, $scratch, $cay_pid): every kind of memory, every kind of bad ending,
# neighbours, and a cay that is itself under a limit.

memfd_bomb='
import os
fd = os.memfd_create("m")
while True:
    os.write(fd, b"x" * (1 << 20))
'
thread_bomb='
import os, threading, time
n = 0
while n < 1000:
    try:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        n += 1
    except RuntimeError:
        print(n, flush=True)
        os._exit(3)
'
shm_bomb='
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
while True:
    i = libc.shmget(0, 1 << 20, 0o1600)
    p = libc.shmat(i, None, 0) if i >= 0 else None
    if p is None or p == ctypes.c_void_p(-1).value:
        print("refused", ctypes.get_errno(), flush=True)
        os._exit(4)
    ctypes.memset(p, 1, 1 << 20)
'
socket_bomb='
import os, socket
kept = []
try:
    while True:
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        a.setblocking(False)
        kept += [a, b]
        try:
            while True:
                a.send(b"x" * 65536)
        except BlockingIOError:
            pass
except OSError:
    os._exit(4)
'
# Shared anonymous maps are no private data, so that no rlimit sees them.
shared_bomb='
import mmap
kept = []
while True:
    m = mmap.mmap(-1, 1 << 20)
    m.write(b"x" * (1 << 20))
    kept.append(m)
'
# Eight processes, none of which is over the limit alone.
many_bomb='
import os, time
for i in range(8):
    if os.fork() == 0:
        b = b"x" * (24 << 20)
        time.sleep(1000)
time.sleep(1000)
'
# As many buffers as the open files allow, filled from both ends; prints what they took.
socket_sum='
import os, socket
kept, total = [], 0
try:
    while True:
        kept += socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        for s in kept[-2:]:
            s.setblocking(False)
            try:
                while True:
                    total += s.send(b"x" * 65536)
            except BlockingIOError:
                pass
except OSError:
    pass
print(total, flush=True)
'
# Fills each place in turn; the sum must stay within the one limit.
disk_bomb='
import os
total = 0
for place in ("/tmp", "/dev/shm", "/sandbox"):
    try:
        with open(place + "/fill", "wb", buffering=0) as f:
            while True:
                total += f.write(b"x" * 65536)
    except OSError:
        pass
print(total, flush=True)
os._exit(5)
'
inode_bomb='
import os
n = 0
try:
    while n < 100000:
        os.close(os.open("/sandbox/f%d" % n, os.O_CREAT | os.O_WRONLY))
        n += 1
except OSError:
    print(n, flush=True)
    os._exit(5)
'
flood='
import os
while True:
    os.write(1, b"y" * 65536)
'
oom_in_child='
import os
if os.fork() == 0:
    b = []
    while True:
        b.append(b"x" * (1 << 20))
os.wait()
print("survived", flush=True)
'

# One bad ending a line: its name, then what python3 -c gets. Each tries to outlive its own end.
bad_ending() {
    case $1 in
    1) echo 'import os; os.abort()' ;;
    2) echo 'import ctypes; ctypes.string_at(0)' ;;
    3) echo 'import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)
os.wait(); os._exit(1)' ;;
    4) echo 'import os, signal; os.kill(os.getpid(), signal.SIGSTOP)' ;;
    5) echo 'import os, signal, time
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
os.close(0); os.close(1); os.close(2)
while True: time.sleep(1000)' ;;
    6) echo 'import os, signal, time
for i in range(5):
    if os.fork() == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(0.5); os._exit(7)' ;;
    7) echo 'import os
d = os.open("/sandbox", os.O_RDONLY); os.fchdir(d)
for i in range(300):
    os.mkdir("d"); os.chdir("d")
os.chmod(".", 0); os._exit(8)' ;;
    8) echo 'import os, threading
for i in range(5): threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()
os.kill(os.getpid(), 11)' ;;
    9) echo 'import os, time
for i in range(10):
    if os.fork() == 0:
        os.setpgid(0, 0); time.sleep(1000)
os.kill(-1, 9); os._exit(6)' ;;
    10) echo 'import os, socket, time
s = socket.socket(socket.AF_UNIX); s.bind("/tmp/s"); s.listen()
os.mkfifo("/sandbox/p")
open("/sandbox/sparse", "wb").truncate(1 << 20)
if os.fork() == 0: open("/sandbox/p")
os._exit(9)' ;;
    esac
}

# bad_endings RUNNER NAME: all ten, and what is left after each
bad_endings() {
    n=0
    while [ $n -lt 10 ]; do
        n=$((n + 1))
        py "$1" "$(bad_ending $n)" --memory 64m --pids 40 --timeout 5
        check "$2: bad ending $n fails and leaves nothing" failed_and_clean
    done
}

failed_and_clean() {
    python3 -I -S /tests/expect.py $out $err $rc 'rc != 0' 'r["success"] is False' \
        'cause != "infrastructure"' && is_clean
}

# bombs RUNNER NAME: memory of every kind is one sum
bombs() {
    py "$1" "$memfd_bomb" --memory 64m --timeout 60
    expect "$2: a memfd bomb ends as memory" 'rc == 137' 'cause == "memory"' '0 < peak <= 1.15 * 64 * MIB'
    py "$1" "$shm_bomb" --memory 64m --timeout 60
    expect "$2: a System V shm bomb stays under the limit" 'rc != 0' '0 < peak <= 1.15 * 64 * MIB' \
        'cause == "memory" or out.startswith("refused")'
    py "$1" "$socket_bomb" --memory 64m --timeout 60
    expect "$2: a socket buffer bomb stays under the limit" 'rc != 0' '0 < peak <= 1.15 * 64 * MIB' \
        'cause in ("memory", "exit")'
    py "$1" "$thread_bomb" --pids 24 --timeout 60
    expect "$2: a thread bomb meets the pids limit" 'rc == 3' 'cause == "pids"' '0 < int(out) < 24'
    py "$1" "$disk_bomb" --memory 64m --disk 8m --timeout 60
    expect "$2: /tmp, /dev/shm and /sandbox are one disk" 'rc == 5' 'cause == "disk"' \
        '0 < int(out) <= 8 * MIB' 'verdict["limit_name"] == "disk"'
    py "$1" "$disk_bomb" --memory 64m --timeout 60
    expect "$2: what is written is at most half of memory" 'rc == 5' 'int(out) <= 32 * MIB' \
        'meta["resource_limits"]["disk"] <= 32 * MIB'
    py "$1" "$inode_bomb" --inodes 200 --timeout 60
    expect "$2: an inode bomb ends as disk" 'rc == 5' 'cause == "disk"' \
        'verdict["limit_name"] == "inodes"' '0 < int(out) <= 200'
    py "$1" "$flood" --output-cap 1m --timeout 60
    expect "$2: an output flood is stopped" 'rc == 137' 'cause == "output"' 'len(out) <= 2 * 20480' \
        'meta["truncated"] is True'
    py "$1" "$oom_in_child" --memory 64m --timeout 60
    expect "$2: memory in a child is told" \
        '(rc == 0 and "memory" in warnings) or (rc == 137 and cause == "memory")'
    nothing_left "$2's bombs"
}

# A neighbour's sweep never touches a live run, and two runs share neither cgroup nor uid.
neighbours() {
    start 4010 cay exec --timeout 120
    first=$cay_pid first_pid=$pid
    start 4011 cay exec --timeout 120
    check "two runs at once share neither cgroup nor uid" differ "$first_pid" "$pid"
    stop KILL $cay_pid
    wait_for none_of 4011
    cay_run exec --json -- true
    check "a sweep spares the live neighbour" test "$(pids_of 4010)" = "$first_pid"
    stop TERM "$first"
    wait_for none_of 4010
    nothing_left "two neighbours"
}

differ() {
    sed -n 's/^0:://p' "/proc/$1/cgroup" "/proc/$2/cgroup" | sort -u >$scratch/paths
    awk '$1 == "Uid:" { print $2 }' "/proc/$1/status" "/proc/$2/status" | sort -u >$scratch/uids
    cat $scratch/paths $scratch/uids
    [ "$(wc -l <$scratch/paths)" = 2 ] && [ "$(wc -l <$scratch/uids)" = 2 ]
}

throttle() {
    in_cgroup tests cay exec --json --cpus 0.5 --timeout 100 -- python3 -I -S -c '
import subprocess
subprocess.Popen(["sleep", "4020"])
while True:
    pass
' >$scratch/bg 2>&1 </dev/null &
    cay_pid=$!
    await_start 4020
    check "cpus 0.5 is counted as throttling by the kernel" \
        wait_for python3 -I -S /tests/limits.py "$pid" 'throttled > 0' 'cpus == 0.5'
    stop TERM $cay_pid
    wait_for none_of 4020
    nothing_left "a throttled spin"
}

# cay in a container whose cgroup has limits of its own: they hold whatever cay is asked for.
nested() {
    outer=/sys/fs/cgroup/outer
    mkdir $outer $outer/leaf
    echo $((192 << 20)) >$outer/memory.max
    echo 0 >$outer/memory.swap.max
    echo 60 >$outer/pids.max
    mark_clean
    py nested_run 'print("hi")'
    expect "nested: a run goes well in a limited container" 'rc == 0' 'out == "hi\n"' "$cgroups_on"
    py nested_run "$malloc_bomb" --memory 64m --timeout 60
    expect "nested: cay's own limit is the cause" 'rc == 137' 'cause == "memory"' \
        'verdict["limit"] == 64 * MIB'
    py nested_run "$fork_bomb" --pids 24 --timeout 60
    expect "nested: cay's own pids limit is the cause" 'rc == 3' 'cause == "pids"' '0 < int(out) < 24'
    py nested_run "$malloc_bomb" --memory 512m --timeout 60
    expect "nested: the container's limit ends a bomb that cay would let grow" 'rc == 137'

    empty_outer
    in_cgroup tests python3 -I -S /tests/box.py outer cay exec --timeout 100 -- sleep 4030 \
        >$scratch/bg 2>&1 </dev/null &
    cay_pid=$!
    await_start 4030
    check "nested: the sandbox is under the container's limits too" python3 -I -S /tests/limits.py \
        "$pid" 'path.startswith("/outer/")' 'memory <= 192 * MIB' 'pids <= 60'
    stop TERM $cay_pid
    wait_for none_of 4030
    nothing_left "the nested runs"
    rmdir $outer/leaf $outer
    mark_clean
}

nested_run() {
    empty_outer
    bounded tests python3 -I -S /tests/box.py outer cay "$@"
}

# Nobody may enter a group that gives controllers to its children.
empty_outer() {
    echo "-memory -pids -cpu" >$outer/cgroup.subtree_control
}

# Twenty times SIGKILL at a moment that differs, then one run that sweeps.
killed_often() {
    i=0
    while [ $i -lt 20 ]; do
        i=$((i + 1))
        in_cgroup tests cay exec --timeout 100 -- sleep 4040 >/dev/null 2>&1 </dev/null &
        cay_pid=$!
        sleep "0.$((i * 5 + 100))"
        stop KILL $cay_pid
    done
    check "killed 20 times: no process" wait_for no_process
    cay_run exec --json -- true
    nothing_left "20 kills of cay and one more run"
}

test_full() {
    bad_endings cay_run root
    bad_endings delegated_run delegated
    bombs cay_run root
    bombs delegated_run delegated
    user_bombs
    neighbours
    throttle
    nested
    killed_often
}

# Where no cgroup counts it, memory that no process has mapped must be refused or watched all the same.
user_bombs() {
    py user_run "$memfd_bomb" --memory 64m --timeout 60
    expect "user: a memfd bomb is refused or ended" 'rc != 0' '0 < peak <= 1.5 * 64 * MIB' \
        'cause == "memory" or "Function not implemented" in r["stderr"]'
    py user_run "$shm_bomb" --memory 64m --timeout 60
    expect "user: a System V shm bomb is refused or ended" 'rc != 0' '0 < peak <= 1.5 * 64 * MIB' \
        'cause == "memory" or out.startswith("refused")'
    py user_run "$shared_bomb" --memory 64m --timeout 60
    expect "user: the watcher ends a bomb of shared maps" 'rc == 137' 'cause == "memory"' \
        '0 < peak <= 1.5 * 64 * MIB'
    py user_run "$many_bomb" --memory 64m --timeout 60
    expect "user: the watcher sees the sum over processes" 'rc == 137' 'cause == "memory"' \
        '0 < peak <= 1.5 * 64 * MIB'
    py user_run "$socket_sum" --memory 64m --timeout 60
    expect "user: socket buffers count as well" 'cause == "memory" or int(out) <= 1.5 * 64 * MIB'
    py user_run "$disk_bomb" --memory 64m --disk 8m --timeout 60
    expect "user: the disk limit needs no cgroup" 'rc == 5' 'cause == "disk"' 'int(out) <= 8 * MIB'
    py user_run "$thread_bomb" --pids 24 --timeout 60
    expect "user: a thread bomb is ended" 'rc == 3' 'cause in ("pids", "exit")' '0 < int(out) < 24'
    nothing_left "the user's bombs"
}

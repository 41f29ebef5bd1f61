#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# guest-tests.sh short|full|FUNCTION,...: what cay promises on a machine with cgroup v2, asked from inside the
# sandbox and looked at from outside it. Runs as root in the guest (see README.md); `user` (1001) is an
# ordinary user without delegation. cay is started in the cgroup /tests, which has a limit, so that a
# bomb that gets loose takes that down and not this shell in /harness. Emulation is slow and its clock is
# nobody's: waits are generous, and nothing here asserts how long a thing took.
set -u
mode=${1:-short}
scratch=/scratch
mkdir -p $scratch
out=$scratch/out err=$scratch/err
count=0
failures=0
rc=0

# ---- TAP ----

ok() {
    count=$((count + 1))
    echo "ok $count - $1"
}

# not_ok DESCRIPTION: what there is to say about it is in $scratch/why
not_ok() {
    count=$((count + 1))
    failures=$((failures + 1))
    echo "not ok $count - $1"
    tr -d '\r' <$scratch/why | sed 's/^/# /'
}

# check DESCRIPTION COMMAND...
check() {
    what=$1
    shift
    if "$@" >$scratch/why 2>&1; then ok "$what"; else not_ok "$what"; fi
}

# ---- running cay ----

# in_cgroup NAME COMMAND...: the command is exec'd, so that a background one has the shell's $!
in_cgroup() {
    # shellcheck disable=SC2016
    exec sh -c 'echo 0 >"/sys/fs/cgroup/$0/cgroup.procs"; exec "$@"' "$@"
}

# bounded CGROUP COMMAND...: its output in $out and $err, its exit status in $rc; one that hangs is killed
bounded() {
    where=$1
    shift
    (in_cgroup "$where" timeout -s KILL 120 "$@") >$out 2>$err </dev/null
    rc=$?
}

cay_run() {
    bounded tests cay "$@"
}

# As the ordinary user, and as that user inside the subtree that `cay setup` delegated.
user_run() {
    bounded tests su user -c 'cd && exec cay "$@"' -- su "$@"
}

delegated_run() {
    bounded tests cay setup user -- cay "$@"
}

# expect DESCRIPTION EXPRESSION...: about the last run; the names are those of expect.py
expect() {
    what=$1
    shift
    check "$what" python3 -I -S /tests/expect.py $out $err $rc "$@"
}

py() {
    runner=$1
    code=$2
    shift 2
    "$runner" exec --json "$@" -- python3 -I -S -c "$code"
}

# ---- looking from outside ----

# Sets $alive to the processes that are neither the kernel's, nor pid 1, nor this shell. Without a
# fork, which would find itself.
find_alive() {
    alive=
    for p in /proc/[0-9]*; do
        pid=${p#/proc/}
        case $pid in 1 | 2 | "$$") continue ;; esac
        { IFS= read -r stat <"$p/stat"; } 2>/dev/null || continue
        rest=${stat##*) }
        parent=${rest#? }
        [ "${parent%% *}" = 2 ] || alive="$alive $stat;"
    done
}

# Everything but processes that a run could leave on the machine. cay's state is in /var/lib/cay and
# /run/cay, which may stay.
things() {
    find /sys/fs/cgroup -mindepth 1 -type d | sort
    cat /proc/self/mounts
    find /tmp /var/tmp /dev/shm /home/user -mindepth 1 ! -path '/home/user/.local*' | sort
    find / -xdev -maxdepth 1 | sort
    cat /proc/sysvipc/shm /proc/sysvipc/sem /proc/sysvipc/msg
}

mark_clean() {
    things >$scratch/clean
}

is_clean() {
    tries=0
    while :; do
        find_alive
        things >$scratch/now
        [ -z "$alive" ] && cmp -s $scratch/clean $scratch/now && return 0
        tries=$((tries + 1))
        [ $tries -lt 50 ] || break
        sleep 0.1
    done
    [ -z "$alive" ] || echo "processes left: $alive"
    diff $scratch/clean $scratch/now | grep '^[-+<>]'
    return 1
}

# nothing_left DESCRIPTION: no process, cgroup, mount, file or IPC object more than at mark_clean
nothing_left() {
    check "nothing left: $1" is_clean
}

# wait_for COMMAND...: until it succeeds, at most 20 s
wait_for() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || return 1
        sleep 0.1
    done
}

# pids_of SECONDS: the processes that are `sleep SECONDS`, not cay, whose argv holds those words too.
# The shell's read drops the NUL between two words.
pids_of() {
    found=1
    for p in /proc/[0-9]*; do
        words=
        { IFS= read -r words <"$p/cmdline"; } 2>/dev/null
        case $words in "sleep$1" | */"sleep$1") echo "${p#/proc/}" && found=0 ;; esac
    done
    return $found
}

none_of() {
    ! pids_of "$1"
}

# start SECONDS COMMAND...: `COMMAND... -- sleep SECONDS` in the background, where COMMAND is or becomes
# cay; cay's pid in $cay_pid, the program's in $pid
start() {
    secs=$1
    shift
    in_cgroup tests "$@" -- sleep "$secs" >$scratch/bg 2>&1 </dev/null &
    cay_pid=$!
    await_start "$secs"
}

await_start() {
    check "the run of sleep $1 is up" is_up "$1"
    pid=$(pids_of "$1" | head -n 1)
    pid=${pid:-none}
}

is_up() {
    wait_for pids_of "$1" && return
    head -n 20 $scratch/bg
    return 1
}

stop() {
    kill "-$1" "$2" 2>/dev/null
    wait "$2" 2>/dev/null
}

# ---- the programs ----

malloc_bomb='
b = []
while True:
    b.append(b"x" * (1 << 20))
'
# Children that stay; the parent ends by itself once the limit has said no.
fork_bomb='
import os, sys, time
n = 0
while n < 1000:
    try:
        if os.fork() == 0:
            time.sleep(1000)
            os._exit(0)
        n += 1
    except OSError as e:
        print(n, flush=True)
        os._exit(3)
'
endless_fork_bomb='
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
'
spin='
while True:
    pass
'
look_inside='
import ctypes, errno, json, os
seen = {"cgroup": open("/proc/self/cgroup").read(), "writable": [], "mounts": []}
for line in open("/proc/self/mountinfo"):
    words = line.split()
    kind = words[words.index("-") + 1]
    if kind.startswith("cgroup"):
        seen["mounts"].append(line)
places = ["/sys/fs/cgroup"] + [m.split()[4] for m in seen["mounts"]]
for place in places:
    for folder, _, names in os.walk(place):
        for name in names:
            path = os.path.join(folder, name)
            try:
                os.close(os.open(path, os.O_WRONLY))
                seen["writable"].append(path)
            except OSError:
                pass
        try:
            os.mkdir(os.path.join(folder, "mine"))
            seen["writable"].append(folder)
        except OSError:
            pass
libc = ctypes.CDLL(None, use_errno=True)
seen["mount"] = libc.mount(b"cgroup2", b"/tmp", b"cgroup2", 0, None)
seen["unshare"] = libc.unshare(0x02000000)
print(json.dumps(seen))
'

cgroups_on='{"cgroup:memory", "cgroup:pids", "cgroup:cpu"} <= layers'

# ---- as root ----

test_root() {
    py cay_run 'print("hi")'
    expect "root: a run is under memory, pids and cpu" 'rc == 0' 'cause == "ok"' 'out == "hi\n"' \
        'r["success"] is True' "$cgroups_on" 'meta["isolation"]["tier"] == "kernel"'
    nothing_left "a plain run"

    cay_run run --json -l python -e 'print(6 * 7)'
    expect "root: cay run of a language" 'rc == 0' 'out == "42\n"' "$cgroups_on"
    cay_run exec --json --require cgroup -- true
    expect "root: --require cgroup is met" 'rc == 0' 'cause == "ok"'

    py cay_run "$look_inside"
    expect "root: inside is a cgroup namespace of its own" 'json.loads(out)["cgroup"] == "0::/\n"'
    expect "root: inside no cgroup file can be written" 'json.loads(out)["writable"] == []' \
        'json.loads(out)["mount"] == -1' 'json.loads(out)["unshare"] == -1'

    py cay_run "$malloc_bomb" --memory 64m --timeout 60
    expect "root: a malloc bomb ends as memory" 'rc == 137' 'r["exit_code"] == 137' 'cause == "memory"' \
        'verdict["limit"] == 64 * MIB' 'r["success"] is False' '0 < peak <= 1.15 * 64 * MIB'
    nothing_left "malloc bomb"

    py cay_run "$fork_bomb" --pids 24 --timeout 60
    expect "root: a fork bomb meets the pids limit" 'rc == 3' 'cause == "pids"' \
        'verdict["limit"] == 24' '0 < int(out) < 24'
    nothing_left "fork bomb"
    py cay_run "$endless_fork_bomb" --pids 24 --timeout 3
    expect "root: an endless fork bomb is ended" 'cause == "wall_timeout"' 'rc == 124'
    nothing_left "endless fork bomb"
    py cay_run "$(echo "$fork_bomb" | sed 's/_exit(3)/_exit(0)/')" --pids 24 --timeout 60
    expect "root: a limit that was touched on the way to exit 0 is a warning" 'rc == 0' 'cause == "ok"' \
        '"pids" in warnings'

    py cay_run "$spin" --cpu-time 1 --timeout 60
    expect "root: cpu_time ends a spin" 'rc == 124' 'r["exit_code"] == 124' 'cause == "cpu_timeout"'
    cay_run exec --json --timeout 2 -- sleep 1000
    expect "root: the wall limit ends a sleep" 'rc == 124' 'cause == "wall_timeout"' 'r["timeout"] is True' \
        'r["error_message"] == "Code execution timed out after 2s"'
    nothing_left "timeouts"

    py cay_run 'import os; os._exit(137)'
    expect "root: an exit of 137 is not memory" 'rc == 137' 'cause == "exit"'
    py cay_run 'import os; os.kill(os.getpid(), 9)'
    expect "root: a SIGKILL of one's own is not memory" 'rc == 137' 'cause == "signal"'

    start 4001 cay exec --timeout 120 --memory 64m --pids 24 --cpus 0.5
    check "root: the kernel holds the limits, seen from outside" python3 -I -S /tests/limits.py "$pid" \
        '64 * MIB <= memory <= 1.15 * 64 * MIB' 'swap == 0' '24 <= pids <= 28' 'cpus == 0.5'
    # shellcheck disable=SC2016
    check "root: the program is not root outside" \
        awk '$1 == "Uid:" && ($2 == 0 || $3 == 0 || $4 == 0 || $5 == 0) { bad = 1; print }
             $1 == "Uid:" { seen = 1 } END { exit bad || !seen }' "/proc/$pid/status"
    check "root: all namespaces are its own" own_namespaces "$pid"
    stop KILL "$cay_pid"
    check "root: SIGKILL of cay ends its program" wait_for none_of 4001
    check "root: SIGKILL of cay leaves no process" wait_for no_process
    cay_run exec --json -- true
    expect "root: the next run goes on" 'rc == 0'
    nothing_left "the next run swept"
    start 4002 cay exec --timeout 120
    stop TERM "$cay_pid"
    check "root: SIGTERM of cay ends its program" wait_for none_of 4002
    nothing_left "SIGTERM of cay"
}

own_namespaces() {
    bad=0
    for ns in mnt pid net ipc uts cgroup; do
        theirs=$(readlink "/proc/$1/ns/$ns")
        ours=$(readlink "/proc/$$/ns/$ns")
        if [ -z "$theirs" ] || [ "$theirs" = "$ours" ]; then
            echo "$ns: $theirs, the host's is $ours"
            bad=1
        fi
    done
    return $bad
}

no_process() {
    find_alive
    [ -z "$alive" ]
}

# ---- as an ordinary user ----

test_user() {
    py user_run 'print("hi")'
    expect "user: runs without delegation, and says that the watcher stands in" 'rc == 0' 'out == "hi\n"' \
        'not any(x.startswith("cgroup:") for x in layers)' '"cgroup" in warnings' \
        '{"pid_ns", "mount_ns", "net_ns", "seccomp"} <= layers'
    user_run exec --json --require cgroup -- true
    check "user: --require cgroup is refused with 125" refused_for cgroup
    py user_run "$malloc_bomb" --memory 64m --timeout 60
    expect "user: a malloc bomb is ended" 'rc != 0' 'cause in ("memory", "exit")' '0 < peak <= 1.5 * 64 * MIB'
    py user_run "$fork_bomb" --pids 24 --timeout 60
    expect "user: a fork bomb is ended" 'rc != 0' 'cause in ("pids", "exit")' '0 < int(out) < 24'
    py user_run "$look_inside"
    expect "user: inside no cgroup file can be written" 'json.loads(out)["writable"] == []'
    user_run exec --json --timeout 2 -- sleep 1000
    expect "user: the wall limit holds" 'rc == 124' 'cause == "wall_timeout"'
    nothing_left "the user's runs"
    # shellcheck disable=SC2016
    start 4003 su user -c 'cd && exec cay exec --timeout 120 "$@"' -- su
    stop KILL "$cay_pid"
    check "user: SIGKILL of cay ends its program" wait_for none_of 4003
    user_run exec -- true
    nothing_left "SIGKILL of the user's cay and one more run"
}

refused_for() {
    cat $out $err
    [ $rc = 125 ] && grep -q "$1" $out $err
}

test_delegated() {
    find /sys/fs/cgroup -mindepth 1 -type d | sort >$scratch/before
    check "setup: cay setup user" cay setup user
    check "setup: a second time changes nothing" cay setup user
    find /sys/fs/cgroup -mindepth 1 -type d -user 1001 | sort >$scratch/delegated
    check "setup: a subtree is delegated" test -s $scratch/delegated
    check "setup: its own limits stay root's" limits_are_roots
    cay setup user -- sh -c 'id -u; id -G; cat /proc/self/cgroup' >$out 2>$err
    rc=$?
    check "setup: -- CMD runs as the user, in the subtree" entered
    mark_clean

    py delegated_run 'print("hi")'
    expect "delegated: a run is under memory, pids and cpu" 'rc == 0' 'out == "hi\n"' "$cgroups_on" \
        '"cgroup" not in warnings'
    delegated_run exec --json --require cgroup -- true
    expect "delegated: --require cgroup is met" 'rc == 0'
    py delegated_run "$look_inside"
    expect "delegated: a cgroup namespace of its own, nothing writable" \
        'json.loads(out)["cgroup"] == "0::/\n"' 'json.loads(out)["writable"] == []' \
        'json.loads(out)["mount"] == -1'
    py delegated_run "$malloc_bomb" --memory 64m --timeout 60
    expect "delegated: a malloc bomb ends as memory" 'rc == 137' 'cause == "memory"' \
        '0 < peak <= 1.15 * 64 * MIB'
    py delegated_run "$fork_bomb" --pids 24 --timeout 60
    expect "delegated: a fork bomb meets the pids limit" 'rc == 3' 'cause == "pids"' '0 < int(out) < 24'
    nothing_left "the delegated runs"
    start 4004 cay setup user -- cay exec --timeout 120
    stop KILL "$cay_pid"
    check "delegated: SIGKILL of cay ends its program" wait_for none_of 4004
    delegated_run exec -- true
    nothing_left "SIGKILL of the delegated cay and one more run"
}

limits_are_roots() {
    read -r first <$scratch/delegated || return 1
    bad=0
    for f in memory.max memory.swap.max pids.max cpu.max; do
        if su user -c "test -w $first/$f"; then
            echo "the user can raise $first/$f"
            bad=1
        fi
    done
    return $bad
}

entered() {
    cat $out $err
    read -r first <$scratch/delegated || return 1
    [ $rc = 0 ] && [ "$(sed -n 1p $out)" = 1001 ] && [ "$(sed -n 2p $out)" = 1001 ] &&
        case "/sys/fs/cgroup$(sed -n 's/^0:://p' $out)" in "$first" | "$first"/*) true ;; *) false ;; esac
}

# expect_report DESCRIPTION EXPRESSION...: about the last `cay doctor --json`, d; its checks by their ids
# are in c, the commands that a check says to type in fix(ID)
expect_report() {
    what=$1
    shift
    check "$what" python3 -I -S -c '
import json, sys
rc = int(sys.argv[2])
with open(sys.argv[1]) as f:
    d = json.load(f)
c = {x["id"]: x for x in d["checks"]}
def fix(name):
    return json.dumps([x["command"] for x in c[name]["fix"]])
bad = [e for e in sys.argv[3:] if not eval(e)]
if bad:
    print("exit", rc, d["conclusion"], "false:", *bad)
    print(*[x for x in d["checks"] if x["status"] in ("fail", "warn")], sep="\n")
sys.exit(bool(bad))' $out $rc "$@"
}

# This kernel's tmpfs is too old for an overlay (Linux 6.6): the workspace is a copy here.
test_workspace() {
    script='import os; open("a", "a").write("more\n"); os.remove("b"); os.mkdir("n"); open("n/new", "w").write("x")'
    for runner in cay_run user_run; do
        folder=/tmp/ws-$runner
        rm -rf $folder
        mkdir -p $folder/sub
        echo a >$folder/a
        echo b >$folder/b
        echo same >$folder/sub/same
        [ $runner = cay_run ] || chown -R user $folder
        cp -a $folder $folder.before
        py $runner "$script" --workspace $folder
        expect "$runner: the changes of a workspace are told" 'rc == 0' \
            '[(f["path"], f["change"]) for f in r["files"]] == [("/workspace/a", "changed"), ("/workspace/b", "deleted"), ("/workspace/n", "created"), ("/workspace/n/new", "created")]'
        check "$runner: the folder itself is as it was" diff -r $folder $folder.before
        $runner apply last --yes
        cat $folder/a $folder/n/new >$scratch/applied
        printf 'a\nmore\nx' >$scratch/expected
        check "$runner: applied" cmp $scratch/applied $scratch/expected
        check "$runner: deleted" [ ! -e $folder/b ]
        rm -rf $folder $folder.before
    done
    nothing_left "workspaces"
}

test_doctor() {
    cay_run setup user
    mark_clean
    cay_run doctor --json
    expect_report "doctor, root: all layers" 'rc == 0' '"cgroup included" in d["conclusion"]' \
        'c["cgroup"]["fact"] == "version 2"' 'c["cgroup_delegation"]["status"] == "ok"'
    user_run doctor --json
    expect_report "doctor, user: no delegation, and what to type" 'rc == 0' \
        'c["cgroup_delegation"]["status"] == "warn"' '[x["require"] for x in d["refused"]] == ["cgroup"]' \
        '"sudo cay setup user -- su - user" in fix("cgroup_delegation")'
    delegated_run doctor --json
    expect_report "doctor, delegated: all layers" 'rc == 0' '"cgroup included" in d["conclusion"]' \
        'c["cgroup_delegation"]["status"] == "ok"'
    # Debian's kernels have a switch of their own.
    switch=/proc/sys/kernel/unprivileged_userns_clone
    if [ -e $switch ]; then
        echo 0 >$switch
        user_run doctor --json
        expect_report "doctor, user: the switch is off, and how to switch it on" 'rc == 1' \
            'c["user_ns"]["status"] == "fail"' 'c["pid_ns"]["status"] == "skip"' \
            '"sudo sysctl -w kernel.unprivileged_userns_clone=1" in fix("user_ns")'
        echo 1 >$switch
    fi
    nothing_left "the doctor"
}

# shellcheck source=/dev/null
. /tests/guest-full.sh

case $mode in
short) tests="test_root test_user test_delegated test_workspace test_doctor" ;;
full) tests="test_root test_user test_delegated test_workspace test_doctor test_full" ;;
*) tests=$(echo "$mode" | tr , ' ') ;;
esac
for t in $tests; do
    mark_clean
    $t
done
echo "1..$count"
[ $failures = 0 ]

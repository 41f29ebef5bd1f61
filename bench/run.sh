#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Prepares what the rows need and measures them; builds nothing. Arguments go to cay-bench:
#   bench/run.sh --rounds 200 --only static --json figures.json
set -eu

# The runs that are measured are nobody's to keep: thousands of them would push the user's own out of
# the state folder. So they have one of their own; root's is always /var/lib/cay, and is another
# folder only in a mount namespace.
if [ "$(id -u)" = 0 ] && [ -z "${CAY_BENCH_APART:-}" ]; then
    CAY_BENCH_APART=1 exec unshare --mount --propagation private "$0" "$@"
fi
unset CAY_BENCH_APART

here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
CAY=${CAY:-$top/build/cay}
# As installed, and in a build folder, the programs are beside this script.
if [ -z "${BENCH:-}" ] && [ -x "$here/cay-bench" ]; then
    BENCH=$here/cay-bench
fi
BENCH=${BENCH:-$top/build/bench/cay-bench}
TRUE=${TRUE:-$(dirname "$BENCH")/true}

case $CAY in
*/*) ;;
*) CAY=$(command -v "$CAY" || echo "$CAY") ;;
esac

for need in "$BENCH" "$TRUE"; do
    if [ ! -x "$need" ]; then
        echo "bench: $need is not there; build it first" >&2
        exit 125
    fi
done

tmp=$(mktemp -d "${TMPDIR:-/tmp}/cay-bench.XXXXXX")
id=cay-bench-$$
servers=
stop_servers() {
    for pid in $servers; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" || true
    done
    servers=
}

finish() {
    stop_servers
    if [ "$(id -u)" = 0 ]; then
        umount --lazy /var/lib/cay/slots /var/lib/cay "$tmp/state/slots" || true
    fi
    # An interrupted run may have left its container.
    if [ -d "/run/crun/$id" ]; then
        crun delete --force "$id" || true
    fi
    rm -rf --one-file-system "$tmp"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# A place that firejail's private home does not hide; the same file for every row.
chmod 755 "$tmp"

mkdir -m 700 "$tmp/state"
if [ "$(id -u)" = 0 ]; then
    # Which uids are taken is for all to see: two runs never have the same.
    [ -d /var/lib/cay ] || mkdir -m 700 /var/lib/cay
    chmod --reference=/var/lib/cay "$tmp/state"
    touch /var/lib/cay/slots "$tmp/state/slots"
    mount --bind /var/lib/cay/slots "$tmp/state/slots"
    mount --rbind "$tmp/state" /var/lib/cay
else
    XDG_STATE_HOME=$tmp/state
    export XDG_STATE_HOME
fi

cp "$TRUE" "$tmp/true"

# As if it were installed: what a linker has just written lies in the page cache page by page, which
# makes every start some percent slower than that of a file that was copied or read.
beside=$(dirname "$CAY")
if [ -x "$beside/cay-full" ]; then
    mkdir "$tmp/bin"
    for file in "$CAY" "$beside"/cay-*; do
        if [ -f "$file" ]; then
            cp "$file" "$tmp/bin/"
        fi
    done
    CAY=$tmp/bin/$(basename "$CAY")
fi

# Compile and run, with the flags of languages/c; the first argument is a folder to do it in.
mkdir "$tmp/compile" "$tmp/work"
cat >"$tmp/compile/hello.c" <<'EOF'
#include <stdio.h>

int main(void)
{
    puts("hello");
    return 0;
}
EOF
cat >"$tmp/compile/compile.sh" <<'EOF'
cd "$1" || exit
gcc -O2 -std=gnu17 -pipe -o main "${0%/*}/hello.c" -lm -pthread && exec ./main
EOF

# An OCI bundle that shows what bubblewrap's row shows: /usr, links into it, and fresh /proc, /dev, /tmp.
bundle=$tmp/bundle
mkdir -p "$bundle/rootfs/usr" "$bundle/rootfs/proc" "$bundle/rootfs/dev" "$bundle/rootfs/tmp"
for dir in bin sbin lib lib64; do
    ln -s "usr/$dir" "$bundle/rootfs/$dir"
done
cp "$TRUE" "$bundle/rootfs/true"
cp -r "$tmp/compile" "$bundle/rootfs/compile"
bundle_config() {
    cat >"$bundle/$1.json" <<EOF
{
  "ociVersion": "1.0.0",
  "process": {
    "terminal": false, "cwd": "/", "args": [$2], "env": ["PATH=/usr/bin"],
    "user": {"uid": 0, "gid": 0}, "capabilities": {}, "noNewPrivileges": true
  },
  "root": {"path": "rootfs", "readonly": true},
  "mounts": [
    {"destination": "/usr", "source": "/usr", "type": "none", "options": ["rbind", "ro", "rprivate"]},
    {"destination": "/proc", "source": "proc", "type": "proc"},
    {"destination": "/dev", "source": "tmpfs", "type": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
    {"destination": "/tmp", "source": "tmpfs", "type": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]}
  ],
  "linux": {
    "uidMappings": [{"containerID": 0, "hostID": 0, "size": 1}],
    "gidMappings": [{"containerID": 0, "hostID": 0, "size": 1}],
    "namespaces": [
      {"type": "user"}, {"type": "pid"}, {"type": "network"}, {"type": "ipc"},
      {"type": "uts"}, {"type": "mount"}, {"type": "cgroup"}
    ]
  }
}
EOF
}
bundle_config true '"/true"'
bundle_config busybox '"/bin/busybox", "true"'
bundle_config isolated '"/usr/bin/python3", "-I", "-S", "-c", "print(1)"'
bundle_config bash '"/usr/bin/bash", "-c", ":"'
bundle_config compile '"/usr/bin/sh", "/compile/compile.sh", "/tmp"'
bundle_config node '"/usr/bin/node", "-e", "console.log(1)"'

# The cold start is what is measured here, also where a server runs.
cayflags=
if [ -x "$CAY" ]; then
    case $("$CAY" exec --help 2>/dev/null || true) in
    *--no-server*) cayflags=--no-server ;;
    esac
fi

# A server for the rows that are requests; `cay exec` finds it too.
token=$(head -c 24 /dev/urandom | base64 | tr '+/' '-_')
(umask 077 && echo "$token default admin" >"$tmp/tokens")
# An engine of our own, which comes up below; the server finds it there.
DOCKER_HOST=unix://$tmp/docker.sock
SECURITY_DOCKER_IMAGE=cay-bench-python
export DOCKER_HOST SECURITY_DOCKER_IMAGE
dockerhost=$DOCKER_HOST
server=
# start_server VARIABLE...: leaves its address in $server, or nothing.
start_server() {
    server=
    if [ ! -x "$CAY" ] || ! "$CAY" serve --help >/dev/null 2>&1; then
        return
    fi
    : >"$tmp/log"
    env CAY_LOG_LEVEL=warn "$@" "$CAY" serve --listen 127.0.0.1:0 --token-file "$tmp/tokens" \
        </dev/null >"$tmp/log" 2>&1 &
    pid=$!
    servers="$pid $servers"
    for _ in $(seq 300); do
        server=$(sed -n 's|.*http://\([0-9.]*:[0-9]*\).*|\1|p' "$tmp/log" | head -n 1)
        if [ -n "$server" ] || ! kill -0 "$pid" 2>/dev/null; then
            break
        fi
        sleep 0.1
    done
    if [ -z "$server" ]; then
        echo "bench: no server came up:" >&2
        cat "$tmp/log" >&2
    fi
    sleep 1 # zygotes and spares are made
}

start_server CAY_PRELOAD=

# Docker only where it is installed and a daemon of our own comes up: nothing of the host's is used.
if [ "$(id -u)" = 0 ] && [ -x /usr/sbin/dockerd ] && [ -x /usr/bin/docker ]; then
    /usr/sbin/dockerd --data-root "$tmp/docker" --exec-root "$tmp/docker-run" --pidfile "$tmp/docker.pid" \
        --host "$dockerhost" --bridge none --iptables=false >"$tmp/docker.log" 2>&1 &
    servers="$! $servers"
    for _ in $(seq 100); do
        docker --host "$dockerhost" version >/dev/null 2>&1 && break
        sleep 0.1
    done
    tar -C "$bundle/rootfs" -c . | docker --host "$dockerhost" import - cay-bench >/dev/null 2>&1 || true
    # One with a Python in it, made of this machine's own: what it is linked with, and its library.
    python=$(readlink -f /usr/bin/python3)
    {
        echo usr/bin/python3
        echo "usr/lib/${python##*/}"
        ldd "$python" | sed -n 's|.*[[:space:]]/\([^ ]*\) (0x.*|\1|p'
    } | tar -C / -c --dereference --exclude '*/test/*' --exclude '*/config-*' --files-from - 2>"$tmp/tar.log" |
        docker --host "$dockerhost" import - cay-bench-python >/dev/null 2>>"$tmp/tar.log" || {
        echo "bench: no image for the rows in containers, which are left out:" >&2
        tail -n 3 "$tmp/tar.log" "$tmp/docker.log" >&2
    }
fi

CAY_BENCH_TOKEN=$token
export CAY_BENCH_TOKEN

only=
before=
for word in "$@"; do
    case $word in
    --only=*) only=${word#--only=} ;;
    esac
    if [ "$before" = --only ]; then
        only=$word
    fi
    before=$word
done

# measure ROWS OPTION...: nothing, where none of the file's groups is asked for.
measure() {
    rows=$1
    shift
    if ! grep '^\[' "$rows" | grep -qF -- "$only"; then
        return
    fi
    "$BENCH" --rows "$rows" --set "tmp=$tmp" --set "true=$tmp/true" --set "cay=$CAY" \
        --set "cayflags=$cayflags" --set "bundle=$bundle" --set "id=$id" --set "dockerhost=$dockerhost" \
        --server "$server" --cay "$CAY" "$@"
}
measure "$here/rows.txt" "$@"

# With modules loaded ahead; these figures are not in the file of --json.
if /usr/bin/python3 -c 'import numpy, pandas' 2>/dev/null && grep '^\[' "$here/rows-preload.txt" | grep -qF -- "$only"; then
    stop_servers
    CAY_PRELOAD=numpy,pandas
    export CAY_PRELOAD
    start_server
    if [ -n "$only" ]; then
        measure "$here/rows-preload.txt" --only "$only"
    else
        measure "$here/rows-preload.txt"
    fi
    unset CAY_PRELOAD
fi

# Throughput and memory, with a server of its own; left out where only some groups are asked for.
if [ -n "$only" ]; then
    exit 0
fi
if [ -n "$server" ]; then
    stop_servers
    echo
    "$(dirname "$BENCH")/cay-load" --cay "$CAY" --scale
fi

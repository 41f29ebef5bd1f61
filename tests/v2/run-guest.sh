#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run-guest.sh [--full]: runs guest-tests.sh on a machine with cgroup v2, which the one we are on may
# not be: a small QEMU guest (software emulation, no KVM, no root) with Debian's cloud kernel and this
# host's own python3, bash and busybox. TAP on stdout. What the host lacks is a TAP skip that names
# `qemu`; with `qemu` in CAY_TEST_REQUIRE it is a failure.
#
#   CAY             the binary to test (build/cay)
#   CAY_CACHE       where the kernel and the guest's root are kept (build/v2-cache)
#   CAY_V2_EXTRA    a folder of static test programs, seen at /extra in the guest
#   CAY_V2_ONLY     functions of guest-tests.sh to run instead of all, with commas between
#   CAY_V2_TIMEOUT  seconds until the guest is given up (short 300, full 1200)
#
# The root goes in as two initramfs archives, one behind the other: base.cpio changes with the host's
# packages only, top.cpio (cay, its libraries, the tests) is written anew by each run.
set -Eeuo pipefail
shopt -s nullglob
export LC_ALL=C

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
cay=${CAY:-$top/build/cay}
cache=${CAY_CACHE:-$top/build/v2-cache}
libdir=usr/lib/x86_64-linux-gnu
python=/usr/bin/python3
case ${1:-} in
'') mode=short limit=${CAY_V2_TIMEOUT:-300} ;;
--full) mode=full limit=${CAY_V2_TIMEOUT:-1200} ;;
*)
    echo "usage: run-guest.sh [--full]" >&2
    exit 2
    ;;
esac

say() {
    echo "# $*"
}

skip() {
    case ",${CAY_TEST_REQUIRE:-}," in
    *,qemu,*)
        echo "not ok 1 - qemu is required by CAY_TEST_REQUIRE, but: $*"
        echo "1..1"
        exit 1
        ;;
    esac
    echo "1..0 # SKIP qemu: $*"
    exit 0
}

bail() {
    echo "Bail out! $*"
    exit 1
}

need() {
    command -v "$1" >/dev/null || skip "$1 not found (apt-get install $2)"
}

# The kernel is unpacked into the cache and never installed. A cached one is used for as long as it is
# there, so that only the first run needs the network. Prints its folder.
find_kernel() {
    local dir name tmp
    for dir in "$cache"/kernel/*/; do
        [ -e "$dir/vmlinuz" ] && kernel=${dir%/} && return
    done
    need apt-get apt
    need dpkg-deb dpkg
    name=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null |
        awk '$1 == "Depends:" && $2 ~ /^linux-image-/ { print $2; exit }')
    [ -n "$name" ] || skip "apt knows no linux-image-cloud-amd64 (apt-get update)"
    tmp=$(mktemp -d "$cache/fetch.XXXXXX")
    say "fetching $name"
    if ! (cd "$tmp" && timeout 300 apt-get -q download "$name" >apt.log 2>&1); then
        sed 's/^/# /' "$tmp/apt.log"
        rm -rf "$tmp"
        skip "cannot download the package $name"
    fi
    dpkg-deb -x "$tmp"/*.deb "$tmp/root" || skip "cannot unpack the package $name"
    mkdir -p "$tmp/kernel" "$cache/kernel"
    cp "$tmp"/root/boot/vmlinuz-* "$tmp/kernel/vmlinuz" || skip "no kernel in the package $name"
    # Modules of other names may follow here; init loads what it finds.
    find "$tmp/root/lib/modules" -name 'overlay.ko*' -exec cp {} "$tmp/kernel/" ';'
    chmod -R a+rX "$tmp/kernel"
    kernel=$cache/kernel/$name
    mv "$tmp/kernel" "$kernel"
    rm -rf "$tmp"
}

# libs_of FILE...: the shared libraries these need, one path a line; for a static file, nothing.
libs_of() {
    local f
    for f in "$@"; do
        { ldd "$f" 2>/dev/null || true; } | awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }'
    done | sort -u
}

# copy_libs STAGE FILE...: a library keeps its name but moves to where the loader looks without a cache
# or an RPATH; only the loader itself has a fixed place.
copy_libs() {
    local stage=$1 lib dest
    shift
    libs_of "$@" | while read -r lib; do
        case ${lib##*/} in
        ld-linux*) dest=usr/lib64 ;;
        *) dest=$libdir ;;
        esac
        mkdir -p "$stage/$dest"
        [ -e "$stage/$dest/${lib##*/}" ] || cp -L "$lib" "$stage/$dest/"
    done
}

# Every file is root's in the guest, whoever packs it here.
pack() {
    (cd "$1" && find . -mindepth 1 | sort | cpio --quiet -o -H newc -R 0:0) >"$2.new"
    mv "$2.new" "$2"
}

base_key() {
    {
        cat "$here/run-guest.sh" "$kernel"/*.ko*
        stat -L -c '%n %s %Y' "$python" "$busybox" "$(command -v bash)" "$stdlib" /usr/lib/os-release
        uname -m
    } | sha256sum | cut -c1-16
}

build_base() {
    local stage=$work/base applet
    say "building the guest's root"
    mkdir -p "$stage"/{dev,proc,sys,run,tmp,root,home/user,mnt,var/tmp,var/lib,etc} \
        "$stage"/usr/{bin,sbin,lib64,lib/modules} "$stage/$libdir" "$stage/usr/lib/$pyname"
    ln -s usr/bin usr/sbin usr/lib usr/lib64 "$stage/"
    cp -L "$busybox" "$stage/usr/bin/busybox"
    cp -L "$(command -v bash)" "$stage/usr/bin/bash"
    cp -L "$python" "$stage/usr/bin/$pyname"
    ln -s "$pyname" "$stage/usr/bin/python3"
    for applet in $("$busybox" --list); do
        [ -e "$stage/usr/bin/$applet" ] || ln -s busybox "$stage/usr/bin/$applet"
    done
    cp "$kernel"/*.ko* "$stage/usr/lib/modules/" || true

    tar -C "$stdlib" -c --exclude=./test --exclude=./tests --exclude='*/tests' --exclude=./idlelib \
        --exclude=./lib2to3 --exclude=./distutils --exclude=./ensurepip --exclude=./pydoc_data \
        --exclude=./tkinter --exclude=./turtledemo --exclude='./config-*' --exclude=__pycache__ \
        --exclude='_test*.so' --exclude='_xxtest*.so' --exclude='_ctypes_test*.so' \
        --exclude='*.a' --exclude=EXTERNALLY-MANAGED . | tar -C "$stage/usr/lib/$pyname" -x
    # Under emulation compiling costs more than all else. Only what the tests import is compiled, and
    # by hash, so that no time stamp can make it stale.
    "$python" -I -B - "$stage" "$pyname" <<'PYTHON'
import ast, asyncio, code, ctypes, encodings.idna, hashlib, json, mmap, multiprocessing.pool, os
import multiprocessing.popen_fork, multiprocessing.shared_memory, multiprocessing.synchronize, random
import py_compile, resource, runpy, shutil, site, socket, subprocess, sys, tempfile, threading, traceback
stage, pyname = sys.argv[1:3]
for module in list(sys.modules.values()):
    path = getattr(module, "__file__", None) or ""
    if path.startswith(f"/usr/lib/{pyname}/") and path.endswith(".py") and os.path.exists(stage + path):
        py_compile.compile(stage + path, dfile=path, doraise=True,
                           invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
PYTHON
    copy_libs "$stage" "$stage/usr/bin/bash" "$stage/usr/bin/$pyname" \
        "$stage/usr/lib/$pyname"/lib-dynload/*.so

    cp -L /usr/lib/os-release "$stage/etc/os-release"
    echo v2guest >"$stage/etc/hostname"
    echo "127.0.0.1 localhost v2guest" >"$stage/etc/hosts"
    printf '%s\n' 'root:x:0:0:root:/root:/bin/sh' 'nobody:x:65534:65534:nobody:/:/bin/false' \
        'user:x:1001:1001:user:/home/user:/bin/sh' >"$stage/etc/passwd"
    printf '%s\n' 'root:x:0:' 'nogroup:x:65534:' 'user:x:1001:' >"$stage/etc/group"
    chmod -R u+w,go-w,a+rX "$stage"
    pack "$stage" "$cache/base-$key.cpio"
}

# cay loads some libraries on demand, which ldd does not see: their names are in the binary.
libs_on_demand() {
    local file name path
    for file in "$@"; do
        [ -z "$file" ] || grep -aoE 'lib[a-zA-Z0-9_+-]+(\.[0-9]+)*\.so(\.[0-9]+)*' "$file" || true
    done | sort -u | while read -r name; do
        for path in "/$libdir/$name" "/usr/local/lib/$name"; do
            if [ -e "$path" ]; then echo "$path"; fi
        done
    done
}

build_top() {
    local stage=$work/top lib
    local -a loaded=()
    mkdir -p "$stage/usr/bin" "$stage/$libdir" "$stage/tests" "$stage/extra"
    cp -L "$cay" "$stage/usr/bin/cay"
    mapfile -t loaded < <(libs_on_demand "$cay" "$(libs_of "$cay" | grep '/libcay' || true)")
    for lib in "${loaded[@]}"; do
        cp -L "$lib" "$stage/$libdir/"
    done
    copy_libs "$stage" "$cay" "${loaded[@]}"
    [ -z "${CAY_V2_EXTRA:-}" ] || cp -RL "$CAY_V2_EXTRA/." "$stage/extra/"
    cp "$here"/guest-tests.sh "$here"/guest-full.sh "$here"/*.py "$stage/tests/"
    cp "$here/guest-init.sh" "$stage/init"
    chmod -R u+w,go-w,a+rX "$stage"
    chmod 755 "$stage/init" "$stage/usr/bin/cay" "$stage/tests/guest-tests.sh"
    pack "$stage" "$work/top.cpio"
}

# Copies the guest's lines between the markers, checks that the TAP is whole, and says how it ended.
relay() {
    local line inside=0 count=0 plan='' end=''
    while IFS= read -r line || [ -n "$line" ]; do
        line=${line//$'\r'/}
        printf '%s\n' "$line" >>"$log"
        case $line in
        *CAY-V2-BEGIN*) inside=1 ;;
        *"CAY-V2-END "*)
            end=${line##*CAY-V2-END }
            inside=0
            ;;
        *)
            [ "$inside" = 1 ] || continue
            case $line in
            'ok '* | 'not ok '*) count=$((count + 1)) ;;
            1..*) plan=$line ;;
            '#'* | 'Bail out!'*) ;;
            *) line="# guest: $line" ;;
            esac
            printf '%s\n' "$line"
            ;;
        esac
    done
    if [ -z "$end" ]; then
        printf 'not ok %d - guest did not finish\n' $((count + 1))
        [ -n "$plan" ] || echo "1..$((count + 1))"
        tail -n 20 "$log" | sed 's/^/# serial: /'
        return 1
    fi
    if [ -z "$plan" ]; then
        printf 'not ok %d - the guest tests ended early with %s\n1..%d\n' $((count + 1)) "$end" $((count + 1))
        return 1
    fi
    [ "$end" = 0 ]
}

[ -x "$cay" ] || bail "$cay is not there; build it first"
[ "$(uname -m)" = x86_64 ] || skip "the guest is made for x86_64 only"
need qemu-system-x86_64 qemu-system-x86
need cpio cpio
need busybox busybox-static
need flock util-linux
[ -x "$python" ] || skip "$python not found (apt-get install python3)"
busybox=$(command -v busybox)
[ -z "$(libs_of "$busybox")" ] || skip "$busybox is not static (apt-get install busybox-static)"
stdlib=$("$python" -I -c 'import os; print(os.path.dirname(os.__file__))')
pyname=${stdlib##*/}

mkdir -p "$cache"
work=$(mktemp -d "$cache/run.XXXXXX")
log=$work/serial.log
guest=
# shellcheck disable=SC2317 # called by the trap
cleanup() {
    if [ -n "$guest" ]; then
        kill "$guest" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap cleanup EXIT
exec {tap}>&1
trap 'echo "Bail out! run-guest.sh: line $LINENO: $BASH_COMMAND" >&"$tap"' ERR
trap 'exit 130' INT
trap 'exit 143' TERM

exec {lock}>"$cache/lock"
flock "$lock"
kernel=
find_kernel
key=$(base_key)
if [ ! -e "$cache/base-$key.cpio" ]; then
    rm -f "$cache"/base-*.cpio
    build_base
fi
build_top
cat "$cache/base-$key.cpio" "$work/top.cpio" >"$work/initrd"
exec {lock}>&-

# `timeout` is the child that bash knows, and hands a signal on to the emulator, its only child.
: >"$log"
exec {serial}< <(exec timeout -k 5 "$limit" qemu-system-x86_64 \
    -M microvm,acpi=off -accel tcg,thread=multi -cpu max -smp 2 -m 1024 \
    -nodefaults -no-user-config -nographic -no-reboot -serial stdio \
    -kernel "$kernel/vmlinuz" -initrd "$work/initrd" \
    -append "console=ttyS0 quiet loglevel=1 reboot=t panic=-1 tsc=unstable cay.mode=${CAY_V2_ONLY:-$mode} cay.now=$(date +%s)" \
    </dev/null 2>&1)
guest=$!
rc=0
relay <&"$serial" || rc=1
wait "$guest" || true
guest=
if [ "$rc" != 0 ]; then
    cp "$log" "$cache/last-failure.log"
    say "the guest's whole serial output: $cache/last-failure.log"
fi
exit "$rc"

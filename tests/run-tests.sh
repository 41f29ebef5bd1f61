#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run-tests.sh: builds and runs all tests, and adds up their TAP points. The last line is
# "N passed, N failed, N skipped"; the exit status is 0 only if none failed.
#
#   build        as released: everything
#   build-asan   under the address and undefined-behaviour sanitizers: everything that runs code
#   build        the tests in a machine with cgroup v2, while the second one is built: it is emulated,
#                on one CPU
#
# CAY_TEST_REQUIRE=native,node makes a failure of each test that is skipped for want of one of
# these: a skip's reason starts with the name of what is missing.
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C.UTF-8

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# build DIR OPTION...: a folder whose build fails becomes one failed point with the output. Warnings
# are errors in the first only: sanitizers make gcc warn of what can't happen.
build()
{
    dir=$1
    echo "== $dir: build"
    if ! { tools/configure.sh "$@" -Dtests=true && ninja -C "$dir" --quiet; } \
        >"$logs/build" 2>&1; then
        cp "$logs/build" "$logs/$dir.broken"
        return 1
    fi
}

# run DIR NAME OPTION...: what the tests print goes to a log that tap-total.py reads. meson's own
# lines show how far it is; its verdict is not used, for it counts programs, not points.
run()
{
    dir=$1
    name=$2
    shift 2
    echo "== $dir: $name"
    rm -f "$dir/meson-logs/testlog.json"
    meson test -C "$dir" --no-rebuild --num-processes "$(($(nproc) + 1))" "$@" 2>&1 |
        sed -un 's/^ *\([0-9]\+\/[0-9]\+ .*\)/\1/p'
    if [ -s "$dir/meson-logs/testlog.json" ]; then
        cp "$dir/meson-logs/testlog.json" "$logs/$dir-$name.json"
    else
        echo "meson test gave no log" >"$logs/$dir-$name.broken"
    fi
}

built=0
if build build -Dwerror=true; then
    built=1
    run build all --no-suite v2
fi
v2=
if [ $built = 1 ] && [ -x build/cay ]; then
    run build v2 --suite v2 &
    v2=$!
fi
build build-asan -Db_sanitize=address,undefined -Dbuildtype=debug
sanitized=$?
[ -z "$v2" ] || wait "$v2" # the others' times are not to depend on it
if [ $sanitized = 0 ]; then
    rm -rf build-asan/sanitizer
    mkdir -m 1777 build-asan/sanitizer
    run build-asan all
    for report in build-asan/sanitizer/*; do
        [ ! -f "$report" ] || cp "$report" "$logs/build-asan-${report##*/}.broken"
    done
fi

python3 tests/tap-total.py "$logs"

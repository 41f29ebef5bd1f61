#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run-fuzz.sh SECONDS [NAME...]: runs each fuzz target, or those named, with libFuzzer and the
# sanitizers, starting from tests/fuzz/corpus/NAME. What it finds beyond that stays in
# build-fuzz/corpus/NAME for the next time; an input that breaks the target goes to
# build-fuzz/crash/ and, once mended, belongs into tests/fuzz/corpus.
set -eu
cd "$(dirname "$0")/.."

seconds=${1:-60}
[ $# = 0 ] || shift
if [ $# = 0 ]; then
    # shellcheck disable=SC2046
    set -- $(tools/list-files.sh tests/fuzz 'fuzz-*.c' | sed 's/^fuzz-//; s/\.c$//')
fi
if [ $# = 0 ]; then
    echo "run-fuzz: no targets" >&2
    exit 1
fi

# clang links its sanitizers into programs only, so that libcay.so has open symbols.
CC=clang tools/configure.sh build-fuzz -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false
ninja -C build-fuzz --quiet fuzz-programs
mkdir -p build-fuzz/crash

broken=
for name in "$@"; do
    echo "== fuzz-$name, $seconds s"
    mkdir -p "build-fuzz/corpus/$name"
    if ! "build-fuzz/tests/fuzz-$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 \
        -print_final_stats=1 -verbosity=0 -artifact_prefix="build-fuzz/crash/$name-" \
        "build-fuzz/corpus/$name" "tests/fuzz/corpus/$name"; then
        broken="$broken $name"
    fi
done
if [ -n "$broken" ]; then
    echo "run-fuzz: broken:$broken (inputs in build-fuzz/crash)" >&2
    exit 1
fi

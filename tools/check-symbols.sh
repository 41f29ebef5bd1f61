#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# check-symbols.sh BUILDDIR: looks in the compiled objects for writable globals, for calls that
# our C does without, and for a difference between what libcay.so exports and what the public
# headers declare CAY_API.
set -eu
cd "$(dirname "$0")/.."

build=${1:-build}
# The only state that outlives a call: who wants to be told of a signal, what malloc gave, what
# the processor said that it can, and the form of the command's own messages.
allowed='form cancel_pipe is_running null_fd asked window_pipe first_memory processor_has_sha'
banned='strcpy strcat sprintf gets system popen mktemp tmpnam alloca'
failed=0

objects=$(find "$build/src/libcay.a.p" "$build/cay.p" -name '*.o' 2>/dev/null || :)
if [ -z "$objects" ]; then
    echo "check-symbols: no objects in $build" >&2
    exit 1
fi

# .data.rel.ro is written by the loader only. Sections are matched, not nm's letters, which put
# it under "d".
# shellcheck disable=SC2086
objdump -t $objects | awk -v allowed=" $allowed " '
    /:     file format/ { object = $1 }
    / O \.(data|bss|tdata|tbss)/ && !/ O \.data\.rel\.ro/ {
        name = $NF
        sub(/\.[0-9]+$/, "", name) # a static in a function
        if (!index(allowed, " " name " ")) {
            print object " writable global: " name
            failed = 1
        }
    }
    END { exit failed }
' || failed=1

# _FORTIFY_SOURCE turns strcpy into __strcpy_chk.
# shellcheck disable=SC2086
nm -A -u $objects | awk -v banned=" $banned " '
    {
        name = $NF
        sub(/^__/, "", name)
        sub(/_chk$/, "", name)
        if (index(banned, " " name " ")) {
            print $1 " calls " $NF
            failed = 1
        }
    }
    END { exit failed }
' || failed=1
# This one never reaches the linker.
if grep -rnE '\balloca *\(' src tools --include='*.[ch]'; then
    failed=1
fi

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
tools/list-api.sh include/cay/*.h >"$temp/declared"
nm -D --defined-only "$build/src/libcay.so" |
    awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort -u >"$temp/exported"
if ! diff -u "$temp/declared" "$temp/exported"; then
    echo "libcay.so does not export what include/cay declares"
    failed=1
fi
exit $failed

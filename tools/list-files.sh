#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# list-files.sh [-x] DIR PATTERN...: the files in DIR that match, sorted, a name a line relative
# to DIR; with -x only those that start with "#!", which tells a test script from the module it
# imports. For meson.build, so that a new language or test needs no edit of the build;
# tools/configure.sh notices that the list has changed.
set -eu

scripts=0
if [ "$1" = -x ]; then
    scripts=1
    shift
fi
cd "$1" 2>/dev/null || exit 0
shift
for pattern in "$@"; do
    for file in $pattern; do # unquoted: this is where it is expanded
        [ -f "$file" ] || continue
        if [ $scripts = 0 ] || [ "$(head -c 2 "$file" | tr -d '\0')" = '#!' ]; then
            printf '%s\n' "$file"
        fi
    done
done | LC_ALL=C sort -u

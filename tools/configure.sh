#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# configure.sh BUILDDIR [OPTION...]: sets a build folder up, or brings one up to date: meson runs
# again when a source, test or language came or went (meson.build lists some by pattern, which
# ninja can't see), and when an option (-Dname=value) is not the one it was last given. Options
# not named stay as they are. Quick when there is nothing to do.
set -eu
cd "$(dirname "$0")/.."

dir=$1
shift
seen=$dir/.configured-files
given=$dir/.configured-options

files=$(find include src languages rules tests tools docs/man examples bench -name __pycache__ -prune \
    -o -type f -print 2>/dev/null | LC_ALL=C sort)

todo=
[ -f "$dir/build.ninja" ] || todo=setup
if [ -z "$todo" ]; then
    [ "$files" = "$(cat "$seen" 2>/dev/null)" ] || todo=--reconfigure
    for option in "$@"; do
        grep -qxFe "$option" "$given" 2>/dev/null || todo=--reconfigure
    done
fi
[ -n "$todo" ] || exit 0

# shellcheck disable=SC2046 # no option for the first time, one for the others
if ! out=$(meson setup $([ $todo = setup ] || echo $todo) "$dir" "$@" 2>&1); then
    printf '%s\n' "$out" >&2
    exit 1
fi
# meson writes its options after build.ninja, which ninja takes for a reason to run it once more.
ninja -C "$dir" build.ninja >/dev/null

printf '%s\n' "$files" >"$seen"
# The last value of each option holds.
for option in "$@"; do
    if [ -f "$given" ]; then
        grep -vFe "${option%%=*}=" "$given" >"$given.new" || :
        mv "$given.new" "$given"
    fi
    printf '%s\n' "$option" >>"$given"
done

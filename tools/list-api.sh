#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# list-api.sh [--version-script] HEADER...: the functions that the headers declare CAY_API, a name
# a line; or the linker's version script that exports them, and nothing of what libcay.so links
# in. The headers are the list: there is no second one to forget.
set -eu

script=0
if [ "$1" = --version-script ]; then
    script=1
    shift
fi
names=$(cat "$@" | grep -v '^#' | tr '\n' ' ' | sed 's|/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/||g' |
    grep -oE 'CAY_API[^;(]*\(' | sed -nE 's/.*[ *](cay_[a-z0-9_]+) *\(/\1/p' | LC_ALL=C sort -u)
if [ $script = 0 ]; then
    printf '%s\n' "$names"
else
    printf 'CAY_0 {\nglobal:\n'
    # shellcheck disable=SC2086 # names are words
    printf '    %s;\n' $names
    printf 'local:\n    *;\n};\n'
fi

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# test-optional.sh SOURCE: the build is set up without what PHP, Ruby or Python is linked with, each
# hidden in turn: only that language is left out. (What `cay doctor` says then: test-doctor.py.)
set -u

source=$1
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
n=0

# ok STATUS NAME [LOG]
ok()
{
    n=$((n + 1))
    if [ "$1" = 0 ]; then
        echo "ok $n - $2"
    else
        echo "not ok $n - $2"
        [ ! -f "${3:-}" ] || sed 's/^/# /' "$3"
    fi
}

# Folders like those that are searched, without some names.
hide()
{
    rm -rf "${temp:?}/bin" "$temp/pc"
    mkdir "$temp/bin" "$temp/pc"
    find /usr/local/bin /usr/bin /usr/sbin ! -type d ! -name "$1" -exec ln -sf -t "$temp/bin" {} +
    pkg-config --variable pc_path pkg-config | tr : '\n' | while read -r folder; do
        [ ! -d "$folder" ] || find "$folder/" -name '*.pc' ! -name "$2" -exec ln -sf -t "$temp/pc" {} +
    done
}

# check NAME HIDDEN-PROGRAM HIDDEN-PC: the summary lists the others that this host has.
check()
{
    hide "$2" "$3"
    PATH=$temp/bin PKG_CONFIG_LIBDIR=$temp/pc meson setup "$temp/$1" "$source" >"$temp/log" 2>&1
    ok $? "$1: the build is set up without it" "$temp/log"
    ahead=$(sed -n 's/^ *started ahead by fork: *//p' "$temp/log")
    want=
    for language in $all; do
        [ "$language" = "$1" ] || want="${want:+$want, }$language"
    done
    [ "$ahead" = "$want" ]
    ok $? "$1: left out, and no other (\"$ahead\")"
}

meson setup "$temp/all" "$source" >"$temp/log" 2>&1
ok $? "the build is set up" "$temp/log"
all=$(sed -n 's/^ *started ahead by fork: *//p' "$temp/log" | tr -d ,)
for language in $all; do
    case $language in
    php) check php 'php-config*' '' ;;
    ruby) check ruby '' 'ruby*' ;;
    python) check python '' 'python*' ;;
    esac
done
[ -n "$all" ] || echo "# this host has none of the three to hide"
echo "1..$n"

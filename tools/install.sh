#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# install.sh BUILDDIR [DESTDIR]: installs what is built, and says what went where and what to do next.
set -eu
cd "$(dirname "$0")/.."

build=$1
root=${2:-}
prefix=$(meson introspect --buildoptions "$build" |
    python3 -c 'import json, sys; print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == "prefix"))')

# The nearest folder that is there decides whether any can be made.
at=$root$prefix
while [ ! -e "$at" ]; do
    at=$(dirname "$at")
done
if [ ! -w "$at" ]; then
    echo "install: you may not write to $at" >&2
    echo "Run it as root (sudo make install), or into a folder of your own: make install PREFIX=\$HOME/.local" >&2
    exit 1
fi

meson install -C "$build" --no-rebuild --quiet ${root:+--destdir "$root"}

# So that programs find libcay.so at once. A package's own scripts do it for DESTDIR. `su` alone leaves
# root with a user's PATH, which has no sbin.
PATH=$PATH:/usr/sbin:/sbin
if [ -z "$root" ] && [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then
    ldconfig
fi

cat <<EOF
Installed in $root$prefix:
  bin/cay             the command
  libexec/cay         what it starts: server, syntax worker, interpreters to fork from
  lib, include/cay    libcay.so, cay.pc and the headers
  share/man           man cay
  share/cay           units for systemd
Next: cay doctor      what this host gives, and what to do about the rest
      cay run -l python -e 'print(6 * 7)'
EOF
case ":$PATH:" in
*":$prefix/bin:"*) ;;
*) [ -n "$root" ] || echo "$prefix/bin is not in PATH: add it, or call $prefix/bin/cay." ;;
esac

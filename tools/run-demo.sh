#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run-demo.sh: what make run shows: a program in a sandbox, and what it finds there.
set -eu
cd "$(dirname "$0")/.."

code='
import os, socket, sys

def attempt(what, action):
    try:
        print(f"{what:<22}{action()}")
    except OSError as e:
        print(f"{what:<22}{e.strerror}")

print("Hello from Python", sys.version.split()[0], "on an island of its own.")
print("sum of squares        ", sum(n * n for n in range(10)), sep="")
attempt("processes I can see", lambda: sum(name.isdigit() for name in os.listdir("/proc")))
attempt("read /etc/shadow", lambda: open("/etc/shadow").readline())
attempt("write /usr/x", lambda: open("/usr/x", "w"))
attempt("reach the network", lambda: socket.create_connection(("192.0.2.1", 80), 2))
'
printf '$ build/cay run -l python -e CODE, where CODE is:\n%s\nIts output:\n\n' "$code"
build/cay run -l python -e "$code"
printf '\nMore languages need their runtimes: make deps installs them all, build/cay languages lists them.\n'

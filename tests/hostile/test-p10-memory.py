#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P10: every kind of memory counts, and all kinds are one sum: at most 115 % of the limit, 150 % without a cgroup.

hog writes an x for each mebibyte that it really holds, so what was reached is counted here, not believed."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

LIMIT = 64
KINDS = ("heap", "anon", "shared", "populate", "memfd", "sysv", "sysv-detached", "sysv-messages", "sockets", "pipes", "sum",
         "many", "many-shared")
FILES = ("tmp", "dev-shm")
PYTHON = "x = []\nwhile len(x) < 256:\n    x.append(bytearray(b'y') * (1 << 20))\n    print('x', end='', flush=True)\n"


def told(r):
    """Mebibytes reached, and whether the program itself was told no."""
    return r.stdout.count("x"), "refused" in r.stdout


def bounded(t, r, label, most):
    reached, refused = told(r)
    t.ok("NOT CONTAINED" not in r.stdout, f"{label}: there is an end to it", reached)
    t.ok(reached <= most, f"{label}: at most {most} MiB were reached", f"{reached} MiB")
    return reached, refused


def test(t, mode):
    most = LIMIT * (115 if mode.has_cgroup else 150) // 100
    flags = ("--memory", f"{LIMIT}m", "--timeout", "20")
    expected = dict(cause="memory", limit_name="memory", limit=LIMIT * caytest.MIB, exit_code=137)
    for kind in KINDS:
        r = mode.program("hog", *flags, args=[kind])
        reached, refused = bounded(t, r, kind, most)
        if refused and r.cause in ("exit", "pids"):
            # The kernel said no to the program, which lived to tell: a bound too, but only below the limit itself.
            t.result(r, f"{kind}: refused, and told so", exit_code=1)
            t.ok(reached <= LIMIT, f"{kind}: refused within the limit", reached)
        else:
            t.result(r, f"{kind}: the verdict is memory", **expected)
    for kind in FILES:
        r = mode.program("hog", *flags, args=[kind])
        reached, _ = bounded(t, r, kind, LIMIT // 2)
        t.result(r, f"{kind}: the verdict is disk, half of the memory", cause="disk", limit_name="disk", exit_code=1,
                 meta__resource_limits__disk=LIMIT // 2 * caytest.MIB)

    r = mode.python(PYTHON, *flags)
    bounded(t, r, "python", most)
    t.result(r, "python: memory, or its own MemoryError", cause="memory" if mode.has_cgroup else ("memory", "exit"))
    layers = [x for x in r.layers if x.startswith("cgroup:memory")]
    t.equal(bool(layers), mode.has_cgroup, "the result says whether a cgroup held it", r.layers)
    peak = r.get("meta.usage.memory_peak")
    t.ok(peak is None or 8 * caytest.MIB < peak <= most * caytest.MIB, "the peak that it states is within the bound", peak)

    r = mode.python("x = bytearray(20 << 20)\nprint('fine')", *flags)
    t.result(r, "below the limit: fine", cause="ok", stdout="fine\n")
    for value in ("0", "-1", "1", "64q", "99999999999g", ""):
        done = mode.cay("exec", "--memory=" + value, "--", "/bin/echo", "RAN")
        t.ok(done.status in (2, 125) and b"memory" in done.err and b"RAN" not in done.out, f"memory {value!r} is refused",
             *done.describe())


caytest.main(test, modes=("root", "user", "deleg"), programs=["hog"])

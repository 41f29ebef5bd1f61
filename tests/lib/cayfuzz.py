# SPDX-License-Identifier: Apache-2.0
"""Random clients against running servers: many at once, with some in between who behave and have to be answered rightly.

    fuzz.attack(t, [(server, "tcp"), (server, "unix")], be_client)    # be_client(random.Random, number)

Each client's doings come from the seed and its number, so that a failure can be tried again: --seconds 600 --seed 4711.
"""

import argparse
import contextlib
import os
import random
import threading
import time

import caytest

AT_ONCE = 24
# What is freed stays for a while under the sanitizers, 256 MiB of it, and everything is about twice as large.
FRONT_MIB = 768 if caytest.SANITIZED else 256

options = argparse.ArgumentParser()
options.add_argument("--seconds", type=float, default=4)
options.add_argument("--seed", type=int, default=None)
options, _ = options.parse_known_args()
# In the environment, for a script starts itself again in namespaces of its own.
SEED = int(os.environ.setdefault("CAY_TEST_SEED", str(options.seed if options.seed is not None else random.randrange(1 << 32))))


def resident(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def good_client(s, over, deadline, wrong, done):
    """One after another, each of which has to be answered rightly; one at least, however late a busy machine lets us begin."""
    while (time.monotonic() < deadline or over not in done) and not wrong:
        try:
            r = s.get("/v1/health", token=None, over=over)
            if r.status != 200:
                wrong.append((over, r))
            r = s.execute({"command": ["/bin/echo", "fine"]}, over=over)
            if r.status != 200 or r.json["stdout"] != "fine\n":
                wrong.append((over, r))
            done.append(over)
        except Exception as e:  # a thread that ends would ask for nothing any more
            wrong.append((over, repr(e)))


def attack(t, servers, be_client, at_once=AT_ONCE):
    """Returns the name of it all, for further checks."""
    deadline = time.monotonic() + options.seconds
    wrong, done, numbers, broken = [], [], [], []
    counter = iter(range(1 << 40))
    most = {s.pid: 0 for s, _ in servers}

    def clients():
        while time.monotonic() < deadline and not broken:
            numbers.append(number := next(counter))
            try:
                be_client(random.Random(f"{SEED}/{number}"), number)
            except Exception as e:  # a thread that ends would attack nobody any more
                broken.append((number, repr(e)))

    threads = [threading.Thread(target=clients) for _ in range(at_once)]
    threads += [threading.Thread(target=good_client, args=(s, over, deadline, wrong, done)) for s, over in servers]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for pid in most:
            with contextlib.suppress(OSError):
                most[pid] = max(most[pid], resident(pid))
        time.sleep(0.05)
    name = f"seed {SEED}, {len(numbers)} clients"
    t.empty(broken, f"{name}: each did what it had to")
    t.empty(wrong, f"{name}: all {len(done)} good ones in between are answered")
    t.equal({over for over in done}, {over for _, over in servers}, "each way in")
    t.ok(all(s.proc.poll() is None for s, _ in servers), f"{name}: it lives", [s.words()[-3000:] for s, _ in servers])
    t.ok(max(most.values()) < FRONT_MIB * caytest.MIB,
         f"its memory is bounded: {max(most.values()) // caytest.MIB} of {FRONT_MIB} MiB", most)
    return name

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of table.tsv and writes down beside each what came of it (NAME.err: cause, exit code and signal in
the first line, then stderr), for the unit test, which needs no runtimes then:

    tests/e2e/programs/errors/record.py [PREFIX]        with CAY, the command to run, in the environment

Look at the difference before it is kept: the table says what has to come, not this."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
CAY = os.environ.get("CAY", str(HERE.parents[3] / "build" / "cay"))


def record(name):
    done = subprocess.run([CAY, "run", "--no-server", "--json", str(HERE / name)], stdin=subprocess.DEVNULL, capture_output=True)
    result = json.loads(done.stdout)
    text = result["stderr"] or (result["stdout"] if result["verdict"]["cause"] == "compile" else "")
    head = f"{result['verdict']['cause']} {result['exit_code']} {result['signal'] or 0}\n"
    (HERE / (name + ".err")).write_text(head + text)


names = [line.split("\t")[0] for line in (HERE / "table.tsv").read_text().splitlines() if not line.startswith("#")]
prefix = sys.argv[1] if len(sys.argv) > 1 else ""
with ThreadPoolExecutor(2) as pool:
    list(pool.map(record, [name for name in names if name.startswith(prefix)]))

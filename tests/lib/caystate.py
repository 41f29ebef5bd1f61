# SPDX-License-Identifier: Apache-2.0
"""Records of runs in a test: where a mode's are, and a place of its own for root's, whose state folder others use too."""
import subprocess
from pathlib import Path

import caytest


def private_records(mode, size="1g", part="executions"):
    """The folder of this mode's records, or another part of its state folder; for root a file system of this script alone. Only what is recorded is kept
    apart: the rest of root's state folder is how runs at the same time keep out of each other's way."""
    if not mode.is_root or mode.uid is not None or not caytest.contained():
        return mode.home / ".local/state/cay" / part
    folder = Path("/var/lib/cay") / part
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=0700,size={size}", "cay-test", folder], check=True)
    return folder


def unmount_records(folder):
    """Back to the records below."""
    subprocess.run(["umount", folder], check=True)

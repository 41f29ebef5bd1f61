# SPDX-License-Identifier: Apache-2.0
"""cay at a terminal of the test's own, which can be read and typed at, resized, and asked for its modes."""

import contextlib
import fcntl
import os
import signal
import struct
import termios

from cayhost import until


def stable(attributes):
    """The part of a terminal's modes that says how it behaves."""
    return attributes[:4] + [[bytes(c) if isinstance(c, bytes) else c for c in attributes[6]]]


class Screen:
    """cay as the leader of a terminal. The test keeps its far end, so that its modes can be read when cay is gone."""

    def __init__(self, mode, *args, rows=30, cols=100, env=None):
        self.seen, self.status = b"", None
        self.master, self.slave = os.openpty()
        self.resize(rows, cols)
        self.before = stable(termios.tcgetattr(self.slave))
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self.master)
                os.login_tty(self.slave)
                if mode.uid is not None:
                    os.setgroups([])
                    os.setresgid(mode.uid, mode.uid, mode.uid)
                    os.setresuid(mode.uid, mode.uid, mode.uid)
                os.chdir(mode.cwd)
                os.execve(mode.binary, [os.fspath(mode.binary), *map(str, args)],
                          {**mode.env, "TERM": "xterm-256color", **(env or {})})
            finally:
                os._exit(99)
        os.set_blocking(self.master, False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)
        os.close(self.slave)

    def _read(self):
        """False once nothing is there for now."""
        try:
            piece = os.read(self.master, 65536)
        except (BlockingIOError, OSError):
            return False
        self.seen += piece
        return piece != b""

    def wait_for(self, mark, timeout=30):
        """Waits until the mark is seen, and forgets what came up to it: the next one is looked for behind it."""
        def step():
            while self._read():
                pass
            return mark in self.seen
        if not until(step, timeout):
            return False
        self.seen = self.seen[self.seen.index(mark) + len(mark):]
        return True

    def type(self, data):
        os.write(self.master, data)

    def resize(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def modes(self):
        return stable(termios.tcgetattr(self.slave))

    def is_raw(self):
        return not termios.tcgetattr(self.slave)[3] & (termios.ICANON | termios.ISIG | termios.ECHO)

    def is_put_back(self, timeout=10):
        return until(lambda: self.modes() == self.before, timeout)

    def wait(self, timeout=40):
        """The exit status (negative: a signal), or None; all that was written is in `seen` then."""
        def step():
            while self._read():
                pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            return pid
        until(step, timeout)
        while self._read():
            pass
        return self.status

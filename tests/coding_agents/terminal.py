"""A program in a terminal of its own: what it draws as text, and keys."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import termios
import threading

from tests.running import until

_CODES = re.compile(rb"\x1b\[[0-9;?<>=]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b[=>78]")


class Terminal:
    """A running program."""

    def __init__(self, command, cwd, environment):
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execvpe(command[0], command, environment)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
        self._drawn = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        with contextlib.suppress(OSError):  # it has ended
            while data := os.read(self._fd, 65536):
                if b"\x1b[6n" in data:  # it asks where the cursor is, and waits
                    os.write(self._fd, b"\x1b[1;1R")
                self._drawn += data

    @property
    def text(self):
        return re.sub(r"\s+", " ", _CODES.sub(b" ", self._drawn).decode("utf-8", "replace"))

    def shows(self, words, seconds=120):
        """Wait until the program has drawn words since it began; blanks do not count."""
        bare = words.replace(" ", "")
        until(lambda: bare in self.text.replace(" ", ""), seconds, 0.02)

    def press(self, keys):
        os.write(self._fd, keys.encode())

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._reader.join(10)
        os.close(self._fd)

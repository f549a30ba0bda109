# SPDX-License-Identifier: Apache-2.0
"""Standard output and error as user code sees them: unbuffered text on descriptors 1 and 2."""

import ctypes
import fcntl
import io
import os
import sys
import termios

# Above what user code closes by number.
FIRST_SAFE_NUMBER = 256

_libc = ctypes.CDLL(None)

_NOTHING = bytes(4)


class StandardStreams:
    """Keeps copies of both pipes, so that a cell that closes its streams does not silence the next one."""

    def __init__(self):
        self._copies = {number: fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, FIRST_SAFE_NUMBER) for number in (1, 2)}
        self._install()

    def _install(self):
        sys.stdout = sys.__stdout__ = _text_stream(1, "<stdout>")
        sys.stderr = sys.__stderr__ = _text_stream(2, "<stderr>")

    def repair(self):
        """Before each cell. A stream or descriptor that was replaced, not closed, is the user's choice and stays."""
        for number, copy in self._copies.items():
            try:
                fcntl.fcntl(number, fcntl.F_GETFD)
            except OSError:
                os.dup2(copy, number)
        if getattr(sys.stdout, "closed", False) or getattr(sys.stderr, "closed", False):
            self._install()

    def flush(self):
        """Brings what Python and C libraries still hold into the pipes."""
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):
                pass
        _libc.fflush(None)

    def are_empty(self):
        """Whether the agent has taken all that was brought into the pipes."""
        try:
            return all(fcntl.ioctl(copy, termios.FIONREAD, _NOTHING) == _NOTHING for copy in self._copies.values())
        except OSError:
            return False


def _text_stream(number, name):
    # A raw file below: what is printed is in the pipe when print returns, with or without a newline.
    raw = io.FileIO(number, "w", closefd=False)
    stream = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)
    raw.name = name
    stream.mode = "w"
    return stream

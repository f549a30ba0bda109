# SPDX-License-Identifier: Apache-2.0
"""Standard output and error of user code: unbuffered text on descriptors 1 and 2."""

import ctypes
import fcntl
import io
import os
import sys
import termios

# User code that closes descriptors by number rarely goes this high.
FIRST_SAFE_NUMBER = 256

_libc = ctypes.CDLL(None)

_NOTHING = bytes(4)


class StandardStreams:
    """Both pipes, with a copy of each: the next cell can print even if one has closed its streams."""

    def __init__(self):
        self._copies = {number: fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, FIRST_SAFE_NUMBER) for number in (1, 2)}
        self._install()

    def _install(self):
        sys.stdout = sys.__stdout__ = _text_stream(1, "<stdout>")
        sys.stderr = sys.__stderr__ = _text_stream(2, "<stderr>")

    def repair(self):
        """Reopens what a cell has closed. A stream or descriptor that it has replaced stays."""
        for number, copy in self._copies.items():
            try:
                fcntl.fcntl(number, fcntl.F_GETFD)
            except OSError:
                os.dup2(copy, number)
        if getattr(sys.stdout, "closed", False) or getattr(sys.stderr, "closed", False):
            self._install()

    def flush(self):
        """Writes what Python and C libraries have buffered to the pipes."""
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):
                pass
        _libc.fflush(None)

    def are_empty(self):
        """Tells whether the agent has read everything from the pipes."""
        try:
            return all(fcntl.ioctl(copy, termios.FIONREAD, _NOTHING) == _NOTHING for copy in self._copies.values())
        except OSError:
            return False


def _text_stream(number, name):
    # Without a buffer: text is in the pipe when `print` returns, with or without a newline.
    raw = io.FileIO(number, "w", closefd=False)
    stream = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)
    raw.name = name
    stream.mode = "w"  # pyright: ignore[reportAttributeAccessIssue]
    return stream

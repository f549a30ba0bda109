# SPDX-License-Identifier: Apache-2.0
"""Standard output and error of user code: text on descriptors 1 and 2, where each `print` is one write."""

import builtins
import ctypes
import errno
import fcntl
import functools
import io
import os
import sys
import termios
import threading
from typing import Any

# User code that closes descriptors by number rarely goes this high.
FIRST_SAFE_NUMBER = 256

_libc = ctypes.CDLL(None)

_NOTHING = bytes(4)

_print_parts = builtins.print


class StandardStreams:
    """Both pipes, with a copy of each: the next cell can print even if one has closed its streams."""

    def __init__(self):
        self._copies = {number: fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, FIRST_SAFE_NUMBER) for number in (1, 2)}
        self._install()
        builtins.print = _print_whole

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


class PipeFile(io.FileIO):
    """A pipe without a buffer: text is in it when `print` returns, with or without a newline."""

    def __init__(self, number):
        super().__init__(number, "w", closefd=False)
        # A handler of signals may print while the cell does.
        # The stubs lack what makes it free in a child process.
        self._lock: Any = threading.RLock()
        os.register_at_fork(after_in_child=self._lock._at_fork_reinit)

    def write(self, data, /):
        """Writes all of the data, apart from those of other threads."""
        with self._lock, memoryview(data).cast("B") as left:
            size, done = len(left), 0
            while done < size:
                written = super().write(left[done:])
                if written is None:
                    raise BlockingIOError(errno.EAGAIN, "the pipe is full", done)
                done += written
        return size


class TextStream(io.TextIOWrapper):
    """A stream of text to a pipe."""


def _text_stream(number, name):
    raw = PipeFile(number)
    stream = TextStream(raw, encoding="utf-8", errors="backslashreplace", write_through=True)
    raw.name = name
    stream.mode = "w"  # pyright: ignore[reportAttributeAccessIssue]
    return stream


@functools.wraps(_print_parts)
def _print_whole(*values, file=None, flush=False, **options):
    # Python's `print` writes each value and each separator by itself, so that the lines of two threads mix.
    stream = sys.stdout if file is None else file
    if type(stream) is not TextStream:
        _print_parts(*values, file=file, flush=flush, **options)
        return
    if len(values) == 1 and type(values[0]) is str and not options:
        stream.write(values[0] + "\n")
        return
    text = io.StringIO(newline="")
    try:
        _print_parts(*values, file=text, **options)
    finally:
        if text.tell():
            stream.write(text.getvalue())

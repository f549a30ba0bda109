# SPDX-License-Identifier: Apache-2.0
"""Turns an exception of a cell into an error for the client: plain text, with the user's frames only."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

MAX_MESSAGE_CHARACTERS = 64 * 1024
MAX_TRACEBACK_LINES = 400

CELL_PREFIX = "<cell "

# Leaves out the exceptions that a report does not show. Later than Python 3.9.
_COMPACT: dict[str, Any] = {"compact": True} if sys.version_info >= (3, 10) else {}
_KERNEL_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep


def to_error(exception):
    """Returns the name, message and traceback lines of an exception. Never raises, and bounds all three."""
    return {
        "name": type(exception).__name__,
        "message": _bounded(_message(exception)),
        "traceback": _traceback_lines(exception),
    }


def print_error(exception):
    """Prints the traceback of an exception."""
    print("\n".join(_traceback_lines(exception)))


def since_cell(trace):
    """Returns a traceback without its frames above the first one of a cell, or as it is if there is none."""
    first = trace
    while first is not None and not first.tb_frame.f_code.co_filename.startswith(CELL_PREFIX):
        first = first.tb_next
    return first or trace


def _message(exception):
    try:
        if isinstance(exception, SyntaxError) and exception.msg and _is_cell(exception.filename):
            place = f" (line {exception.lineno})" if exception.lineno else ""
            return f"{exception.msg}{place}"
        return str(exception)
    except Exception as failure:
        return f"<the exception's text could not be made: {type(failure).__name__}>"


def _is_cell(filename):
    return isinstance(filename, str) and filename.startswith(CELL_PREFIX)


def _traceback_lines(exception):
    try:
        report = traceback.TracebackException(type(exception), exception, exception.__traceback__, **_COMPACT)
        _hide_internals(report)
        text = "".join(report.format())
    except Exception as failure:
        return [f"<the traceback could not be made: {type(failure).__name__}>"]
    lines = [_bounded(line) for line in text.rstrip("\n").split("\n")]
    if len(lines) <= MAX_TRACEBACK_LINES:
        return lines
    half = MAX_TRACEBACK_LINES // 2
    return [*lines[:half], f"  … {len(lines) - 2 * half} lines left out …", *lines[-half:]]


def _hide_internals(report, seen=None):
    """Drops the frames above a cell's first one, which belong to IPython, and all of this kernel."""
    seen = set() if seen is None else seen
    if report is None or id(report) in seen:
        return
    seen.add(id(report))
    frames = list(report.stack)
    first_of_user = next((index for index, frame in enumerate(frames) if frame.filename.startswith(CELL_PREFIX)), None)
    if first_of_user is None:
        frames = [frame for frame in frames if not _is_internal(frame.filename)]
    else:
        # What the kernel does for the cell is left out: where it prints, and where it takes an interrupt.
        frames = [frame for frame in frames[first_of_user:] if not frame.filename.startswith(_KERNEL_FOLDER)]
    report.stack[:] = frames
    _hide_internals(report.__cause__, seen)
    _hide_internals(report.__context__, seen)
    for part in getattr(report, "exceptions", None) or ():
        _hide_internals(part, seen)


def _is_internal(filename):
    ipython = os.path.dirname(sys.modules["IPython"].__file__ or "") + os.sep
    return filename.startswith((_KERNEL_FOLDER, ipython, "<frozen "))


def _bounded(text):
    if len(text) <= MAX_MESSAGE_CHARACTERS:
        return text
    return text[:MAX_MESSAGE_CHARACTERS] + f"… ({len(text) - MAX_MESSAGE_CHARACTERS} characters left out)"

# SPDX-License-Identifier: Apache-2.0
"""Code that shares few pages of memory with code that is never run.

To call a function counts a reference to its code, which writes to the page that it lies in; a fork copies each page that it
writes to. As imports leave it, what a run calls lies strewn among thousands of functions that it does not.
"""

import gc
import sys
from types import CodeType, FunctionType


def lay_side_by_side(run):
    """Moves the code of each function that `run` calls."""
    called = _called_by(run)
    functions = [each for each in gc.get_objects() if isinstance(each, FunctionType) and id(each.__code__) in called]
    copies = _copies_of(called)
    for function in functions:
        function.__code__ = copies[id(function.__code__)]


def _called_by(run):
    """By identity: pieces of code are equal that are of different functions."""
    called = {}

    def note(frame, event, _):
        if event == "call":
            called[id(frame.f_code)] = frame.f_code

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return called


def _copies_of(called):
    copies = {}

    def copy(code):
        if id(code) not in called:
            return code
        if id(code) not in copies:
            # What it makes functions of.
            inner = tuple(copy(constant) if isinstance(constant, CodeType) else constant for constant in code.co_consts)
            copies[id(code)] = code.replace(co_consts=inner, co_qualname=_copy_of(code.co_qualname))
        return copies[id(code)]

    for code in called.values():
        copy(code)
    return copies


def _copy_of(text):
    return (text + ".")[:-1]

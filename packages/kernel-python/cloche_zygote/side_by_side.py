# SPDX-License-Identifier: Apache-2.0
"""Modules that share few pages of memory.

To show a module counts a reference to it and to its name, which writes to the pages that they lie in; a fork copies each
page that it writes to. As imports leave them, each lies in a page of its own.
"""

import importlib._bootstrap
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def new_modules(count):
    """The next `count` modules that are written in Python lie side by side."""
    reserve = [ModuleType("") for _ in range(count)]

    def new_module(name):
        if not reserve:
            return ModuleType(name)
        module = reserve.pop()
        module.__init__(name)
        return module

    usual = importlib._bootstrap._new_module
    importlib._bootstrap._new_module = new_module
    try:
        yield
    finally:
        importlib._bootstrap._new_module = usual


def named_anew(modules):
    """The same modules under names that lie side by side."""
    return {(name + ".")[:-1]: module for name, module in modules.items()}

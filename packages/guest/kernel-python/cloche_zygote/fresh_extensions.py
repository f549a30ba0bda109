# SPDX-License-Identifier: Apache-2.0
"""Loads extension modules once more in a process that has loaded them already.

Python and the dynamic linker keep one copy of an extension module for each file. It keeps what it took from other
modules when it was loaded: that of pandas keeps the numpy of the zygote, and takes no array of another numpy. So it is
loaded from a copy of its file, which both consider another one.
"""

import ctypes
import importlib.util
import os
import shutil
import tempfile
from importlib.machinery import ExtensionFileLoader, PathFinder
from typing import Any

_interpreter = ctypes.pythonapi.PyInterpreterState_Get
_interpreter.restype = ctypes.c_void_p
_state_of = ctypes.pythonapi.PyInterpreterState_GetDict
_state_of.argtypes = (ctypes.c_void_p,)
# A borrowed reference: `ctypes.py_object` would release it.
_state_of.restype = ctypes.c_void_p


class FreshExtensions:
    """Finds the extension modules that are to be loaded once more."""

    def __init__(self):
        self._files = set()
        # What is replaced is kept: its extension modules and pybind11 use it without a reference to it.
        self._replaced = []

    def replace(self, modules):
        """Makes later imports of those of `modules` that are extension modules load them once more."""
        self._replaced += modules
        specs = (getattr(module, "__spec__", None) for module in modules)
        self._files.update(spec.origin for spec in specs if spec and isinstance(spec.loader, ExtensionFileLoader))
        self._replaced += _forget_bindings()

    def find_spec(self, name, path):
        """Returns a spec that loads the module once more, or None if it is to be loaded as usual."""
        if not self._files:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.origin is None or spec.origin not in self._files:
            return None
        spec.loader = _CopyLoader(name, spec.origin)
        return spec


def _forget_bindings():
    """Takes what pybind11 keeps out of the state of the interpreter: it finds modules by name, refuses known classes.

    Returns what it has taken.
    """
    state = ctypes.cast(_state_of(_interpreter()), ctypes.py_object).value
    return [state.pop(key) for key in list(state) if str(key).startswith("__pybind11_")]


class _CopyLoader(ExtensionFileLoader):
    """Loads an extension module from a copy of its file."""

    def create_module(self, spec):
        folder = tempfile.mkdtemp(prefix="cloche-extension-")
        try:
            copy = shutil.copyfile(self.path, os.path.join(folder, os.path.basename(self.path)))
            copied: Any = importlib.util.spec_from_file_location(spec.name, copy)
            module: Any = super().create_module(copied)
        finally:
            # The linker has mapped the file.
            shutil.rmtree(folder, ignore_errors=True)
        module.__file__ = self.path
        return module

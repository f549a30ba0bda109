# SPDX-License-Identifier: Apache-2.0
"""Changes a module when user code imports it: matplotlib, whose backend is set.

The variable `MPLBACKEND` would reach programs that a cell starts, which cannot load this backend.
"""

import importlib.util
import sys

BACKEND = "module://matplotlib_inline.backend_inline"


class AfterImport:
    """A finder on `sys.meta_path` that removes itself with the first import of a module."""

    def __init__(self, module_name, change):
        self._module_name = module_name
        self._change = change

    def find_spec(self, name, path=None, target=None):
        """Returns the usual spec of the module, whose execution also changes it, and None for other modules."""
        if name != self._module_name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            self._change(module)

        spec.loader.exec_module = exec_module
        return spec


def after_import(module_name, change):
    """Calls `change` with the module once it has been imported."""
    sys.meta_path.insert(0, AfterImport(module_name, change))


def install():
    """Sets matplotlib's backend when it is imported."""
    after_import("matplotlib", _set_backend)


def _set_backend(matplotlib):
    for parameters in (matplotlib.rcParams, matplotlib.rcParamsDefault, matplotlib.rcParamsOrig):
        parameters["backend"] = BACKEND

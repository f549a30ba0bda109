# SPDX-License-Identifier: Apache-2.0
"""Sets matplotlib's backend when user code imports matplotlib.

The variable `MPLBACKEND` would reach programs that a cell starts, which cannot load this backend.
"""

import importlib.util
import sys

BACKEND = "module://cloche_kernel.matplotlib_backend"


class MatplotlibFinder:
    """A finder on `sys.meta_path` that removes itself with the first import of matplotlib."""

    def find_spec(self, name, path=None, target=None):
        """Returns the usual spec of matplotlib, whose execution also sets the backend, and None for other modules."""
        if name != "matplotlib":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            module.rcParams["backend"] = module.rcParamsDefault["backend"] = BACKEND

        spec.loader.exec_module = exec_module
        return spec


def install():
    """Puts the finder first in line."""
    sys.meta_path.insert(0, MatplotlibFinder())

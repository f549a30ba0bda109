# SPDX-License-Identifier: Apache-2.0
"""Chooses matplotlib's backend when, and only when, user code imports matplotlib.

An environment variable would do the same, but programs started by a cell would inherit it and fail.
"""

import importlib.util
import sys

BACKEND = "module://cloche_kernel.matplotlib_backend"


class MatplotlibFinder:
    def find_spec(self, name, path=None, target=None):
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
    sys.meta_path.insert(0, MatplotlibFinder())

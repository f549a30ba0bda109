# SPDX-License-Identifier: Apache-2.0
"""How many threads numpy's linear algebra may use: one in the zygote, which starts none, and in a kernel what it is told."""

import ctypes
import glob
import os
import sys

_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
_SETTERS = ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads", "openblas_set_num_threads")


def allow_as_many_as_wanted():
    """Once numpy is in use. More than one are started here and now, as when it is loaded."""
    wanted = _wanted()
    if wanted > 1 and "numpy" in sys.modules:
        setter = _setter()
        if setter is not None:
            setter(wanted)


def _wanted():
    for name in _VARIABLES:
        value = os.environ.get(name, "")
        if value.isdecimal() and int(value) > 0:
            return int(value)
    return len(os.sched_getaffinity(0))


def _setter():
    folder = os.path.dirname(os.path.dirname(sys.modules["numpy"].__file__))
    for path in glob.glob(os.path.join(folder, "numpy.libs", "*openblas*")):
        library = ctypes.CDLL(path)
        for name in _SETTERS:
            if hasattr(library, name):
                return getattr(library, name)
    return None

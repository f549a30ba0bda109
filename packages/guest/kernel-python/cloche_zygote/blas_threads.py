# SPDX-License-Identifier: Apache-2.0
"""Sets how many threads numpy's linear algebra uses: one in the zygote, the configured number in a kernel."""

import ctypes
import glob
import os
import sys

_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
_SETTERS = ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads", "openblas_set_num_threads")


def apply_thread_limit():
    """Starts the threads that a kernel may use, as numpy does when it is loaded. Called with its import."""
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
    folder = os.path.dirname(os.path.dirname(sys.modules["numpy"].__file__ or ""))
    for path in glob.glob(os.path.join(folder, "numpy.libs", "*openblas*")):
        library = ctypes.CDLL(path)
        for name in _SETTERS:
            if hasattr(library, name):
                return getattr(library, name)
    return None

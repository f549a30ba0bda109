# SPDX-License-Identifier: Apache-2.0
"""What every kernel of the template is likely to need, loaded once for all of them."""

import gc
import importlib
import os
import sys

from cloche_kernel.kernel import Kernel
from cloche_zygote import fresh, holes, threads
from cloche_zygote.compact_code import lay_side_by_side
from cloche_zygote.parked import ParkedModules, remember_files
from cloche_zygote.side_by_side import new_modules

# In this order, as each group may need the ones before it. What a template has not got is passed over.
GROUPS = (
    ("numpy", "numpy.random", "numpy.linalg", "numpy.ma"),
    ("pandas",),
    ("matplotlib.pyplot", "matplotlib.backends.backend_agg", "cloche_kernel.matplotlib_backend"),
)
# What all of it is needed for is loaded with it.
FIRST_USES = {"pandas": "import pandas; pandas.DataFrame({'a': [1, 2], 'b': ['x', None], 'c': [1.5, 2]})"}
# What was run before takes a fork half as long and copies fewer pages: what Python remembers of classes and of its own code
# stands in pages that all kernels share.
REHEARSALS = ("1 / 0", *FIRST_USES.values(), "1 + 1")
# Code that Python has run often is rewritten no more.
TIMES = 20
MODULES = 1000
# Every cell needs these sooner or later: they stay in sight.
COMMON = ("asyncio", "ssl", "socket", "tempfile", "uuid", "select", "selectors", "locale", "zoneinfo")

KERNEL_MARK = b"CLOCHE_KERNEL="


class Loaded:
    def __init__(self, kernel, parked, mark_address, folders):
        self.kernel = kernel
        self.parked = parked
        self.mark_address = mark_address
        self.folders = folders
        self.pid = os.getpid()


def load():
    gc.disable()
    kernel = Kernel()
    kernel.warm_up("1 + 1")
    for name in COMMON:
        importlib.import_module(name)
    parked = ParkedModules(_on_modules_shown)
    with new_modules(MODULES):
        for names in GROUPS:
            parked.load_group(names, lambda name: name in FIRST_USES and kernel.warm_up(FIRST_USES[name]))
    fresh.forget_seed_of_numpy()
    remember_files()
    parked.park()
    _rehearse(kernel, parked)
    # What a module opened while it was loaded is closed by now, and no object moves any more: collecting would write to
    # every one of them, and pages that nobody writes to are shared by all kernels.
    gc.collect()
    gc.freeze()
    holes.fill()
    return Loaded(kernel, parked, _mark_address(), library_folders())


def _on_modules_shown(modules):
    # Once: what code has seeded and limited since is its own choice.
    if "numpy.random" in modules:
        fresh.reseed_numpy()
        threads.allow_as_many_as_wanted()


def _rehearse(kernel, parked):
    """First runs, as they are in a fork."""

    def run_all():
        for code in REHEARSALS:
            with parked.rehearsal():
                kernel.warm_up(code)

    lay_side_by_side(run_all)
    # Full of names that only loading looked up: each place that is taken from one of them writes to where it lies.
    sys._clear_type_cache()
    for _ in range(TIMES):
        run_all()


def library_folders():
    """When each folder of libraries was changed last: an installation in a sandbox changes it."""
    folders = {path: _changed(path) for path in sys.path if path.startswith(("/usr/lib/", "/usr/local/lib/"))}
    return folders | {sys.executable: _changed(sys.executable)}


def _changed(path):
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


def _mark_address():
    """Where the environment that this program was started with has room for the mark of a kernel."""
    import ctypes

    environment = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    index = 0
    while (address := environment[index]) is not None:
        if ctypes.string_at(address, len(KERNEL_MARK)) == KERNEL_MARK:
            return address + len(KERNEL_MARK)
        index += 1
    raise RuntimeError("the environment has no room for a mark")

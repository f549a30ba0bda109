# SPDX-License-Identifier: Apache-2.0
"""Loads the modules that most kernels of the template need, once."""

import contextlib
import gc
import importlib
import os
import sys

from cloche_kernel.import_hook import SavedImages
from cloche_kernel.kernel import Kernel
from cloche_zygote import blas_threads, process_state
from cloche_zygote.allocator_pools import fill_partial_pools
from cloche_zygote.code_layout import group_called_code
from cloche_zygote.module_layout import adjacent_modules
from cloche_zygote.preloaded_modules import PreloadedModules, remember_files

# In this order, as a group may depend on those before it. Libraries that the template lacks are skipped.
GROUPS = (
    ("numpy", "numpy.random", "numpy.linalg", "numpy.ma"),
    ("pandas",),
    ("matplotlib.pyplot", "matplotlib.backends.backend_agg", "matplotlib_inline.backend_inline"),
)
# Code that is run after the import, as it imports what the library loads only when it is used.
FIRST_USES = {"pandas": "import pandas; pandas.DataFrame({'a': [1, 2], 'b': ['x', None], 'c': [1.5, 2]})"}
# Code that the zygote has run takes a fork half as long and copies fewer pages: Python's caches for classes and code
# are filled already, in pages that all kernels share.
WARM_UP_CELLS = ("1 / 0", *FIRST_USES.values(), "1 + 1")
# Number of runs after which Python no longer rewrites the code to specialize it.
WARM_UP_RUNS = 20
# Upper bound of the number of modules in all groups.
MAX_MODULES = 1000
# Most kernels use these, and user code may import them without a check.
COMMON = ("asyncio", "ssl", "socket", "tempfile", "uuid", "select", "selectors", "locale", "zoneinfo")

KERNEL_MARK = b"CLOCHE_KERNEL="


class Loaded:
    """The state that a zygote has loaded for its kernels."""

    def __init__(self, kernel, modules, mark_address, folders):
        self.kernel = kernel
        self.modules = modules
        self.mark_address = mark_address
        self.folders = folders
        self.pid = os.getpid()


def load(imports=()):
    """Loads the kernel, the libraries and `imports`, and prepares the memory for forks. Returns `Loaded`."""
    gc.disable()
    kernel = Kernel()
    kernel.warm_up("1 + 1")
    for name in COMMON:
        # A Python may be built without a library of the system, such as OpenSSL.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    modules = PreloadedModules(_on_import)
    with adjacent_modules(MAX_MODULES):
        for names in GROUPS:
            modules.load_group(names, lambda name: name in FIRST_USES and kernel.warm_up(FIRST_USES[name]))
    remember_files()
    modules.hide()
    for name in imports:
        modules.load_warm_import(name)
    if imports:
        _refuse_threads()
    modules.show()
    process_state.forget_seed_of_numpy()
    remember_files()
    modules.hide()
    _warm_up(kernel, modules)
    # Frees what the imports have left. From then on the collector ignores the objects that remain: it would write to
    # each of them, and pages stay shared only while no kernel writes to them.
    gc.collect()
    gc.freeze()
    fill_partial_pools()
    return Loaded(kernel, modules, _mark_address(), library_folders())


def _refuse_threads():
    """Raises if an import has started a thread, which a fork would lack."""
    if len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError("an import has started a thread")


def _on_import(modules):
    # Happens once, with the import: user code may choose another seed and limit afterwards.
    if "numpy.random" in modules:
        process_state.reseed_numpy()
        blas_threads.apply_thread_limit()
    backends = modules.get("matplotlib.backends.registry")
    if backends is not None:
        # Forgets the backends of the template's packages: the sandbox may have more, such as that of `ipympl`.
        backends.backend_registry.__init__()
    SavedImages.see(modules)


def _warm_up(kernel, modules):
    """Runs cells as a fork does, imports included."""

    def run_all():
        for code in WARM_UP_CELLS:
            with modules.trial():
                kernel.warm_up(code)

    group_called_code(run_all)
    # The cache is full of names that only the imports have used. Replacing an entry writes to the page of its name.
    sys._clear_type_cache()
    for _ in range(WARM_UP_RUNS):
        run_all()


def library_folders():
    """Returns when each folder of libraries was last changed, which an installation in a sandbox does."""
    folders = {path: _changed(path) for path in sys.path if path.startswith(("/usr/lib/", "/usr/local/lib/"))}
    return folders | {sys.executable: _changed(sys.executable)}


def _changed(path):
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


def _mark_address():
    """Returns the address in the environment of this process where a kernel writes its mark."""
    import ctypes

    environment = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    index = 0
    while (address := environment[index]) is not None:
        if ctypes.string_at(address, len(KERNEL_MARK)) == KERNEL_MARK:
            return address + len(KERNEL_MARK)
        index += 1
    raise RuntimeError("the environment has no variable for the mark of a kernel")

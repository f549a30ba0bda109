# SPDX-License-Identifier: Apache-2.0
"""Uses the IPython of the guest folder where that of the root file system is missing or does not suffice."""

import importlib
import importlib.util
import os
import sys

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "ipython")
# The oldest IPython whose shell the kernel can extend, and the oldest Python of the fallback.
MIN_IPYTHON = (8, 5)
MIN_PYTHON = (3, 11)

_PARTS = ("IPython.core.interactiveshell", "IPython.core.autocall", "IPython.core.formatters", "traitlets.config")


def provide_ipython():
    """Makes IPython importable. Ends the process with an error message if neither IPython can be used.

    The fallback is the last folder on the path, so packages of the root file system come first. If they do not fit it,
    the fallback's own come first, only while IPython is loaded.
    """
    before = set(sys.modules)
    problem = _load()
    if not problem:
        return
    if sys.version_info < MIN_PYTHON or not os.path.isdir(FOLDER):
        version = ".".join(map(str, sys.version_info[:2]))
        needed = ".".join(map(str, MIN_IPYTHON))
        sys.exit(f"Python {version} needs IPython {needed} or newer ({problem}): pip install ipython")
    names = {name.partition(".")[0] for name in os.listdir(FOLDER)}
    for place in (len(sys.path), 0):
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in names:
                del sys.modules[name]
        sys.path.insert(place, FOLDER)
        importlib.invalidate_caches()
        problem = _load()
        sys.path.remove(FOLDER)
        if not problem:
            sys.path.append(FOLDER)
            return
    sys.exit(f"IPython cannot be loaded: {problem}")


def is_used():
    """Tells whether the kernel runs the fallback's IPython."""
    return FOLDER in sys.path


def _load():
    """Imports IPython. Returns the reason if that fails or IPython is too old, and None otherwise."""
    try:
        for name in _PARTS:
            importlib.import_module(name)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    version = importlib.import_module("IPython").version_info[:2]
    return None if version >= MIN_IPYTHON else f"IPython {'.'.join(map(str, version))} is too old"

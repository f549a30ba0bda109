# SPDX-License-Identifier: Apache-2.0
"""Puts the modules of `ipykernel` into `sys.modules`: many libraries look there to find out if they run in a notebook.

The kernel does not use the package. Its names that concern the running kernel are those of this one. All others are
those of the package, if the sandbox has it.
"""

import importlib.util
import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

# The version of ipykernel that the kernel is compared with.
VERSION = (7, 4, 0)


class NotebookModule(ModuleType):
    """A module of `ipykernel`, with names of this kernel."""

    _names: dict

    def __init__(self, name, names):
        """Takes functions that return the value of each name."""
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None, is_package=True)
        self.__dict__.update(_names=names, _installed=None)

    def __getattr__(self, name):
        if name in self._names:
            return self._names[name]()
        if name == "__path__":
            spec = self._find()
            return list(spec.submodule_search_locations or ()) if spec else []
        # Code that looks through all modules asks for such names, and must not load a package.
        is_special = name.startswith("__") and name.endswith("__")
        installed = None if is_special else self._load()
        if installed is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(installed, name)

    def _find(self):
        """Returns the spec of the module that the sandbox has, or None."""
        parent = self.__name__.rpartition(".")[0]
        return PathFinder.find_spec(self.__name__, sys.modules[parent].__path__ if parent else None)

    def _load(self):
        """Returns the module that the sandbox has, or None."""
        if self._installed is None:
            spec = self._find()
            if spec is None or spec.loader is None:
                return None
            installed = self._installed = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(installed)
        return self._installed


def announce(shell):
    """Makes the modules known, with the shell of the process."""

    def comm_class():
        # The session connects the package, which is there only if the user has installed it.
        assert shell.kernel is not None
        import comm  # pyright: ignore[reportMissingImports]

        return comm.create_comm

    modules: dict[str, dict[str, Any]] = {
        "ipykernel": {"version_info": lambda: VERSION, "__version__": lambda: ".".join(map(str, VERSION))},
        "ipykernel.comm": {"Comm": comm_class},
        "ipykernel.zmqshell": {"ZMQInteractiveShell": lambda: type(shell)},
    }
    for name, names in modules.items():
        module = sys.modules[name] = NotebookModule(name, names)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)

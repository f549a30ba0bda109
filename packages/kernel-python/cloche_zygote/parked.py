# SPDX-License-Identifier: Apache-2.0
"""Modules that are loaded already and come into sight when user code imports them.

An import finds what a fresh interpreter would find. So a module is only given out while the sandbox has, in the place
where Python looks first, the very file that it was loaded from; otherwise the sandbox's own is loaded.
"""

import importlib.util
import os
import sys
from contextlib import contextmanager
from importlib.machinery import PathFinder

from cloche_zygote.side_by_side import named_anew

_OWN_PACKAGE = "cloche_kernel"
_MATPLOTLIB_VARIABLES = ("MATPLOTLIBRC", "MPLBACKEND", "MPLCONFIGDIR")
_MATPLOTLIB_FILES = ("matplotlibrc", "~/.config/matplotlib/matplotlibrc", "~/.matplotlib/matplotlibrc")


class ParkedModules:
    """A finder, first in line once `install` was called. `on_shown` is told of what has come into sight, modules by name."""

    def __init__(self, on_shown):
        self._groups = []
        self._visible = set(sys.modules)
        self._on_shown = on_shown

    def load_group(self, names, rehearse):
        """Imports `names` and calls `rehearse` with each; what comes with that is one group, which builds on those before."""
        try:
            for name in names:
                importlib.import_module(name)
                rehearse(name)
        except ImportError:
            # This template has it not, or not whole.
            pass
        modules = {name: module for name, module in sys.modules.items() if name not in self._visible}
        self._visible.update(modules)
        if modules:
            self._groups.append(_Group(named_anew(modules)))

    def park(self):
        """Out of sight, all of them."""
        for group in self._groups:
            for name in group.modules:
                del sys.modules[name]

    def install(self):
        sys.meta_path.insert(0, self)

    @contextmanager
    def rehearsal(self):
        """Of imports of what is parked, which is out of sight again afterwards."""
        groups, visible, finders = self._groups[:], dict(sys.modules), sys.meta_path[:]
        contents = [dict(group.modules) for group in groups]
        self.install()
        yield
        sys.meta_path[:] = finders
        for name in [name for name in sys.modules if name not in visible]:
            del sys.modules[name]
        self._groups = groups
        for group, modules in zip(groups, contents, strict=True):
            group.modules = modules

    def find_spec(self, name, path=None, target=None):
        index = next((index for index, group in enumerate(self._groups) if name in group.modules), None)
        if index is None:
            return None
        group = self._groups[index]
        top = _top_of(name)
        if top in sys.stdlib_module_names:
            shown = [group.take(top)] if _is_intact(group.modules.get(top)) else None
        else:
            shown = self._take_groups(index)
        if shown is None:
            return None
        return importlib.util.spec_from_loader(name, _Loaded(shown, shown[-1][name], self._on_shown))

    def _take_groups(self, index):
        """The modules of those below it and of the group, or None when one of them is no longer the sandbox's own."""
        needed = self._groups[: index + 1]
        if not all(group.is_intact() for group in needed):
            # What builds on one that is replaced would mix two versions.
            del self._groups[index:]
            return None
        del self._groups[: index + 1]
        return [group.modules for group in needed]


class _Group:
    def __init__(self, modules):
        self.modules = modules
        self._tops = {_top_of(name) for name in modules} - set(sys.stdlib_module_names) - {_OWN_PACKAGE}

    def take(self, top):
        names = [name for name in self.modules if _top_of(name) == top]
        return {name: self.modules.pop(name) for name in names}

    def is_intact(self):
        if "matplotlib" in self._tops and _has_matplotlib_settings():
            return False
        return all(_is_intact(self.modules.get(top)) for top in self._tops)


class _Loaded:
    """The loader of a module that is loaded already."""

    def __init__(self, shown, module, on_shown):
        self._shown = shown
        self._module = module
        self._spec = module.__spec__
        self._on_shown = on_shown

    def create_module(self, spec):
        return self._module

    def exec_module(self, module):
        # The import has put its own there.
        module.__spec__ = self._spec
        for modules in self._shown:
            for name, with_it in modules.items():
                sys.modules.setdefault(name, with_it)
            self._on_shown(modules)


def _top_of(name):
    return name.partition(".")[0]


def _is_intact(module):
    """Whether the sandbox would load the same file, unchanged."""
    spec = getattr(module, "__spec__", None)
    if spec is None or spec.name != module.__name__ or "." in spec.name:
        # No module that is found by that name: made by a package for itself.
        return True
    found = PathFinder.find_spec(spec.name)
    if found is None or found.origin != spec.origin:
        return False
    if not spec.has_location:
        return list(found.submodule_search_locations or ()) == list(spec.submodule_search_locations or ())
    return _fingerprint(found.origin) == _fingerprints.get(spec.origin)


def _has_matplotlib_settings():
    """What it reads when it is loaded, and would have read differently here."""
    named = any(name in os.environ for name in _MATPLOTLIB_VARIABLES)
    return named or any(os.path.exists(os.path.expanduser(path)) for path in _MATPLOTLIB_FILES)


_fingerprints = {}


def remember_files():
    """In the zygote, where the files are those of the template."""
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        if spec is not None and spec.has_location:
            _fingerprints[spec.origin] = _fingerprint(spec.origin)


def _fingerprint(path):
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns

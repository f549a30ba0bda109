# SPDX-License-Identifier: Apache-2.0
"""Gives user code modules that the zygote has loaded, when it imports them.

An import has the same result as in a new interpreter: the preloaded module is used only if Python would load the same
unchanged file in this sandbox. Otherwise Python loads what it finds.

Worth it: importing pandas takes 5 ms instead of 500.
"""

import importlib
import importlib.util
import os
import sys
from contextlib import contextmanager
from importlib.machinery import PathFinder
from typing import Any

from cloche_zygote.fresh_extensions import FreshExtensions
from cloche_zygote.module_layout import with_adjacent_names

_OWN_PACKAGE = "cloche_kernel"
_MATPLOTLIB_VARIABLES = ("MATPLOTLIBRC", "MPLBACKEND", "MPLCONFIGDIR")
_MATPLOTLIB_FILES = ("matplotlibrc", "~/.config/matplotlib/matplotlibrc", "~/.matplotlib/matplotlibrc")


class PreloadedModules:
    """A finder on `sys.meta_path`. Calls `on_import` with the modules that an import puts into `sys.modules`."""

    def __init__(self, on_import):
        self._groups = []
        self._visible = set(sys.modules)
        self._on_import = on_import
        self._extensions = FreshExtensions()

    @property
    def library_names(self):
        """The names of all libraries in the groups."""
        return set().union(*(group.library_names for group in self._groups))

    def load_group(self, names, use):
        """Imports `names`, calls `use` with each, and makes a group of all new modules, which needs those before it."""
        try:
            for name in names:
                importlib.import_module(name)
                use(name)
        except ImportError:
            # The template does not have this library, or only a part of it.
            pass
        modules = {name: module for name, module in sys.modules.items() if name not in self._visible}
        self._visible.update(modules)
        if modules:
            self._groups.append(_Group(with_adjacent_names(modules), self._groups[:]))

    def load_warm_import(self, name):
        """Imports a module that the template names, while all groups are hidden. Raises what the import raises.

        All modules that the import brings are a group, which needs only the groups that the import has used: taking
        numpy, pandas and matplotlib would take longer than the import of most modules. Call `remember_files` before.
        """
        if name in self._visible:
            return
        groups, before = self._groups[:], set(sys.modules)
        with self.trial():
            importlib.import_module(name)
            needed = [group for group in groups if group not in self._groups and group.is_shown()]
            known = before.union(*(group.modules for group in needed))
            modules = {each: module for each, module in sys.modules.items() if each not in known}
        if modules:
            self._groups.append(_Group(with_adjacent_names(modules), needed))

    def hide(self):
        """Removes all groups from `sys.modules`."""
        for group in self._groups:
            for name in group.modules:
                sys.modules.pop(name, None)

    def show(self):
        """Puts all groups into `sys.modules`."""
        for group in self._groups:
            sys.modules.update(group.modules)

    def install(self):
        """Puts this finder first in line."""
        sys.meta_path.insert(0, self)

    @contextmanager
    def trial(self):
        """Lets code import the hidden modules, and hides them again afterwards."""
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
        """Returns a spec whose loader returns the preloaded module, or None if there is none that may be used."""
        index = next((index for index, group in enumerate(self._groups) if name in group.modules), None)
        if index is None:
            return self._extensions.find_spec(name, path)
        group = self._groups[index]
        top = _top_name(name)
        if top in sys.stdlib_module_names:
            imported = [group.take(top)] if _is_intact(group.modules.get(top)) else None
        else:
            imported = self._take_groups(index)
        if imported is None:
            return self._extensions.find_spec(name, path)
        loader: Any = _PreloadedLoader(imported, imported[-1][name], self._on_import)
        return importlib.util.spec_from_loader(name, loader)

    def _take_groups(self, index):
        """Takes the group and those that it needs, or returns None if the sandbox has another file of one of them."""
        wanted = self._groups[index]
        needed = [group for group in self._groups if group is wanted or group in wanted.needs]
        if not all(group.is_intact() for group in needed):
            # Later groups may depend on the replaced one, and would mix two versions.
            for group in self._groups[index:]:
                self._extensions.replace(group.modules.values())
            del self._groups[index:]
            return None
        self._groups = [group for group in self._groups if group not in needed]
        return [group.modules for group in needed]


class _Group:
    def __init__(self, modules, needs):
        self.modules = modules
        self.needs = needs
        top_names = {_top_name(name) for name in modules}
        self.library_names = top_names - set(sys.stdlib_module_names) - {_OWN_PACKAGE}

    def take(self, top):
        names = [name for name in self.modules if _top_name(name) == top]
        return {name: self.modules.pop(name) for name in names}

    def is_shown(self):
        """Tells whether `sys.modules` has the modules of this group, and not others that were loaded instead."""
        return all(sys.modules.get(name) is module for name, module in self.modules.items())

    def is_intact(self):
        if "matplotlib" in self.library_names and _has_matplotlib_settings():
            return False
        return all(_is_intact(self.modules.get(top)) for top in self.library_names)


class _PreloadedLoader:
    """Returns a preloaded module, and puts the others of its groups into `sys.modules`."""

    def __init__(self, imported, module, on_import):
        self._imported = imported
        self._module = module
        self._spec = module.__spec__
        self._on_import = on_import

    def create_module(self, spec):
        return self._module

    def exec_module(self, module):
        # The import has replaced the spec with that of this loader.
        module.__spec__ = self._spec
        for modules in self._imported:
            for name, other in modules.items():
                sys.modules.setdefault(name, other)
            self._on_import(modules)


def _top_name(name):
    return name.partition(".")[0]


def _is_intact(module):
    """Tells whether Python would load the same unchanged file in this sandbox."""
    spec = getattr(module, "__spec__", None)
    if spec is None or spec.name != module.__name__ or "." in spec.name:
        # A package has made this module itself, so Python would not look for a file.
        return True
    found = PathFinder.find_spec(spec.name)
    if found is None or found.origin != spec.origin:
        return False
    if not spec.has_location:
        return list(found.submodule_search_locations or ()) == list(spec.submodule_search_locations or ())
    return _fingerprint(found.origin) == _fingerprints.get(spec.origin)


def _has_matplotlib_settings():
    """Tells whether the sandbox has settings that matplotlib reads when it is loaded."""
    named = any(name in os.environ for name in _MATPLOTLIB_VARIABLES)
    return named or any(os.path.exists(os.path.expanduser(path)) for path in _MATPLOTLIB_FILES)


_fingerprints = {}


def remember_files():
    """Notes size and time of the files of all modules, in the zygote, which has the files of the template."""
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

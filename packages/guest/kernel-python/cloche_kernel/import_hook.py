# SPDX-License-Identifier: Apache-2.0
"""Changes a module when user code imports it: matplotlib, whose backend is set, and Pillow for E2B's clients.

The variable `MPLBACKEND` would reach programs that a cell starts, which cannot load this backend.
"""

import functools
import importlib.util
import sys

_PILLOW = "PIL.Image"
BACKEND = "module://matplotlib_inline.backend_inline"


class AfterImport:
    """A finder on `sys.meta_path` that removes itself with the first import of a module."""

    def __init__(self, module_name, change):
        self._module_name = module_name
        self._change = change

    def find_spec(self, name, path=None, target=None):
        """Returns the usual spec of the module, whose execution also changes it, and None for other modules."""
        if name != self._module_name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            self._change(module)

        spec.loader.exec_module = exec_module
        return spec


def after_import(module_name, change):
    """Calls `change` with the module once it has been imported."""
    sys.meta_path.insert(0, AfterImport(module_name, change))


def install():
    """Sets matplotlib's backend when it is imported."""
    after_import("matplotlib", _set_backend)


def _set_backend(matplotlib):
    for parameters in (matplotlib.rcParams, matplotlib.rcParamsDefault, matplotlib.rcParamsOrig):
        parameters["backend"] = BACKEND


class SavedImages:
    """Shows each image that code saves with Pillow to a path, as E2B does. Matplotlib saves pictures with Pillow."""

    are_shown = False

    @classmethod
    def show(cls):
        """Shows saved images from now on. The protocol of E2B calls it in the contexts of its clients."""
        cls.are_shown = True
        pillow = sys.modules.get(_PILLOW)
        if pillow:
            _show_when_saved(pillow)
        else:
            after_import(_PILLOW, _show_when_saved)

    @classmethod
    def see(cls, modules):
        """Looks for Pillow among modules that a zygote has loaded, which no finder sees."""
        if cls.are_shown and _PILLOW in modules:
            _show_when_saved(modules[_PILLOW])


def _show_when_saved(module):
    # Not at the top: each kernel imports this module, and few save images.
    from IPython.display import display

    save = module.Image.save

    @functools.wraps(save)
    def show_and_save(image, fp, *arguments, **options):
        if isinstance(fp, str):
            display(image)
        return save(image, fp, *arguments, **options)

    module.Image.save = show_and_save

# SPDX-License-Identifier: Apache-2.0
"""Tests of the modules of `ipykernel` that other libraries look for."""

import importlib
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

from one_kernel import kernel  # pyright: ignore[reportMissingImports]

from cloche_kernel.ipykernel_names import announce

shell = kernel._shell


class Notebooks(unittest.TestCase):
    """What libraries find that look for `ipykernel`; `displays.ipy` has the questions of libraries."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.package = pathlib.Path(folder.name) / "ipykernel"
        self.enterContext(mock.patch.object(sys, "path", [folder.name, *sys.path]))
        self.enterContext(mock.patch.dict(sys.modules))
        announce(shell)

    def install(self, files):
        self.package.mkdir()
        for name, text in files.items():
            (self.package / name).write_text(text)
        importlib.invalidate_caches()

    def test_are_known_by_modules_that_no_package_has_loaded(self):
        module = importlib.import_module("ipykernel.zmqshell")
        self.assertIsInstance(shell, module.ZMQInteractiveShell)
        self.assertFalse(hasattr(module, "ZMQDisplayPublisher"))
        with self.assertRaisesRegex(ModuleNotFoundError, "No module named 'ipykernel.kernelbase'"):
            importlib.import_module("ipykernel.kernelbase")

    def test_have_all_other_names_of_the_package_of_the_sandbox(self):
        self.install(
            {
                "__init__.py": "from .kernelbase import Kernel\n__version__ = 'other'\ndef embed(): return 'embedded'",
                "kernelbase.py": "from .zmqshell import ZMQInteractiveShell\nclass Kernel: shell = ZMQInteractiveShell",
                "zmqshell.py": "ZMQInteractiveShell = None\nclass ZMQDisplayPublisher: pass",
            }
        )
        package = importlib.import_module("ipykernel")
        self.assertEqual(package.embed(), "embedded")
        self.assertIs(package.Kernel.shell, type(shell))
        self.assertIs(importlib.import_module("ipykernel.kernelbase").Kernel, package.Kernel)
        publisher = importlib.import_module("ipykernel.zmqshell").ZMQDisplayPublisher
        self.assertIs(importlib.import_module("ipykernel.zmqshell").ZMQDisplayPublisher, publisher)
        self.assertNotEqual(package.__version__, "other")

    def test_load_no_package_where_code_looks_through_all_modules(self):
        self.install({"__init__.py": "raise RuntimeError('loaded')"})
        self.assertEqual([name for name in ("__file__", "__wrapped__") if hasattr(sys.modules["ipykernel"], name)], [])

# SPDX-License-Identifier: Apache-2.0
"""Tests of the hook that runs when user code imports a module."""

import importlib
import sys
import unittest
from unittest import mock

from cloche_kernel import import_hook


class ImportHook(unittest.TestCase):
    """What is done when user code imports a module."""

    def test_changes_the_module_once(self):
        changed = []
        with mock.patch.dict(sys.modules):
            sys.modules.pop("colorsys", None)
            import_hook.after_import("colorsys", changed.append)
            import colorsys

            importlib.reload(colorsys)
        self.assertEqual(changed, [colorsys])

# SPDX-License-Identifier: Apache-2.0
"""Tests of the parts of a zygote that need no sandbox."""

import importlib
import importlib.machinery
import importlib.util
import os
import pathlib
import random
import sys
import tempfile
import types
import unittest
import uuid
from typing import Any
from unittest import mock

from cloche_zygote import child, forked_kernel, preload, preloaded_modules, process_state
from cloche_zygote.code_layout import group_called_code
from cloche_zygote.forked_kernel import ContextAssignment
from cloche_zygote.memory_map import anonymous_ranges
from cloche_zygote.module_layout import adjacent_modules, with_adjacent_names
from cloche_zygote.preload import library_folders
from cloche_zygote.preloaded_modules import PreloadedModules, remember_files


class MemoryMaps(unittest.TestCase):
    """Results of `anonymous_ranges`."""

    def test_are_read_for_writable_memory_without_a_file(self):
        lines = [
            "1000-2000 rw-p 00000000 00:00 0                          [heap]\n",
            "3000-5000 rw-p 00000000 00:00 0 \n",
            "6000-7000 r--p 00000000 00:00 0 \n",
            "8000-9000 rw-p 00000000 08:01 12                         /usr/lib/libc.so.6\n",
            "a000-b000 rw-p 00000000 00:00 0                          [stack]\n",
        ]
        self.assertEqual(anonymous_ranges(lines), [(0x1000, 0x2000), (0x3000, 0x5000)])


class Layout(unittest.TestCase):
    """Code and modules that were moved."""

    def test_keeps_what_functions_do(self):
        names: dict[str, Any] = {}
        code = "def f(a, b=2):\n  def inner(c):\n    return a + b + c\n  return inner(1), f.__qualname__"
        exec(code, names)
        before = names["f"].__code__
        group_called_code(lambda: names["f"](3))
        self.assertIsNot(names["f"].__code__, before)
        self.assertEqual(names["f"](3), (6, "f"))

    def test_gives_modules_their_names_and_restores_the_import_system(self):
        with adjacent_modules(1):
            made = [importlib.util.module_from_spec(importlib.machinery.ModuleSpec(name, None)) for name in "ab"]
        self.assertEqual([module.__name__ for module in made], ["a", "b"])
        self.assertIsInstance(
            importlib.util.module_from_spec(importlib.machinery.ModuleSpec("c", None)), types.ModuleType
        )

    def test_copies_names_and_keeps_modules(self):
        modules = {"".join(["os", ".path"]): os.path}
        copied = with_adjacent_names(modules)
        self.assertEqual(copied, modules)
        self.assertIsNot(next(iter(copied)), next(iter(modules)))


class Modules(unittest.TestCase):
    """Preloaded modules."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(lambda: __import__("shutil").rmtree(self.folder))
        self.file = os.path.join(self.folder, "cloche_sample.py")
        self.write("value = 1")
        self.enterContext(mock.patch.object(sys, "path", [self.folder, *sys.path]))
        self.enterContext(mock.patch.object(sys, "meta_path", sys.meta_path[:]))
        self.addCleanup(sys.modules.pop, "cloche_sample", None)
        self.imported = []
        self.modules = PreloadedModules(self.imported.append)
        self.modules.load_group(("cloche_sample",), lambda name: None)
        self.loaded = sys.modules["cloche_sample"]
        remember_files()
        self.modules.hide()
        self.modules.install()

    def write(self, text, name="cloche_sample"):
        """Writes a module's file."""
        with open(os.path.join(self.folder, f"{name}.py"), "w") as file:
            file.write(text)
        importlib.invalidate_caches()

    def sample(self):
        """Imports the module."""
        return importlib.import_module("cloche_sample")

    def test_are_used_while_their_file_is_unchanged(self):
        self.assertNotIn("cloche_sample", sys.modules)
        self.assertIs(self.sample(), self.loaded)
        self.assertEqual([list(modules) for modules in self.imported], [["cloche_sample"]])
        self.assertEqual(self.loaded.__spec__ and self.loaded.__spec__.origin, self.file)

    def test_are_loaded_anew_when_their_file_has_changed(self):
        self.write("value = 'changed'")
        self.assertEqual(self.sample().value, "changed")
        self.assertEqual(self.imported, [])

    def test_are_loaded_anew_when_another_file_comes_first(self):
        other = os.path.join(self.folder, "first")
        os.mkdir(other)
        with open(os.path.join(other, "cloche_sample.py"), "w") as file:
            file.write("value = 'other'")
        sys.path.insert(0, other)
        self.assertEqual(self.sample().value, "other")

    def test_are_hidden_again_after_a_trial(self):
        finders = sys.meta_path[:]
        for _ in range(2):
            with self.modules.trial():
                self.assertIs(self.sample(), self.loaded)
            self.assertNotIn("cloche_sample", sys.modules)
        self.assertEqual(sys.meta_path, finders)

    def load_warm_import(self, name, text):
        """Loads a module as a zygote does, and hides it."""
        self.addCleanup(sys.modules.pop, name, None)
        sys.meta_path.remove(self.modules)
        self.write(text, name)
        self.modules.load_warm_import(name)
        self.assertNotIn(name, sys.modules)
        self.modules.show()
        loaded = sys.modules[name]
        remember_files()
        self.modules.hide()
        self.modules.install()
        self.imported.clear()
        return loaded

    def test_of_a_warm_import_come_without_groups_that_it_does_not_use(self):
        loaded = self.load_warm_import("cloche_warm", "value = 1")
        self.assertIs(importlib.import_module("cloche_warm"), loaded)
        self.assertEqual([list(modules) for modules in self.imported], [["cloche_warm"]])
        self.assertNotIn("cloche_sample", sys.modules)
        self.assertIs(self.sample(), self.loaded)

    def test_of_a_warm_import_come_with_the_groups_that_it_uses(self):
        loaded = self.load_warm_import("cloche_warm", "import cloche_sample")
        further = self.load_warm_import("cloche_further", "import cloche_warm")
        self.assertIs(loaded.cloche_sample, self.loaded)
        self.assertIs(importlib.import_module("cloche_further"), further)
        names = ["cloche_sample", "cloche_warm", "cloche_further"]
        self.assertEqual([list(modules) for modules in self.imported], [[name] for name in names])
        self.assertIs(further.cloche_warm, loaded)
        self.assertIs(sys.modules["cloche_warm"], loaded)

    def test_of_a_warm_import_are_loaded_anew_when_a_file_that_it_uses_has_changed(self):
        loaded = self.load_warm_import("cloche_warm", "import cloche_sample")
        self.write("value = 'changed'")
        anew = importlib.import_module("cloche_warm")
        self.assertIsNot(anew, loaded)
        self.assertEqual(anew.cloche_sample.value, "changed")

    def test_of_a_library_that_is_missing_are_none(self):
        self.modules.load_group(("cloche_no_such_library",), lambda name: None)
        self.assertRaises(ImportError, importlib.import_module, "cloche_no_such_library")

    def test_of_matplotlib_depend_on_its_settings(self):
        # Matplotlib itself sets one of its variables where it cannot write to the home.
        variables = preloaded_modules._MATPLOTLIB_VARIABLES
        others = {name: os.environ[name] for name in os.environ if name not in variables}
        with mock.patch.dict(os.environ, others, clear=True):
            self.assertFalse(preloaded_modules._has_matplotlib_settings())
            os.environ["MPLBACKEND"] = "agg"
            self.assertTrue(preloaded_modules._has_matplotlib_settings())


class Matplotlib(unittest.TestCase):
    """Backends of packages, which matplotlib looks for once."""

    def test_finds_a_backend_that_the_sandbox_has_beside_those_of_the_template(self):
        registry = importlib.import_module("matplotlib.backends.registry")
        self.assertIn("inline", registry.backend_registry.list_all())
        folder = self.enterContext(tempfile.TemporaryDirectory())
        metadata = pathlib.Path(folder) / "backend_of_a_test-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: backend-of-a-test\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text("[matplotlib.backend]\nof_a_test = backend_of_a_test\n")
        self.enterContext(mock.patch.object(sys, "path", [folder, *sys.path]))
        self.assertRaises(RuntimeError, registry.backend_registry.resolve_backend, "of_a_test")
        preload._on_import({registry.__name__: registry})
        self.assertEqual(registry.backend_registry.list_all().count("of_a_test"), 1)
        self.assertEqual(registry.backend_registry.list_all().count("inline"), 1)


class Assignments(unittest.TestCase):
    """Which contexts a forked kernel matches."""

    def setUp(self):
        self.enterContext(mock.patch.object(sys, "path", sys.path[:]))
        self.enterContext(mock.patch.object(sys, "meta_path", sys.meta_path[:]))
        self.home = tempfile.mkdtemp()
        self.addCleanup(lambda: __import__("shutil").rmtree(self.home))
        self.loaded = mock.Mock(folders=library_folders())
        self.loaded.modules.library_names = {"numpy", "six"}
        self.assignment = ContextAssignment(self.loaded)

    def mismatch(self, **env):
        """Returns the mismatch of a context with that environment."""
        self.assignment._env = {"HOME": self.home, **env}
        return self.assignment.mismatch()

    def user_folder(self):
        """Makes the user's folder of packages."""
        folder = forked_kernel._user_site({"HOME": self.home})
        os.makedirs(folder)
        return folder

    def test_match_with_variables_that_are_read_in_time(self):
        self.assertIsNone(self.mismatch(LANG="C", OPENBLAS_NUM_THREADS="2"))

    def test_do_not_match_with_variables_that_are_read_at_the_start(self):
        for name in ("PYTHONPATH", "LD_PRELOAD", "MALLOC_ARENA_MAX", "NPY_DISABLE_CPU_FEATURES"):
            self.assertEqual(self.mismatch(**{name: "x"}), f"{name} is set")

    def test_do_not_match_after_libraries_were_installed(self):
        self.loaded.folders = {}
        self.assertEqual(self.mismatch(), "libraries were installed")

    def test_do_not_match_with_another_version_of_a_preloaded_library(self):
        folder = self.user_folder()
        os.mkdir(os.path.join(folder, "requests"))
        self.assertIsNone(self.mismatch())
        with open(os.path.join(folder, "six.py"), "w"):
            self.assertEqual(self.mismatch(), "the user has another version of a preloaded library")

    def test_do_not_match_with_path_files_of_the_user(self):
        with open(os.path.join(self.user_folder(), "a.pth"), "w"):
            self.assertEqual(self.mismatch(), "the user's libraries have paths of their own")


class Children(unittest.TestCase):
    """A forked child."""

    def test_have_pipes_named_after_their_kernel(self):
        self.assertEqual(child.pipe_paths("/run/k", "k1"), ["/run/k/k1.stdout", "/run/k/k1.stderr"])

    def test_cannot_import_until_they_are_the_user(self):
        finders = sys.meta_path[:]
        with child.ImportsBlocked(), self.assertRaises(ImportError):
            importlib.import_module("cloche_no_such_module")
        self.assertEqual(sys.meta_path, finders)

    def test_do_not_share_seeds_and_names(self):
        drawn = []
        for _ in range(2):
            random.seed(1)
            tempfile.gettempdir()
            uuid.uuid1()
            process_state.reseed_generators(0)
            drawn.append(random.random())
            self.assertIsNone(tempfile.tempdir)
            self.assertIsNone(vars(uuid)["_node"])
        self.assertNotEqual(drawn[0], drawn[1])

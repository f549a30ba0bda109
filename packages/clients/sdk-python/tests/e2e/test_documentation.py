"""The examples of the docstrings, run with the service."""

import doctest
import importlib
import pkgutil
import unittest

from support import client, shared_sandbox

import cloche

CLIENT = importlib.import_module("cloche._sync")
MODULES = ["cloche", *(f"cloche._sync.{each.name}" for each in pkgutil.iter_modules(CLIENT.__path__))]
MODULES += [f"cloche._core.{name}" for name in ("errors", "rich", "webhook_messages")]


class Examples(unittest.TestCase):
    def test_do_what_they_say(self):
        names = {name: getattr(cloche, name) for name in cloche.__all__}
        tried = 0
        for name in MODULES:
            module = importlib.import_module(name)
            for test in doctest.DocTestFinder(exclude_empty=True).find(module, name, extraglobs=names):
                if not test.examples:
                    continue
                test.globs |= {"cloche": client(), "sandbox": shared_sandbox()}
                report: list[str] = []
                results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
                self.assertEqual(results.failed, 0, f"{test.name}: {''.join(report)}")
                tried += results.attempted
        self.assertGreater(tried, 30)

# SPDX-License-Identifier: Apache-2.0
"""
Runs the tests of a folder and writes a JSON list of their results.

Arguments: the file to write, and the folder, by default this one.
"""

import json
import os
import sys
import traceback
import unittest


class Report(unittest.TestResult):
    """Keeps one entry for each test, with the title that the name of its method spells."""

    def __init__(self):
        super().__init__()
        self.entries = {}

    def startTest(self, test):
        """Notes a test as passed until something else is known."""
        super().startTest(test)
        self._note(test, "passed")

    def addError(self, test, err):
        """Notes an error, also one outside of a test, such as a module that cannot be imported."""
        super().addError(test, err)
        self._note(test, "failed", self.errors[-1][1])

    def addFailure(self, test, err):
        """Notes a failed assertion."""
        super().addFailure(test, err)
        self._note(test, "failed", self.failures[-1][1])

    def addSubTest(self, test, subtest, err):
        """Notes a failed part of a test."""
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._note(test, "failed", f"{subtest}\n{''.join(traceback.format_exception(*err))}")

    def addSkip(self, test, reason):
        """Notes a skipped test with its reason."""
        super().addSkip(test, reason)
        self._note(test, "skipped", reason)

    def _note(self, test, status, details=""):
        *_, module, group, name = ("", "", *test.id().split("."))
        title = name.removeprefix("test_").replace("_", " ")
        self.entries[test.id()] = {
            "group": f"{module.removeprefix('test_')}: {group}",
            "title": title,
            "status": status,
            "details": details,
        }


report = Report()
folder = sys.argv[2] if len(sys.argv) > 2 else os.path.dirname(os.path.abspath(__file__))
unittest.defaultTestLoader.discover(folder).run(report)
with open(sys.argv[1], "w") as file:
    json.dump(list(report.entries.values()), file)

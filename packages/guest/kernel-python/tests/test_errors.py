# SPDX-License-Identifier: Apache-2.0
"""Tests of the errors that clients get for exceptions."""

import unittest

import IPython  # noqa: F401  # Its folder is left out of tracebacks.

from cloche_kernel.errors import MAX_MESSAGE_CHARACTERS, MAX_TRACEBACK_LINES, to_error


def error_of(code, name="<cell 1>"):
    """Returns the error of code that raises as a cell would."""
    try:
        exec(compile(code, name, "exec"), {})
    except BaseException as raised:
        return to_error(raised)
    raise AssertionError("nothing was raised")


class Errors(unittest.TestCase):
    """Results of `to_error`."""

    def test_have_name_and_message(self):
        error = error_of("{}['key']")
        self.assertEqual((error["name"], error["message"]), ("KeyError", "'key'"))

    def test_have_the_line_of_a_syntax_error(self):
        self.assertEqual(error_of("x = 1\ny = (")["message"], "'(' was never closed (line 2)")

    def test_show_the_frames_of_cells_only(self):
        traceback = error_of("def f():\n  1 / 0\nf()")["traceback"]
        self.assertEqual(traceback[0], "Traceback (most recent call last):")
        self.assertEqual(traceback[1], '  File "<cell 1>", line 3, in <module>')
        self.assertEqual(traceback[-1], "ZeroDivisionError: division by zero")
        self.assertNotIn("test_errors.py", "".join(traceback))

    def test_show_the_frames_of_causes_and_groups_of_cells_only(self):
        cause = "try:\n  1 / 0\nexcept Exception as e:\n  raise ValueError(2) from e"
        group = "try:\n  1 / 0\nexcept Exception as e:\n  raise ExceptionGroup('both', [e])"
        for code in (cause, group):
            text = "\n".join(error_of(code)["traceback"])
            self.assertIn("ZeroDivisionError", text)
            self.assertNotIn("test_errors.py", text)

    def test_survive_an_exception_that_cannot_be_shown(self):
        error = error_of("class E(Exception):\n  def __str__(self): return 1 / 0\nraise E")
        self.assertEqual(error["message"], "<the exception's text could not be made: ZeroDivisionError>")

    def test_survive_a_circle_of_causes(self):
        error = error_of("a, b = ValueError(1), ValueError(2)\na.__cause__, b.__cause__ = b, a\nraise a")
        self.assertEqual(error["message"], "1")

    def test_have_messages_and_lines_of_bounded_length(self):
        error = error_of(f"raise ValueError('x' * {MAX_MESSAGE_CHARACTERS + 7})")
        self.assertTrue(error["message"].endswith("x… (7 characters left out)"))
        self.assertLess(max(map(len, error["traceback"])), MAX_MESSAGE_CHARACTERS + 50)

    def test_have_tracebacks_of_bounded_length_with_both_ends(self):
        calls = "\n".join(f"def f{n}(): f{n + 1}()" for n in range(450))
        traceback = error_of(f"{calls}\ndef f450(): 1 / 0\nf0()")["traceback"]
        self.assertEqual(len(traceback), MAX_TRACEBACK_LINES + 1)
        self.assertIn("lines left out", traceback[MAX_TRACEBACK_LINES // 2])
        self.assertIn("in <module>", traceback[1])
        self.assertEqual(traceback[-1], "ZeroDivisionError: division by zero")

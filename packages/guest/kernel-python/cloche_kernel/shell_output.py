# SPDX-License-Identifier: Apache-2.0
"""Sends what cells show: the value of a cell, and outputs of `display()`."""

from __future__ import annotations

import builtins
import sys
import tokenize
from opcode import opmap
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher

from cloche_kernel.errors import CELL_PREFIX

_PRINT_EXPR = opmap.get("PRINT_EXPR")
_NO_VALUES = ("", "", "")


class ResultHook(DisplayHook):
    """Sends the value of a cell's last expression."""

    # The `Shell` of the context, whose module imports this one.
    shell: Any
    _last = _NO_VALUES
    # Plain attributes in place of traits, here and in the shell: a trait checks each value and looks for observers. The
    # four assignments were a quarter of the calls of a cell.
    exec_result = None

    def __call__(self, result=None):
        """Sends a value as IPython does, without prompt and history.

        Only the last three values are kept, as others would pile up for as long as the context lives.
        """
        if "_" in builtins.__dict__:
            self.check_for_underscore()
        if result is None or self.quiet():
            return
        self._is_active = True
        shell = self.shell
        forms, metadata = shell.display_formatter.format(result)
        if self.exec_result is not None:
            self.exec_result.result = result
        self.keep(result)
        if forms:
            # Code that calls the hook by itself goes on after it, so that its value is not the end of the cell.
            is_last = (
                shell.ast_node_interactivity == "last_expr"
                and shell.cells_within == 0
                and _shows_its_value(sys._getframe(1))
            )
            if shell.session is None:
                shell.publish("result", forms, is_last)
            else:
                shell.session.show_result(forms, metadata, is_last)
        self._is_active = False

    def quiet(self):
        """Tells whether the cell ends with a semicolon, which hides its value."""
        cell = self.shell.current_cell
        if ";" not in cell:
            return False
        try:
            return self.semicolon_at_end_of_expression(cell)
        except (SyntaxError, tokenize.TokenError):
            # A cell with IPython's own syntax, whose words Python cannot read.
            return cell.rstrip().endswith(";")

    def keep(self, value):
        """Names the last values `_`, `__` and `___`, unless user code uses these names itself."""
        names = self.shell.user_ns
        first, second, third = self._last
        self._last = (value, first, second)
        if (
            names.get("_", first) is first
            and names.get("__", second) is second
            and names.get("___", third) is third
            and "_" not in builtins.__dict__
        ):
            names["_"], names["__"], names["___"] = self._last

    def forget(self):
        """Forgets the last values."""
        self._last = _NO_VALUES


def _shows_its_value(frame):
    """Tells whether the frame is a cell that shows the value of its last expression."""
    code = frame.f_code
    return code.co_filename.startswith(CELL_PREFIX) and code.co_code[frame.f_lasti] == _PRINT_EXPR


class DisplaySender(DisplayPublisher):
    """Sends the outputs of `display()`."""

    # The `Shell` of the context, whose module imports this one.
    shell: Any

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **kwargs):
        """Sends one output."""
        if self.shell.session is None:
            self.shell.publish("display", data)
        else:
            self.shell.session.display(data, metadata, transient, update)

    def clear_output(self, wait=False):
        """Lets Jupyter's clients remove the outputs of the cell. For others an output that was sent stays."""
        if self.shell.session is not None:
            self.shell.session.send("iopub", "clear_output", {"wait": bool(wait)})

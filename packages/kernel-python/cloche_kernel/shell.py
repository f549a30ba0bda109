# SPDX-License-Identifier: Apache-2.0
"""IPython's shell without a terminal: no history, no files in the home folder, outputs sent to the agent."""

from __future__ import annotations

import builtins
import linecache
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from opcode import opmap
from typing import Any

from IPython.core.compilerop import CachingCompiler
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

from cloche_kernel.errors import CELL_PREFIX
from cloche_kernel.import_hook import BACKEND
from cloche_kernel.plain_cells import PlainCells
from cloche_kernel.plain_code import PlainCode
from cloche_kernel.plain_values import PlainValueFormatter
from cloche_kernel.tables import data_form

_PRINT_EXPR = opmap.get("PRINT_EXPR")


class CellCompiler(CachingCompiler):
    """Names cells by their number, so that a traceback shows `<cell 3>`."""

    def get_code_name(self, raw_code, transformed_code, number):
        """Returns the file name of a cell."""
        return f"{CELL_PREFIX}{number}>"

    def forget_cells(self):
        """Removes the sources of all cells, which tracebacks are made of."""
        for name in self._filename_map:
            linecache.cache.pop(name, None)
        self._filename_map.clear()


class ResultHook(DisplayHook):
    """Sends the value of a cell's last expression."""

    shell: Shell  # pyright: ignore[reportIncompatibleVariableOverride]
    # Plain attributes in place of traits, here and in the shell: a trait checks each value and looks for observers. The
    # four assignments were a quarter of the calls of a cell.
    exec_result = None

    def __call__(self, result=None):
        """Sends a value as IPython does, without prompt and history.

        Outputs are not kept, as they would pile up for as long as the context lives. A semicolon at the end of a cell
        does not hide the value, as IPython would look for it in the history.
        """
        if "_" in builtins.__dict__:
            self.check_for_underscore()
        if result is None:
            return
        self._is_active = True
        shell = self.shell
        forms, metadata = shell.display_formatter.format(result)
        if self.exec_result is not None:
            self.exec_result.result = result
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


def _shows_its_value(frame):
    """Tells whether the frame is a cell that shows the value of its last expression."""
    code = frame.f_code
    return code.co_filename.startswith(CELL_PREFIX) and code.co_code[frame.f_lasti] == _PRINT_EXPR


class DisplaySender(DisplayPublisher):
    """Sends the outputs of `display()`."""

    shell: Shell  # pyright: ignore[reportIncompatibleVariableOverride]

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


class Shell(InteractiveShell):
    """The IPython shell of a context."""

    publish: Callable[..., None]
    compile: CellCompiler
    plain_code: PlainCode
    plain_cells: PlainCells
    compiler_class = Type(CellCompiler)
    displayhook_class = Type(ResultHook)
    display_pub_class = Type(DisplaySender)
    last_execution_result = None
    last_execution_succeeded = True
    execution_count = 0
    # How many cells run that a cell has started by `run_cell`.
    cells_within = 0
    # The session of Jupyter's clients, while it answers a message.
    session = None
    Completer: Any = None

    @classmethod
    def create(cls, publish, run_coroutine):
        """Returns the one shell of the process.

        `publish(role, bundle, is_last)` sends an output; with `is_last` the cell ends right after it. `run_coroutine`
        runs cells that use `await`.
        """
        config = Config()
        config.HistoryManager.enabled = False
        config.HistoryManager.hist_file = ":memory:"
        shell = cls.instance(config=config, cache_size=0, colors="nocolor", banner1="")
        shell.publish = publish
        shell.loop_runner = run_coroutine
        shell.shown_exception = None
        shell.db = {}
        # The kernel counts cells, as IPython counts them in the history.
        shell.execution_count = 0
        _use_formatters(shell)
        shell.plain_code = PlainCode(shell)
        shell.plain_cells = PlainCells(shell, shell.plain_code)
        # Entered once: each cell that does so changes the built-in names, and Python drops what it has cached of them.
        shell.builtin_trap.__enter__()
        shell.display_trap.__enter__()
        for name in ("exit", "quit"):
            shell.user_ns[name] = shell.user_ns_hidden[name] = _exit
        # IPython prints this advice for a terminal when a cell exits.
        warnings.filterwarnings("ignore", message="To exit: use 'exit'")
        return shell

    def run(self, cell, silent=False):
        """Runs a cell as `run_cell` does, without a history. Returns IPython's result."""
        sys.displayhook = self.displayhook
        if self.plain_cells.takes(cell) and not silent:
            return self.plain_cells.run(cell)
        return super().run_cell(cell, store_history=False, silent=silent)

    def run_counted(self, cell, counts=True, silent=False):
        """Runs a cell of a client, and shows the figures that it leaves open. Returns its exception or None."""
        self.execution_count += counts
        self.shown_exception = None
        result = self.run(cell, silent)
        raised = (result.error_before_exec, result.error_in_exec, self.shown_exception)
        self.shown_exception = None
        publish_figures()
        return next((exception for exception in raised if exception is not None), None)

    def run_cell(self, *arguments, **options):
        """Runs a cell for user code, within the cell that calls this."""
        self.cells_within += 1
        try:
            return super().run_cell(*arguments, **options)
        finally:
            self.cells_within -= 1

    @contextmanager
    def warm_up(self):
        """Forgets the cells that run inside: their names, number, outcome, and the formatters found for classes."""
        names, hidden = dict(self.user_ns), dict(self.user_ns_hidden)
        printers = [(known, dict(known)) for known in self._known_printers()]
        yield
        for known, before in printers:
            known.clear()
            known.update(before)
        for namespace, before in ((self.user_ns, names), (self.user_ns_hidden, hidden)):
            namespace.clear()
            namespace.update(before)
        self.compile.forget_cells()
        self.last_execution_result, self.last_execution_succeeded = None, True
        self.execution_count = 0

    def _known_printers(self):
        display = self.display_formatter
        for formatter in (
            *display.formatters.values(),
            display.mimebundle_formatter,
            display.ipython_display_formatter,
        ):
            yield from (formatter.type_printers, formatter.deferred_printers)

    def init_ipython_dir(self, ipython_dir):
        """Does nothing: it would create files in the user's home folder."""

    def init_profile_dir(self, profile_dir):
        """Does nothing: it would create files in the user's home folder."""

    def init_display_formatter(self):
        """Sets the formatter of all values."""
        self.display_formatter = PlainValueFormatter(parent=self)
        self.configurables.append(self.display_formatter)  # pyright: ignore[reportArgumentType]

    def init_completer(self):
        """Does nothing: the first request for completions does it."""

    def transform_cell(self, raw_cell):
        """Returns the cell as Python code."""
        if not self.plain_code.is_plain(raw_cell):
            return super().transform_cell(raw_cell)
        return raw_cell if raw_cell.endswith("\n") else raw_cell + "\n"

    def should_run_async(self, raw_cell, *, transformed_cell=None, preprocessing_exc_tuple=None):
        """Tells whether a cell uses `await`. Only compiles it to find out if it contains the word or `async`."""
        if transformed_cell is not None and "await" not in transformed_cell and "async" not in transformed_cell:
            return False
        return super().should_run_async(
            raw_cell, transformed_cell=transformed_cell, preprocessing_exc_tuple=preprocessing_exc_tuple
        )

    def _tee(self, channel):  # pyright: ignore[reportIncompatibleMethodOverride]
        """Keeps no copy of what is printed, which would pile up for as long as the context lives."""
        return nullcontext()

    def enable_gui(self, gui=None):
        """Does nothing: there is no screen."""

    def enable_matplotlib(self, gui=None):
        """Answers `%matplotlib` with the one backend there is, whatever it asks for."""
        return "inline", BACKEND

    def showtraceback(self, exc_tuple=None, *args, **kwargs):
        """Keeps the exception and prints nothing. `%run` and other magics report exceptions only through this.

        Widgets report those of their callbacks, which do not end the cell.
        """
        if exc_tuple is not None and self.session is not None:
            self.session.show_error(exc_tuple[1])
            return
        self.shown_exception = (exc_tuple or sys.exc_info())[1]

    def showsyntaxerror(self, *args, **kwargs):
        """Keeps the exception and prints nothing."""
        self.shown_exception = sys.exc_info()[1]

    def showindentationerror(self):
        """Keeps the exception and prints nothing."""
        self.shown_exception = sys.exc_info()[1]

    def system(self, cmd):
        """Runs `!cmd` on the cell's streams. An interrupt kills all processes of the command."""
        child = subprocess.Popen(
            self.var_expand(cmd, depth=1), shell=True, executable="/bin/bash", stdin=subprocess.DEVNULL, process_group=0
        )
        try:
            self.user_ns["_exit_code"] = child.wait()
        except KeyboardInterrupt:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise


def publish_figures():
    """Shows the figures of matplotlib that are open, if user code has imported it."""
    backend = sys.modules.get("cloche_kernel.matplotlib_backend")
    if backend is not None:
        backend.publish_open_figures()


def _exit(code=None):
    """Ends the cell. The context and its variables stay."""
    raise SystemExit(code)


def _use_formatters(shell):
    bundles = shell.display_formatter.mimebundle_formatter
    for module in ("pandas", "pandas.core.frame"):
        bundles.for_type_by_name(module, "DataFrame", data_form)
    bundles.for_type_by_name("matplotlib.figure", "Figure", _figure_forms)


def _figure_forms(figure, include=None, exclude=None):
    from cloche_kernel.figures import figure_forms

    return figure_forms(figure)

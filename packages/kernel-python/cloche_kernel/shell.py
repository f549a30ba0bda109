# SPDX-License-Identifier: Apache-2.0
"""IPython's shell without a terminal: no history, no files in the home folder, outputs to the channel."""

import builtins
import linecache
import os
import signal
import subprocess
import sys
import warnings
from contextlib import contextmanager, nullcontext
from opcode import opmap

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
from cloche_kernel.plain_values import PlainValuesFirst
from cloche_kernel.tables import data_form


_PRINT_EXPR = opmap.get("PRINT_EXPR")


class CellCompiler(CachingCompiler):
    def get_code_name(self, raw_code, transformed_code, number):
        return f"{CELL_PREFIX}{number}>"

    def forget_cells(self):
        for name in self._filename_map:
            linecache.cache.pop(name, None)
        self._filename_map.clear()


class ResultHook(DisplayHook):
    """Sends the value of a cell's last expression."""

    # Plain attributes here and in the shell: as traits, which are checked and told to observers, the four assignments of
    # each cell were a quarter of all calls.
    exec_result = None

    def __call__(self, result=None):
        """
        Without what is off here. There is no prompt; a cell that ends in a semicolon is told from others by the history;
        outputs that were kept would pile up for as long as the context lives.
        """
        if "_" in builtins.__dict__:
            self.check_for_underscore()
        if result is None:
            return
        self._is_active = True
        shell = self.shell
        forms, _ = shell.display_formatter.format(result)
        if self.exec_result is not None:
            self.exec_result.result = result
        if forms:
            # Whatever code shows a value by itself may go on after it.
            is_last = (
                shell.ast_node_interactivity == "last_expr"
                and shell.cells_within == 0
                and _shows_its_value(sys._getframe(1))
            )
            shell.publish("result", forms, is_last)
        self._is_active = False


def _shows_its_value(frame):
    """Whether the frame is a cell's, at the instruction that shows the value of its last expression."""
    code = frame.f_code
    return code.co_filename.startswith(CELL_PREFIX) and code.co_code[frame.f_lasti] == _PRINT_EXPR


class DisplaySender(DisplayPublisher):
    """Sends what `display()` is given."""

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **kwargs):
        self.shell.publish("display", data)

    def clear_output(self, wait=False):
        """What was sent cannot be taken back."""


class Shell(InteractiveShell):
    compiler_class = Type(CellCompiler)
    displayhook_class = Type(ResultHook)
    display_pub_class = Type(DisplaySender)
    last_execution_result = None
    last_execution_succeeded = True
    execution_count = 0
    # Run by a cell, which may go on after their last expressions.
    cells_within = 0

    @classmethod
    def create(cls, publish, run_coroutine):
        """
        `publish(role, bundle, is_last)` sends an output; the cell does nothing after one that `is_last`.
        `run_coroutine` runs cells that await.
        """
        config = Config()
        config.HistoryManager.enabled = False
        config.HistoryManager.hist_file = ":memory:"
        shell = cls.instance(config=config, cache_size=0, colors="nocolor", banner1="")
        shell.publish = publish
        shell.loop_runner = run_coroutine
        shell.shown_exception = None
        shell.db = {}
        # The kernel counts: IPython's own count comes with a history that grows with every cell.
        shell.execution_count = 0
        _use_formatters(shell)
        shell.plain_code = PlainCode(shell)
        shell.plain_cells = PlainCells(shell, shell.plain_code)
        # For good, as cells are all that runs: entered for each of them, it changes the names that Python has built in, and
        # with them whatever code has learned about these.
        shell.builtin_trap.__enter__()
        shell.display_trap.__enter__()
        for name in ("exit", "quit"):
            shell.user_ns[name] = shell.user_ns_hidden[name] = _exit
        # IPython's advice for a terminal, printed whenever a cell exits.
        warnings.filterwarnings("ignore", message="To exit: use 'exit'")
        return shell

    def run(self, cell):
        """What `run_cell` does, without a history; its result."""
        sys.displayhook = self.displayhook
        if self.plain_cells.takes(cell):
            return self.plain_cells.run(cell)
        return super().run_cell(cell, store_history=False)

    def run_cell(self, *arguments, **options):
        """For code: a cell within the one that calls it."""
        self.cells_within += 1
        try:
            return super().run_cell(*arguments, **options)
        finally:
            self.cells_within -= 1

    @contextmanager
    def rehearsal(self):
        """Of cells that are forgotten, with their names, count and outcome, and which formatter was found for which class."""
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
        for formatter in (*display.formatters.values(), display.mimebundle_formatter, display.ipython_display_formatter):
            yield from (formatter.type_printers, formatter.deferred_printers)

    # A profile would be files in the user's home; completion has nobody to ask for it.
    def init_ipython_dir(self, ipython_dir):
        pass

    def init_profile_dir(self, profile_dir):
        pass

    def init_display_formatter(self):
        self.display_formatter = PlainValuesFirst(parent=self)
        self.configurables.append(self.display_formatter)

    def init_completer(self):
        pass

    def transform_cell(self, raw_cell):
        if not self.plain_code.is_plain(raw_cell):
            return super().transform_cell(raw_cell)
        return raw_cell if raw_cell.endswith("\n") else raw_cell + "\n"

    def should_run_async(self, raw_cell, *, transformed_cell=None, preprocessing_exc_tuple=None):
        """Does not compile a cell to see whether it awaits, when it lacks the words."""
        if transformed_cell is not None and "await" not in transformed_cell and "async" not in transformed_cell:
            return False
        return super().should_run_async(
            raw_cell, transformed_cell=transformed_cell, preprocessing_exc_tuple=preprocessing_exc_tuple
        )

    def _tee(self, channel):
        """Keeps nothing of what is printed: it would pile up for as long as the context lives."""
        return nullcontext()

    def enable_gui(self, gui=None):
        """There is no screen."""

    def enable_matplotlib(self, gui=None):
        """`%matplotlib inline` and its like: figures are published as it is, whatever is asked for."""
        return "inline", BACKEND

    def showtraceback(self, exc_tuple=None, *args, **kwargs):
        """Kept, not printed: `%run` and its like report an exception this way and no other."""
        self.shown_exception = (exc_tuple or sys.exc_info())[1]

    def showsyntaxerror(self, *args, **kwargs):
        self.shown_exception = sys.exc_info()[1]

    def showindentationerror(self):
        self.shown_exception = sys.exc_info()[1]

    def system(self, cmd):
        """`!cmd`: on the cell's own streams, with everything it started ended by an interrupt."""
        child = subprocess.Popen(
            self.var_expand(cmd, depth=1), shell=True, executable="/bin/bash", stdin=subprocess.DEVNULL, process_group=0
        )
        try:
            self.user_ns["_exit_code"] = child.wait()
        except KeyboardInterrupt:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise


def _exit(code=None):
    """Ends the cell; the context and its variables stay."""
    raise SystemExit(code)


def _use_formatters(shell):
    bundles = shell.display_formatter.mimebundle_formatter
    for module in ("pandas", "pandas.core.frame"):
        bundles.for_type_by_name(module, "DataFrame", data_form)
    bundles.for_type_by_name("matplotlib.figure", "Figure", _figure_forms)


def _figure_forms(figure, include=None, exclude=None):
    from cloche_kernel.figures import figure_forms

    return figure_forms(figure)

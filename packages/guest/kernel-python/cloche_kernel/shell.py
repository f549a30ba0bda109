# SPDX-License-Identifier: Apache-2.0
"""IPython's shell without a terminal: no history, no files in the home folder, outputs sent to the agent."""

from __future__ import annotations

import linecache
import sys
import warnings
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from typing import Any

from IPython.core.autocall import ExitAutocall
from IPython.core.compilerop import CachingCompiler
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Any as AnyTrait
from traitlets import Type, default
from traitlets.config import Config

from cloche_kernel.errors import CELL_PREFIX, print_error, since_cell
from cloche_kernel.ipykernel_names import announce
from cloche_kernel.older_ipython import allow_no_profile
from cloche_kernel.plain_cells import PlainCells
from cloche_kernel.plain_code import PlainCode
from cloche_kernel.plain_values import PlainValueFormatter
from cloche_kernel.shell_line import run_shell_line
from cloche_kernel.shell_output import DisplaySender, ResultHook
from cloche_kernel.shell_store import ShellStore
from cloche_kernel.tables import data_form


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


class CellExit(ExitAutocall):
    """What `exit` and `quit` are: they end the cell, or ask Jupyter's client to end. The variables stay."""

    def __call__(self, code=None):
        """Ends the cell, or tells the client to end after it."""
        shell: Any = self._ip
        if shell.session is None:
            raise SystemExit(code)
        shell.payload_manager.write_payload({"source": "ask_exit", "keepkernel": False})


class Shell(InteractiveShell):
    """The IPython shell of a context."""

    publish: Callable[..., None]
    compile: CellCompiler
    plain_code: PlainCode
    plain_cells: PlainCells
    compiler_class = Type(CellCompiler)
    displayhook: ResultHook
    displayhook_class = Type(ResultHook)
    display_pub_class = Type(DisplaySender)
    last_execution_result = None
    last_execution_succeeded = True
    execution_count = 0
    current_cell = ""
    # Returns the session of Jupyter's clients, which it makes at the first call.
    open_session: Callable[[], Any]
    # How many cells run that a cell has started by `run_cell`.
    cells_within = 0
    # The session of Jupyter's clients, while it answers a message.
    session = None
    Completer: Any = None
    # The attributes of ipykernel's `kernel` that other packages use. Some packages check that it is a trait.
    kernel = AnyTrait()

    @classmethod
    def create(cls, publish, run_coroutine):
        """Returns the one shell of the process.

        `publish(role, bundle, is_last)` sends an output; with `is_last` the cell ends right after it. `run_coroutine`
        runs cells that use `await`.
        """
        config = Config()
        # Libraries look for this section to find out whether they run in a notebook.
        config.IPKernelApp = Config()
        config.HistoryManager.enabled = False
        config.HistoryManager.hist_file = ":memory:"
        # Jupyter loads it, too.
        config.MagicsManager.lazy_magics = {"store": "IPython.extensions.storemagic"}
        allow_no_profile(cls)
        shell = cls.instance(config=config, cache_size=0, colors="nocolor", banner1="")
        shell.publish = publish
        shell.loop_runner = run_coroutine
        shell.shown_exception = None
        shell.db = ShellStore()
        # The kernel counts cells, as IPython counts them in the history.
        shell.execution_count = 0
        _use_formatters(shell)
        shell.plain_code = PlainCode(shell)
        shell.plain_cells = PlainCells(shell, shell.plain_code)
        # Entered once: each cell that does so changes the built-in names, and Python drops what it has cached of them.
        shell.builtin_trap.__enter__()
        shell.display_trap.__enter__()
        announce(shell)
        # IPython prints this advice for a terminal when a cell exits.
        warnings.filterwarnings("ignore", message="To exit: use 'exit'")
        return shell

    def run(self, cell, silent=False):
        """Runs a cell as `run_cell` does, without a history. Returns IPython's result."""
        sys.displayhook = self.displayhook
        self.current_cell = cell
        if self.plain_cells.takes(cell) and not silent:
            return self.plain_cells.run(cell)
        return super().run_cell(cell, store_history=False, silent=silent)

    def run_counted(self, cell, counts=True, silent=False):
        """Runs a cell of a client. Returns its exception or None."""
        self.execution_count += counts
        self.shown_exception = None
        result = self.run(cell, silent)
        raised = (result.error_before_exec, result.error_in_exec, self.shown_exception)
        self.shown_exception = None
        return next((exception for exception in raised if exception is not None), None)

    def run_cell(self, raw_cell, *arguments, **options):
        """Runs a cell for user code, within the cell that calls this."""
        outer, self.current_cell = self.current_cell, raw_cell
        self.cells_within += 1
        try:
            return super().run_cell(raw_cell, *arguments, **options)
        finally:
            self.cells_within -= 1
            self.current_cell = outer

    @default("kernel")
    def _kernel_default(self):
        return self.open_session()

    def get_parent(self):
        """Returns the request of a Jupyter client that is being answered."""
        return self.kernel.get_parent()

    @default("exiter")
    def _exiter_default(self):
        return CellExit(self)

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
        self.displayhook.forget()

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

    def set_next_input(self, s, replace=False):
        """Offers Jupyter's client the text of the next cell, as `%load` does."""
        if self.session is not None and self.payload_manager is not None:
            payload = {"source": "set_next_input", "text": s, "replace": replace}
            self.payload_manager.write_payload(payload)

    def enable_gui(self, gui=None):
        """Does nothing: there is no screen."""

    def showtraceback(self, exc_tuple=None, *args, **kwargs):
        """Keeps the exception and prints nothing. `%run` and other magics report exceptions only through this.

        Widgets report those of their callbacks, which do not end the cell.
        """
        if exc_tuple is not None and self.session is not None and not isinstance(exc_tuple[1], SyntaxError):
            self.session.show_error(exc_tuple[1])
            return
        exception = (exc_tuple or sys.exc_info())[1]
        if exception is not None:
            self._keep_exception(exception)
        elif getattr(sys, "last_value", None) is None:
            print("No traceback available to show.", file=sys.stderr)
        elif self.session is None:
            print_error(sys.last_value)
        else:
            self.session.show_error(sys.last_value)

    def showsyntaxerror(self, *args, **kwargs):
        """Keeps the exception and prints nothing."""
        self._keep_exception(sys.exc_info()[1])

    def showindentationerror(self):
        """Keeps the exception and prints nothing."""
        self._keep_exception(sys.exc_info()[1])

    def _keep_exception(self, exception):
        """Keeps an exception for the end of the cell, and where debuggers look for the last one."""
        self.shown_exception = exception
        sys.last_type, sys.last_value = type(exception), exception
        sys.last_traceback = since_cell(exception.__traceback__)
        if sys.version_info >= (3, 12):
            sys.last_exc = exception

    def system(self, cmd):
        """Runs `!cmd` on the cell's streams."""
        self.user_ns["_exit_code"] = run_shell_line(self.var_expand(cmd, depth=1))


# Libraries know a notebook by the class of its shell: by its name, its module, or the text of both.
Shell.__name__ = Shell.__qualname__ = "ZMQInteractiveShell"
Shell.__module__ = "ipykernel.zmqshell"


def _use_formatters(shell):
    bundles = shell.display_formatter.mimebundle_formatter
    for module in ("pandas", "pandas.core.frame"):
        bundles.for_type_by_name(module, "DataFrame", data_form)
    bundles.for_type_by_name("matplotlib.figure", "Figure", _figure_forms)
    # Until `matplotlib_inline` is loaded, which sets the formats of figures: another backend may have been chosen.
    shell.display_formatter.formatters["image/png"].for_type_by_name("matplotlib.figure", "Figure", _figure_picture)
    shell.events.register("post_execute", _close_shown_figures)


def _figure_forms(figure, include=None, exclude=None):
    from cloche_kernel.figures import figure_forms

    return figure_forms(figure)


def _figure_picture(figure):
    from IPython.core.pylabtools import print_figure

    return print_figure(figure, "png", base64=True)


def _close_shown_figures():
    if "matplotlib_inline.backend_inline" in sys.modules:
        from cloche_kernel.figures import close_shown_figures

        close_shown_figures()

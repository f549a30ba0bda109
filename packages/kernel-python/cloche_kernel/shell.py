# SPDX-License-Identifier: Apache-2.0
"""IPython's shell without a terminal: no history, no files in the home folder, outputs to the channel."""

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
from IPython.core.formatters import DisplayFormatter
from IPython.core.interactiveshell import InteractiveShell
from IPython.lib.pretty import _repr_pprint
from traitlets import Type
from traitlets.config import Config

from cloche_kernel.errors import CELL_PREFIX
from cloche_kernel.import_hook import BACKEND
from cloche_kernel.plain_code import PlainCode
from cloche_kernel.tables import data_form


_PRINT_EXPR = opmap.get("PRINT_EXPR")
_PLAIN = "text/plain"
_PLAIN_TYPES = frozenset((bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset))
_ONE_LINE_TYPES = frozenset((int, str))


class CellCompiler(CachingCompiler):
    def get_code_name(self, raw_code, transformed_code, number):
        return f"{CELL_PREFIX}{number}>"


class ResultHook(DisplayHook):
    """Sends the value of a cell's last expression."""

    # Plain attributes here and in the shell: as traits, which are checked and told to observers, the four assignments of
    # each cell were a quarter of all calls.
    exec_result = None

    def write_output_prompt(self):
        pass

    def quiet(self):
        """A cell that ends in a semicolon is told from others by the history, which is off."""
        return False

    def write_format_data(self, format_dict, md_dict=None):
        # Of the caller's caller: whatever code shows a value by itself may go on after it.
        is_last = self.shell.ast_node_interactivity == "last_expr" and _shows_its_value(sys._getframe(2))
        self.shell.publish("result", format_dict, is_last)

    def log_output(self, format_dict):
        """Nothing is kept: outputs would pile up for as long as the context lives."""

    def finish_displayhook(self):
        self._is_active = False


def _shows_its_value(frame):
    """Whether the frame is a cell's, at the instruction that shows the value of its last expression."""
    code = frame.f_code
    return code.co_filename.startswith(CELL_PREFIX) and code.co_code[frame.f_lasti] == _PRINT_EXPR


class PlainValuesFirst(DisplayFormatter):
    """Does not ask ten formatters for forms of a number or a text, which have but one."""

    def format(self, obj, include=None, exclude=None):
        kind = type(obj)
        if kind in _PLAIN_TYPES and include is None and exclude is None and not self._has_forms(kind):
            text = self._text_of(obj, kind)
            return ({} if text is None else {_PLAIN: text}), {}
        return super().format(obj, include, exclude)

    def _text_of(self, obj, kind):
        formatter = self.formatters[_PLAIN]
        if kind in _ONE_LINE_TYPES and formatter.pprint and formatter.type_printers.get(kind) is _repr_pprint:
            try:
                # What that printer makes of a text that is one line, without what lays out several.
                return repr(obj)
            except ValueError:
                # A number of too many digits: it is told as ever.
                pass
        return formatter(obj)

    def _has_forms(self, kind):
        """Whether anybody has registered a formatter for it."""
        others = [formatter for name, formatter in self.formatters.items() if name != _PLAIN]
        for formatter in (*others, self.mimebundle_formatter, self.ipython_display_formatter):
            # As the attributes, which are found by four calls each once they have values.
            values = formatter._trait_values
            printers, deferred = values.get("type_printers"), values.get("deferred_printers")
            if printers is None or deferred is None:
                printers, deferred = formatter.type_printers, formatter.deferred_printers
            if not printers and not deferred:
                continue
            for base in kind.__mro__:
                if base in printers or ("builtins", base.__name__) in deferred:
                    return True
        return False


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
        for name in ("exit", "quit"):
            shell.user_ns[name] = shell.user_ns_hidden[name] = _exit
        # IPython's advice for a terminal, printed whenever a cell exits.
        warnings.filterwarnings("ignore", message="To exit: use 'exit'")
        return shell

    @contextmanager
    def rehearsal(self):
        """Of cells whose names and count are forgotten, and which formatter was found for which class."""
        names, hidden = dict(self.user_ns), dict(self.user_ns_hidden)
        printers = [(known, dict(known)) for known in self._known_printers()]
        yield
        for known, before in printers:
            known.clear()
            known.update(before)
        for namespace, before in ((self.user_ns, names), (self.user_ns_hidden, hidden)):
            namespace.clear()
            namespace.update(before)
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

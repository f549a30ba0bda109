# SPDX-License-Identifier: Apache-2.0
"""Runs plain cells with the same effects as IPython's `run_cell`, without the steps that do not concern them.

Worth it: without this module a run of `1+1` takes the kernel 120 µs more than 350 (1,500 pairs in turns, cold caches).
"""

import ast
import bdb
import re
import sys

from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

# A cell that awaits needs the event loop; IPython's compiler keeps imports from `__future__` for later cells.
_NOT_PLAIN = re.compile("await|async|__future__")
# A cell without any of these is one simple statement.
_MAYBE_SEVERAL = re.compile(r"[;:]|\n.")
# Notebooks set `InteractiveShell.ast_node_interactivity` of the class, which replaces the trait.
_INTERACTIVITY = vars(InteractiveShell)["ast_node_interactivity"]
_NOT_COMPILED = (OverflowError, SyntaxError, ValueError, TypeError, MemoryError)


class PlainCells:
    """Tells which cells are plain, and runs them."""

    def __init__(self, shell, plain_code):
        self._shell = shell
        self._is_plain = plain_code.is_plain
        # The values behind IPython's traits: reading a trait makes several calls. Reading one here stores its default.
        self._settings = shell._trait_values
        _ = shell.ast_transformers, shell.ast_node_interactivity

    def takes(self, cell):
        """Tells whether `run` has the same effects on this cell as IPython's `run_cell`."""
        shell, settings = self._shell, self._settings
        return (
            self._is_plain(cell)
            and not _NOT_PLAIN.search(cell)
            and settings.get("ast_transformers") == []
            and settings.get("ast_node_interactivity") == "last_expr"
            and vars(InteractiveShell)["ast_node_interactivity"] is _INTERACTIVITY
            and shell.trio_runner is None
            and shell.custom_exceptions == ()
            and not shell.logger.log_active
        )

    def run(self, cell):
        """Runs a cell that `takes` accepts. Returns the same result as `run_cell`."""
        shell = self._shell
        source = cell if cell.endswith("\n") else cell + "\n"
        info = ExecutionInfo(cell, False, False, True, None)
        info.transformed_cell = source
        result = ExecutionResult(info)
        result.execution_count = shell.execution_count
        try:
            self._trigger("pre_execute")
            self._trigger("pre_run_cell", info)
            shell.displayhook.exec_result = result
            shell.last_execution_succeeded = self._run(source, result)
            shell.last_execution_result = result
            shell.displayhook.exec_result = None
        finally:
            self._trigger("post_execute")
            self._trigger("post_run_cell", result)
        return result

    def _trigger(self, event, *arguments):
        events = self._shell.events
        if events.callbacks[event]:
            events.trigger(event, *arguments)

    def _run(self, source, result):
        """Runs the cell and returns whether it succeeded."""
        shell = self._shell
        compiler = shell.compile
        name = compiler.cache(source, result.execution_count, raw_code=source)
        code = _single_statement(source, name, compiler.flags)
        if code is not None:
            return self._execute(code, result)
        try:
            statements = compiler.ast_parse(source, filename=name).body
        except IndentationError as error:
            result.error_before_exec = error
            shell.showindentationerror()
            return False
        except _NOT_COMPILED as error:
            result.error_before_exec = error
            shell.showsyntaxerror()
            return False
        except RecursionError as error:
            # The expression is nested too deeply for the parser. IPython reports it as raised by the cell.
            result.error_in_exec = error
            shell.showtraceback(running_compiled_code=True)
            return False
        try:
            # A statement is compiled after those before it have run, as in IPython: so late does its error show.
            for statement in statements:
                shows = statement is statements[-1] and isinstance(statement, ast.Expr)
                tree = ast.Interactive([statement]) if shows else ast.Module([statement], [])
                code = compile(tree, name, "single" if shows else "exec", compiler.flags, True)
                if not self._execute(code, result):
                    return False
        except BaseException as error:
            result.error_before_exec = error
            shell.showtraceback()
            return False
        return True

    def _execute(self, code, result):
        shell = self._shell
        before = shell.sys_excepthook = sys.excepthook
        sys.excepthook = shell.excepthook
        try:
            try:
                exec(code, shell.user_global_ns, shell.user_ns)
            finally:
                sys.excepthook = before
        except bdb.BdbQuit as error:
            result.error_in_exec = error
            return False
        except BaseException as error:
            result.error_in_exec = error
            # The cell itself may have chosen how exceptions are shown.
            if isinstance(error, shell.custom_exceptions):
                shell.CustomTB(*sys.exc_info())
            else:
                shell.showtraceback(running_compiled_code=True)
            return False
        return True


def _single_statement(source, name, flags):
    """Compiles a cell of one statement without a syntax tree. Returns None if there may be several, or an error."""
    if _MAYBE_SEVERAL.search(source):
        return None
    try:
        return compile(source, name, "single", flags, True)
    except (*_NOT_COMPILED, RecursionError):
        # The other way compiles it again and reports the error as IPython does.
        return None

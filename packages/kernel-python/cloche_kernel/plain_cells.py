# SPDX-License-Identifier: Apache-2.0
"""Runs plain cells in IPython's manner, without the two thirds of its way that make no difference to them."""

import ast
import bdb
import re
import sys

from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult

# What awaits is run on an event loop; an import from the future is remembered by IPython's compiler.
_NOT_PLAIN = re.compile("await|async|__future__")
# A cell with none of these is one statement, and shows a value only if it is an expression by itself.
_MAYBE_SEVERAL = re.compile(r"[;:]|\n.")
_NOT_COMPILED = (OverflowError, SyntaxError, ValueError, TypeError, MemoryError)


class PlainCells:
    def __init__(self, shell, plain_code):
        self._shell = shell
        self._is_plain = plain_code.is_plain
        # Traits, past what reading an attribute of that kind does; those read here are among them from now on.
        self._settings = shell._trait_values
        _ = shell.ast_transformers, shell.ast_node_interactivity

    def takes(self, cell):
        """Whether `run` does with it all that IPython would."""
        shell, settings = self._shell, self._settings
        return (
            self._is_plain(cell)
            and not _NOT_PLAIN.search(cell)
            and settings.get("ast_transformers") == []
            and settings.get("ast_node_interactivity") == "last_expr"
            and shell.trio_runner is None
            and shell.custom_exceptions == ()
            and not shell.logger.log_active
        )

    def run(self, cell):
        """As `run_cell` does, with the same result, for a cell that it takes."""
        shell = self._shell
        source = cell if cell.endswith("\n") else cell + "\n"
        info = ExecutionInfo(cell, False, False, True, None)
        info.transformed_cell = source
        result = ExecutionResult(info)
        result.execution_count = shell.execution_count
        try:
            self._tell("pre_execute")
            self._tell("pre_run_cell", info)
            shell.displayhook.exec_result = result
            shell.last_execution_succeeded = self._run(source, result)
            shell.last_execution_result = result
            shell.displayhook.exec_result = None
        finally:
            self._tell("post_execute")
            self._tell("post_run_cell", result)
        return result

    def _tell(self, event, *arguments):
        events = self._shell.events
        if events.callbacks[event]:
            events.trigger(event, *arguments)

    def _run(self, source, result):
        """Whether all of it went well."""
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
            # An expression too deep for Python; IPython takes it for one that was raised.
            result.error_in_exec = error
            shell.showtraceback(running_compiled_code=True)
            return False
        try:
            # Each is compiled when those before it have run: what is wrong with it then shows only now.
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
            shell.showtraceback(running_compiled_code=True)
            return False
        return True


def _single_statement(source, name, flags):
    """Compiled without a tree in between; None for what may be more than one, or is none."""
    if _MAYBE_SEVERAL.search(source):
        return None
    try:
        return compile(source, name, "single", flags, True)
    except (*_NOT_COMPILED, RecursionError):
        # Told of in the words for a cell.
        return None

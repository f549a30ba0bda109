# SPDX-License-Identifier: Apache-2.0
"""Which cells hold nothing of IPython's own syntax, so that none of its transformations need look at them."""

import re

from IPython.core.autocall import IPyAutocall
from IPython.core.macro import Macro

# Magics, commands and help; prompts that were copied along; indentation before all, and lines of nothing else; the marks
# that begin a line; and what ends a line besides a line feed. More than need be: a cell that has one of them is
# transformed as ever.
_SPECIAL = re.compile(
    r"[%!?]|>>>|\.\.\.|In \[|\A\s|^[ \t]+$|^\s*[,;/]|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", re.MULTILINE
)
_FIRST_WORD = re.compile(r"[\w.*]*")


class PlainCode:
    """Made while nobody has added a transformation: with others in place no cell is plain."""

    def __init__(self, shell):
        self._shell = shell
        _ = shell.input_transformers_post, shell.autocall, shell.input_transformer_manager, shell.prefilter_manager
        # All of these are traits, and read here past what reading one does.
        self._settings = shell._trait_values
        self._own = [list(transformations) for transformations in self._transformations()]

    def is_plain(self, cell):
        """Whether IPython would take the cell as it is."""
        if not cell or _SPECIAL.search(cell) or self._settings.get("input_transformers_post"):
            return False
        return self._own == self._transformations() and ("\n" in cell[:-1] or not self._begins_with_command(cell))

    def _begins_with_command(self, line):
        """A line by itself may be a magic without its sign, or something that is called by its name alone."""
        shell = self._shell
        word = _FIRST_WORD.match(line).group()
        if not word or word.isdigit():
            return False
        return (
            self._settings.get("autocall")
            or isinstance(shell.user_ns.get(word), (Macro, IPyAutocall))
            or shell.find_magic(word) is not None
        )

    def _transformations(self):
        manager, dynamic = self._settings["input_transformer_manager"], self._settings["prefilter_manager"]
        return [
            manager.cleanup_transforms,
            manager.line_transforms,
            manager.token_transformers,
            dynamic.transformers,
            dynamic.checkers,
        ]

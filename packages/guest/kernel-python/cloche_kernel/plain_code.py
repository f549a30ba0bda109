# SPDX-License-Identifier: Apache-2.0
"""Finds cells without any of IPython's own syntax, which need none of its transformations.

Worth it: without this module a run of `1+1` takes the kernel 60 µs more than 350 (1,500 pairs in turns, cold caches).
"""

import re

from IPython.core.autocall import IPyAutocall
from IPython.core.macro import Macro

# Magics, shell commands and help; copied prompts; indentation of the first line, and lines of white space; marks at the
# beginning of a line; and ends of lines other than a line feed. It also matches some plain cells, which IPython then
# transforms as usual.
_SPECIAL = re.compile(
    r"[%!?]|>>>|\.\.\.|In \[|\A\s|^[ \t]+$|^\s*[,;/]|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", re.MULTILINE
)
_FIRST_WORD = re.compile(r"[\w.*]*")


class PlainCode:
    """Recognizes plain cells, as long as nothing has changed the transformations that were there when it was made."""

    def __init__(self, shell):
        self._shell = shell
        _ = shell.input_transformers_post, shell.autocall, shell.input_transformer_manager, shell.prefilter_manager
        # The values behind IPython's traits: reading a trait makes several calls.
        self._settings = shell._trait_values
        self._own = [list(transformations) for transformations in self._transformations()]

    def is_plain(self, cell):
        """Tells whether IPython would leave the cell as it is."""
        if not cell or _SPECIAL.search(cell) or self._settings.get("input_transformers_post"):
            return False
        return self._own == self._transformations() and ("\n" in cell[:-1] or not self._begins_with_command(cell))

    def _begins_with_command(self, line):
        """Tells whether a line begins with a magic without its `%`, a macro, or a name that is called by itself."""
        shell = self._shell
        match = _FIRST_WORD.match(line)
        word = match.group() if match else ""
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

# SPDX-License-Identifier: Apache-2.0
"""What of IPython's own syntax a cell may hold, seen before its tokens are."""

import re

from IPython.core.inputtransformer2 import TransformerManager

# Magics, commands and help have one of the first anywhere; the others begin a line.
_SPECIAL = re.compile(r"[%!?]|^\s*[,;/]", re.MULTILINE)


class PlainCodeFirst(TransformerManager):
    """Does not cut code into tokens that can have nothing to replace, unless somebody looks for more in them."""

    def __init__(self):
        super().__init__()
        self._own = list(self.token_transformers)

    def do_token_transforms(self, lines):
        if self.token_transformers == self._own and not any(map(_SPECIAL.search, lines)):
            return lines
        return super().do_token_transforms(lines)

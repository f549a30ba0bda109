# SPDX-License-Identifier: Apache-2.0
"""The latest cells of a context that Jupyter's clients have sent."""

from collections import deque
from fnmatch import fnmatchcase

MAX_CELLS = 1000
MAX_CHARACTERS = 4 * 1024 * 1024

# IPython numbers the sessions of a history; a context has one. Zero is how requests name the current session.
_SESSION = 1


class CellHistory:
    """Keeps the latest cells, within `MAX_CELLS` and `MAX_CHARACTERS`. Keeps no outputs."""

    def __init__(self):
        self._cells = deque()
        self._characters = 0

    def add(self, number, code):
        """Adds a cell and forgets the oldest ones that exceed the limits."""
        self._cells.append((number, code))
        self._characters += len(code)
        while len(self._cells) > MAX_CELLS or self._characters > MAX_CHARACTERS:
            _, oldest = self._cells.popleft()
            self._characters -= len(oldest)

    def find(self, request):
        """Returns the entries that a `history_request` asks for, in the form of its reply."""
        access = request.get("hist_access_type")
        count = _integer(request.get("n"), MAX_CELLS)
        if access == "range":
            cells = self._range(request)
        elif access == "search":
            cells = self._search(str(request.get("pattern") or "*"), bool(request.get("unique")))[-count:]
        else:
            cells = list(self._cells)[-count:]
        with_output = bool(request.get("output"))
        return [[_SESSION, number, [code, None] if with_output else code] for number, code in cells]

    def _range(self, request):
        if request.get("session") not in (0, None, _SESSION):
            return []
        start, stop = _integer(request.get("start"), 1), _integer(request.get("stop"), None)
        return [cell for cell in self._cells if start <= cell[0] and (stop is None or cell[0] < stop)]

    def _search(self, pattern, is_unique):
        found = [cell for cell in self._cells if fnmatchcase(cell[1], pattern)]
        if is_unique:
            found = list({code: (number, code) for number, code in found}.values())
        return found


def _integer(value, otherwise):
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else otherwise

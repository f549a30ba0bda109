# SPDX-License-Identifier: Apache-2.0
"""A DataFrame as data: `{ columns, rows, rowCount }`, bounded."""

from cloche_kernel.forms import json_safe

DATA_MIME_TYPE = "application/vnd.cloche.data+json"
MAX_ROWS = 1000
MAX_COLUMNS = 200
MAX_CELL_CHARACTERS = 4096
# All texts of a table together; rows that would go beyond are left out.
MAX_CHARACTERS = 1024 * 1024


def data_form(frame, include=None, exclude=None):
    """A MIME bundle formatter for IPython."""
    head = frame.iloc[:MAX_ROWS, :MAX_COLUMNS]
    columns = [
        {"name": _label(name), "type": str(dtype)} for name, dtype in zip(head.columns, head.dtypes, strict=True)
    ]
    return {DATA_MIME_TYPE: {"columns": columns, "rows": list(_rows(head)), "rowCount": len(frame)}}


def _rows(frame):
    left = MAX_CHARACTERS
    for values in frame.itertuples(index=False, name=None):
        row = [_cell(value) for value in values]
        left -= sum(len(value) for value in row if isinstance(value, str))
        if left < 0:
            return
        yield row


def _label(name):
    return " / ".join(str(part) for part in name) if isinstance(name, tuple) else str(name)


def _cell(value):
    # NaT and NA are neither finite nor numbers; both are unequal to themselves or refuse to say.
    if type(value).__name__ in ("NaTType", "NAType"):
        return None
    safe = json_safe(value)
    if isinstance(safe, (list, dict)):
        safe = str(safe)
    if isinstance(safe, str) and len(safe) > MAX_CELL_CHARACTERS:
        return safe[:MAX_CELL_CHARACTERS] + "…"
    return safe

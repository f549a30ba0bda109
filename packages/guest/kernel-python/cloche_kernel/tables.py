# SPDX-License-Identifier: Apache-2.0
"""Describes a DataFrame as data: `{ columns, rows, rowCount }`, within bounds."""

from itertools import islice

from cloche_kernel.forms import json_safe

DATA_MIME_TYPE = "application/vnd.cloche.data+json"
MAX_ROWS = 1000
MAX_COLUMNS = 200
MAX_CELL_CHARACTERS = 4096
# Limit for all texts of a table together. Rows that do not fit are left out.
MAX_CHARACTERS = 1024 * 1024


def data_form(frame, include=None, exclude=None):
    """Returns the table as a MIME bundle. IPython calls it as a formatter."""
    head = frame if len(frame) <= MAX_ROWS else frame.iloc[:MAX_ROWS]
    # `iloc`, `dtypes` and `itertuples` do the same with several times as much code, all of it new to a first run.
    columns = list(islice(head.items(), MAX_COLUMNS))
    described = [{"name": _label(name), "type": str(column.dtype)} for name, column in columns]
    rows = list(_rows([column for _, column in columns])) if columns else [[] for _ in range(len(head))]
    return {DATA_MIME_TYPE: {"columns": described, "rows": rows, "rowCount": len(frame)}}


def _rows(columns):
    left = MAX_CHARACTERS
    for values in zip(*columns, strict=True):
        row = [_cell(value) for value in values]
        left -= sum(len(value) for value in row if isinstance(value, str))
        if left < 0:
            return
        yield row


def _label(name):
    return " / ".join(str(part) for part in name) if isinstance(name, tuple) else str(name)


def _cell(value):
    # NaT and NA have no form in JSON. They are found by name, as importing pandas only to compare with them is slow.
    if type(value).__name__ in ("NaTType", "NAType"):
        return None
    safe = json_safe(value)
    if isinstance(safe, (list, dict)):
        safe = str(safe)
    if isinstance(safe, str) and len(safe) > MAX_CELL_CHARACTERS:
        return safe[:MAX_CELL_CHARACTERS] + "…"
    return safe

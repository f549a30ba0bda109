# SPDX-License-Identifier: Apache-2.0
"""Tests of tables as data."""

import json
import math
import unittest
from unittest import mock

import pandas

from cloche_kernel import tables
from cloche_kernel.tables import DATA_MIME_TYPE, MAX_CELL_CHARACTERS, MAX_COLUMNS, MAX_ROWS, data_form


def data_of(frame):
    """Returns the data of a table, as any parser of JSON reads it."""
    return json.loads(json.dumps(data_form(frame)[DATA_MIME_TYPE], allow_nan=False))


class Tables(unittest.TestCase):
    """Results of `data_form`."""

    def test_have_columns_with_types_and_rows(self):
        data = data_of(pandas.DataFrame({"n": [1, 2], "f": [0.5, math.nan]}))
        self.assertEqual(data["columns"], [{"name": "n", "type": "int64"}, {"name": "f", "type": "float64"}])
        self.assertEqual((data["rows"], data["rowCount"]), ([[1, 0.5], [2, None]], 2))

    def test_have_null_for_missing_values_of_any_kind(self):
        frame = pandas.DataFrame({"a": [None, pandas.NaT, pandas.NA, math.nan]}, dtype=object)
        self.assertEqual(data_of(frame)["rows"], [[None]] * 4)

    def test_have_texts_for_dates_and_collections(self):
        frame = pandas.DataFrame({"d": [pandas.Timestamp("2026-01-02")], "l": [[1, 2]]})
        self.assertEqual(data_of(frame)["rows"], [["2026-01-02 00:00:00", "[1, 2]"]])

    def test_join_the_levels_of_a_column_name(self):
        frame = pandas.DataFrame([[1]], columns=pandas.MultiIndex.from_tuples([("a", 2)]))
        self.assertEqual(data_of(frame)["columns"][0]["name"], "a / 2")

    def test_have_a_bounded_number_of_rows_and_columns(self):
        data = data_of(pandas.DataFrame({f"c{n}": range(MAX_ROWS + 5) for n in range(MAX_COLUMNS + 3)}))
        self.assertEqual(len(data["columns"]), MAX_COLUMNS)
        self.assertEqual((len(data["rows"]), data["rowCount"]), (MAX_ROWS, MAX_ROWS + 5))

    def test_cut_long_texts(self):
        data = data_of(pandas.DataFrame({"t": ["x" * (MAX_CELL_CHARACTERS + 1)]}))
        self.assertEqual(data["rows"], [["x" * MAX_CELL_CHARACTERS + "…"]])

    def test_leave_out_rows_beyond_the_limit_for_all_texts(self):
        with mock.patch.object(tables, "MAX_CHARACTERS", 10):
            data = data_of(pandas.DataFrame({"t": ["four", "four", "four"]}))
        self.assertEqual((data["rows"], data["rowCount"]), ([["four"], ["four"]], 3))

    def test_without_columns_have_empty_rows(self):
        self.assertEqual(data_of(pandas.DataFrame(index=range(2))), {"columns": [], "rows": [[], []], "rowCount": 2})

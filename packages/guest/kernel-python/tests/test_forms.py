# SPDX-License-Identifier: Apache-2.0
"""Tests of the forms of outputs."""

import base64
import datetime
import json
import math
import unittest
from typing import Any
from unittest import mock

import numpy

from cloche_kernel import forms
from cloche_kernel.forms import json_safe, left_out, to_forms


class JsonValues(unittest.TestCase):
    """Results of `json_safe`."""

    def test_are_null_for_numbers_that_json_lacks(self):
        self.assertEqual(json_safe([math.nan, math.inf, -math.inf, 1.5]), [None, None, None, 1.5])

    def test_keep_what_json_has(self):
        value = {"a": [1, 2.5, "x", None, True]}
        self.assertEqual(json_safe(value), value)
        self.assertIs(json_safe(True), True)

    def test_are_numbers_for_those_of_numpy(self):
        safe: Any = json_safe([numpy.int64(3), numpy.float32(0.5), numpy.bool_(True), numpy.float64("nan")])
        self.assertEqual(safe, [3, 0.5, True, None])
        self.assertEqual([type(each) for each in safe[:3]], [int, float, bool])

    def test_are_lists_for_arrays(self):
        self.assertEqual(json_safe(numpy.array([[1, 2], [3, 4]])), [[1, 2], [3, 4]])

    def test_are_texts_for_dates_and_unknown_objects(self):
        moment = numpy.datetime64("2026-01-02T03:04:05")
        self.assertEqual(json_safe(moment), "2026-01-02T03:04:05")
        self.assertEqual(json_safe(datetime.date(2026, 1, 2)), "2026-01-02")
        self.assertEqual(json_safe(3 + 4j), "(3+4j)")

    def test_have_texts_for_keys(self):
        self.assertEqual(json_safe({1: "a", None: "b"}), {"1": "a", "None": "b"})

    def test_end_at_a_bounded_depth_even_for_a_circle(self):
        circle = []
        circle.append(circle)
        self.assertLess(len(json.dumps(json_safe(circle))), 1000)

    def test_have_text_where_a_list_or_dictionary_is_within_itself(self):
        pair = []
        pair += [pair, pair]
        self.assertEqual(json_safe(pair), ["[[...], [...]]", "[[...], [...]]"])
        named = {}
        named["a"] = {"b": [named, 1]}
        self.assertEqual(json_safe(named), {"a": {"b": ["{'a': {'b': [{...}, 1]}}", 1]}})

    def test_are_refused_when_shared_lists_would_make_too_many(self):
        shared = [1]
        for _ in range(60):
            shared = [shared, shared]
        with mock.patch.object(forms, "_MAX_VALUES", 1000):
            self.assertRaises(forms.TooManyValues, json_safe, shared)
            left = to_forms({"application/json": shared, "text/plain": "shared"})
        self.assertEqual(list(left), ["text/plain"])
        self.assertIn("application/json output", left["text/plain"])


class Forms(unittest.TestCase):
    """Results of `to_forms`."""

    def test_are_base64_for_bytes(self):
        for data in (b"\0\xff", bytearray(b"\0\xff"), memoryview(b"\0\xff")):
            self.assertEqual(to_forms({"image/png": data}), {"image/png": base64.b64encode(b"\0\xff").decode()})

    def test_are_json_values_for_types_of_json(self):
        bundle = {"application/json": {"x": math.nan}, "application/vnd.a+json": (1, 2)}
        self.assertEqual(to_forms(bundle), {"application/json": {"x": None}, "application/vnd.a+json": [1, 2]})

    def test_leave_out_empty_values_and_keys_that_are_no_text(self):
        self.assertEqual(to_forms({"text/plain": "a", "text/html": None, 3: "b"}), {"text/plain": "a"})

    def test_keep_the_order_of_the_bundle(self):
        bundle = {"text/html": "<b>long</b>", "text/plain": "short", "image/svg+xml": "<svg/>"}
        self.assertEqual(list(to_forms(bundle)), list(bundle))

    def test_leave_out_the_largest_first_and_name_it_below_the_text(self):
        with mock.patch.object(forms, "MAX_FORMS_BYTES", 20):
            note = left_out("text/html", 30)
            self.assertEqual(
                to_forms({"text/html": "x" * 30, "text/plain": "text", "text/latex": "y" * 10}),
                {"text/plain": f"text\n{note}", "text/latex": "y" * 10},
            )

    def test_have_a_note_in_place_of_a_text_that_is_too_long(self):
        with mock.patch.object(forms, "MAX_FORMS_BYTES", 20):
            self.assertEqual(to_forms({"text/plain": "x" * 21}), {"text/plain": left_out("text/plain", 21)})

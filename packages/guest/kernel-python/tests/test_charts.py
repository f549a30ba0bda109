# SPDX-License-Identifier: Apache-2.0
"""Tests of figures as data."""

import unittest
from datetime import date, datetime
from unittest import mock

import numpy
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from cloche_kernel import charts
from cloche_kernel.charts import MAX_POINTS, describe


class Charts(unittest.TestCase):
    """Results of `describe`."""

    def setUp(self):
        self.figure = Figure()
        self.axes = self.figure.subplots()

    def described(self):
        """Returns the chart, which the test expects to be one."""
        chart = describe(self.figure)
        assert chart is not None
        return chart

    def test_are_none_for_a_figure_in_which_nothing_is_drawn(self):
        self.assertIsNone(describe(self.figure))
        self.axes.text(0.5, 0.5, "text alone")
        self.assertIsNone(describe(self.figure))
        self.assertIsNone(describe(Figure()))

    def test_name_what_is_drawn_and_is_no_series(self):
        draws = {
            "Circle": lambda: self.axes.add_artist(Circle((0, 0), 1)),
            "AxesImage": lambda: self.axes.imshow([[1, 2]]),
            "QuadMesh": lambda: self.axes.pcolormesh([[1, 2], [3, 4]]),
            "Rectangle": lambda: self.axes.add_patch(Rectangle((0, 0), 1, 1)),
            "Quiver": lambda: self.axes.quiver([1], [1], [1], [1]),
            "PolyCollection": lambda: self.axes.hexbin([1, 2], [1, 2]),
        }
        for name, draw in draws.items():
            with self.subTest(name):
                self.setUp()
                draw()
                (axes,) = self.described()["axes"]
                self.assertEqual((self.described()["type"], axes["series"], axes["others"]), ("unknown", [], [name]))

    def test_name_nothing_else_where_all_is_series(self):
        self.axes.bar(["a", "b"], [1, 2])
        self.axes.scatter([1], [2])
        self.axes.plot([1, 2], [1, 2])
        self.axes.pie([1, 2])
        self.assertNotIn("others", self.described()["axes"][0])

    def test_keep_axes_that_show_nothing_beside_others(self):
        self.figure = Figure()
        self.figure.subplots(1, 2)[0].plot([1], [2])
        self.assertEqual([len(axes["series"]) for axes in self.described()["axes"]], [1, 0])

    def test_have_times_in_the_form_of_iso_8601(self):
        times = numpy.array([datetime(2026, 1, 1, 5), datetime(2026, 1, 2, 6, 7, 8, 9)])
        self.axes.plot(times, numpy.array([date(2026, 1, 1), date(2026, 1, 2)]))
        (series,) = self.described()["axes"][0]["series"]
        self.assertEqual(series["x"], ["2026-01-01T05:00:00", "2026-01-02T06:07:08.000009"])
        self.assertEqual(series["y"], ["2026-01-01", "2026-01-02"])

    def test_have_lines_with_labels_and_titles(self):
        self.axes.plot([1, 2], [3, 4], label="a")
        self.axes.set(title="t", xlabel="x", ylabel="y")
        self.figure.suptitle("all")
        series = {"type": "line", "x": [1, 2], "y": [3, 4], "label": "a"}
        chart = self.described()
        (axes,) = chart["axes"]
        texts = {"series": [series], "title": "t", "xLabel": "x", "yLabel": "y"}
        self.assertEqual({name: value for name, value in axes.items() if name not in "xy"}, texts)
        self.assertEqual((chart["type"], chart["title"]), ("line", "all"))

    def test_have_scales_and_ticks(self):
        scales = {
            "linear": lambda: self.axes.plot([1, 2], [3, 4]),
            "categorical": lambda: self.axes.plot(["a", "b"], [3, 4]),
            "datetime": lambda: self.axes.plot(numpy.array([date(2026, 1, 1), date(2026, 1, 2)]), [3, 4]),
            "log": lambda: (self.axes.plot([1, 10], [3, 4]), self.axes.set_xscale("log")),
        }
        for scale, draw in scales.items():
            with self.subTest(scale):
                self.setUp()
                draw()
                axis = self.described()["axes"][0]["x"]
                self.assertEqual(axis["scale"], scale)
                self.assertEqual(len(axis["ticks"]), len(axis["labels"]))
                kind = str if scale == "datetime" else float
                self.assertEqual({type(tick) for tick in axis["ticks"]}, {kind})

    def test_have_boxes_with_their_quartiles_and_outliers(self):
        values = {"a": [1, 2, 3, 4, 5], "b": [10, 11, 12, 13, 40, 41], "c": [7]}
        for orientation in ("vertical", "horizontal"):
            with self.subTest(orientation):
                self.setUp()
                self.axes.boxplot(list(values.values()), patch_artist=True, orientation=orientation)
                ticks = self.axes.set_xticklabels if orientation == "vertical" else self.axes.set_yticklabels
                ticks(list(values))
                first, second, third = self.described()["axes"][0]["series"]
                self.assertEqual((first["label"], first["y"], first["outliers"]), ("a", [1, 2, 3, 4, 5], []))
                self.assertEqual((second["y"][0], second["y"][4], second["outliers"]), (10, 41, []))
                self.assertEqual((third["y"], third["outliers"]), ([7, 7, 7, 7, 7], []))

    def test_have_no_labels_that_matplotlib_has_made_up(self):
        self.axes.plot([1], [2])
        self.assertNotIn("label", self.described()["axes"][0]["series"][0])

    def test_have_bars_with_their_names(self):
        self.axes.bar(["a", "b"], [1, 2], yerr=[0.1, 0.1])
        (series,) = self.described()["axes"][0]["series"]
        self.assertEqual((series["type"], series["x"], series["y"]), ("bar", ["a", "b"], [1, 2]))

    def test_tell_horizontal_bars(self):
        self.axes.barh([1, 2], [3, 4])
        (series,) = self.described()["axes"][0]["series"]
        self.assertEqual((series["horizontal"], series["x"], series["y"]), (True, [1, 2], [3, 4]))

    def test_name_bars_by_labels_and_not_by_numbers(self):
        draws = [
            (lambda: self.axes.barh(["a", "b"], [3, 4]), ["a", "b"]),
            (lambda: self.axes.bar([1, 2], [3, 4]), [1, 2]),
            (lambda: self.axes.barh([1, 10], [3, 4], log=True), [1, 10]),
            (lambda: (self.axes.bar([1, 2], [3, 4]), self.axes.set_xticks([1, 2], ["a", "b"])), ["a", "b"]),
            (lambda: (self.axes.barh([1, 2], [3, 4]), self.axes.set_yticks([2, 1], ["b", "a"])), ["a", "b"]),
        ]
        for draw, expected in draws:
            with self.subTest(expected):
                self.setUp()
                draw()
                self.assertEqual(self.described()["axes"][0]["series"][0]["x"], expected)

    def test_have_scatters_and_pies(self):
        self.axes.scatter([1, 2], [3, 4])
        self.axes.pie([1, 3], labels=["a", "b"])
        chart = self.described()
        self.assertEqual(chart["type"], "composite")
        scatter, pie = chart["axes"][0]["series"]
        self.assertEqual((scatter["x"], scatter["y"]), ([1, 2], [3, 4]))
        self.assertEqual((pie["x"], [round(share, 3) for share in pie["y"]]), (["a", "b"], [0.25, 0.75]))

    def test_have_a_bounded_number_of_points(self):
        self.axes.plot(range(MAX_POINTS + 1), range(MAX_POINTS + 1))
        self.assertEqual(len(self.described()["axes"][0]["series"][0]["x"]), MAX_POINTS)

    def test_leave_out_series_beyond_the_limit_for_all(self):
        self.axes.plot([1, 2, 3], [1, 2, 3], label="first")
        self.axes.plot([1, 2, 3], [1, 2, 3], label="second")
        self.axes.plot([1], [1], label="third")
        with mock.patch.object(charts, "MAX_TOTAL_POINTS", 4):
            series = self.described()["axes"][0]["series"]
        self.assertEqual([each["label"] for each in series], ["first", "third"])

    def test_are_none_for_a_figure_that_cannot_be_read(self):
        self.axes.plot([1], [1])
        with mock.patch.object(charts, "_axes", side_effect=ValueError):
            self.assertIsNone(describe(self.figure))

# SPDX-License-Identifier: Apache-2.0
"""Describes a matplotlib figure as data.

It is `{ type, title?, axes: [{ title?, xLabel?, yLabel?, x, y, series: [...], others? }] }`. `x` and `y` are
`{ scale, ticks, labels }`. `others` are the names of the classes of what is drawn and is no series.
"""

from datetime import date

import numpy
from matplotlib.collections import PathCollection
from matplotlib.container import BarContainer
from matplotlib.dates import num2date
from matplotlib.patches import PathPatch, Wedge
from matplotlib.ticker import LogFormatter, ScalarFormatter

from cloche_kernel.forms import json_safe

CHART_MIME_TYPE = "application/vnd.cloche.chart+json"
MAX_AXES = 32
MAX_SERIES = 64
MAX_POINTS = 5000
MAX_TICKS = 200
MAX_OTHERS = 16
# Limit for all series of a figure together. A series that does not fit is left out.
MAX_TOTAL_POINTS = 20_000


def describe(figure):
    """Returns the figure's lines, bars, scatters, pies and boxes as data, or None if nothing is drawn in it."""
    try:
        if not any(one.has_data() for one in figure.axes):
            return None
        axes = [_axes(one) for one in figure.axes[:MAX_AXES]]
    except Exception:
        # A library may subclass any artist and break these readings. The cell then shows the picture without data.
        return None
    _keep_within(axes, MAX_TOTAL_POINTS)
    kinds = {series["type"] for one in axes for series in one["series"]}
    kind = kinds.pop() if len(kinds) == 1 else "composite" if kinds else "unknown"
    chart = {"type": kind, "axes": axes}
    if figure.get_suptitle():
        chart["title"] = figure.get_suptitle()
    return chart


def _keep_within(axes, points):
    for one in axes:
        kept = []
        for series in one["series"]:
            if len(series["x"]) <= points:
                points -= len(series["x"])
                kept.append(series)
        one["series"] = kept


def _axes(axes):
    boxes = list(_boxes(axes))
    lines = [] if boxes else _lines(axes)
    series = [*lines, *boxes, *_bars(axes), *_scatters(axes), *_pies(axes)][:MAX_SERIES]
    described = {"series": series, "x": _axis(axes.xaxis), "y": _axis(axes.yaxis)}
    texts = {"title": axes.get_title(), "xLabel": axes.get_xlabel(), "yLabel": axes.get_ylabel()}
    others = _others(axes)
    if others:
        described["others"] = others
    return described | {key: text for key, text in texts.items() if text}


def _others(axes):
    bars = {patch for bars in axes.containers if isinstance(bars, BarContainer) for patch in bars.patches}
    drawn = [
        *(patch for patch in axes.patches if patch not in bars and not isinstance(patch, (PathPatch, Wedge))),
        *(collection for collection in axes.collections if not isinstance(collection, PathCollection)),
        *axes.images,
        *axes.tables,
        *axes.artists,
    ]
    return sorted({type(artist).__name__ for artist in drawn})[:MAX_OTHERS]


def _axis(axis):
    ticks = list(axis.get_ticklocs())[:MAX_TICKS]
    labels = [label.get_text() for label in axis.get_ticklabels()][:MAX_TICKS]
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    scale = axis.get_scale()
    if "Date" in type(converter).__name__:
        return {"scale": "datetime", "ticks": [num2date(tick).isoformat() for tick in ticks], "labels": labels}
    named = [
        tick == index and label != str(index) for index, (tick, label) in enumerate(zip(ticks, labels, strict=False))
    ]
    if scale == "linear" and named and all(named):
        scale = "categorical"
    return {"scale": scale, "ticks": json_safe([float(tick) for tick in ticks]), "labels": labels}


def _lines(axes):
    bar_parts = {line for bars in axes.containers for line in _error_lines(bars)}
    for line in axes.get_lines():
        if line not in bar_parts:
            yield _series("line", line.get_label(), line.get_xdata(), line.get_ydata())


def _error_lines(container):
    errors = getattr(container, "errorbar", None)
    return [part for part in (errors.lines if errors else ()) if hasattr(part, "get_xdata")]


def _bars(axes):
    names_x, names_y = _names(axes.xaxis), _names(axes.yaxis)
    for bars in axes.containers:
        if not isinstance(bars, BarContainer) or not bars.patches:
            continue
        horizontal = getattr(bars, "orientation", "vertical") == "horizontal"
        patches = bars.patches[:MAX_POINTS]
        if horizontal:
            positions = [patch.get_y() + patch.get_height() / 2 for patch in patches]
            lengths = [patch.get_width() for patch in patches]
            positions = [names_y.get(position) or position for position in positions]
        else:
            positions = [patch.get_x() + patch.get_width() / 2 for patch in patches]
            lengths = [patch.get_height() for patch in patches]
            positions = [names_x.get(position) or position for position in positions]
        yield _series("bar", bars.get_label(), positions, lengths) | ({"horizontal": True} if horizontal else {})


def _names(axis):
    """Returns the tick labels of a categorical axis; an empty list for a numeric axis."""
    if isinstance(axis.get_major_formatter(), (ScalarFormatter, LogFormatter)):
        return {}
    labels = (label.get_text() for label in axis.get_ticklabels())
    return dict(zip(axis.get_ticklocs(), labels, strict=False))


def _scatters(axes):
    for collection in axes.collections:
        if isinstance(collection, PathCollection):
            points = numpy.asarray(collection.get_offsets())[:MAX_POINTS]
            yield _series("scatter", collection.get_label(), points[:, 0], points[:, 1])


def _pies(axes):
    wedges = [patch for patch in axes.patches if isinstance(patch, Wedge)][:MAX_POINTS]
    if wedges:
        shares = [(wedge.theta2 - wedge.theta1) / 360 for wedge in wedges]
        radii = [wedge.r for wedge in wedges]
        yield _series("pie", None, [wedge.get_label() for wedge in wedges], shares) | {"radii": json_safe(radii)}


def _boxes(axes):
    """Yields the boxes of `boxplot(patch_artist=True)`: `y` is the smallest value, the quartiles and the largest."""
    names = [label.get_text() for label in axes.get_xticklabels()]
    boxes = [patch for patch in axes.patches if isinstance(patch, PathPatch)][:MAX_SERIES]
    outlines = [numpy.asarray(box.get_path().vertices) for box in boxes]
    upright = len({_rounded(numpy.ptp(outline[:, 0])) for outline in outlines}) < 2
    across, along = (0, 1) if upright else (1, 0)
    if not upright:
        names = [label.get_text() for label in axes.get_yticklabels()]
    lines = [numpy.asarray(line.get_xydata()) for line in axes.get_lines()]
    for name, vertices in zip(names, outlines, strict=False):
        left, right = vertices[:, across].min(), vertices[:, across].max()
        low, high = vertices[:, along].min(), vertices[:, along].max()
        smallest, median, largest, outliers = low, low, high, []
        for points in lines:
            if len(points) == 0 or points[:, across].min() < left or points[:, across].max() > right:
                continue
            values = points[:, along]
            if len(points) == 2 and points[0, across] != points[1, across]:
                median = values[0] if low <= values[0] <= high else median
            elif len(points) == 2 and values.max() == low:
                smallest = values.min()
            elif len(points) == 2 and values.min() == high:
                largest = values.max()
            elif len(points) != 2 or values.min() > largest or values.max() < smallest:
                outliers = [*outliers, *values[:MAX_POINTS]]
        found = [_rounded(value) for value in (smallest, low, median, high, largest)]
        yield _series("box", name, [name], found) | {"outliers": json_safe([_rounded(value) for value in outliers])}


def _rounded(value):
    """Drops what floating-point arithmetic has added."""
    return round(float(value), 10)


def _series(kind, label, x, y):
    series = {"type": kind, "x": json_safe(_values(x)), "y": json_safe(_values(y))}
    # Matplotlib gives series without a label a name that begins with an underscore.
    if label and not str(label).startswith("_"):
        series["label"] = str(label)
    return series


def _values(values):
    return [value.isoformat() if isinstance(value, date) else value for value in values[:MAX_POINTS]]

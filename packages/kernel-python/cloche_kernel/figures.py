# SPDX-License-Identifier: Apache-2.0
"""Turns a matplotlib figure into the forms of an output: a PNG picture, and its content as data."""

import io

from IPython.display import display

from cloche_kernel.charts import CHART_MIME_TYPE, describe


def figure_forms(figure):
    """Returns the forms of a figure, and marks it so that the end of the cell does not show it again."""
    figure._cloche_shown = True
    picture = io.BytesIO()
    figure.savefig(picture, format="png", bbox_inches="tight", facecolor=figure.get_facecolor())
    forms: dict[str, object] = {"image/png": picture.getvalue()}
    chart = describe(figure)
    if chart is not None:
        forms[CHART_MIME_TYPE] = chart
    return forms


def publish_figure(figure):
    """Shows a figure, unless it is empty or the cell has shown it."""
    if not getattr(figure, "_cloche_shown", False) and (figure.axes or figure.texts or figure.images):
        display(figure)

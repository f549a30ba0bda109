# SPDX-License-Identifier: Apache-2.0
"""A matplotlib figure as its forms: a picture, and what it shows as data."""

import io

from IPython.display import display

from cloche_kernel.charts import CHART_MIME_TYPE, describe


def figure_forms(figure):
    """A figure that a cell shows itself is not shown again at the cell's end."""
    figure._cloche_shown = True
    picture = io.BytesIO()
    figure.savefig(picture, format="png", bbox_inches="tight", facecolor=figure.get_facecolor())
    forms = {"image/png": picture.getvalue()}
    chart = describe(figure)
    if chart is not None:
        forms[CHART_MIME_TYPE] = chart
    return forms


def publish_figure(figure):
    if not getattr(figure, "_cloche_shown", False) and (figure.axes or figure.texts or figure.images):
        display(figure)

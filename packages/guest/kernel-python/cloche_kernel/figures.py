# SPDX-License-Identifier: Apache-2.0
"""Figures of matplotlib: the package `matplotlib_inline` shows them, as in Jupyter; the kernel adds their data."""

import sys

from cloche_kernel.charts import CHART_MIME_TYPE, describe


def figure_forms(figure):
    """Returns the data of a figure, and marks it so that the end of the cell does not show it again."""
    figure._cloche_shown = True
    chart = describe(figure)
    return {} if chart is None else {CHART_MIME_TYPE: chart}


def close_shown_figures():
    """Closes the figures that a cell has displayed itself, where the end of the cell closes figures.

    `matplotlib_inline` must be loaded.
    """
    inline = sys.modules["matplotlib_inline.backend_inline"]
    if not inline.InlineBackend.instance().close_figures:
        return
    for manager in inline.Gcf.get_all_fig_managers():
        if getattr(manager.canvas.figure, "_cloche_shown", False):
            inline.Gcf.destroy(manager)

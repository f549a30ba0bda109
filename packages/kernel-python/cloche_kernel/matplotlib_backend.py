# SPDX-License-Identifier: Apache-2.0
"""Matplotlib's backend in a cell: figures are drawn by Agg and published instead of shown."""

from matplotlib import get_backend
from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg

from cloche_kernel.figures import publish_figure


class FigureManager(FigureManagerBase):
    @classmethod
    def pyplot_show(cls, *, block=None):
        """`plt.show()`: publishes every open figure at once and closes it."""
        publish_open_figures()


class FigureCanvas(FigureCanvasAgg):
    manager_class = FigureManager


def publish_open_figures():
    if not get_backend().endswith("cloche_kernel.matplotlib_backend"):
        return
    for manager in Gcf.get_all_fig_managers():
        figure = manager.canvas.figure
        Gcf.destroy(manager)
        publish_figure(figure)

# SPDX-License-Identifier: Apache-2.0
"""Matplotlib backend for cells: draws figures with Agg and publishes them as outputs."""

from matplotlib import get_backend
from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg

from cloche_kernel.figures import publish_figure


class FigureManager(FigureManagerBase):
    """Publishes figures where others open a window."""

    @classmethod
    def pyplot_show(cls, *, block=None):
        """Publishes every open figure and closes it: `plt.show()`."""
        publish_open_figures()


class FigureCanvas(FigureCanvasAgg):
    """A canvas that Agg draws on."""

    # Matplotlib's stubs declare a property here; its backends assign a class all the same.
    manager_class = FigureManager  # pyright: ignore[reportAssignmentType]


def publish_open_figures():
    """Publishes the figures of pyplot and closes them, unless user code has chosen another backend."""
    if not get_backend().endswith("cloche_kernel.matplotlib_backend"):
        return
    for manager in Gcf.get_all_fig_managers():
        figure = manager.canvas.figure
        Gcf.destroy(manager)
        publish_figure(figure)

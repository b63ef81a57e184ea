"""How stepmap's pictures look, and how they become files; without a window system or matplotlib's global state."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
DOTS = 150  # per inch, of PNG files

# Okabe and Ito's colours, which most colour-blind people can tell apart; black and yellow left out
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7a5195", "#595959")
INK, FAINT, GRID = "#262b33", "#9aa3ad", "#e3e6ea"

STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": FAINT,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlecolor": INK,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 1.4,
    "lines.linewidth": 1.4,
    "lines.solid_capstyle": "round",
    "path.simplify_threshold": 0.2,
    "savefig.facecolor": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": "stepmap",  # same picture, same file
    "text.color": INK,
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 8,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 8,
}


@contextmanager
def styled() -> Iterator[None]:
    """Within it, figures are made and rendered in this style."""
    with mpl.rc_context({**mpl.rcParamsDefault, **STYLE, "backend": "agg"}):
        yield


def blank(width: float, height: float) -> Figure:
    """An empty figure of that size [inches]."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def render(figure: Figure, form: str) -> bytes:
    """The figure as a png, svg or pdf file; the same figure gives the same bytes."""
    undated = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[form]
    out = io.BytesIO()
    with styled():
        figure.savefig(out, format=form, dpi=DOTS, metadata=undated)
    figure.set_layout_engine("none")  # everything has its place now; to find it took half the time
    return out.getvalue()

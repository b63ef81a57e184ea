"""SVG pictures of boxes, text and arrows, in a light and a dark palette, without a library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

SANS = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, 'SFMono-Regular', 'DejaVu Sans Mono', monospace"
WIDTHS = {SANS: 0.56, MONO: 0.61}  # of a letter, in font sizes; for what must fit into a box


@dataclass(frozen=True)
class Palette:
    """Colours by purpose: Okabe and Ito's, lighter where the page is dark."""

    page: str
    box: str
    edge: str
    ink: str
    faint: str
    blue: str
    orange: str
    green: str
    purple: str


PALETTES = {
    "light": Palette("#ffffff", "#f6f8fa", "#c4cbd3", "#1f2328", "#59636e", "#0072b2", "#d55e00", "#00795a", "#a4477f"),
    "dark": Palette("#0d1117", "#161b22", "#3d444d", "#e6edf3", "#9198a1", "#56b4e9", "#f0883e", "#3fb68b", "#d898bd"),
}


@dataclass
class Drawing:
    """Collects shapes; ``svg()`` is the file. Coordinates are pixels from the upper left corner."""

    width: float
    height: float
    title: str
    palette: Palette
    shapes: list[str] = field(default_factory=list)

    def box(self, x: float, y: float, width: float, height: float, *, edge: str = "", fill: str = "") -> None:
        p = self.palette
        self.shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" '
            f'fill="{fill or p.box}" stroke="{edge or p.edge}"/>'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = 13,
        *,
        color: str = "",
        font: str = SANS,
        bold: bool = False,
        anchor: str = "start",
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self.shapes.append(
            f'<text x="{x:g}" y="{y:g}" font-family="{font}" font-size="{size:g}"{weight} text-anchor="{anchor}" '
            f'fill="{color or self.palette.ink}">{escape(text)}</text>'
        )

    def label(self, x: float, y: float, text: str, size: float, *, color: str = "", font: str = SANS) -> None:
        """Text centred on a ground of the page's colour, for where lines pass behind it."""
        width = WIDTHS[font] * size * len(text) + 4
        self.shapes.append(
            f'<rect x="{x - width / 2:.1f}" y="{y - size:.1f}" width="{width:.1f}" height="{1.25 * size:.1f}" '
            f'fill="{self.palette.page}"/>'
        )
        self.text(x, y, text, size, color=color, font=font, anchor="middle")

    def line(
        self, points: Sequence[tuple[float, float]], *, color: str = "", width: float = 1.5, dash: str = ""
    ) -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.shapes.append(
            f'<polyline points="{path}" fill="none" stroke="{color or self.palette.faint}" stroke-width="{width:g}" '
            f'stroke-linejoin="round" stroke-linecap="round"{dashed}/>'
        )

    def arrow(self, start: tuple[float, float], end: tuple[float, float], *, color: str = "", dash: str = "") -> None:
        """A straight arrow along one of the axes."""
        color = color or self.palette.faint
        (x0, y0), (x1, y1) = start, end
        dx, dy = (x1 > x0) - (x1 < x0), (y1 > y0) - (y1 < y0)
        self.line([start, (x1 - 5 * dx, y1 - 5 * dy)], color=color, dash=dash)
        tip = [(x1, y1), (x1 - 8 * dx + 4 * dy, y1 - 8 * dy + 4 * dx), (x1 - 8 * dx - 4 * dy, y1 - 8 * dy - 4 * dx)]
        points = " ".join(f"{x:g},{y:g}" for x, y in tip)
        self.shapes.append(f'<polygon points="{points}" fill="{color}"/>')

    def dot(self, x: float, y: float, radius: float, color: str) -> None:
        self.shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{color}"/>')

    def svg(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}" '
            f'width="{self.width:g}" height="{self.height:g}" role="img">'
        )
        return "\n".join([head, f"<title>{escape(self.title)}</title>", *self.shapes, "</svg>"]) + "\n"


def wrap(text: str, width: float, size: float, font: str = SANS) -> list[str]:
    """Lines of words that fit into a width."""
    most = max(1, int(width / (WIDTHS[font] * size)))
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= most:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines

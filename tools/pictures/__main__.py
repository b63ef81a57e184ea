"""Draws docs/images/*.svg, each for light and dark pages, wide and narrow: ``python -m tools.pictures``."""

from __future__ import annotations

from tools.pictures import packages, tick
from tools.pictures.packages import ROOT
from tools.pictures.svg import PALETTES

IMAGES = ROOT / "docs" / "images"


def drawn() -> dict[str, str]:
    """Contents of the files by name."""
    made = {}
    for theme, palette in PALETTES.items():
        made[f"architecture-{theme}.svg"] = packages.wide(palette).svg()
        made[f"architecture-narrow-{theme}.svg"] = packages.narrow(palette).svg()
        made[f"tick-{theme}.svg"] = tick.draw(palette, 960).svg()
        made[f"tick-narrow-{theme}.svg"] = tick.draw(palette, 400).svg()
    return made


if __name__ == "__main__":
    for name, content in drawn().items():
        (IMAGES / name).write_text(content, encoding="utf-8")

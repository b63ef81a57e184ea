"""Pekarek, Fig. 5.3: one step of the gait of a biped whose knees were designed for it."""

from __future__ import annotations

from stepmap.figures import _gaits
from stepmap.figures.published import Progress, Published
from stepmap.optimal.direct import direct

RANGE = (0.3, 0.7)  # m, of the shank


def make(progress: Progress) -> Published:
    """The figure."""
    progress(0.1, "least work from several starts, then the knees")
    design = {"shank": RANGE}
    found = direct(_gaits.biped(), **_gaits.options(starts=_gaits.STARTS, design=design)).require()
    progress(0.9, "drawing")
    return Published(
        title="A step of the biped with knees where they serve the gait",
        source="Pekarek, Fig. 5.3",
        caption="Above: total energy over the step. Below: nine poses of it, side by side.",
        figure=_gaits.draw(found, "energy of the designed gait"),
        rows=_gaits.rows(found),
        key_figures=[
            ("length of the shank", f"{found.design['shank']:.3f} m of a leg of 1 m"),
            *_gaits.told(found),
            ("printed cost of transport", f"{_gaits.PRINTED['design']:.3g}"),
        ],
        assumptions=(
            *_gaits.ASSUMPTIONS,
            f"the knee is found by the program itself, within {RANGE[0]:g} to {RANGE[1]:g} m, after the gait; the "
            "thesis's outer search is the figure design_search",
        ),
    )

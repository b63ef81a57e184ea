"""Pekarek, Fig. 4.2: one step of the planar biped's gait of least work."""

from __future__ import annotations

from stepmap.figures import _gaits
from stepmap.figures.published import Progress, Published
from stepmap.optimal.direct import direct


def make(progress: Progress) -> Published:
    """The figure."""
    progress(0.1, "least work from several starts")
    found = direct(_gaits.biped(), **_gaits.options(starts=_gaits.STARTS)).require()
    progress(0.9, "drawing")
    return Published(
        title="A step of the planar biped with little work",
        source="Pekarek, Fig. 4.2",
        caption="Above: total energy over the step. Below: nine poses of it, side by side.",
        figure=_gaits.draw(found, "energy of the gait"),
        rows=_gaits.rows(found),
        key_figures=[*_gaits.told(found), ("printed cost of transport", f"{_gaits.PRINTED['gait']:.3g}")],
        assumptions=_gaits.ASSUMPTIONS,
    )

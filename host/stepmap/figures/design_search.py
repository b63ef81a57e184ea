"""Pekarek, Fig. 5.2: a spline through costs of gaits looks for the best place of the knees."""

from __future__ import annotations

import numpy as np

from stepmap.figures import _gaits
from stepmap.figures.published import Progress, Published
from stepmap.mechanics.gravity import gravity
from stepmap.optimal.design import DesignStudy, Surrogate, design_study

RANGE = (0.4, 0.6)  # m, of the shank
EVALUATIONS, REPEATS = 9, 2
ANSWERS = 3 * REPEATS + 1 + (EVALUATIONS - 3) * (REPEATS + 1)


def make(progress: Progress) -> Published:
    """The figure."""
    done = 0

    def told(iteration: object) -> None:
        nonlocal done
        done += 1
        progress(min(0.95, done / ANSWERS), f"gait {done} of at most {ANSWERS}")

    study = design_study(
        _gaits.biped(),
        surrogate=Surrogate("spline", EVALUATIONS, REPEATS, 1e-7),
        monitor=told,
        **_gaits.options(design={"shank": RANGE}),
    )
    per_joule = 1 / (10.0 * float(np.linalg.norm(gravity(study.system))) * 0.56)  # 10 kg, 0.56 m
    from stepmap.plots import design

    return Published(
        title="Where the knees should be, by a surrogate of costly values",
        source="Pekarek, Fig. 5.2",
        caption="Every inner solve; numbers are the order of designs. Where solves of one design end "
        "apart they are in other basins, and so may designs be.",
        figure=design.samples(study, scale=per_joule, label="cost of transport"),
        rows=study.told["samples"],
        key_figures=_key_figures(study, per_joule),
        assumptions=(
            *_gaits.ASSUMPTIONS[:2],
            f"the spline begins at 0.5 m and both ends of {RANGE[0]:g} to {RANGE[1]:g} m, the thesis's at two places "
            "it does not print",
            f"each design is solved from {REPEATS} starts and, after the first three, on from the nearest design",
        ),
    )


def _key_figures(study: DesignStudy, per_joule: float) -> list[tuple[str, str]]:
    best, exact = study.best, study.exact
    said = [
        ("surrogate", f"{per_joule * best.cost:.3g} at {best.values['shank']:.3f} m, {len(study.samples)} designs"),
        ("own design", f"{per_joule * study.samples[0].cost:.3g} at {study.samples[0].values['shank']:.3f} m"),
        ("scatter of inner solves", f"{per_joule * study.scatter:.3g}"),
        ("verdict", study.verdict),
        ("printed", f"{_gaits.PRINTED['design']:.3g}, after nine designs"),
    ]
    if exact is not None and exact.ok:
        by = f"{per_joule * exact.cost:.3g} at {exact.values['shank']:.3f} m, from the own design"
        said.insert(1, ("exact gradient", by))
    return said

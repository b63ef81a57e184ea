"""Pekarek, Fig. 4.4: one step of the gait of the biped in space."""

from __future__ import annotations

from typing import Any

from stepmap import systems
from stepmap.errors import ConvergenceError
from stepmap.figures import _gaits
from stepmap.figures.published import Progress, Published
from stepmap.optimal.direct import Phase, direct

TORQUE, RATE, ITERATIONS = 60.0, 600.0, 700
PRINTED = 9.04e-2
FOUND = 1e-6  # by which conditions may be off where the search for least work is cut off
MIRROR: dict[str, Any] = {
    "x": "x - stride",
    "y": "-y",
    **{
        f"{one}_thigh": [f"{other}_thigh.w", f"-{other}_thigh.x", f"{other}_thigh.y", f"-{other}_thigh.z"]
        for one, other in (("stance", "swing"), ("swing", "stance"))
    },
    "stance_knee": "swing_knee",
    "swing_knee": "stance_knee",
}


def make(progress: Progress) -> Published:
    """The figure."""
    progress(0.05, "least effort, then work; some minutes")
    biped = systems.get("biped_spatial")
    found = direct(biped, **options(biped, running="work", max_iterations=ITERATIONS))
    if found.searched.found.infeasibility > FOUND:
        raise ConvergenceError(
            f"no gait in space: {found.advice}",
            iterations=found.iterations,
            residual=found.searched.found.infeasibility,
            x=found.searched.found.w,
        )
    progress(0.95, "drawing")
    return Published(
        title="A step of the biped in space",
        source="Pekarek, Fig. 4.4",
        caption="Above: total energy over the step. Below: nine poses of it from the side, one beside the other.",
        figure=_gaits.draw(found, "energy of the gait in space"),
        rows=_gaits.rows(found),
        key_figures=[
            *_gaits.told(found),
            ("search", f"{found.status.name.lower()} after {found.iterations} iterations"),
            ("printed cost of transport", f"{PRINTED:.3g}"),
        ],
        assumptions=(
            "model of 4.2.3: step 0.45 m, 0.2 m to the side, 0.9 s, 80 steps; thighs are balls, with moments about the "
            "axes of each joint",
            f"moments within ±{TORQUE:g} N m and {RATE:g} N m/s, a friction cone of 0.8, feet 0.08 m and knees 0.05 m "
            "apart, clearance 0.02 m, landing at 0.2 m/s",
            f"the search for least work is cut off after {ITERATIONS} iterations on the last grid, where it still "
            "descends: no optimum",
        ),
    )


def options(biped: Any, **more: Any) -> dict[str, Any]:
    """What ``sm.direct`` is asked for."""
    turned = {f"{side}_thigh.{axis}": (-0.3, 0.3) for side in ("stance", "swing") for axis in "xz"}
    moments = {given.name: {"low": -TORQUE, "high": TORQUE, "rate": RATE} for given in biped.inputs}
    return {
        "phases": [Phase(["stance"], _gaits.STEPS, _gaits.TIME)],
        "periodic": MIRROR,
        "limits": {**turned, **moments},
        "path": {"stance.y - swing.y": (0.08, None), "stance_knee.y - swing_knee.y": (0.05, None)},
        "clearance": {"swing": 0.02},
        "landing": {"swing": 0.2},
        "friction": {"stance": 0.8, "swing": 0.8},
        "change": 0.1,
        **more,
    }

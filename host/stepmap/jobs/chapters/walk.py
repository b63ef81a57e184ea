"""Of a run that walked: how many steps, how far, and how close the swing foot came to the ground."""

from __future__ import annotations

import numpy as np

from stepmap.jobs.chapters.subject import Subject
from stepmap.report.chapter import Chapter
from stepmap.report.explore import Tile

STRIDE = "stride"  # the parameter of a walker's model that says how far a step goes [m]


def chapter(subject: Subject) -> Chapter | None:
    """None for a plan, and for a run without steps."""
    walked = subject.told.get("walk") if subject.flown else None
    if not walked or not walked["steps"]:
        return None
    steps, each = walked["steps"], [one["length"] for one in walked["each"]]
    times = f"{np.mean(each):.3g} s each"
    strides = [p.value for p in subject.system.parameters if p.name == STRIDE]
    far = f", {steps * abs(strides[0]):.3g} m" if strides else ""
    low = 1e3 * walked["low"]
    foot = f"swing foot at least {low:.2g} mm high" if low >= 0 else f"swing foot {-low:.2g} mm into the ground"
    return Chapter(
        phrase=f"walked {steps} step{'s' * (steps != 1)}{far}, {times}",
        tiles=[Tile("steps", str(steps), f"{times}; {foot}")],
    )

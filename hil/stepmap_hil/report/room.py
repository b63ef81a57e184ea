"""Room between a robot and the obstacles that its job keeps clear of, over a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stepmap.geometry import Clearances, Shape
from stepmap.geometry.room import rooms
from stepmap.jobs import Job
from stepmap_hil.report.series import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAPTION = (
    "Room between the mechanism and the obstacles at every tick: of the plan, and of the runs. Margins are dashed."
)


def clearances(job: Job | None) -> list[Clearances]:
    """What a job of a kind with obstacles keeps clear of them, bound to its system."""
    return [] if job is None else [one.of(job.system) for one in getattr(job, "clear", ())]


def shapes(job: Job | None) -> list[Shape]:
    """The obstacles of a job, each once."""
    found = {id(shape): shape for one in getattr(job, "clear", ()) for shape in one.world}
    return list(found.values())


def metrics(bound: Sequence[Clearances], closed: Series, opened: Series | None) -> dict[str, Any]:
    """The entry ``room`` of a summary: the least room of each clearance [m] and when; none without obstacles."""
    if not bound:
        return {}
    found = []
    others = [] if opened is None else rooms(bound, opened.coordinates)
    wanted = rooms(bound, closed.reference[:, : closed.coordinates.shape[1]])
    for i, room in enumerate(rooms(bound, closed.coordinates)):
        k = int(room.values.argmin())
        found.append(
            {
                "what": room.label,
                "margin_m": room.margin,
                "closed_loop_least_m": float(room.values[k]),
                "at_s": float(closed.time[k]),
                "plan_least_m": float(wanted[i].values.min()),
                "open_loop_least_m": float(others[i].values.min()) if others else None,
            }
        )
    return {"room": found}


def rows(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The same for people."""
    made = []
    for one in summary.get("room", ()):
        opened = one["open_loop_least_m"]
        without = "" if opened is None else f"; without feedback {_told(opened)}"
        text = f"{_told(one['closed_loop_least_m'])} at {one['at_s']:.2f} s, by the plan {_told(one['plan_least_m'])}"
        made.append(("obstacles", f"{one['what']}: least {text}{without}"))
    return made


def _told(room: float) -> str:
    return f"{room:.3g} m" if room >= 0 else f"{-room:.3g} m inside"


def figure(bound: Sequence[Clearances], closed: Series, opened: Series | None) -> Figure:
    """Room over time."""
    from stepmap.plots.obstacles.clearances import clearances as draw

    count = closed.coordinates.shape[1]
    curves = {"reference": (closed.time, rooms(bound, closed.reference[:, :count]))}
    if opened is not None:
        curves["open loop"] = (opened.time, rooms(bound, opened.coordinates))
    return draw(curves | {"closed loop": (closed.time, rooms(bound, closed.coordinates))})

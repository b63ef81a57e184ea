"""Where a search stands on a kink: an event is at the border between two steps, and the cost has a corner there.

On both sides of the border the cost is smooth, so a direction that descends by its derivatives crosses it and ascends.
Two things tell a kink from other places where nothing descends: an impact is at a node, or the shortest steps that a
search tries move an event into another step, or make one come or go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stepmap.errors import ConvergenceError
from stepmap.optimal.directions import Direction, Point
from stepmap.steps.protocol import Event, StepMap, Trajectory

AT_NODE = 1e-6  # part of a step
SHORT = (1e-6, 1e-5, 1e-4)  # parts of a direction, which the search would take on a smooth cost


def kink(step: StepMap, at: Point, directions: Iterable[Direction]) -> Event | None:
    """The event at whose border between two steps a trajectory is; None where it is at none."""
    here = at.trajectory
    if not here.modes:
        return None
    struck = next((event for event in here.events if event.kind == "impact" and at_node(here, event)), None)
    if struck is not None:
        return struck
    for near in _around(step, at, directions):
        moved = _first_other(here, near)
        if moved is not None:
            return moved
    return None


def at_node(path: Trajectory, event: Event) -> bool:
    """Whether an event is at one of the inner nodes of a trajectory."""
    before, after = path.t[event.step], path.t[event.step + 1]
    near = AT_NODE * (after - before)
    return bool((event.step > 0 and event.time - before <= near) or after - event.time <= near)


def _around(step: StepMap, at: Point, directions: Iterable[Direction]) -> Iterator[Trajectory]:
    """Trajectories a little along each direction."""
    for direction in directions:
        for length in SHORT:
            try:
                yield at.follow(step, shifted(step, at.trajectory, direction, length), direction)
            except ConvergenceError:
                continue


def shifted(step: StepMap, here: Trajectory, direction: Direction, length: float) -> Trajectory:
    """What is to be projected, with the events of where it comes from: feedback compares them."""
    x, u = step.layout.retract(here.x, length * direction.z), here.u + length * direction.v
    return Trajectory(here.t, x, u, None, here.events, here.modes)


def _first_other(here: Trajectory, near: Trajectory) -> Event | None:
    """The first event of one trajectory that the other does not have in that step."""

    def listed(path: Trajectory) -> list[tuple[int, str, str]]:
        return [(event.step, event.name, event.kind) for event in path.events]

    ours, theirs = listed(here), listed(near)
    for i, event in enumerate(here.events):
        if i >= len(theirs) or ours[i] != theirs[i]:
            return event
    return near.events[len(ours)] if len(theirs) > len(ours) else None

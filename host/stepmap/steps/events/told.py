"""Events as data, from what the runtime tells."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics.constraints import Row
from stepmap.mechanics.system import System
from stepmap.steps.events.kernel import Entry, Log
from stepmap.steps.protocol import Event, Trajectory


def told(
    system: System, log: Log, t: Array, multipliers: Array
) -> tuple[tuple[Event, ...], tuple[tuple[str, ...], ...]]:
    """Events of a rollout with times from its start, and the gaps that are closed at the end of each step."""
    names = system.constraint_names
    events = []
    for entry in log.entries:
        time = float(t[entry.step]) + entry.time
        if entry.release and entry.time == 0.0:
            time = _let_go(entry, log, t, multipliers)
        kind = "release" if entry.release else "impact"
        events.append(Event(time, entry.step, names[entry.row], kind, entry.impulse, entry.energy))
    return tuple(events), _modes(log.closed, names)


def _modes(closed: Array, names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Per step the names of its closed rows. Once per change of mode: names per step would cost more than the step."""
    if len(closed) and (closed == closed[0]).all():
        return (tuple(names[i] for i in closed[0].nonzero()[0]),) * len(closed)
    changes = np.unique(np.flatnonzero(closed[1:] != closed[:-1]) // max(len(names), 1)) + 1
    modes: list[tuple[str, ...]] = []
    for begin, end in pairwise([0, *changes.tolist(), len(closed)]):
        modes += [tuple(names[i] for i in closed[begin].nonzero()[0])] * (end - begin) if end > begin else []
    return tuple(modes)


def tallies(system: System, path: Trajectory, closed: Array) -> Array | None:
    """Per node and row −1 where a gap is closed, else its bounces since it was, (N+1, nc); None where unknown.

    ``closed`` are the rows closed at the first node. What the runtime counts too (count_events of events.h).
    """
    if len(path.modes) != path.steps or not path.steps:
        return None
    gap = np.array(system.constraint_rows) == Row.GAP
    places = {name: i for i, name in enumerate(system.constraint_names) if gap[i]}
    shut, more = np.zeros((path.steps, len(gap)), dtype=bool), np.zeros((path.steps, len(gap)), dtype=int)
    for k, mode in enumerate(path.modes):
        shut[k, [places[name] for name in mode]] = True
    for event in path.events:
        more[event.step, places[event.name]] += 1 if event.kind == "impact" else -1
    out = np.zeros((path.steps + 1, len(gap)), dtype=np.intc)
    out[0] = np.where(gap & closed, -1, 0)
    for k in range(path.steps):
        open_ = np.maximum(np.where(out[k] < 0, 1, out[k]) + more[k], 0)
        out[k + 1] = np.where(gap, np.where(shut[k], -1, open_), 0)
    return out


def _let_go(entry: Entry, log: Log, t: Array, multipliers: Array) -> float:
    """When the force of a gap that a node finds pulled back was zero: between the last node and this one, to second
    order, by the forces that belong to both. Force k belongs to node k: half of its impulse is before, half after."""
    k, row = entry.step, entry.row
    now = float(t[k])
    if k == 0 or any(other.step == k - 1 for other in log.entries):
        return now  # a step with an event has no force of a single node
    before, after = float(multipliers[k - 1, row]), entry.force
    if not (before > 0 > after):
        return now
    return now - float(t[k] - t[k - 1]) * after / (after - before)

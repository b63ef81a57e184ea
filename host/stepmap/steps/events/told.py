"""Events as data, from what the runtime tells."""

from __future__ import annotations

from stepmap.arrays import Array
from stepmap.mechanics.system import System
from stepmap.steps.events.kernel import Entry, Log
from stepmap.steps.protocol import Event


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
    modes = tuple(tuple(names[i] for i in closed.nonzero()[0]) for closed in log.closed)
    return tuple(events), modes


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

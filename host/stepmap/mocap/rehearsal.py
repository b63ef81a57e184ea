"""A dancer's motion made fit for a mechanism: poses within reach, a tempo that strings can follow, a grid of steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics import System
from stepmap.mechanics.gravity import upward
from stepmap.mocap.lead import Lead
from stepmap.mocap.postures import fit
from stepmap.mocap.retarget import Targets

GENTLE = 1.4  # m/s², root mean square over markers: found by trials with the marionette
SEEN = 0.15  # s, over which accelerations are smoothed: those of the noise do not count
LED = 2.0  # s of lead
FASTEST = 3.5  # of _eased; its largest slope is 2.5
NODES = 6  # poses that are fitted per response time
EVEN = 2.0  # of these poses: width of the filter of their corrections, which are not settled
CLOSE = 1e-3  # m: how far samples joined by splines may be off
COARSEST, FINEST = 1 / 40, 1 / 120  # s
MOST = 300  # steps, where they are chosen
LONGEST = 1 / 15  # s: with longer steps, hands would go from one place to another without a way between


@dataclass(frozen=True)
class Manner:
    """How a motion is to be imitated."""

    response: float = 0.6  # s, in which robots follow: accelerations weigh as much as distances at this time
    room: float = 0.8  # part of its room at the start that every wire keeps
    lead: float | None = None  # s, from the start to the first pose; None for 2, or more where that is turned
    tempo: float | None = None  # of the recording; None for 1, or slower where it is quick


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Targets and poses on the grid of a map."""

    dt: float
    tempo: float
    names: tuple[str, ...]
    dancer: Array  # (N+1, frames, 3): where the dancer wants the frames
    poses: Array  # (N+1, nq): what comes near to it, within reach
    places: Array  # (N+1, frames, 3): the frames in these poses

    @property
    def steps(self) -> int:
        return len(self.poses) - 1


def rehearse(
    system: System, start: Array, targets: Targets, manner: Manner, dt: float | None = None, steps: int | None = None
) -> Rehearsal:
    """Targets and poses for a map whose dt, or number of steps, is given, or chosen."""
    held = fit(system, targets.names, start, manner.room)
    tempo = fastest(targets) if manner.tempo is None else manner.tempo
    first = system.positions(start)[held.picked]
    lead = Lead.between(first, targets.places[0], upward(system))
    until = _lead_time(manner, lead)
    duration = until + targets.t[-1] / tempo
    if dt is None and steps is None:
        dt = _sampled(targets, tempo, duration)
    if dt is not None:
        steps = max(2, round(duration / dt))
    else:
        assert steps is not None
        dt = duration / steps
    t = dt * np.arange(steps + 1)
    dancer = _led(targets, t, tempo, until, lead)
    nodes = np.linspace(0.0, t[-1], _nodes(t[-1], manner))
    found = held.path(start, _led(targets, nodes, tempo, until, lead), lead)
    from scipy.interpolate import CubicSpline

    poses = _smoothed(CubicSpline(nodes, found)(t), manner.response / dt)
    begun = manner.response if lead.angle else until or manner.response
    eased = _eased(t / min(begun, t[-1]))[:, None]
    poses = start + eased * (poses - start)
    places = system.positions(poses)[:, held.picked]
    # Smoothing took robots off their circles about a dancer who turns, and wires cannot be that short.
    at = CubicSpline(t, poses)(nodes)
    poses = poses + eased * CubicSpline(nodes, _smoothed(held.held(at) - at, EVEN))(t)
    return Rehearsal(dt, tempo, targets.names, dancer, poses, places)


def postures(system: System, start: Array, targets: Targets, manner: Manner) -> tuple[Array, Array]:
    """Times from 0 on, in the tempo chosen, and poses q̄ within reach that come near to the dancer's; no lead."""
    held = fit(system, targets.names, start, manner.room)
    tempo = fastest(targets) if manner.tempo is None else manner.tempo
    t = np.linspace(0.0, targets.t[-1] / tempo, _nodes(targets.t[-1] / tempo, manner))
    lead = Lead.between(system.positions(start)[held.picked], targets.places[0], upward(system))
    found = held.path(start, targets.at(t * tempo), lead)
    return t, _smoothed(found, NODES)


def _nodes(duration: float, manner: Manner) -> int:
    """How many poses are fitted."""
    return max(4, round(duration / manner.response * NODES) + 1)


def fastest(targets: Targets) -> float:
    """The tempo, 1 at most: slower by as much as accelerations are larger than those that puppets followed well."""
    if len(targets.t) < 5:
        return 1.0
    period = targets.t[1] - targets.t[0]
    places = _smoothed(targets.places.reshape(len(targets.t), -1), SEEN / period)
    acceleration = np.diff(places, 2, axis=0).reshape(len(targets.t) - 2, -1, 3) / period**2
    usual = float(np.sqrt((acceleration**2).sum(axis=2).mean()))
    return min(1.0, GENTLE / max(usual, 1e-12))


def _sampled(targets: Targets, tempo: float, duration: float) -> float:
    """The longest dt whose samples, joined by splines, come near to all frames of the recording."""
    from scipy.interpolate import CubicSpline

    dt = COARSEST
    while dt > FINEST:
        count = max(5, round(targets.t[-1] / tempo / dt) + 1)
        t = np.linspace(0.0, targets.t[-1], count)
        off = CubicSpline(t, targets.at(t))(targets.t) - targets.places
        if np.sqrt((off**2).sum(axis=2).mean()) <= CLOSE:
            break
        dt /= 1.2
    dt = max(dt, FINEST, duration / MOST)
    if dt > LONGEST * (1 + 1e-9):
        raise ModelError(
            f"the motion lasts {duration:.4g} s, more than {MOST} steps of 1/{round(1 / LONGEST)} s; choose a part of "
            "it with begin and end, or give [time] dt or steps"
        )
    return duration / round(duration / dt)


def _lead_time(manner: Manner, lead: Lead) -> float:
    """The time of the lead: within a response, whatever turns goes on by a radian at most."""
    return max(LED, FASTEST * abs(lead.angle) * manner.response) if manner.lead is None else manner.lead


def _led(targets: Targets, t: Array, tempo: float, duration: float, lead: Lead) -> Array:
    """Targets at times t; in the time of the lead from the places of the start to the dancer's first pose."""
    places = targets.at(np.clip((t - duration) * tempo, 0.0, targets.t[-1]))
    return lead.to(places, _eased(t / duration)) if duration > 0 else places


def _eased(s: Array) -> Array:
    """From 0 to 1, with four derivatives that vanish at both ends."""
    s = np.clip(s, 0.0, 1.0)
    out: Array = s**5 * (126 - 420 * s + 540 * s**2 - 315 * s**3 + 70 * s**4)
    return out


def _smoothed(rows: Array, width: float) -> Array:
    """Rows after a Gaussian filter of this standard deviation, in rows."""
    from scipy.ndimage import gaussian_filter1d

    out: Array = gaussian_filter1d(rows, width, axis=0, mode="nearest")
    return out

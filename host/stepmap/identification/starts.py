"""Where the search for trajectories begins: states near each run, and segments as long as the map allows."""

from __future__ import annotations

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.estimate import ExtendedKalmanFilter
from stepmap.identification.begins import begin
from stepmap.identification.inputs import acting
from stepmap.identification.observed import Observed, states_of
from stepmap.identification.trajectories import Segment
from stepmap.identification.unknowns import Unknowns
from stepmap.steps import VariationalStep

GROWTH = 300.0  # of a deviation within a segment, in standard deviations of the first state
SHORTEST = 10  # steps of a segment


class Start:
    """Noise of a job as the search needs it: channels, first state, process; what is zero there gets a floor."""

    def __init__(self, measurement: Array, first: Array, process: Array) -> None:
        self.sigma = measurement
        self.first = np.where(first > 0, first, np.where(process > 0, 10 * process, 1e-3))
        self.process = np.where(process > 0, process, 1e-3 * self.first)


def guesses(step: VariationalStep, run: Observed, start: Start) -> Array:
    """States (N+1, nx) near a run: the caller's, or those of a filter with the job's noise."""
    given = states_of(run, step.nx)
    if given is not None:  # a board's formats leave its estimate a hair beyond a string
        return np.array([begin(step, step.system.parameter_values, x, np.zeros(step.ndx)).x for x in given])
    ekf = ExtendedKalmanFilter(step, np.diag(start.process**2), np.diag(start.sigma**2))
    first = step.rest() if run.guess is None else np.asarray(run.guess, dtype=float)
    if first.shape != (step.nx,):
        raise ModelError(f"{run.name}: guess has {first.shape} entries; a state has {step.nx}")
    belief, states = ekf.start(first, np.diag(start.first**2)), []
    for k in range(run.steps + 1):
        if k:
            try:
                belief = ekf.predict(belief, run.U[k - 1])
            except ConvergenceError:
                raise ModelError(
                    f"{run.name}: at step {k} its readings are where the model cannot be",
                    hint="Is it of this job, and in SI units? Give guess=, states near the motion, if it is.",
                ) from None
        belief, _ = ekf.update(belief, run.Z[k], run.seen[k])
        states.append(belief.x)
    return np.array(states)


def segmented(
    step: VariationalStep,
    unknowns: Unknowns,
    runs: tuple[Observed, ...],
    states: list[Array],
    start: Start,
    segments: int | str,
) -> tuple[Segment, ...]:
    """The segments of all runs: of a given number of steps, or ("auto") as long as deviations stay within bounds."""
    if segments != "auto" and (isinstance(segments, bool) or not isinstance(segments, int) or segments < 2):
        raise ModelError(f"segments: expected 'auto' or a whole number of steps from 2, got {segments!r}")
    made = []
    for number, (run, guess) in enumerate(zip(runs, states, strict=True)):
        if isinstance(segments, int):
            bounds = list(range(0, run.steps, segments))
        else:
            bounds = _bounds(step, unknowns, run, guess, start.first)
        if len(bounds) > 1 and run.steps - bounds[-1] < 2:
            bounds.pop()
        ends = [*bounds[1:], run.steps]
        for first, end in zip(bounds, ends, strict=True):
            tie = None if end == run.steps else start.process * np.sqrt(end - first)
            made.append(Segment(number, first, end, guess[first], tie))
    return tuple(made)


def _bounds(step: VariationalStep, unknowns: Unknowns, run: Observed, states: Array, first: Array) -> list[int]:
    """Where segments begin: a new one where deviations from the last beginning have grown too large."""
    values = np.array([one.value for one in unknowns.free])
    assert run.before is not None
    U = np.ascontiguousarray(acting(unknowns, values, run.U, run.before, run.dt).U)
    try:
        _, A, _ = step.linearize_many(states[:-1], U)
    except ConvergenceError:
        return list(range(0, run.steps, SHORTEST))
    seen = step.layout["q"].stop - step.layout["q"].start
    scaled = A * (first[None, None, :] / first[None, :, None])
    bounds, grown = [0], np.eye(step.ndx)
    for k, one in enumerate(scaled):
        grown = one @ grown
        if np.abs(grown[:seen]).max() > GROWTH and k + 1 - bounds[-1] >= SHORTEST:
            bounds.append(k + 1)
            grown = np.eye(step.ndx)
    return bounds

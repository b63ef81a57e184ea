"""Trajectories of the model beside recorded runs: residuals in standard deviations, and their exact Jacobian.

A run is one segment, or several that are tied together. What is searched for are the unknowns and the first state of
every segment; commands are inputs, so that play and lag of encoders do not enter.

    e = (z − h(x) − bias)/σ,   first state: (x₀ − guess)/σ₀,   tie: (x_end − x₀ of the next)/σ_tie

    dx/dθ  ← A dx/dθ + B ∂u/∂θ + T,   dx/dx₀ ← A dx/dx₀
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError
from stepmap.identification.begins import Begin, begin
from stepmap.identification.inputs import Acting, Finer, acting, finer
from stepmap.identification.observed import Observed
from stepmap.identification.sensors import Sensors
from stepmap.identification.unknowns import BIAS, PARAMETER, RESTITUTION, Unknowns
from stepmap.steps import VariationalStep
from stepmap.steps.kernels.info import OK

LOOSE = 1e-3  # weight of the guesses of later segments: their ties decide
FAR = 1e4  # residual where the map has no solution


class Segment(NamedTuple):
    """Steps begin … end of a run, from a guessed state; ``tie`` is how far its end may be from the next."""

    run: int
    begin: int
    end: int
    guess: Array
    tie: Array | None  # None at the end of the run


class Path(NamedTuple):
    """A segment of the model: its states at the ticks and in between, and the inputs that acted."""

    X: Array
    inputs: Finer
    begin: Begin


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Runs beside the map. A point of the search is [unknowns, first states], the latter in ``first``."""

    step: VariationalStep
    unknowns: Unknowns
    runs: tuple[Observed, ...]
    segments: tuple[Segment, ...]
    sigma: Array  # of the channels
    first: Array  # of the first states
    substeps: int = 1  # ``step`` is that many times finer than the runs

    @property
    def count(self) -> int:
        """Entries of a point."""
        return len(self.unknowns.free) + len(self.segments) * self.step.ndx

    @cached_property
    def _last(self) -> list[Any]:
        return []

    @cached_property
    def start(self) -> Array:
        return np.concatenate([self.unknowns.start, np.zeros(self.count - len(self.unknowns.free))])

    @cached_property
    def sensors(self) -> Sensors:
        return Sensors(self.step)

    @cached_property
    def data(self) -> np.ndarray:
        """Which rows of the residual are readings."""
        rows = [np.arange(self._rows(s)) < self._readings(s) for s in self.segments]
        return np.concatenate(rows)

    def _readings(self, s: Segment) -> int:
        return (s.end - s.begin + (s.tie is None)) * len(self.sigma)

    def _rows(self, s: Segment) -> int:
        return self._readings(s) + self.step.ndx * (1 if s.tie is None else 2)

    @property
    def seen(self) -> int:
        """Readings that came."""
        return int(sum(run.seen.sum() for run in self.runs))

    # values -----------------------------------------------------------------------------------------------------

    def residual(self, point: Array) -> Array:
        """All residuals; large where the map has no solution."""
        try:
            paths = self.paths(point)
        except ConvergenceError:
            return np.full(len(self.data), FAR)
        parts = []
        for i, (s, path) in enumerate(zip(self.segments, paths, strict=True)):
            parts.append(self.errors(point, s, path).ravel())
            w = self._first(point, i)
            parts.append(w if s.begin == 0 else LOOSE * w)
            if s.tie is not None:
                parts.append(self.step.layout.difference(paths[i + 1].X[0], path.X[-1]) / s.tie)
        return np.concatenate(parts)

    def errors(self, point: Array, s: Segment, path: Path) -> Array:
        """Readings less those of the model, in standard deviations (ticks, nz); 0 where none came."""
        run, end = self.runs[s.run], s.end + (s.tie is None)
        values = self._values(point)
        z = self.sensors.at(self._at_ticks(s, path.X), self.unknowns.model(values)).z + self._bias(values)
        out: Array = np.where(run.seen[s.begin : end], (run.Z[s.begin : end] - z) / self.sigma, 0.0)
        return out

    def paths(self, point: Array) -> list[Path]:
        """The segments' trajectories; raises ConvergenceError where the map has no solution."""
        if self._last and np.array_equal(self._last[0], point):  # the Jacobian is asked for where the residual was
            known: list[Path] = self._last[1]
            return known
        values = self._values(point)
        par = self._kernel_parameters(values)
        inputs = self._inputs(values)
        found = []
        for i, s in enumerate(self.segments):
            start = begin(self.step, self.unknowns.model(values), s.guess, self._first(point, i) * self.first)
            given = self._finer(inputs[s.run], s, start.x)
            info, X, _ = self.step.kernel.rollout(par, self._length, start.x, np.ascontiguousarray(given.U))
            if info.status != OK or not np.isfinite(X).all():
                raise ConvergenceError(
                    f"{self.runs[s.run].name}: the model has no motion here (step {info.step})",
                    iterations=info.iterations,
                    residual=info.residual,
                    x=start.x,
                )
            found.append(Path(X, given, start))
        self._last[:] = np.array(point), found
        return found

    # slopes -----------------------------------------------------------------------------------------------------

    def jacobian(self, point: Array) -> Array:
        """Of the residual, dense: (rows, unknowns and first states)."""
        n, ndx = len(self.unknowns.free), self.step.ndx
        values = self._values(point)
        scale = self.unknowns.slopes(values)
        J = np.zeros((len(self.data), self.count))
        row = 0
        paths = self.paths(point)
        for i, (s, path) in enumerate(zip(self.segments, paths, strict=True)):
            own = slice(n + i * ndx, n + (i + 1) * ndx)
            S = self._sensitivities(values, scale, s, path)
            block = self._readings_slopes(values, scale, s, path, S)
            rows = slice(row, row + len(block))
            J[rows, :n], J[rows, own] = block[:, :n], block[:, n:]
            rows = slice(rows.stop, rows.stop + ndx)
            J[rows, own] = np.eye(ndx) * (1.0 if s.begin == 0 else LOOSE)
            if s.tie is not None:
                rows = slice(rows.stop, rows.stop + ndx)
                J[rows, :n], J[rows, own] = S[-1][:, :n] / s.tie[:, None], S[-1][:, n:] / s.tie[:, None]
                by_unknowns, by_first = self._begins(paths[i + 1], scale)
                J[rows, :n] -= by_unknowns / s.tie[:, None]
                J[rows, own.stop : own.stop + ndx] = -by_first / s.tie[:, None]
            row = rows.stop
        return J

    def _begins(self, path: Path, scale: Array) -> tuple[Array, Array]:
        """Derivatives of a first state by the unknowns and by its own coordinates of the search."""
        by_unknowns = np.zeros((self.step.ndx, len(scale)))
        for column, one in self.unknowns.of(PARAMETER):
            by_unknowns[:, column] = path.begin.by_parameters[:, one.place] * scale[column]
        return by_unknowns, path.begin.by_move * self.first

    def _sensitivities(self, values: Array, scale: Array, s: Segment, path: Path) -> Array:
        """Derivatives of the states (ticks+1, ndx, n + ndx) by unknowns and first state, in the search's scales."""
        step, n, ndx = self.step, len(values), self.step.ndx
        X, U, D = path.X, np.ascontiguousarray(path.inputs.U), path.inputs.D
        info, _, A, B, T = step.by_parameters(self._kernel_parameters(values), self._length, X[:-1], U, X[1:])
        if info.status != OK:
            raise ConvergenceError(
                "the model cannot be differentiated here", iterations=0, residual=0.0, x=X[info.step]
            )
        by_unknowns = np.einsum("kij,kjl->kil", B, D)
        for column, one in (*self.unknowns.of(PARAMETER), *self.unknowns.of(RESTITUTION)):
            by_unknowns[:, :, column] += T[:, :, one.place]
        by_unknowns *= scale
        # [dx; I] of one step to the next in one product: [A, C; 0, I].
        M, S = np.zeros((len(A), ndx + n, ndx + n)), np.zeros((len(X), ndx + n, n + ndx))
        M[:, :ndx, :ndx], M[:, :ndx, ndx:] = A, by_unknowns
        M[:, ndx:, ndx:] = S[0, ndx:, :n] = np.eye(n)
        S[0, :ndx, :n], S[0, :ndx, n:] = self._begins(path, scale)
        forces, rho = len(step.system.inputs), slice(n + step.nd, n + step.nd + step.nk)
        for k in range(len(A)):
            np.matmul(M[k], S[k], out=S[k + 1])
            if k < self.substeps and self.substeps > 1:  # the first input begins at the first state's ρ
                S[k + 1, :ndx, rho] += path.inputs.rho[k] * B[k][:, forces:] * self.first[step.nd : step.nd + step.nk]
        return S[:: self.substeps, :ndx]

    def _readings_slopes(self, values: Array, scale: Array, s: Segment, path: Path, S: Array) -> Array:
        n, end = len(values), s.end + (s.tie is None)
        at = self.sensors.at(self._at_ticks(s, path.X), self.unknowns.model(values))
        slopes = np.einsum("kij,kjl->kil", at.H, S[: len(at.z), : at.H.shape[2]])
        for column, one in self.unknowns.of(PARAMETER):
            slopes[:, :, column] += at.T[:, :, one.place] * scale[column]
        for column, one in self.unknowns.of(BIAS):
            slopes[:, one.place, column] += scale[column]
        seen = self.runs[s.run].seen[s.begin : end]
        slopes *= -(seen / self.sigma)[:, :, None]
        out: Array = slopes.reshape(-1, n + self.step.ndx)
        return out

    # parts ------------------------------------------------------------------------------------------------------

    @cached_property
    def _length(self) -> Array:
        return np.array([self.step.dt])

    def _values(self, point: Array) -> Array:
        return self.unknowns.values(point[: len(self.unknowns.free)])

    def _first(self, point: Array, segment: int) -> Array:
        n, ndx = len(self.unknowns.free), self.step.ndx
        return point[n + segment * ndx : n + (segment + 1) * ndx]

    def _kernel_parameters(self, values: Array) -> Array:
        return self.unknowns.kernel(values, self.step.parameter_values)

    def _inputs(self, values: Array) -> list[Acting]:
        return [acting(self.unknowns, values, run.U, run.before, run.dt) for run in self.runs]  # type: ignore[arg-type]

    def _finer(self, given: Acting, s: Segment, x0: Array) -> Finer:
        part = Acting(given.U[s.begin : s.end], given.D[s.begin : s.end])
        return finer(part, x0[self.step.layout["rho"]], len(self.step.system.inputs), self.substeps)

    def _at_ticks(self, s: Segment, X: Array) -> Array:
        ticks = X[:: self.substeps]
        return ticks if s.tie is None else ticks[:-1]

    def _bias(self, values: Array) -> Array:
        made = np.zeros(len(self.sigma))
        for one in self.unknowns.held:
            if one.kind == BIAS:
                made[one.place] += one.value
        for column, one in self.unknowns.of(BIAS):
            made[one.place] += values[column]
        return made

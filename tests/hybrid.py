"""Mechanisms with unilateral constraints in continuous time: the truth that event steps are held against.

Nothing here comes from stepmap. A mechanism is two energies, gaps and generalized forces, written by hand. Between
events Euler and Lagrange's equations with the closed gaps' second derivatives are integrated by an eighth-order method;
its dense output locates where a gap closes and where a force would begin to pull the wrong way.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np
from scipy.integrate import solve_ivp

SLOW = 1e-9  # a gap speed below it counts as zero [m/s]


@dataclass(frozen=True)
class Gap:
    """``height``(q, t) ≥ 0; ``tangents``(q, t) do not move while it is closed."""

    name: str
    height: Callable[[ca.SX, ca.SX], ca.SX]
    tangents: Callable[[ca.SX, ca.SX], ca.SX] | None = None
    restitution: float = 0.0


@dataclass(frozen=True)
class Happening:
    """An event of the truth, with the fields of stepmap's own."""

    time: float
    name: str
    kind: str
    impulse: float
    energy: float


@dataclass(frozen=True)
class Path:
    """A solution: ``at(t)`` returns (q, v)."""

    events: list[Happening]
    pieces: list[tuple[float, Callable[[float], np.ndarray]]]  # end of a piece, its dense output
    size: int

    def at(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        piece = next((found for end, found in self.pieces if t <= end), self.pieces[-1][1])
        state = piece(t)
        return state[: self.size], state[self.size :]

    def times(self, kind: str) -> np.ndarray:
        return np.array([event.time for event in self.events if event.kind == kind])


class Hybrid:
    """d/dt ∂T/∂v − ∂T/∂q + ∂V/∂q = F + Σ λ ∂g/∂q with λ ≥ 0, g ≥ 0, λ g = 0, and Newton's law of impact."""

    def __init__(
        self,
        size: int,
        kinetic: Callable[[ca.SX, ca.SX], ca.SX],
        potential: Callable[[ca.SX], ca.SX],
        gaps: Sequence[Gap],
        force: Callable[[ca.SX, ca.SX, ca.SX], ca.SX] | None = None,
    ) -> None:
        q, v, t = ca.SX.sym("q", size), ca.SX.sym("v", size), ca.SX.sym("t")
        energy = kinetic(q, v)
        momentum = ca.gradient(energy, v)
        bias = ca.gradient(energy, q) - ca.gradient(potential(q), q) - ca.jtimes(momentum, q, v)
        if force is not None:
            bias += force(q, v, t)
        rows = [[gap.height(q, t)] + ([gap.tangents(q, t)] if gap.tangents else []) for gap in gaps]
        sizes = [sum(part.numel() for part in group) for group in rows]
        self.owned = [list(range(sum(sizes[:i]), sum(sizes[: i + 1]))) for i in range(len(gaps))]  # normal row first
        row = ca.vertcat(*itertools.chain(*rows))
        speed = ca.jtimes(row, q, v) + ca.jacobian(row, t)
        turning = ca.jtimes(speed, q, v) + ca.jacobian(speed, t)
        out = [ca.jacobian(momentum, v), bias, row, ca.jacobian(row, q), speed, turning, energy]
        self._evaluate = ca.Function("hybrid", [q, v, t], [ca.densify(e) for e in out])
        self.size, self.gaps = size, gaps
        self.normals = [owned[0] for owned in self.owned]

    def evaluate(self, t: float, state: np.ndarray) -> list[np.ndarray]:
        """Mass matrix, bias, rows, their Jacobian, their speeds, the rest of their accelerations, kinetic energy."""
        return [np.asarray(e) for e in self._evaluate(state[: self.size], state[self.size :], t)]

    def solve(
        self, q: Sequence[float], v: Sequence[float], seconds: float, closed: Sequence[str] = (), most: int = 50
    ) -> Path:
        """The motion from a position and a velocity; ``closed`` names gaps that are closed and not striking.

        It ends early after ``most`` events, as when they accumulate.
        """
        state, t = np.concatenate([q, v]).astype(float), 0.0
        names = [gap.name for gap in self.gaps]
        active = {names.index(name) for name in closed}
        path = Path([], [], self.size)
        while t < seconds and len(path.events) < most:
            active = self._sustained(t, state, active)
            end, state, what = self._piece(t, state, active, seconds, path)
            if what is None:
                break
            row, kind = what
            if kind == "release":
                active = active - {row}
                path.events.append(Happening(end, names[row], "release", 0.0, 0.0))
            else:
                state, active = self._strike(end, state, active, row, path)
            t = end
        return path

    def acceleration(self, t: float, state: np.ndarray, active: set[int]) -> tuple[np.ndarray, np.ndarray]:
        """q̈, and the forces of the normal rows in the order of the gaps."""
        M, bias, _, J, _, turning, _ = self.evaluate(t, state)
        rows = self._rows(active)
        a, force = _saddle(M, J[rows], bias[:, 0], -turning[rows, 0])
        forces = np.zeros(len(J))
        forces[rows] = force
        return a, forces[self.normals]

    def _rows(self, active: set[int]) -> list[int]:
        return [row for gap in sorted(active) for row in self.owned[gap]]

    def _sustained(self, t: float, state: np.ndarray, active: set[int]) -> set[int]:
        """The closed gaps that push, of a set that was closed a moment ago."""
        while active:
            forces = self.acceleration(t, state, active)[1]
            worst = min(active, key=lambda gap: forces[gap])
            if forces[worst] > -1e-9:
                break
            active = active - {worst}
        return active

    def _piece(
        self, t: float, state: np.ndarray, active: set[int], end: float, path: Path
    ) -> tuple[float, np.ndarray, tuple[int, str] | None]:
        """Smooth motion up to the next event: its time, the state there, which gap and what kind."""

        def rate(t: float, state: np.ndarray) -> np.ndarray:
            return np.concatenate([state[self.size :], self.acceleration(t, state, active)[0]])

        watched: list[tuple[int, str]] = []
        functions = []
        for gap in range(len(self.gaps)):
            if gap in active:
                functions.append(lambda t, state, gap=gap: self.acceleration(t, state, active)[1][gap])
                watched.append((gap, "release"))
            else:
                functions.append(lambda t, state, row=self.normals[gap]: self.evaluate(t, state)[2][row, 0])
                watched.append((gap, "impact"))
        for function in functions:
            function.direction, function.terminal = -1, True  # type: ignore[attr-defined]
        found = solve_ivp(
            rate, (t, end), state, "DOP853", events=functions, dense_output=True, rtol=1e-11, atol=1e-12, max_step=0.05
        )
        path.pieces.append((found.t[-1], found.sol))
        hit = [i for i, times in enumerate(found.t_events) if len(times)]
        return found.t[-1], found.y[:, -1], watched[hit[0]] if found.status == 1 else None

    def _strike(
        self, t: float, state: np.ndarray, active: set[int], struck: int, path: Path
    ) -> tuple[np.ndarray, set[int]]:
        """The law: velocities of closed rows stay zero or their gaps open; impulses push."""
        M, _, _, J, speed, _, before = self.evaluate(t, state)
        e = self.gaps[struck].restitution
        others = sorted(active)
        for count in range(len(others), -1, -1):
            for kept in itertools.combinations(others, count):
                gaps = {struck, *kept}
                rows = self._rows(gaps)
                wanted = np.where(np.array(rows) == self.normals[struck], -e * speed[self.normals[struck], 0], 0.0)
                change, impulse = _saddle(M, J[rows], np.zeros(self.size), wanted - speed[rows, 0])
                impulses = dict(zip(rows, impulse, strict=True))
                after = np.concatenate([state[: self.size], state[self.size :] + change])
                leaving = self.evaluate(t, after)[4][:, 0]
                pushes = all(impulses[self.normals[gap]] >= -1e-12 for gap in gaps)
                opens = all(leaving[self.normals[gap]] >= -SLOW for gap in others if gap not in kept)
                if pushes and opens:
                    lost = float(before[0, 0] - self.evaluate(t, after)[6][0, 0])
                    strength = float(impulses[self.normals[struck]])
                    path.events.append(Happening(t, self.gaps[struck].name, "impact", strength, lost))
                    for gap in set(others) - set(kept):
                        path.events.append(Happening(t, self.gaps[gap].name, "release", 0.0, 0.0))
                    return after, gaps if e == 0 else set(kept)
        raise AssertionError(f"no admissible impact of {self.gaps[struck].name} at {t}")


def _saddle(M: np.ndarray, J: np.ndarray, bias: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(a, λ) of M a = bias + Jᵀ λ, J a = right."""
    n = len(J)
    matrix, given = np.block([[M, -J.T], [J, np.zeros((n, n))]]), np.concatenate([bias, right])
    # Two sticking feet on one floor: what their tangents share is not unique, and does not matter.
    z = np.linalg.lstsq(matrix, given, rcond=1e-10)[0] if n > len(M) else np.linalg.solve(matrix, given)
    return z[: len(M)], z[len(M) :]

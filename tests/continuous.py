"""A mechanism in continuous time, with inputs as motors give them: the truth that step maps are held against."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

import stepmap as sm


class ContinuousPlant:
    """q̄ and its velocity; forces are held over a step, kinematic coordinates move linearly within it."""

    def __init__(self, system: sm.System, pose: np.ndarray, velocity: np.ndarray) -> None:
        self.euler, self.step = sm.euler(system, 1.0), sm.discretize(system, 1.0)
        self.pose, self.velocity = np.array(pose, dtype=float), np.array(velocity, dtype=float)

    def advance(self, forces: np.ndarray, rho_next: np.ndarray, seconds: float) -> None:
        """Lets time pass. Where the rate of a kinematic coordinate jumps, momenta stay."""
        nd, nq = self.step.nd, len(self.pose)
        state = self.step.from_velocity(self.pose, self.velocity, instant=True)
        state[self.step.layout["v"]] = (rho_next - self.pose[nd:]) / seconds
        start = np.concatenate([self.pose, self.step.velocity(state)])
        u = np.concatenate([forces, np.zeros(self.step.nk)])
        found = solve_ivp(
            lambda _, x: self.euler.dynamics(x, u).rate, (0.0, seconds), start, method="DOP853", rtol=1e-12, atol=1e-13
        )
        self.pose, self.velocity = found.y[:nq, -1], found.y[nq:, -1]

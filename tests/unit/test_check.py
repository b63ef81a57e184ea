"""The numeric twin itself: exact on polynomials, and not to be fooled."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import stepmap as sm
from stepmap.steps.check import difference


def test_differences_are_exact_up_to_the_sixth_power() -> None:
    """Σ x^k, k = 0 … 6: only x⁷ and above have a truncation error."""
    at = np.array([0.7, -1.3])
    powers = np.arange(7)
    slope = difference(lambda x: np.array([(x**k).sum() for k in powers]), at, np.array([0.1, 0.1]))
    exact = [[k * e ** max(k - 1, 0) for e in at] for k in powers]
    np.testing.assert_allclose(slope, exact, rtol=0, atol=1e-12)


@dataclasses.dataclass(frozen=True)
class Quadratic:
    """x₂ = A x + B u + ½ xᵀ H x e₁, with what its derivatives say made wrong on demand."""

    wrong: str = ""
    A = np.array([[1.0, 0.2], [-0.3, 0.9]])
    B = np.array([[0.5], [1.5]])
    H = np.array([[0.4, 0.1], [0.1, -0.6]])

    def _off(self, name: str) -> float:
        return 1e-3 if self.wrong == name else 0.0

    def step(self, x: np.ndarray, u: np.ndarray) -> sm.StepResult:
        after = self.A @ x + self.B @ u + np.array([x @ self.H @ x / 2, 0.0])
        return sm.StepResult(after, np.zeros(0), 1)

    def linearize(self, x: np.ndarray, u: np.ndarray) -> sm.Linearization:
        A = self.A + np.array([self.H @ x, [0.0, 0.0]])
        return sm.Linearization(self.step(x, u).x, A + self._off("A"), self.B + self._off("B"))

    def curvature(self, x: np.ndarray, u: np.ndarray, z: np.ndarray) -> sm.Curvature:
        return sm.Curvature(
            z[0] * self.H + self._off("xx"), np.zeros((2, 1)) + self._off("xu"), np.zeros((1, 1)) + self._off("uu")
        )


POINT = (np.array([0.3, -0.8]), np.array([0.5]), np.array([1.2, 0.7]))


def test_exact_derivatives_pass() -> None:
    assert sm.check_derivatives(Quadratic(), *POINT).worst < 1e-12


@pytest.mark.parametrize("wrong", ["A", "B", "xx", "xu", "uu"])
def test_each_wrong_derivative_is_found_and_named(wrong: str) -> None:
    errors = sm.check_derivatives(Quadratic(wrong), *POINT)._asdict()
    found = errors.pop(wrong)
    assert 5e-4 < found < 1.1e-3  # relative to the largest entry, 1.5 in B
    assert max(errors.values()) < 1e-12

"""The filter against its textbook form and against filterpy's, and what it does with bad measurements."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from filterpy.kalman import ExtendedKalmanFilter as Filterpy
from scipy.linalg import solve_discrete_are

import stepmap as sm
from tests.mechanisms import case

NAN = float("nan")


def rail(dt: float = 0.05) -> sm.VariationalStep:
    """Two masses on slides, one on the other, held by springs and dampers: linear all through."""
    b = sm.Builder("rail")
    a, c, force = b.coordinate("a", unit="m"), b.coordinate("c", unit="m"), b.input("force", unit="N")
    first = b.world.tx(a, name="first")
    b.mass(first, 1.0)
    b.mass(first.tx(c, name="second"), 0.5)
    for coordinate, stiffness, damping in ((a, 2.0, 0.3), (c, 5.0, 0.2)):
        b.coordinate_spring(coordinate, stiffness=stiffness)
        b.damping(coordinate, damping)
        b.encoder(coordinate)
    b.drive(a, force)
    return sm.discretize(b.build(), dt)


@dataclass(frozen=True, eq=False)
class Scene:
    """A map, a start with its covariance, noises, and some inputs and measurements along a noisy run."""

    step: Any
    x: np.ndarray
    P: np.ndarray
    Q: np.ndarray
    R: np.ndarray
    u: np.ndarray
    z: np.ndarray

    def filter(self, **options: Any) -> sm.ExtendedKalmanFilter:
        return sm.ExtendedKalmanFilter(self.step, self.Q, self.R, **({"constraint_projection": False} | options))

    def run(self, ekf: sm.ExtendedKalmanFilter, z: np.ndarray | None = None) -> sm.Belief:
        """The belief after all inputs and measurements."""
        belief = ekf.start(self.x, self.P)
        for u, measured in zip(self.u, self.z if z is None else z, strict=True):
            belief, _ = ekf.update(ekf.predict(belief, u), measured)
        return belief


def positive(rng: np.random.Generator, n: int, scale: float) -> np.ndarray:
    half = rng.normal(size=(n, n))
    return scale**2 * (half @ half.T / n + 0.2 * np.eye(n))


@functools.cache
def scene(name: str, steps: int = 12) -> Scene:
    """rail: linear; the others nonlinear, planar_arm also in what its marker sees; _euler on the explicit Euler map."""
    rng = np.random.default_rng(0)
    if name == "rail":
        step: Any = rail()
        x, u = step.from_velocity([0.2, -0.1], [0.0, 0.3]), np.array([0.5])
    else:
        made = case(name.removesuffix("_euler"))
        step = made.euler if name.endswith("_euler") else made.midpoint
        x, u = made.euler_point if name.endswith("_euler") else (made.x, made.u)
    channels = len(step.system.sensor_channels)
    U = u + 1e-3 * rng.normal(size=(steps, step.nu))
    path = step.rollout(x, U)
    z = step.system.readings(path.x[1:, : step.nx // 2]) + 5e-3 * rng.normal(size=(steps, channels))
    P, Q = positive(rng, step.nx, 3e-3), positive(rng, step.nx, 1e-3)
    return Scene(step, x + 1e-3 * rng.normal(size=step.nx), P, Q, positive(rng, channels, 5e-3), U, z)


SCENES = ["rail", "cart_pendulum", "suspended_mass", "planar_arm", "suspended_mass_euler", "planar_arm_euler"]
each_scene = pytest.mark.parametrize("name", SCENES)


def slope(step: Any, x: np.ndarray) -> np.ndarray:
    """∂readings/∂x, (nz, nx)."""
    H = step.system.readings_slope(x[: step.nx // 2])
    return np.hstack([H, np.zeros((len(H), step.nx - H.shape[1]))])


def textbook(s: Scene, x: np.ndarray, P: np.ndarray, u: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One predict and update in matrix form (Bar-Shalom, Li & Kirubarajan, table 10.3.3-1)."""
    x, A, _ = s.step.linearize(x, u)
    P = A @ P @ A.T + s.Q
    H = slope(s.step, x)
    S = H @ P @ H.T + s.R
    W = P @ H.T @ np.linalg.inv(S)
    x = x + W @ (z - s.step.system.readings(x[: s.step.nx // 2]))
    return x, P - W @ S @ W.T


def close(ours: sm.Belief, x: np.ndarray, P: np.ndarray, rel: float = 1e-10) -> None:
    """Both are some twenty products in another order, with matrices of conditions up to 1e4."""
    np.testing.assert_allclose(ours.x, x, rtol=0, atol=rel * np.abs(x).max())
    np.testing.assert_allclose(ours.P, P, rtol=0, atol=rel * np.abs(P).max())


# against others -----------------------------------------------------------------------------------------------------


@each_scene
@pytest.mark.parametrize("joseph", [False, True])
def test_filter_is_the_textbook_s(name: str, joseph: bool) -> None:
    """Channels one by one, with correlated noise, are all channels at once; Joseph's update is the plain one."""
    s = scene(name)
    x, P = s.x, s.P
    for u, z in zip(s.u, s.z, strict=True):
        x, P = textbook(s, x, P, u, z)
    close(s.run(s.filter(joseph=joseph)), x, P)


@each_scene
def test_filter_is_filterpy_s(name: str) -> None:
    s = scene(name)

    class Other(Filterpy):
        def predict_x(self, u: Any = 0) -> None:
            self.x, self.F, _ = s.step.linearize(self.x, u)

    other = Other(s.step.nx, len(s.R))
    other.x, other.P, other.Q, other.R = s.x.copy(), s.P.copy(), s.Q, s.R
    for u, z in zip(s.u, s.z, strict=True):
        other.predict(u)
        other.update(z, lambda x: slope(s.step, x), lambda x: s.step.system.readings(x[: s.step.nx // 2]))
    close(s.run(s.filter()), other.x, other.P)


def test_linear_filter_is_the_conditional_mean() -> None:
    """Without approximation: the Gaussian of the last state given all measurements, from their joint covariance."""
    s = scene("rail", 4)
    n, nx, nz = len(s.u), s.step.nx, len(s.R)
    _, A, B = s.step.linearize(s.x, s.u[0])
    H = slope(s.step, s.x)
    # [x_0, w_1 … w_n] are independent; every state and measurement is linear in them.
    joint = np.kron(np.eye(n + 1), s.Q)
    joint[:nx, :nx] = s.P
    mean, to_state, states, means = s.x, np.eye(nx, (n + 1) * nx), [], []
    for k in range(n):
        mean = A @ mean + B @ s.u[k]
        to_state = A @ to_state
        to_state[:, (k + 1) * nx : (k + 2) * nx] += np.eye(nx)
        states.append(to_state.copy())
        means.append(mean)
    to_z = np.vstack([H @ state for state in states])
    S = to_z @ joint @ to_z.T + np.kron(np.eye(n), s.R)
    W = states[-1] @ joint @ to_z.T @ np.linalg.inv(S)
    x = means[-1] + W @ (s.z.ravel() - np.concatenate([H @ m for m in means]))
    assert S.shape == (n * nz, n * nz)
    close(s.run(s.filter()), x, states[-1] @ joint @ states[-1].T - W @ S @ W.T)


@each_scene
def test_prediction_is_the_map_and_its_linearization(name: str) -> None:
    s = scene(name)
    predicted = s.filter().predict(s.filter().start(s.x, s.P), s.u[0])
    x, A, _ = s.step.linearize(s.x, s.u[0])
    close(predicted, x, A @ s.P @ A.T + s.Q, 1e-13)


# batches ------------------------------------------------------------------------------------------------------------


@each_scene
@pytest.mark.parametrize("options", [{}, {"joseph": True}, {"gate": 1.5}, {"constraint_projection": True}])
def test_batch_is_its_beliefs_one_by_one(name: str, options: dict[str, Any]) -> None:
    """Beliefs, inputs, measurements and flags all differ; one input or measurement may be for all."""
    s, ekf = scene(name), scene(name).filter(**options)
    rng = np.random.default_rng(1)
    many = 5
    X = s.x + 1e-3 * rng.normal(size=(many, len(s.x)))
    P = np.linspace(0.5, 2.0, many)[:, None, None] * s.P
    U, Z = s.u[:many], s.z[:many]
    valid = rng.random(Z.shape) > 0.3
    for u, z, flags in ((U, Z, valid), (U[0], Z, valid[0]), (U, Z[0], valid), (U, Z, None), (U[0], Z[0], None)):
        belief, seen = ekf.update(ekf.predict(ekf.start(X, P), u), z, flags)
        assert belief.x.shape == X.shape
        assert belief.P.shape == P.shape
        for i in range(many):
            pick = [e if e is None or e.ndim == 1 else e[i] for e in (u, z, flags)]
            one, saw = ekf.update(ekf.predict(ekf.start(X[i], P[i]), pick[0]), pick[1], pick[2])
            close(sm.Belief(belief.x[i], belief.P[i]), one.x, one.P, 1e-12)
            np.testing.assert_array_equal(seen.used[i], saw.used)
            np.testing.assert_array_equal(seen.gated[i], saw.gated)
            np.testing.assert_allclose(seen.nis[i], saw.nis, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("joseph", [False, True])
def test_one_belief_may_meet_many_measurements(joseph: bool) -> None:
    s = scene("suspended_mass")
    ekf = s.filter(joseph=joseph)
    start = ekf.start(s.x, s.P)
    belief, seen = ekf.update(start, s.z)
    assert belief.x.shape == (len(s.z), 8)
    assert seen.nis.shape == (len(s.z),)
    for i, z in enumerate(s.z):
        one, _ = ekf.update(start, z)
        close(sm.Belief(belief.x[i], belief.P[i]), one.x, one.P, 1e-13)


def test_one_covariance_may_be_for_many_states() -> None:
    s = scene("rail")
    assert s.filter().start(np.tile(s.x, (3, 2, 1)), s.P).P.shape == (3, 2, 4, 4)
    assert s.filter().start(s.x, np.tile(s.P, (3, 1, 1))).x.shape == (3, 4)


def test_start_is_a_copy() -> None:
    s = scene("rail")
    x, P = s.x.copy(), s.P.copy()
    belief = s.filter().start(x, P)
    x[0], P[0, 0] = 9.0, 9.0
    np.testing.assert_array_equal(belief.x, s.x)
    np.testing.assert_array_equal(belief.P, s.P)


# bad measurements ---------------------------------------------------------------------------------------------------


@each_scene
@pytest.mark.parametrize("correlated", [False, True])
def test_invalid_channels_are_not_there(name: str, correlated: bool) -> None:
    """The belief is that of the textbook with their rows left out, also where noise is correlated."""
    s = scene(name)
    R = s.R if correlated else np.diag(np.diagonal(s.R))
    ekf = sm.ExtendedKalmanFilter(s.step, s.Q, R, constraint_projection=False)
    valid = np.arange(len(R)) != 1
    belief, seen = ekf.update(ekf.start(s.x, s.P), s.z[0], valid)
    H, r = slope(s.step, s.x)[valid], s.z[0] - s.step.system.readings(s.x[: s.step.nx // 2])
    S = H @ s.P @ H.T + R[np.ix_(valid, valid)]
    W = s.P @ H.T @ np.linalg.inv(S)
    close(belief, s.x + W @ r[valid], s.P - W @ S @ W.T)
    assert seen.used.tolist() == valid.tolist()
    assert not seen.gated.any()
    assert seen.nis == pytest.approx(r[valid] @ np.linalg.solve(S, r[valid]), rel=1e-9)


@pytest.mark.parametrize("bad", [NAN, np.inf, -np.inf])
@pytest.mark.parametrize("correlated", [False, True])
def test_channel_that_is_not_finite_is_invalid(bad: float, correlated: bool) -> None:
    s = scene("suspended_mass")
    ekf = sm.ExtendedKalmanFilter(s.step, s.Q, s.R if correlated else np.diag(np.diagonal(s.R)))
    z = s.z[0].copy()
    z[2] = bad
    start = ekf.start(s.x, s.P)
    (ours, saw), (theirs, seen) = ekf.update(start, z), ekf.update(start, s.z[0], [True, True, False, True])
    np.testing.assert_array_equal(ours.x, theirs.x)
    np.testing.assert_array_equal(ours.P, theirs.P)
    assert saw.used.tolist() == seen.used.tolist() == [True, True, False, True]
    assert np.isfinite(saw.nis)


@each_scene
def test_without_measurements_nothing_changes(name: str) -> None:
    s = scene(name)
    start = s.filter().start(s.x, s.P)
    for z, valid in ((s.z[0], False), (s.z[0] * NAN, None)):
        belief, seen = s.filter().update(start, z, valid)
        np.testing.assert_array_equal(belief.x, start.x)
        np.testing.assert_array_equal(belief.P, start.P)
        assert not seen.used.any()
        assert seen.nis == 0.0


def test_gate_rejects_a_jump_and_counts_it() -> None:
    """A channel 1 m off is left out, and the belief is as if it had not come."""
    s = scene("suspended_mass")
    R = np.diag(np.diagonal(s.R))
    ekf = sm.ExtendedKalmanFilter(s.step, s.Q, R, gate=4.0)
    start, jump = ekf.start(s.x, s.P), s.z[0] + [0.0, 1.0, 0.0, 0.0]
    belief, seen = ekf.update(start, jump)
    assert seen.gated.tolist() == [False, True, False, False]
    assert seen.used.tolist() == [True, False, True, True]
    skipped, _ = ekf.update(start, s.z[0], [True, False, True, True])
    np.testing.assert_array_equal(belief.x, skipped.x)
    np.testing.assert_array_equal(belief.P, skipped.P)
    believed, _ = sm.ExtendedKalmanFilter(s.step, s.Q, R).update(start, jump)
    assert np.abs(believed.x - skipped.x).max() > 0.01  # without the gate it would have moved


def test_gate_is_in_standard_deviations_of_the_innovation() -> None:
    s = scene("rail")
    R = np.diag(np.diagonal(s.R))
    ekf = sm.ExtendedKalmanFilter(s.step, s.Q, R, gate=3.0)
    sigma = np.sqrt(s.P[0, 0] + R[0, 0])
    for factor, passes in ((2.99, True), (3.01, False), (-2.99, True), (-3.01, False)):
        _, seen = ekf.update(ekf.start(s.x, s.P), [s.x[0] + factor * sigma, NAN])
        assert seen.used[0] == passes
        assert seen.gated[0] == (not passes)
        assert seen.residual[0] == pytest.approx(factor * sigma)
        assert seen.variance[0] == pytest.approx(sigma**2)


def test_channel_that_is_invalid_is_not_gated() -> None:
    """Even where the others have moved what it should have read far beyond its own spread."""
    s = scene("rail")
    P = 1e-4 * np.eye(4)
    P[0, 1] = P[1, 0] = 0.999e-4
    ekf = sm.ExtendedKalmanFilter(s.step, s.Q, 1e-10 * np.eye(2), gate=5.0)
    _, seen = ekf.update(ekf.start(s.x, P), [s.x[0] + 0.04, NAN])
    assert seen.used.tolist() == [True, False]
    assert not seen.gated.any()


def test_gate_lets_a_chi_square_s_share_pass() -> None:
    """5 % of honest innovations are outside 1.96 standard deviations; 4000 of them, so ± 0.35 % each σ."""
    s = scene("rail")
    rng = np.random.default_rng(3)
    R = np.diag(np.diagonal(s.R))
    ekf = sm.ExtendedKalmanFilter(s.step, s.Q, R, gate=1.959964)
    truth = rng.multivariate_normal(s.x, s.P, 4000)
    _, seen = ekf.update(ekf.start(s.x, s.P), truth[:, :2] + rng.multivariate_normal([0, 0], R, 4000))
    assert abs(seen.gated[:, 0].mean() - 0.05) < 4 * 0.0035
    assert not (seen.gated & seen.used).any()
    assert (seen.gated | seen.used).all()


# constraints --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["suspended_mass", "planar_arm", "suspended_mass_euler"])
def test_constraint_projection_is_on_the_constraints_and_near(name: str) -> None:
    """Onto them to rounding, by no more than the gap over the slope; rho, p and v stay."""
    s = scene(name)
    nd, nq = s.step.nd, s.step.nx // 2
    loose, tight = s.filter(), s.filter(constraint_projection=True)
    # An update that goes far: starts are on the constraint, then covariances that do not know of it.
    x = s.step.system.satisfy_constraints(s.x[:nq])
    start = loose.start(np.concatenate([x, s.x[nq:]]), np.diag(np.diagonal(s.P)))
    (off, _), (on, _) = loose.update(start, s.z[0]), tight.update(start, s.z[0])
    gap = np.abs(s.step.system.gaps(off.x[:nq])).max()
    assert gap > 1e-5
    # Two Gauss–Newton turns: the gap is squared twice, 1e-3 to 1e-12.
    assert np.abs(s.step.system.gaps(on.x[:nq])).max() < 1e-9
    assert np.abs(on.x - off.x).max() < 5 * gap
    np.testing.assert_array_equal(on.x[nd:], off.x[nd:])
    np.testing.assert_array_equal(on.P, off.P)


def test_constraint_projection_is_the_nearest_pose() -> None:
    """For a string: along it, whatever its direction."""
    s = scene("suspended_mass")
    tight, loose = s.filter(constraint_projection=True), s.filter()
    start = loose.start(s.x, np.diag(np.diagonal(s.P)))
    on, off = tight.update(start, s.z[0])[0].x, loose.update(start, s.z[0])[0].x
    string = off[:2] - [off[2], 1.0]
    np.testing.assert_allclose(on[:2], [off[2], 1.0] + string / np.linalg.norm(string) * off[3], rtol=0, atol=1e-7)


def test_filter_holds_the_constraint_over_a_run() -> None:
    s = scene("suspended_mass")
    belief = s.run(s.filter(constraint_projection=True))
    assert np.abs(s.step.system.gaps(belief.x[:4])).max() < 1e-12


def test_covariance_stays_on_the_constraint() -> None:
    """Dh P = 0 where noise enters through the inputs only: the linearization is tangent to the constraint."""
    s = scene("suspended_mass")
    B = s.step.linearize(s.x, s.u[0]).B
    ekf = sm.ExtendedKalmanFilter(s.step, B @ B.T * 1e-6, s.R)
    belief = ekf.start(s.x, np.zeros((8, 8)))
    for u, z in zip(s.u[:1], s.z[:1], strict=True):
        predicted = ekf.predict(belief, u)
        across = s.step.system.residuals_slope(predicted.x[:4])[0] @ predicted.P[:4]
        assert np.abs(across).max() <= 1e-14 * np.abs(predicted.P).max()
        updated, _ = ekf.update(predicted, z)
        across = s.step.system.residuals_slope(predicted.x[:4])[0] @ updated.P[:4]
        assert np.abs(across).max() <= 1e-14 * np.abs(predicted.P).max()


# long runs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("joseph", [False, True])
def test_filter_of_a_pendulum_that_stands_on_its_head_settles(joseph: bool) -> None:
    """P is scipy's solution of the Riccati equation after 20 s. Measurements do not shrink its antisymmetric part, and
    an unstable map lets that grow from rounding without bound."""
    step = sm.discretize(sm.systems.get("cart_pendulum"), 0.02)
    x, u = step.equilibrium({"theta": np.pi})
    Q, R = np.diag([1e-8, 1e-8, 1e-4, 1e-4]), 1e-4 * np.eye(2)
    made = sm.ExtendedKalmanFilter(step, Q, R, joseph=joseph)
    belief, z = made.start(x, 1e-4 * np.eye(4)), step.system.readings(step.layout.pose(x))
    for _ in range(1000):
        belief = made.predict(made.update(belief, z)[0], u)
    steady = solve_discrete_are(step.linearize(x, u).A.T, slope(step, x).T, Q, R)
    np.testing.assert_allclose(belief.P, steady, rtol=0, atol=1e-6 * np.abs(steady).max())
    np.testing.assert_array_equal(belief.P, belief.P.T)


@pytest.mark.parametrize("name", ["rail", "suspended_mass", "suspended_mass_euler"])
@pytest.mark.parametrize("joseph", [False, True])
def test_covariance_stays_symmetric_and_positive(name: str, joseph: bool) -> None:
    """Over 2000 ticks, from a start known badly and with measurements known well."""
    s = scene(name)
    ekf = sm.ExtendedKalmanFilter(s.step, 1e-8 * s.Q / np.abs(s.Q).max(), 1e-8 * np.eye(len(s.R)), joseph=joseph)
    x = s.step.equilibrium({})[0] if name != "suspended_mass_euler" else s.step.rest({})
    hold = x[s.step.nd : s.step.nd + s.step.nk] if name == "suspended_mass" else np.zeros(s.step.nu)
    belief, z = ekf.start(x, np.eye(len(x))), s.step.system.readings(x[: len(x) // 2])
    rng = np.random.default_rng(4)
    for _ in range(2000):
        belief, _ = ekf.update(ekf.predict(belief, hold), z + 1e-4 * rng.normal(size=len(z)))
        size = np.abs(belief.P).max()
        assert np.abs(belief.P - belief.P.T).max() <= 1e-15 * max(size, 1.0)
    assert np.linalg.eigvalsh(belief.P).min() >= -1e-15 * np.abs(belief.P).max()
    assert np.abs(belief.x - x).max() < 0.01


# refused ------------------------------------------------------------------------------------------------------------


REFUSED: list[tuple[Callable[[Scene], Any], type[Exception], str]] = [
    (lambda s: sm.ExtendedKalmanFilter(s.step, np.eye(3), s.R), sm.ShapeError, "process: expected shape"),
    (lambda s: sm.ExtendedKalmanFilter(s.step, s.Q, np.eye(7)), sm.ShapeError, "measurement: expected shape"),
    (lambda s: sm.ExtendedKalmanFilter(s.step, "some", s.R), sm.ShapeError, "process: expected numbers"),
    (lambda s: sm.ExtendedKalmanFilter(s.step, s.Q, 0 * s.R), sm.ModelError, "measurement: must be positive definite"),
    (lambda s: sm.ExtendedKalmanFilter(s.step, -s.Q, s.R), sm.ModelError, "process: must be positive semidefinite"),
    (lambda s: sm.ExtendedKalmanFilter(s.step, s.Q * NAN, s.R), sm.ShapeError, "process: has entries"),
    (lambda s: s.filter(gate=0.0), sm.ModelError, "gate: must be a positive number"),
    (lambda s: s.filter(gate=NAN), sm.ModelError, "gate: must be a positive number"),
    (lambda s: s.filter().start(s.x[:3], s.P), sm.ShapeError, "x: expected 4"),
    (lambda s: s.filter().start(s.x * NAN, s.P), sm.ShapeError, "x: entry"),
    (lambda s: s.filter().start(s.x, s.P[0]), sm.ShapeError, "P: expected 4x4"),
    (lambda s: s.filter().start(s.x, s.P * NAN), sm.ShapeError, "P: has entries"),
    (lambda s: s.filter().start(s.x, -s.P), sm.ModelError, "P: must be positive semidefinite"),
    (lambda s: s.filter().start(np.tile(s.x, (2, 1)), np.tile(s.P, (3, 1, 1))), sm.ShapeError, "x, P:"),
    (lambda s: s.filter().update(s.filter().start(s.x, s.P), s.z[0, :1]), sm.ShapeError, "z: expected 2 channels"),
    (lambda s: s.filter().update(s.filter().start(s.x, s.P), "ab"), sm.ShapeError, "z: expected numbers"),
    (lambda s: s.filter().update(s.filter().start(s.x, s.P), s.z[0], [True] * 3), sm.ShapeError, "valid: shape"),
    (lambda s: s.filter().predict(s.filter().start(s.x, s.P), [0.0, 0.0]), sm.ShapeError, "u: expected 1"),
    (lambda s: s.filter().predict(s.filter().start(s.x, s.P), [NAN]), sm.ShapeError, "u: entry"),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_arguments_that_cannot_be_used_are_refused(
    call: Callable[[Scene], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call(scene("rail"))


def test_system_without_sensors_is_refused() -> None:
    b = sm.Builder("blind")
    b.mass(b.world.tx(b.coordinate("a")), 1.0)
    step = sm.discretize(b.build(), 0.05)
    with pytest.raises(sm.ModelError, match="has no sensor; add a marker or an encoder"):
        sm.ExtendedKalmanFilter(step, np.eye(2), np.zeros((0, 0)))


def test_the_old_name_of_the_constraint_projection_is_heeded_with_a_warning() -> None:
    s = scene("suspended_mass")
    for wanted in (True, False):
        with pytest.warns(DeprecationWarning, match="call it constraint_projection"):
            ekf = sm.ExtendedKalmanFilter(s.step, s.Q, s.R, put_back=wanted)
        assert ekf.constraint_projection is wanted

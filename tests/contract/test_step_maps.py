"""What every step map of every system of the catalog keeps to. A new system is found by the registry."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import stepmap as sm
from tests.mechanisms import DT, Case, hold, require_copied

EPS = np.finfo(float).eps


def direction(step: sm.StepMap) -> np.ndarray:
    return np.random.default_rng(7).normal(size=step.ndx)


def relative(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference, relative to the largest entry (at least 1)."""
    return float(np.abs(a - b).max(initial=0.0) / max(1.0, np.abs(b).max(initial=0.0)))


def test_steps_follow_the_protocol(catalog: Case) -> None:
    for step in (catalog.midpoint, catalog.euler):
        assert isinstance(step, sm.StepMap)


def test_sizes_and_names_agree(catalog: Case) -> None:
    coordinates = [c.name for c in (*catalog.system.dynamic, *catalog.system.kinematic)]
    for step in (catalog.midpoint, catalog.euler):
        assert len(step.state_names) == len(set(step.state_names)) == step.nx
        assert step.nx == len(coordinates) + catalog.system.tangent.nv
        assert step.ndx == len(set(step.layout.tangent_names)) == 2 * catalog.system.tangent.nv
        assert list(step.state_names[: catalog.nq]) == coordinates
        assert len(step.input_names) == len(set(step.input_names)) == step.nu
        assert list(step.input_names[: catalog.forces]) == [i.name for i in catalog.system.inputs]


def test_results_have_the_documented_shapes(catalog: Case) -> None:
    for step, x, u in catalog.points:
        after = step.step(x, u)
        at = step.linearize(x, u)
        bend = step.curvature(x, u, direction(step))
        path = step.rollout(x, np.tile(u, (3, 1)))
        assert after.x.shape == at.x.shape == (step.nx,)
        assert after.multipliers.shape == (len(catalog.system.constraint_names),)
        n = step.ndx
        assert (at.A.shape, at.B.shape) == ((n, n), (n, step.nu))
        assert [part.shape for part in bend] == [(n, n), (n, step.nu), (step.nu, step.nu)]
        assert (path.t.shape, path.x.shape, path.u.shape) == ((4,), (4, step.nx), (3, step.nu))


def test_unpack_undoes_pack(catalog: Case) -> None:
    step = catalog.midpoint
    parts = step.unpack(catalog.x)
    assert [len(part) for part in parts] == [len(catalog.system.dynamic), step.nk, step.nd, step.nk]
    np.testing.assert_array_equal(step.pack(*parts), catalog.x)
    np.testing.assert_array_equal(step.pack(**parts._asdict()), catalog.x)


def test_from_rest_only_unbalanced_force_moves_it(catalog: Case) -> None:
    """M (q₂ − q₁)/dt² is the force that is not balanced: the continuous acceleration, to first order in dt."""
    errors = []
    for dt in (1e-3, 5e-4):
        step = sm.discretize(catalog.system, dt)
        u = hold(step, step.rest(catalog.pose), forces=0.5)
        x = step.rest(catalog.pose, u[: catalog.forces])
        moved = step.layout.difference(x, step.step(x, u).x)[: step.nd] / dt**2
        still = np.zeros(catalog.system.tangent.nv)
        expected, _ = catalog.euler.acceleration(catalog.pose, still, u[: catalog.forces])
        errors.append(np.abs(moved - expected).max() / np.abs(expected).max())
    # First order: halving dt at least nearly halves the error, which is of the size dt times a rate of 1/s to 10/s.
    assert errors[0] < 1e-2
    assert errors[1] < 0.7 * errors[0]


def test_equilibrium_is_a_fixed_point(catalog: Case) -> None:
    step = catalog.midpoint
    flies = catalog.name in ("helicopter", "tendon_hand")  # nothing but inputs holds it
    x, u = step.equilibrium(None, step.holding_forces()) if flies else step.equilibrium(catalog.pose)
    # The balance is solved to 1e-13 N; the step turns that into dt² M⁻¹ of it in q, and p moves by dt times it.
    np.testing.assert_allclose(step.step(x, u).x, x, rtol=0, atol=1e-12)


def test_derivatives_agree_with_differences(catalog: Case) -> None:
    mass = np.diagonal(catalog.system.mass_matrix(catalog.pose))[: catalog.midpoint.nd]
    h = 1e-3
    # p₂ = M (q₂ − q₁)/dt + …: a rounding error of q₂ is amplified by M/dt, and by 1/h in a difference. Truncation,
    # h⁶ f⁽⁷⁾/140, reaches 3e-10 on the arm, whose string pulls almost straight.
    tolerance = 1e-9 + 10 * EPS * mass.max() / DT / h
    for step, x, u in catalog.points:
        spacing = np.full(step.ndx + step.nu, h)
        if step is catalog.midpoint:
            spacing[step.layout.tangent_slices["p"]] *= np.minimum(mass, 1.0)  # momenta of light bodies are small
        errors = sm.check_derivatives(step, x, u, direction(step), spacing)
        # With balls, slopes at moved points are carried between charts by differences 1e-3 wide, which round to 1e-13.
        charts = 0.0 if step.layout.plain else 1e-13 / spacing.min()
        assert errors.worst < tolerance + charts, errors
        assert max(errors.A, errors.B) < tolerance, errors


def test_second_derivatives_are_symmetric(catalog: Case) -> None:
    for step, x, u in catalog.points:
        bend = step.curvature(x, u, direction(step))
        # Sums of a few hundred products in another order.
        assert relative(bend.xx, bend.xx.T) < 1e3 * EPS
        assert relative(bend.uu, bend.uu.T) < 1e3 * EPS


def test_constraints_are_kept(constrained: Case) -> None:
    path = constrained.midpoint.rollout(constrained.x, np.tile(constrained.u, (100, 1)))
    # Newton ends at rounding: a few ulp of lengths of the order of a metre.
    assert np.abs(constrained.system.gaps(path.x[:, : constrained.nq])).max() <= 1e-14


def test_derivatives_are_tangent_to_the_constraints(constrained: Case) -> None:
    """h(q̄₂(x, u)) = 0 for all x and u, so D h · A = 0 and D h · B = 0."""
    at = constrained.midpoint.linearize(constrained.x, constrained.u)
    after, nv = at.x[: constrained.nq], constrained.system.tangent.nv
    for part in (at.A, at.B):
        slide = constrained.system.gap_velocities(after, part[:nv].T)
        assert np.abs(slide).max() <= 20 * EPS * max(1.0, np.abs(part[:nv]).max())


def test_what_a_layout_says_of_derivatives_holds(catalog: Case) -> None:
    for step, x, u in catalog.points:
        require_copied(step, *step.linearize(x, u)[1:])


def test_linearize_returns_the_step_itself(catalog: Case) -> None:
    for step, x, u in catalog.points:
        np.testing.assert_array_equal(step.linearize(x, u).x, step.step(x, u).x)


def test_rollout_is_the_repeated_step_bit_for_bit(catalog: Case) -> None:
    for step, x, u in catalog.points:
        U = u + 1e-3 * np.random.default_rng(5).normal(size=(10, step.nu))
        path = step.rollout(x, U)
        for k, control in enumerate(U):
            x, multipliers, _ = step.step(x, control)
            np.testing.assert_array_equal(path.x[k + 1], x)
            np.testing.assert_array_equal(path.multipliers[k], multipliers)


def test_steps_are_pure(catalog: Case) -> None:
    """Neither arguments nor later results are touched by a call, whatever was asked in between."""
    for step, x, u in catalog.points:
        z = direction(step)
        kept = x.copy(), u.copy(), z.copy()
        first = _everything(step, x, u, z)
        step.rollout(x, np.tile(u + 1e-3, (5, 1)))
        step.linearize(x + 1e-3, u)
        step.curvature(x - 1e-3, u, -z)
        for before, after in zip(first, _everything(step, x, u, z), strict=True):
            np.testing.assert_array_equal(before, after)
        for before, after in zip(kept, (x, u, z), strict=True):
            np.testing.assert_array_equal(before, after)


def test_threads_get_the_same_results(catalog: Case) -> None:
    for step, x, u in catalog.points:
        z = direction(step)
        states = x + 1e-3 * np.random.default_rng(9).normal(size=(24, step.nx))
        alone = [_everything(step, state, u, z) for state in states]
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda state, s=step, w=u, d=z: _everything(s, state, w, d), states))
        for one, other in zip(alone, together, strict=True):
            for a, b in zip(one, other, strict=True):
                np.testing.assert_array_equal(a, b)


def test_threads_do_not_share_scratch_memory(catalog: Case) -> None:
    """Rollouts long enough to overlap: the interpreter lock is not held while they run."""
    step = catalog.midpoint
    starts = [step.rest(catalog.pose) + 1e-4 * k * np.eye(step.nx)[catalog.nq] for k in range(8)]  # p a little off
    U = np.tile(hold(step, starts[0]), (1000, 1))
    alone = [step.rollout(x, U).x for x in starts]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda x: step.rollout(x, U).x, starts))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


def _everything(step: sm.StepMap, x: np.ndarray, u: np.ndarray, z: np.ndarray) -> list[np.ndarray]:
    after = step.step(x, u)
    return [after.x, after.multipliers, *step.linearize(x, u), *step.curvature(x, u, z)]


def test_compiled_and_interpreted_kernels_agree(catalog: Case) -> None:
    """The C runtime against the same equations in numpy on CasADi's evaluator."""
    for step, x, u in catalog.points:
        other = step.evaluated()
        par, z = catalog.system.parameter_values, direction(step)
        theirs = (*other.step(par, DT, x, u)[1:], *other.linearize(par, DT, x, u)[1:])
        pairs = zip(
            (*theirs, *other.curvature(par, DT, x, u, z)[1:]),
            (*step.step(x, u)[:2], *step.linearize(x, u), *step.curvature(x, u, z)),
            strict=True,
        )
        # Both solve to rounding, a few ulp of q, which M/dt amplifies in p: at most 55 kg m²/0.01 s on the chain.
        for interpreted, compiled in pairs:
            assert relative(interpreted, compiled) < 5e-11


def test_euler_and_variational_steps_agree_to_first_order(catalog: Case) -> None:
    """Both are x + dt f(x, u) + O(dt²): halving dt divides their difference, in pose and in velocity, by four."""
    rho_rate2 = catalog.euler_point[1][catalog.forces :]
    differences = []
    for dt in (2e-3, 1e-3, 5e-4):
        midpoint, euler = sm.discretize(catalog.system, dt), sm.euler(catalog.system, dt)
        x = midpoint.from_velocity(catalog.pose, catalog.velocity, instant=True)
        explicit = euler.step(euler.pack(catalog.pose, catalog.velocity), catalog.euler_point[1]).x
        rho_next = midpoint.unpack(x).rho + dt * midpoint.unpack(x).v + dt**2 * rho_rate2
        after = midpoint.step(x, np.concatenate([catalog.u[: catalog.forces], rho_next])).x
        velocity = midpoint.velocity(after)[: midpoint.nd]
        apart = catalog.system.tangent.difference(explicit[: catalog.nq], after[: catalog.nq])
        off = velocity - explicit[catalog.nq : catalog.nq + midpoint.nd]
        differences.append((np.abs(apart).max(), np.abs(off).max()))
    ratios = np.array(differences[:-1]) / np.array(differences[1:])
    # The next term of the expansion is smaller by dt times a rate of some 1/s to 30/s.
    np.testing.assert_allclose(ratios, 4.0, atol=0.15)

"""Design studies: a spring that swings a mass over by itself, slopes of known costs, searches told apart."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import stepmap as sm
from stepmap.optimal.design.surrogates import Process, ego, spline

MASS, TIME, STEPS = 2.0, 0.8, 20
H = TIME / STEPS


def swing() -> sm.System:
    """A mass on a spring, and a force."""
    b = sm.Builder("swing")
    m, k = b.parameter("mass", MASS), b.parameter("stiffness", 20.0)
    x = b.coordinate("x", unit="m")
    b.mass(b.world.tx(x, name="bob"), m)
    b.coordinate_spring(x, stiffness=k, rest=0.0)
    b.drive(x, b.input("push", unit="N"))
    return b.build()


TASK: Any = {"steps": STEPS, "time": TIME, "start": {"x": -1.0}, "goal": {"x": 1.0}, "running": "push**2"}
RESONANT = MASS * (2 / H * math.tan(math.pi / (2 * STEPS))) ** 2  # half a turn in STEPS steps of the midpoint rule


def studied(**given: Any) -> sm.DesignStudy:
    surrogate = sm.Surrogate(**{"workers": 1, "repeats": 1, **given.pop("surrogate", {})})
    return sm.design_study(swing(), surrogate=surrogate, **{**TASK, "design": {"stiffness": (10.0, 60.0)}, **given})


@pytest.fixture(scope="module")
def study() -> sm.DesignStudy:
    return studied(surrogate={"tolerance": 1e-12})


def test_both_searches_find_the_spring_that_needs_no_force(study: sm.DesignStudy) -> None:
    assert study.exact is not None
    assert study.exact.values["stiffness"] == pytest.approx(RESONANT, rel=1e-6)
    assert study.best.values["stiffness"] == pytest.approx(RESONANT, rel=1e-2)  # samples are a thousandth apart
    assert study.solution.design["stiffness"] == study.exact.values["stiffness"]
    assert study.solution.cost < 1e-9
    assert np.abs(study.solution.trajectory.u).max() < 1e-4
    assert study.resolved
    assert "is the design's" in study.verdict
    assert study.samples[0].values == {"stiffness": 20.0}


def test_slopes_are_those_of_the_least_cost(study: sm.DesignStudy) -> None:
    """By differences of costs beside each sample."""
    for sample in study.samples[:3]:
        k, by = sample.values["stiffness"], 1e-3
        costs = [sm.direct(swing().with_parameters(stiffness=k + d), **TASK).require().cost for d in (-by, by)]
        assert sample.slopes["stiffness"] == pytest.approx((costs[1] - costs[0]) / (2 * by), rel=1e-5)
    assert study.exact is not None
    assert abs(study.exact.slopes["stiffness"]) < 1e-4 * abs(study.samples[0].slopes["stiffness"])


def test_a_parameter_that_is_given_has_its_slope() -> None:
    """Without a spring least effort goes with the square of the mass: dJ/dm = 2 J/m."""
    found = sm.direct(swing().with_parameters(stiffness=0.0), **TASK, design={"mass": MASS}).require()
    assert found.design_slopes["mass"] == pytest.approx(2 * found.cost / MASS, rel=1e-6)
    assert found.cost == pytest.approx(12 * MASS**2 * 4 / TIME**3, rel=5e-3)  # 12 m² d²/T³ in continuous time


def test_processes_and_this_one_answer_alike() -> None:
    told: list[str] = []
    wanted = {"evaluations": 4, "repeats": 2}
    here = studied(surrogate=wanted)
    apart = studied(surrogate={**wanted, "workers": 2}, monitor=lambda iteration: told.append(iteration.method))
    assert [s.values for s in apart.samples] == [s.values for s in here.samples]
    np.testing.assert_allclose([s.cost for s in apart.samples], [s.cost for s in here.samples], rtol=1e-9)
    assert len(told) == 3 * 2 + 1 + 3  # two starts of three designs, the gradient, and a design with its nearest
    assert {"stiffness 10, start 1", "stiffness 20, start 0"} <= set(told)


def test_several_parameters_are_searched_by_expected_improvement() -> None:
    found = studied(
        surrogate={"method": "ego", "evaluations": 8}, design={"stiffness": (10.0, 60.0), "mass": (1.0, 4.0)}
    )
    assert found.best.cost < 0.2 * found.samples[0].cost
    assert found.exact is not None
    k, m = (found.exact.values[name] for name in ("stiffness", "mass"))
    assert k / m == pytest.approx(RESONANT / MASS, rel=1e-6)
    assert {"ego", "exact gradient", "verdict"} <= {name for name, _ in found.rows()}


@pytest.mark.parametrize("after", [1, 5])
def test_ctrl_c_keeps_the_samples_so_far(after: int) -> None:
    count = iter(range(1, 100))

    def stop(iteration: Any) -> None:
        if next(count) == after:
            raise KeyboardInterrupt

    found = studied(monitor=stop)
    assert found.interrupted
    assert found.best.good
    assert [bool(sample.good) for sample in found.samples[:3]] == [True, after > 1, after > 1]
    assert not found.status.ok
    with pytest.raises(sm.ConvergenceError, match="Ctrl-C"):
        found.require()


def test_a_gain_within_the_scatter_is_said_to_be_none(study: sm.DesignStudy) -> None:
    """The answers of another design in place of a second one: they are that far apart."""
    first = study.samples[0]
    mixed = replace(first, answers=(*first.answers, *study.samples[1].answers))
    doubtful = replace(study, samples=(mixed, study.samples[2]))
    assert doubtful.scatter > doubtful.gain
    assert not doubtful.resolved
    assert "says nothing" in doubtful.verdict


def test_designs_without_a_motion_are_left_out() -> None:
    """Above a hundred N the spring holds the mass back: the push may not be more than 30."""
    limits = {"push": (-30.0, 30.0)}
    found = studied(design={"stiffness": (20.0, 400.0)}, limits=limits, max_iterations=100)
    assert any(not sample.good for sample in found.samples)
    assert np.isnan(next(sample for sample in found.samples if not sample.good).cost)
    assert found.solution.status.ok


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"design": {}}, "design: give a finite range"),
        ({"design": {"stiffness": 20.0}}, "design: give a finite range"),
        ({"design": {"stiffness": (None, 60.0)}}, "design: give a finite range"),
        ({"design": {"knee": (0.0, 1.0)}}, "design: the system has no parameter 'knee'"),
        ({"design": {"stiffness": (10.0, 60.0), "mass": (1.0, 4.0)}}, "the spline is for one parameter"),
        ({"surrogate": {"method": "kriging"}}, "expected 'spline' or 'ego'"),
        ({"surrogate": {"evaluations": 2}}, "evaluations: expected a whole number of at least 3"),
        ({"surrogate": {"tolerance": 0.0}}, "tolerance: must be positive"),
        ({"surrogate": {"workers": 2}, "running": lambda names: names["push"] ** 2}, "workers=1"),
    ],
)
def test_mistakes_are_named(given: dict[str, Any], text: str) -> None:
    with pytest.raises(sm.ModelError, match=text):
        studied(**given)


# surrogates ---------------------------------------------------------------------------------------------------------


def test_the_spline_looks_at_its_least_value() -> None:
    x = np.array([0.0, 0.4, 0.7, 1.0])
    proposal = spline(x[:, None], (x - 0.55) ** 2)
    assert proposal is not None
    assert proposal.at[0] == pytest.approx(0.55, abs=1e-3)
    assert proposal.gain == pytest.approx(0.15**2, rel=1e-3)


def test_expected_improvement_finds_the_least_of_a_known_function() -> None:
    """Six-hump camel on its usual box: −1.0316 at (±0.0898, ∓0.7126)."""

    def camel(z: np.ndarray) -> float:
        x, y = 4 * z[0] - 2, 2 * z[1] - 1
        return float((4 - 2.1 * x**2 + x**4 / 3) * x**2 + x * y + (4 * y**2 - 4) * y**2)

    points = [np.array(z) for z in ((0.5, 0.5), (0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0))]
    for _ in range(20):
        proposal = ego(np.array(points), np.array([camel(z) for z in points]))
        assert proposal is not None
        points.append(proposal.at)
    assert min(camel(z) for z in points) < -1.0


def test_a_gaussian_process_takes_scatter_for_noise() -> None:
    rng = np.random.default_rng(1)
    x = np.linspace(0, 1, 25)[:, None]
    process = Process.of(x, np.sin(3 * x[:, 0]) + 0.05 * rng.normal(size=25))
    mean, sigma = process.predict(x)
    assert np.abs(mean - np.sin(3 * x[:, 0])).max() < 0.08
    assert 0 < sigma.max() < 0.2

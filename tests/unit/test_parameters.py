"""Parameters: other values without another library, and the same results as a system built with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import stepmap as sm


def test_changed_values_are_those_of_a_system_built_with_them() -> None:
    changed = sm.systems.get("cart_pendulum").with_parameters(mass=2.5, length=0.6, damping=0.3)
    fresh = sm.systems.get("cart_pendulum", mass=2.5, length=0.6, damping=0.3)
    x, u = [0.1, 2.0, 0.3, -0.5], [4.0]
    after = [sm.discretize(system, 0.02).step(x, u).x for system in (changed, fresh)]
    np.testing.assert_array_equal(*after)


def test_a_parameter_is_the_same_as_its_number() -> None:
    """Symbolic and constant values give the same map, up to the order of some products."""
    made = []
    for symbolic in (True, False):
        b = sm.Builder("pendulum")
        m, length = (b.parameter("m", 1.7), b.parameter("l", 0.4)) if symbolic else (1.7, 0.4)
        b.mass(b.world.rz(b.coordinate("theta")).ty(-2 * length), m, inertia=(0, 0, m * length**2 / 3))
        b.gravity((0, -9.8, 0))
        made.append(sm.discretize(b.build(), 0.02).linearize([2.0, 0.3], []))
    np.testing.assert_allclose(made[0].x, made[1].x, rtol=1e-13)
    np.testing.assert_allclose(made[0].A, made[1].A, rtol=0, atol=1e-11)


def test_changed_values_change_the_motion() -> None:
    system = sm.systems.get("pendulum")
    x = [1.0, 0.0]
    short, long = (sm.discretize(system.with_parameters(length=l), 0.02) for l in (0.5, 2.0))  # noqa: E741
    # From p = 0 the first step falls by dt²/2 g sin θ/l, up to dt⁴.
    for step, length in ((short, 0.5), (long, 2.0)):
        fallen = 1.0 - step.step(x, [0.0]).x[0]
        assert fallen == pytest.approx(0.02**2 / 2 * 9.8 * np.sin(1.0) / length, rel=1e-2)


def test_compiled_code_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPMAP_CACHE", str(tmp_path))
    system = sm.systems.get("pendulum")
    first = sm.discretize(system, 0.02)
    built = sorted(tmp_path.glob("*.so"))
    monkeypatch.setenv("CC", "/nonexistent/cc")  # nothing can be built from here on
    other = sm.discretize(system.with_parameters(mass=3.0), 0.05)
    assert sorted(tmp_path.glob("*.so")) == built
    assert len(built) == 1
    assert first.step([1.0, 0.0], [1.0]).x[0] != other.step([1.0, 0.0], [1.0]).x[0]


def test_the_original_keeps_its_values() -> None:
    system = sm.systems.get("pendulum", mass=1.5)
    system.with_parameters(mass=3.0)
    assert [p.value for p in system.parameters if p.name == "mass"] == [1.5]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"weight": 1.0}, "no parameter 'weight'; there are: .*mass"),
        ({"mass": float("nan")}, "parameter 'mass'.*finite"),
        ({"mass": "heavy"}, "parameter 'mass'.*'heavy'"),
        ({"mass": -1.0}, "mass on frame 'bob': must not be negative"),
        ({"mass": 0.0}, "moving 'theta' moves no mass"),
    ],
)
def test_bad_values_are_refused(values: dict[str, float], message: str) -> None:
    with pytest.raises(sm.ModelError, match=message):
        sm.systems.get("pendulum").with_parameters(**values)

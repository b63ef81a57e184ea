"""Motions with impacts and releases, held against continuous-time truths that do not use stepmap."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import stepmap as sm
from tests import contraptions, strikes
from tests.hybrid import Path
from tests.strikes import Strike

CASES: dict[str, Callable[[], Strike]] = {
    "ball on a string": strikes.ball,
    "arm on a string that moves": strikes.arm,
    "wall, plastic": lambda: strikes.wall(0.0),
    "wall, lossy": lambda: strikes.wall(0.5),
    "wall, elastic": lambda: strikes.wall(1.0),
    "wedge": strikes.wedge,
    "winch and floor": contraptions.winch,
    "ball on a see-saw": contraptions.seesaw,
    "bolas and wall": contraptions.bolas,
}
LENGTHS = (0.01, 0.00125)  # neighbours are noisy: errors depend on where in a step an event is
MASS, FEET = 2.0, 0.2  # of the wedge [kg, m]


@cache
def solved(name: str) -> tuple[Strike, Path]:
    strike = CASES[name]()
    return strike, strike.solve()


def errors(strike: Strike, truth: Path, dt: float) -> tuple[float, float, float]:
    """Largest errors of positions, every 10 ms, of times of impacts, and of times of releases."""
    found = strike.rollout(dt)
    every = round(0.01 / dt)
    path = np.array([truth.at(t)[0] for t in found.t[::every]])
    position = float(np.abs(found.x[::every, : strike.truth.size] - path).max())
    times = []
    for kind in ("impact", "release"):
        wanted = truth.times(kind)
        events = [event for event in found.events if event.kind == kind]
        assert [event.name for event in events] == [event.name for event in truth.events if event.kind == kind]
        times.append(float(np.abs(np.array([event.time for event in events]) - wanted).max(initial=0.0)))
    return position, times[0], times[1]


@pytest.mark.parametrize("name", CASES)
def test_second_order_through_events(name: str) -> None:
    strike, truth = solved(name)
    assert truth.times("impact").size > 0
    coarse, fine = (np.array(errors(strike, truth, dt)) for dt in LENGTHS)
    there = coarse > 0  # not every motion has a release
    order = np.log(coarse[there] / fine[there]) / np.log(LENGTHS[0] / LENGTHS[1])
    assert order[0] >= 1.8
    assert order[1:].min() >= 1.7


@pytest.mark.parametrize("name", CASES)
def test_impulses_and_losses(name: str) -> None:
    strike, truth = solved(name)
    pairs = list(zip(strike.rollout(LENGTHS[1]).events, truth.events, strict=True))
    for found, true in pairs:
        assert found.impulse == pytest.approx(true.impulse, rel=5e-3, abs=1e-9)
        assert found.energy == pytest.approx(true.energy, rel=1e-2, abs=1e-9)
    if name == "wall, elastic":
        assert max(abs(found.energy) for found, _ in pairs) <= 1e-13


@pytest.mark.parametrize("restitution", [0.0, 0.5, 1.0])
def test_a_ball_on_a_slope_follows_its_parabolas(restitution: float) -> None:
    """Exact to rounding: the midpoint rule has no error in a constant field, and impacts are located."""
    g, tilt, dt, steps = 9.81, 0.2, 0.01, 120
    step = sm.discretize(sm.systems.get("ball_on_slope", slope=tilt, restitution=restitution), dt)
    x0 = step.from_velocity({"x": 0.0, "y": 0.5}, {"x": 0.3}, instant=True)
    found = step.rollout(x0, np.zeros((steps, 0)))
    along, normal = np.array([math.cos(tilt), -math.sin(tilt)]), np.array([math.sin(tilt), math.cos(tilt)])
    s, n = found.x[:, :2] @ along, found.x[:, :2] @ normal
    t = dt * np.arange(steps + 1)
    assert np.abs(s - (along @ [0, 0.5] + along @ [0.3, 0] * t + g * math.sin(tilt) * t**2 / 2)).max() <= 1e-12
    pull = g * math.cos(tilt)
    height, speed, since = float(normal @ [0, 0.5]), float(normal @ [0.3, 0]), 0.0
    for k, now in enumerate(t):
        while True:  # the flight that the node is in
            lands = since + (speed + math.sqrt(speed**2 + 2 * pull * height)) / pull
            if now <= lands or lands - since < 2 * dt:
                break
            speed, height, since = restitution * math.sqrt(speed**2 + 2 * pull * height), 0.0, lands
        if lands - since < 2 * dt and since > 0:
            break  # bounces that a step no longer resolves
        assert n[k] == pytest.approx(height + speed * (now - since) - pull * (now - since) ** 2 / 2, abs=1e-12)
    assert k > 30  # without restitution it lands once
    if restitution < 1:
        assert abs(n[-1]) <= 1e-15


def test_the_wedge_keeps_five_seventeenths() -> None:
    """Angular momentum about the foot that strikes is kept: 5/17 of the speed, (J − m L²/16) / (J + 7 m L²/16).

    Only that foot gets an impulse, so speeds before and after follow from it and from the lost energy.
    """
    inertia = (13 / 48 + 7 / 16) * MASS * FEET**2  # about a foot
    ratios = []
    for event in strikes.wedge(seconds=0.3).rollout(0.01).events:
        if event.kind == "impact":
            total = 2 * event.impulse / (MASS * FEET)  # Λ = m L/2 (ω⁻ + ω⁺)
            less = 2 * event.energy / (inertia * total)  # E = I/2 (ω⁻² − ω⁺²)
            ratios.append((total - less) / (total + less))
    assert len(ratios) >= 3
    assert ratios == pytest.approx([5 / 17] * len(ratios), abs=1e-14)


def test_the_wedge_comes_to_rest_on_both_feet() -> None:
    """Each rock lasts 5/17 of the one before, about: they accumulate, and nothing is left over."""
    found = strikes.wedge(seconds=0.5).rollout(0.01)
    assert found.modes[-1] == ("left_foot", "right_foot")
    assert np.abs(found.x[-1, :3] - [FEET / 2, math.sqrt(3) / 4 * FEET, 0.0]).max() <= 1e-12
    assert np.abs(found.x[-1, :3] - found.x[-2, :3]).max() <= 1e-15


def test_the_wedge_of_the_thesis() -> None:
    """Pekarek, 3.5.1: at 10 ms the impact is in the sixteenth step, at 0.158 s, off by 3.75e-5 s.

    The Lagrangian is the printed one, without ½; the start is fitted to those figures. An inverted pendulum on the left
    foot is the truth: 2 I θ̈ = −m g r cos(θ + φ).
    """
    g, arm, rise, tilt, speed = 9.81, math.sqrt(7 / 16) * FEET, math.atan(math.sqrt(3) / 2), 1.2049, -7.5715
    inertia = (13 / 48 + 7 / 16) * MASS * FEET**2

    def landed(t: float, state: np.ndarray) -> float:
        return float(state[0])

    landed.terminal = True  # type: ignore[attr-defined]
    truth = solve_ivp(
        lambda t, state: [state[1], -MASS * g * arm * math.cos(state[0] + rise) / (2 * inertia)],
        (0.0, 1.0),
        [tilt, speed],
        "DOP853",
        events=landed,
        rtol=1e-12,
        atol=1e-12,
    )
    step = sm.discretize(sm.systems.get("rocking_wedge", factor=1.0, pinned=True), 0.01)
    x, y = arm * math.cos(tilt + rise), arm * math.sin(tilt + rise)
    pose, velocity = {"x": x, "y": y, "theta": tilt}, {"x": -y * speed, "y": x * speed, "theta": speed}
    event = step.rollout(step.from_velocity(pose, velocity, instant=True), np.zeros((20, 0))).events[0]
    assert event.step + 1 == 16
    assert event.time == pytest.approx(0.158, abs=5e-4)
    assert abs(event.time - truth.t[-1]) <= 3.8e-5

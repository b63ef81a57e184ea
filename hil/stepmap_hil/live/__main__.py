"""A simulated mass on a string on the live page, with no board: ``python -m stepmap_hil.live``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

import stepmap as sm
from stepmap.arrays import Array
from stepmap_hil.live.frame import LiveFrame
from stepmap_hil.live.page import LivePage

PERIOD = 1 / 30  # s
LAP = 8.0  # s
FAULTS = ("push", "blind camera", "longer string")


def plan(step: sm.VariationalStep) -> tuple[sm.Trajectory, Array]:
    """A lap of a figure of eight, and the gains that keep to it."""
    t = PERIOD * np.arange(round(LAP / PERIOD) + 1)
    s = t / LAP
    phase = 2 * np.pi * (10 * s**3 - 15 * s**4 + 6 * s**5)
    x, y = 0.4 * np.sin(phase), 0.25 + 0.12 * np.sin(2 * phase)
    wanted = np.zeros((len(t), step.nx))
    wanted[:, :4] = np.stack([x, y, x, 1 - y], axis=1)
    start = step.rest({"ym": 0.25, "r": 0.75})
    Q, R = np.diag(np.repeat([100.0, 1.0, 0.1, 1.0], 2)), np.eye(2)
    cost = sm.TrackingCost(Q, R, 10 * Q, wanted, wanted[1:, 2:4])
    found = sm.optimize(sm.Problem(step, cost, start=start, guess=step.rollout(start, wanted[1:, 2:4])))
    return found.require().trajectory, found.gains


def ticks(step: sm.VariationalStep, trajectory: sm.Trajectory, gains: Array, faults: list[str]) -> Iterator[LiveFrame]:
    """Laps without end; entries of ``faults`` are taken as they come."""
    noise, blind, k = np.random.default_rng(1), 0, 0
    x, error = trajectory.x[0].copy(), np.zeros(8)
    while True:
        at = k % len(gains)
        if at == 0:
            x = trajectory.x[0].copy()
        begun = time.perf_counter()
        u = trajectory.u[at] - gains[at] @ (x + error - trajectory.x[at])
        while faults:
            fault = faults.pop()
            blind += 45 * (fault == "blind camera")
            x[4] += 0.03 * (fault == "push")
            u[1] += 0.05 * (fault == "longer string")
        x = step.step(x, u).x
        seen = 0.01 * noise.standard_normal(8) * (np.arange(8) < 4)
        error = error + 0.1 * seen if blind else 0.8 * error + 0.2 * seen
        blind, k = max(blind - 1, 0), k + 1
        yield LiveFrame(
            time=PERIOD * k,
            coordinates=x,
            estimate=x + error,
            reference=trajectory.x[at + 1],
            numbers={
                "tracking": 1e3 * float(np.linalg.norm(x[:2] - trajectory.x[at + 1, :2])),
                "estimate error": 1e3 * float(np.linalg.norm(error[:2])),
                "innovation": np.nan if blind else 1e3 * float(np.linalg.norm((seen - error)[:2])),
                "latency": 1e3 * (time.perf_counter() - begun),
            },
            state="holding" if blind else "running",
            reason="the camera does not see the mass" if blind else "a simulated mass, no board",
            points=None if blind else surface(x[:2], noise),
        )


def surface(at: Array, noise: np.random.Generator) -> Array:
    """Points of the side of the mass that a camera would see."""
    way = noise.standard_normal((400, 3))
    way[:, 2] = np.abs(way[:, 2])
    radius = 0.04 + 0.003 * noise.standard_normal((400, 1))
    ball: Array = np.append(at, 0.0) + radius * way / np.linalg.norm(way, axis=1, keepdims=True)
    return ball


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stepmap_hil.live", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="of the page; 0 takes a free one")
    parser.add_argument("--seconds", type=float, default=np.inf, help="how long")
    given = parser.parse_args()
    step = sm.discretize(sm.systems.get("suspended_mass"), dt=PERIOD)
    trajectory, gains = plan(step)
    faults: list[str] = []
    with LivePage("A mass on a string", step.system, given.port, FAULTS, reference=trajectory.x) as page:
        print(f"open {page.url}; end with STOP or Ctrl-C", flush=True)
        due = time.monotonic()
        for frame in ticks(step, trajectory, gains, faults):
            page.update(frame)
            faults += page.injected()
            if page.stop_requested or frame.time > given.seconds:
                break
            due += PERIOD
            time.sleep(max(0.0, due - time.monotonic()))
        page.finish("stopped")
        time.sleep(1.0)  # so that the browser shows it


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("stopped")

"""The robot to rehearse with, by a clock that stands still while somebody else has the processor."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from stepmap_hil.bench import emulated_robot
from stepmap_hil.bench.emulated_robot import BEHIND, ENCODERS, MOTORS, EmulatedRobot
from tests.hil.rigs import rig
from tests.pil.built import KEY_FILE

FULL = 1000  # per mille
LIMIT = 3.0  # times its top speed: what a board takes for a broken encoder (stepmap_codegen.emit.motors)


def robot(now: list[float], monkeypatch: pytest.MonkeyPatch) -> EmulatedRobot:
    """One at full effort, without a board and a camera."""
    monkeypatch.setattr(emulated_robot, "time", SimpleNamespace(monotonic=lambda: now[0]))
    made = rig()
    one = EmulatedRobot(made.job, made.controller, made.firmware, made.settings, KEY_FILE, 1)
    one._pins = np.array([1, FULL] + [0] * (MOTORS - 1 + ENCODERS))  # type: ignore[assignment]
    one._place = [0.0] * 6
    one._then = one._shown_at = now[0]
    return one


@pytest.mark.parametrize("stall", [0.0, 0.003, 0.02, 0.09])
def test_encoders_never_count_faster_than_motors_turn(stall: float, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    one = robot(now, monkeypatch)
    axis = one.controller.axes[0]
    seen: list[tuple[float, int]] = []
    for k in range(400):
        now[0] += one.advance() + (stall if k == 100 else 0.0)
        seen.append((now[0], int(one._pins[1 + MOTORS])))
    when, counts = np.array([t for t, _ in seen]), np.array([c for _, c in seen])
    assert counts[-1] - counts[0] > 0.5 * axis.top_speed * axis.counts_per_unit * (when[-1] - when[0])
    for begin in np.arange(when[0], when[-1], 0.0001):  # wherever the board's milliseconds begin
        first, last = np.searchsorted(when, [begin, begin + 0.001], side="right") - 1
        assert counts[last] - counts[first] < LIMIT * axis.top_speed * axis.counts_per_unit * 0.001


def test_what_was_missed_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Soon, and in small parts; what was too long is forgotten. Encoders are where the motors are in the end."""
    now = [100.0]
    one = robot(now, monkeypatch)
    for stall, forgotten in ((0.05, 0.0), (3.0, 3.0 - BEHIND)):
        begin, since = one.plant.time, now[0]
        now[0] += stall
        for _ in range(50):
            now[0] += one.advance()
        assert now[0] - since - (one.plant.time - begin) == pytest.approx(forgotten, abs=0.002)
        one._pins[1] = 0
        for _ in range(500):
            now[0] += one.advance()
        assert int(one._pins[1 + MOTORS]) == one._counts()[0]
        one._pins[1] = FULL

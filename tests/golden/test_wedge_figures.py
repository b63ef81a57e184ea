"""Pekarek, Figs. 3.5 and 3.6: the printed figures come out."""

from __future__ import annotations

import numpy as np
import pytest

from stepmap import figures
from stepmap.figures._wedge import benchmark, mapped


def test_the_motion_is_the_benchmark_s() -> None:
    truth, found = benchmark(2000), mapped()
    for i in range(3):
        apart = found.q[:, i] - np.interp(found.t, truth.t, truth.q[:, i])
        assert np.abs(apart).max() <= 5e-4  # 0.01 s steps, 7.6 rad/s


def test_the_printed_loss_of_energy() -> None:
    """Within 1.41e-3 % in the thesis, which used another rule than the midpoint's."""
    truth, found = benchmark(), mapped()
    assert 100 * abs(found.loss / truth.loss - 1) <= 1.41e-3
    before, after = (found.energy[part] for part in (found.t_energy < found.impact, found.t_energy > found.impact))
    assert max(np.ptp(before), np.ptp(after)) <= 1e-3


@pytest.mark.parametrize("name", ["wedge_path", "wedge_energy"])
def test_figures_are_made(name: str) -> None:
    made = figures.make(name)
    assert made.source.startswith("Pekarek, Fig. 3.")
    assert len(made.rows) >= 31
    assert any("printed" in value for _, value in made.key_figures)

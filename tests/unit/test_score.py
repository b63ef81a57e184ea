"""The score of a play: costs of acts add up to what the search found."""

from __future__ import annotations

import numpy as np
import pytest

from stepmap.figures.theatre import score


def test_costs_of_acts_add_up() -> None:
    solution = score.play(lambda number: None)
    assert solution.plan.acts[0] == 0.0
    last = solution.trajectory.x[-1] - solution.plan.reference.x[-1]
    end = 0.5 * last @ (10 * np.diag([100.0, 100, 1, 1, 0.1, 0.1, 1, 1])) @ last
    prior = 0.5 * sum(((tau - at) / score.GIVE) ** 2 for tau, at in zip(solution.tau, score.AT, strict=True))
    assert sum(solution.act_costs) + end + prior == pytest.approx(solution.cost, rel=1e-9)


def test_the_figure_has_a_row_per_act() -> None:
    made = score.make(lambda part, text: None)
    assert [row["act"] for row in made.rows] == list(score.NAMES)
    assert [row["written_s"] for row in made.rows] == [0.0, *score.AT]

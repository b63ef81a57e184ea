"""The word-length study: shorter words cost accuracy, in order."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import stepmap as sm
from stepmap.plots.style import render
from stepmap_codegen.precision import word_study
from tests.sil.controllers import suspended_mass

TICKS = 40


def test_deviations_fall_with_every_longer_word() -> None:
    made, whole = suspended_mass()
    plant = replace(made.plant, gains=made.plant.gains[:TICKS])
    rows = word_study.study(plant, sm.Trajectory(whole.t[: TICKS + 1], whole.x[: TICKS + 1], whole.u[:TICKS]))
    *fixed, single = rows
    assert [row.word for row in fixed] == list(word_study.WORDS)
    for short, long in pairwise(fixed):  # four bits are a factor of 16, of which formats may give away two bits
        assert long.estimate < short.estimate / 4
        assert long.plant < short.plant / 4
    assert not any(row.saturations for row in fixed if row.word and row.word > 16)
    assert single.word is None
    assert fixed[-1].estimate < single.estimate < fixed[2].estimate  # 24 bits of float32 against 32 and 24


def test_the_figure_is_the_same_every_time() -> None:
    rows = [word_study.Row(16, 1e-3, 2e-3, 3), word_study.Row(32, 1e-8, 2e-8, 0), word_study.Row(None, 5e-7, 8e-7, 0)]
    for form, magic in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        first, again = (render(word_study.draw(rows, "two words"), form) for _ in range(2))
        assert first.startswith(magic)
        assert first == again

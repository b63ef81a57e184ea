"""The mass on a string that goes slack: its filter on the chip, and what a wire's filter makes of the same plant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stepmap_codegen import FloatMachine, IntegerMachine, Role, decode, encode
from stepmap_codegen.model.command_rates import CommandRates
from stepmap_codegen.toolchain import TARGETS
from tests.sil.controllers import on_a_string
from tests.sil.string_costs import costs
from tests.sil.ticks import build_ticks, compare, vectors
from tests.strings import Jerk, blows, closed_loop, drops

RUNS, TICKS = 16, 150


@pytest.mark.parametrize("target", ["host", "cortex-m3"])
def test_ten_thousand_ticks_take_the_same_branches(target: str, tmp_path: Path) -> None:
    """Also the mode and the test's sum are fields, so a branch that differs is a field that differs."""
    made, _ = on_a_string("suspended_mass_string")
    fields, valid = vectors(made, 20_000, seed=0)
    fields, valid = fields[:, :10_000], valid[:10_000]
    ticks = compare(made, build_ticks(made, TARGETS[target], tmp_path, ("-Os",)), fields, valid)
    names = {made.program.fields[i].name: i for i in made.program.of(Role.MODE)}
    assert made.formats is not None
    half = 2 ** (made.formats.fields[names["mode_string"]] - 1)
    before, after = fields[names["mode_string"]] >= half, ticks.fields[names["mode_string"]] >= half
    for was, becomes in ((0, 0), (0, 1), (1, 0), (1, 1)):  # free flight, catch, release, taut
        assert ((before == was) & (after == becomes)).sum() > 100
    alarm = before & (ticks.fields[names["slack_string"]] == 0) & (fields[names["slack_string"]] > 0)
    assert alarm.sum() > 100


def test_integers_take_the_branches_of_float64() -> None:
    """From ticks of simulated runs, jerked ones too: nothing saturates, and few are so near that rounding decides."""
    made, _ = on_a_string("suspended_mass_string")
    program, formats = made.program, made.formats
    assert formats is not None
    integer = IntegerMachine(program, formats, encode(made.recording.snapshots, formats.fields, formats.word))
    exact = FloatMachine(program, decode(integer.fields, formats.fields))
    rates, raw_rates = CommandRates(program), CommandRates(program, formats.fields)
    for number in range(len(program.blocks)):
        before, raw = exact.fields.copy(), integer.fields.copy()
        integer.run(number)
        exact.run(number)
        rates.apply(number, before, exact.fields)
        raw_rates.apply(number, raw, integer.fields)
    mode = next(i for i in program.of(Role.MODE) if program.fields[i].start)
    same = decode(integer.fields, formats.fields)[mode] == exact.fields[mode]
    assert same.mean() > 0.999
    assert (exact.fields[mode] < 0.5).mean() > 0.05
    assert not integer.saturations.any()


@pytest.mark.parametrize("jerk", [blows, drops])
def test_a_jerked_string_is_followed(jerk: Callable[[int, int], Jerk]) -> None:
    """Nothing is gated, and the supervisor, which stops at a mean NIS of 5, sees nothing of it."""
    made, plan = on_a_string("suspended_mass_string")
    runs = closed_loop(made, plan, jerk(RUNS, 5), seed=1, ticks=TICKS)
    assert runs.slack.sum(axis=0).min() >= 2  # all of them went slack
    assert runs.gated.sum() == 0
    assert runs.saturations == 0
    assert runs.mean_nis <= 2
    assert runs.health <= 2
    assert runs.error_after <= 1.5 * runs.taut_error
    assert np.isfinite(runs.off).all()


def test_a_wire_s_filter_loses_it() -> None:
    """The same blows: values are gated for longer than the ten ticks at which the supervisor stops."""
    made, plan = on_a_string("suspended_mass")
    runs = closed_loop(made, plan, blows(RUNS, 5), seed=1, ticks=TICKS, integers=False)
    assert runs.in_a_row > 10
    assert runs.error_after > 5 * runs.taut_error


def test_a_tick_costs_little_more_than_a_wire_s(tmp_path: Path) -> None:
    """A slack string needs no forces. The worst tick is an alarm that the step afterwards finds taut: 1.30."""
    counted = costs(tmp_path)
    assert counted.taut <= 1.25 * counted.wire
    assert counted.slack <= 0.6 * counted.wire
    assert counted.worst <= 1.35 * counted.wire

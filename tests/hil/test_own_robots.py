"""Robots of other packages on the bench: three motors, forces that hold the start, a board that measures itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from stepmap import jobs
from stepmap.errors import LinkError
from stepmap_hil.bench import simulated
from stepmap_hil.bench.execute import closed_loop, open_loop
from stepmap_hil.bench.settings import settings_in
from stepmap_hil.bench.setup import Setup
from stepmap_hil.commands.prepare import controller_of, firmware
from stepmap_hil.firmware.build import Choices
from stepmap_hil.report.series import series
from stepmap_hil.report.summary import bit_exact, comparison
from stepmap_hil.runs.log import Run
from stepmap_hil.wire import dialect
from tests.hil.rigs import quiet
from tests.pil.built import KEY, KEY_FILE, OUT, ROOT, alone

FOLDER = OUT / "robots"  # of their own: without a job, commands take what is alone in a build folder
ROBOTS = ROOT / "tests" / "data" / "robots"  # a package with entry points, as users install one
ARMED = dialect.value("STEPMAP_STATE_ARMED")


@pytest.fixture(autouse=True, scope="module")
def _installed() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROBOTS)
        patch.setattr("stepmap.jobs.optimize.draw", lambda *_: {})  # nobody looks at pictures of the optimum
        yield


@cache
def setup(name: str, board: str = "native") -> Setup:
    job = jobs.load(ROBOTS / f"{name}.toml")
    with alone():
        controller, generated, _ = controller_of(job, FOLDER)
        _, built = firmware(job, generated, Choices(board, KEY_FILE), FOLDER)
    return Setup(job, controller, built, settings_in(job.root), KEY)


def whole(run: Run, on: Setup) -> Run:
    """A run that went to its end, with the bits of the reference model."""
    assert run.ended == ""
    assert sum(row.running for row in run.rows) == on.planned
    assert bit_exact(on.controller, run) is True
    return run


def bits(run: Run) -> list[tuple[list[int], list[int], int]]:
    return [(row.estimate, row.command, row.taken) for row in run.rows]


@pytest.mark.slow
def test_native_and_emulated_boards_run_it_with_the_same_bits() -> None:
    """Three motors with positions."""
    native, chip = setup("crane"), replace(setup("crane", "stm32f405"), ticks=60)
    run = whole(closed_loop(native, None, quiet), native)
    emulated = closed_loop(chip, None, quiet)
    assert (emulated.ended, bit_exact(chip.controller, emulated)) == ("", True)
    assert len(emulated.rows) > 60
    assert bits(emulated) == bits(run)[: len(emulated.rows)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["slung_load", "arm"])
def test_an_emulated_board_runs_it_with_the_bits_of_its_model(name: str) -> None:
    """Two forces, and three forces on a board that measures itself. Emulators take long, and later ticks go the way of
    the first."""
    chip = replace(setup(name, "stm32f405"), ticks=60)
    run = closed_loop(chip, None, quiet)
    assert run.ended == ""
    assert sum(row.running for row in run.rows) == 60
    assert bit_exact(chip.controller, run) is True


@pytest.mark.slow
@pytest.mark.parametrize(("name", "better"), [("slung_load", 3.0), ("arm", 2.0)])
def test_open_and_closed_loop_begin_in_the_same_state(name: str, better: float) -> None:
    """Forces hold the start from arming on: a craft does not fall, and both runs begin where that has left it."""
    on = setup(name)
    closed, opened = closed_loop(on, None, quiet), open_loop(on, quiet)
    start = on.job.system.readings(on.job.pose)
    held = [np.abs(np.array(row.truth) - start).max() for row in closed.rows if not row.running]
    assert len(held) == 10
    assert max(held) < 0.01  # m, rad; a craft that falls for ten ticks is 0.2 m lower
    assert all(row.state == ARMED for row in closed.rows[:10])
    weight = on.controller.schedule.all_values()[-1, on.job.step.nx : on.job.step.nx + on.job.step.nu]
    np.testing.assert_allclose(weight, on.job.step.holding_forces(on.job.pose), atol=1e-6)
    found = comparison(on.controller, series(on.controller, closed), series(on.controller, opened))
    assert found["open_loop_start_apart_m"] == 0.0
    assert found["open_loop_rms_m"] > better * found["closed_loop_rms_m"]


@pytest.mark.slow
def test_a_board_reads_its_own_encoders_to_the_count() -> None:
    on = setup("arm")
    run = closed_loop(on, None, quiet)
    assert all(row.measured for row in run.rows)
    counts = np.array([encoder.counts_per_unit for encoder in on.controller.encoders])
    off = np.array([(np.array(row.z) - row.truth) * counts for row in run.rows])
    assert -1.01 < off.min() < off.max() < 0.01  # encoders count what has been passed
    formats = on.controller.encoder_formats()
    made = {formats[0].raw(count) for count in range(-3000, 3000)}
    assert {row.words[0] for row in run.rows} <= made


@pytest.mark.slow
def test_a_stop_names_channel_deviation_and_tick() -> None:
    """An arm that is far heavier than its model: the board says so, and no tracker is suspected."""
    on = setup("arm")
    heavy = replace(on.settings, plant=replace(on.settings.plant, system={"mass": 2.5}))
    run = closed_loop(replace(on, settings=heavy), None, quiet)
    assert "at tick " in run.ended
    assert " σ" in run.ended
    assert any(name in run.ended for name in ("q0", "q1", "q2"))
    assert "mass 2.5 instead of 0.4" in run.suspects[0]
    assert not any("tracker on the wrong object" in suspect for suspect in run.suspects)


@pytest.mark.slow
def test_a_start_that_forces_cannot_hold_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    on = setup("slung_load")
    monkeypatch.setattr(simulated, "SETTLE_TICKS", 25)  # the gate has to reject ten in a row
    heavy = replace(on.settings, plant=replace(on.settings.plant, system={"mass": 1.6}))
    with pytest.raises(LinkError, match=r"could not hold the start of the plan: .*(disagree|implausible)"):
        closed_loop(replace(on, settings=heavy), None, quiet)

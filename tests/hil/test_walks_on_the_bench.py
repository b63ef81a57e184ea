"""A biped that walks on a board: bit for bit as its integer model, on feet that strike the ground."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stepmap import jobs
from stepmap.errors import JobError
from stepmap.jobs import optimize
from stepmap_codegen import IntegerMachine, encode
from stepmap_codegen.emit.c_text import field_order
from stepmap_codegen.lower.landing import STEPS
from stepmap_codegen.model.program import BlockRole, Role
from stepmap_codegen.toolchain import TARGETS
from stepmap_hil.bench import replay as again
from stepmap_hil.bench.execute import closed_loop
from stepmap_hil.bench.facts import early_facts
from stepmap_hil.commands.bench.prepare import Prepared, prepare
from stepmap_hil.commands.bench.request import Request, read
from stepmap_hil.live.signals import Signals, frames
from stepmap_hil.plant.walking import WalkingPlant
from stepmap_hil.report import write as results
from stepmap_hil.report.series import series
from stepmap_hil.report.summary import bit_exact, walk
from stepmap_hil.runs.filter_replay import replay_filter
from stepmap_hil.runs.followed import references
from stepmap_hil.runs.log import Run
from stepmap_hil.runs.mcap import Recorder
from stepmap_hil.runs.recording import RecordedRun, read_run
from stepmap_hil.runs.stage_times import StageClock
from stepmap_hil.wire.raw_values import SignalCodec
from tests.hil.rigs import quiet
from tests.pages import ROOT
from tests.pil.built import alone
from tests.sil.libraries import build_libraries, in_c, in_model, require_same, walked, write

JOB = ROOT / "examples" / "gaits" / "biped_planar.toml"
WALKED = 3


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    """Made once for all processes, whose stages find it unchanged: half a minute of a compiler and of a search."""
    folder = ROOT / "build" / "tests" / "walks"
    text = JOB.read_text(encoding="utf-8")
    assert text.count("[bench]\nsteps = 50") == 1
    job = folder / "biped.toml"
    options = dict.fromkeys(("port", "sensor", "seconds", "reference", "faults", "key", "rig", "runs"))
    request = Request(
        file=job,
        board="native",
        seed=1,
        mode="lockstep",
        open_loop=True,
        unattended=False,
        live=False,
        build=folder / "build",
        **options,
    )
    with alone(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimize, "draw", lambda *_: {})  # nobody looks at pictures
        folder.mkdir(parents=True, exist_ok=True)
        job.write_text(text.replace("[bench]\nsteps = 50", f"[bench]\nsteps = {WALKED}"), encoding="utf-8")
        return prepare(request, read(request), StageClock())


@pytest.fixture(scope="module")
def recorded(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, RecordedRun]:
    path = tmp_path_factory.mktemp("recorded") / "run.mcap"
    setup = prepared.setup
    with Recorder(path, setup.about(), prepared.source.attachments()) as recorder:
        run = closed_loop(setup, recorder, quiet)
        results.conclude(recorder, run, early_facts(setup))
    return run, read_run(path)


def test_it_walks_bit_for_bit_as_its_model(prepared: Prepared, recorded: tuple[Run, RecordedRun]) -> None:
    run, setup = recorded[0], prepared.setup
    assert run.ended == ""
    assert not prepared.compares  # feedforward alone would fall
    assert bit_exact(setup.controller, run) is True
    told = walk(run)
    assert told["steps"] == WALKED
    assert all(0.85 < step["length"] < 0.95 for step in told["each"])  # the plan's are 0.9 s
    assert told["normal"] > 40
    assert told["cone"] < 0.8  # the friction that [friction] of the job allows
    assert told["unknown_normal"] > 10
    assert told["low"] > 0
    assert run.rows[-1].gated == run.rows[-1].saturations == 0
    moved = series(setup.controller, run)
    assert np.abs(moved.estimate[:, :4] - moved.coordinates).max() < 0.03  # rad
    assert np.abs(moved.reference[:, :4] - moved.coordinates).max() < 0.15


def test_a_library_walks_as_the_integer_model(prepared: Prepared, tmp_path: Path) -> None:
    """Two steps through the functions of a generated library, with a landing between them."""
    made = prepared.setup.controller
    assert made.plant.gait is not None
    driven = walked(made, made.plant.gait.steps + 20, seed=1)
    library = [("biped", write(made, tmp_path / "biped", "biped"))]
    built = build_libraries(library, TARGETS["host"], tmp_path / "image", ("-O1",))
    (found,) = in_c(built, [made], [driven])
    expected = in_model(made, driven)
    require_same(made, found, expected)
    order = field_order(made.program)
    landings = expected.fields[:, order.index(made.program.index(STEPS))]
    assert landings[0] == 0
    assert landings[-1] > 0


def test_rows_begin_again_at_every_landing(prepared: Prepared, recorded: tuple[Run, RecordedRun]) -> None:
    """No landing in the first half of the rows; the board counts those it has taken."""
    run, codec = recorded[0], SignalCodec.parse(prepared.setup.controller.description())
    modes = np.array([codec.decode("mode", row.modes) for row in run.rows if row.running])
    names = [field["name"] for field in codec.fields["mode"]]
    rows, steps = modes[:, names.index("walk_row")], modes[:, names.index(STEPS)]
    landings = np.flatnonzero(np.diff(steps))
    assert len(landings) == WALKED - 1  # after the last one the run is over
    for k in landings:
        assert 70 <= rows[k] <= 90
        assert rows[k + 1] <= 6
    inner = np.delete(np.diff(rows), landings)
    assert inner.min() >= -2
    assert inner.max() <= 7


def test_the_filter_is_run_again_through_landings(prepared: Prepared, recorded: tuple[Run, RecordedRun]) -> None:
    """Innovations are of their variance: a filter that missed a landing would be off by tens of deviations."""
    found = replay_filter(prepared.setup.controller, recorded[0])
    assert 0.3 < float(np.nanmean(found.squares[20:])) < 3.0
    assert np.nanmax(np.abs(found.innovation)) < 5.0  # the gate
    assert np.nanmax(found.sigma[20:, :4]) < 0.02  # rad


def test_efforts_that_are_held_through_a_landing_lift_the_foot(prepared: Prepared) -> None:
    errors = replace(prepared.setup.settings.plant, cut=False)
    run = closed_loop(replace(prepared.setup, settings=replace(prepared.setup.settings, plant=errors)), None, quiet)
    assert len(run.walked) == WALKED
    assert bit_exact(prepared.setup.controller, run) is True
    assert walk(run)["unknown_normal"] < 10


def test_a_recording_is_replayed(recorded: tuple[Run, RecordedRun], prepared: Prepared) -> None:
    run, read_again = recorded
    assert read_again.closed.walked == run.walked
    assert read_again.closed.digest() == run.digest()
    compared = again.replay(read_again, prepared.setup.board(), prepared.setup.key)
    assert compared.equal == compared.ticks == len(run.rows)
    assert compared.reference_equal is True


def test_a_foot_that_does_not_come_down_ends_the_run(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds no ground, and follows the plan through it."""
    monkeypatch.setattr("stepmap_hil.plant.walking.ARMED", 1e9)
    run = closed_loop(prepared.setup, None, quiet)
    assert run.stop is not None
    assert run.stop.reason == "no_landing"
    assert "did not come down" in run.ended


def test_a_bouncing_switch_is_no_landing(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that closes in the first half of a step."""

    def bounces(self: WalkingPlant) -> tuple[int, float]:
        pending, age = self._contact.pending, self._contact.age
        return int(pending or 0.05 < self.since < 0.3), age if pending else 0.001

    monkeypatch.setattr(WalkingPlant, "contact", property(bounces))
    run = closed_loop(prepared.setup, None, quiet)
    assert run.ended == ""
    assert len(run.walked) == WALKED
    assert bit_exact(prepared.setup.controller, run) is True


def test_the_landing_in_integers_is_that_in_floats(prepared: Prepared) -> None:
    """At estimates about the plan, which has gone on through the ground for up to a period since the foot came down."""
    controller, rng = prepared.setup.controller, np.random.default_rng(5)
    program, formats, gait = controller.program, controller.formats, controller.plant.gait
    assert formats is not None
    assert gait is not None
    states, runs = program.of(Role.STATE), 64
    ages = rng.uniform(0, program.period, runs)
    down, later = controller.schedule.values()[gait.steps : gait.steps + 2, :8]
    wrong = rng.normal(0, 1, (runs, 8)) * np.repeat([0.002, 0.01], 4)
    x = down + np.outer(ages / program.period, later - down) + wrong
    fields = np.tile(controller.output.start[:, None], (1, runs))
    fields[states] = x.T
    fields[program.of(Role.COVARIANCE)] = 0.0  # this is about the state; P of a filter that starts would not fit
    fields[program.index("contact_swing")] = 1.0
    fields[program.index("walk_age")] = ages
    machine = IntegerMachine(program, formats, encode(fields, formats.fields, formats.word))
    machine.run(program.block_of(BlockRole.LANDING))
    assert not machine.saturations.any()
    bits = np.array([formats.fields[i] for i in states])
    found = (machine.fields[states] * 2.0 ** -bits[:, None].astype(float)).T
    step = controller.plant.step
    for k in range(runs):
        after = gait.touchdown(np.concatenate([x[k, :4] - ages[k] * step.velocity(x[k]), x[k, 4:]]))
        after[:4] += ages[k] * step.velocity(after)
        assert np.abs(found[k] - after).max() < 1e-3


def test_a_time_that_is_found_is_refused(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(JOB.read_text(encoding="utf-8").replace("time = 0.9", "time = [0.8, 1.0]"), encoding="utf-8")
    with pytest.raises(JobError, match="period is decided"):
        jobs.for_board(jobs.load(job))


def test_a_walk_is_shown_again(recorded: tuple[Run, RecordedRun]) -> None:
    """On the live page, with the reference of the row that the board is in, and nothing lost."""
    run, told = recorded
    signals = Signals(told.controller)
    shown = frames(signals, run.rows)
    assert len(shown) == sum(row.running for row in run.rows)
    assert shown[-1].loss == 0.0
    expected = references(told.controller, [row for row in run.rows if row.running], run.followed)
    poses = told.controller.plant.step.layout.pose(expected[:, : told.controller.plant.step.nx])
    assert np.allclose([np.asarray(frame.reference) for frame in shown], poses)
    lines = [name for chart in signals.charts() for name in chart.lines]
    assert set().union(*(frame.numbers for frame in shown)) <= set(lines)

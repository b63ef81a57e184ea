"""Formats of the main job, kept for jobs that differ from it: the same code, or a refusal that says why."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import casadi as ca
import numpy as np
import pytest

from stepmap import jobs
from stepmap.errors import JobError, ModelError, RangeError
from stepmap_codegen import Controller, FloatMachine, IntegerMachine, decode, encode
from stepmap_codegen import generate as generation
from stepmap_codegen.controller import Design
from stepmap_codegen.emit.schedule import unpack
from stepmap_codegen.model.program import BlockRole, Role
from stepmap_codegen.precision import pinned
from stepmap_codegen.precision.assign import PINNED_MARGIN
from stepmap_codegen.precision.ensemble import Ensemble, simulate
from stepmap_codegen.precision.ranges import MARGIN
from tests.messages import told as message_of

TEXT = (Path(__file__).parents[2] / "examples" / "suspended_mass.toml").read_text()
FIRST = "[codegen]\ntuning = 1\nheadroom = 1\n"
ROOMY = "[codegen]\ntuning = 1\nheadroom = 4\n"
SEEDS = (68, 72, 80)  # that the design of the formats has not seen
SCHEDULE = {"schedule.bin", "schedule.c", "schedule.h", "signals.json"}


def edited(*changes: tuple[str, str]) -> str:
    text = TEXT
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def times(factor: float) -> str:
    """The figure of eight so many times as large."""
    return edited(("0.43*", f"{0.43 * factor:g}*"), ("0.12*", f"{0.12 * factor:g}*"))


RETUNED = {
    "weights of the state": edited(("q = 100\n", "q = 110\n")),
    "weights of the input": edited(("rho_next = 1\n", "rho_next = 1.5\n")),
    "a smaller reference": times(0.8),
    "a longer one": edited(("duration = 10.0", "duration = 12.0"), ("t/8", "t/10")),
    "a pose that is held": edited(("min(t/8, 1)", "0*t")),  # some gains are always zero
}


@functools.cache
def made(text: str, codegen: str, folder: Path) -> Controller:
    """The controller of a job file of that text."""
    job, choices = _load(text + codegen, folder)
    solution = job.solve().require()
    return generation.controller(job, solution.plan, choices)


def _load(text: str, folder: Path) -> tuple[jobs.Job, generation.Choices]:
    file = folder / "job.toml"
    file.write_text(text)
    return jobs.load(file), generation.read_choices(file)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the formats of the main job, and of one that left room."""
    place = tmp_path_factory.mktemp("kept")
    for name, codegen in (("first", FIRST), ("roomy", ROOMY)):
        text = made(TEXT, codegen, place).formats_file()
        assert text is not None
        (place / f"{name}.json").write_text(text)
    return place


def with_formats(name: str = "first") -> str:
    return f'{FIRST}formats = "{name}.json"\n'


def test_the_same_job_gives_the_same_files(folder: Path) -> None:
    first, again = made(TEXT, FIRST, folder), made(TEXT, with_formats(), folder)
    assert again.files() == first.files()
    assert again.formats_file() == first.formats_file()


@pytest.mark.parametrize("what", RETUNED)
def test_a_retuned_job_keeps_its_code(what: str, folder: Path) -> None:
    first, now = made(TEXT, FIRST, folder), made(RETUNED[what], with_formats(), folder)
    assert now.digest == first.digest
    old, new = first.files(), now.files()
    changed = {name for name in old if old[name] != new[name]}
    assert {"schedule.bin", "schedule.c"} <= changed <= SCHEDULE
    assert unpack(new["schedule.bin"]).model == first.digest
    assert now.formats_file() == first.formats_file()  # they can be kept again


@pytest.mark.parametrize("what", ["weights of the state", "a smaller reference"])
def test_formats_chosen_anew_would_be_others(what: str, folder: Path) -> None:
    """What the whole thing is for."""
    assert made(RETUNED[what], FIRST, folder).digest != made(TEXT, FIRST, folder).digest


@pytest.mark.parametrize("what", RETUNED)
def test_the_integer_model_is_within_its_budget(what: str, folder: Path) -> None:
    """One tick in integers against float64, from ticks of runs that neither job was measured with."""
    now = made(RETUNED[what], with_formats(), folder)
    now.require_budget()
    program, formats = now.program, now.formats
    assert formats is not None
    job, _ = _load(RETUNED[what] + FIRST, folder)
    trajectory = job.solve().require().trajectory
    process = np.sqrt(np.diagonal(now.plant.noise.process))
    state, lost, ticks = program.of(Role.STATE), 0, 0
    for seed in SEEDS:
        runs = simulate(program, now.plant, trajectory, replace(Ensemble(), seed=seed))
        words = encode(runs.snapshots, formats.fields, formats.word)
        integer = IntegerMachine(program, formats, words)
        exact = FloatMachine(program, decode(words, formats.fields))
        for block in range(len(program.blocks)):
            held = exact.run(block) & integer.run(block)
            exact.fields[:, ~held] = decode(integer.fields, formats.fields)[:, ~held]  # gates say nothing of rounding
        whole = integer.saturations == 0
        lost, ticks = lost + int((~whole).sum()), ticks + len(whole)
        gap = np.abs(decode(integer.fields, formats.fields) - exact.fields)[state][:, whole].max(axis=1)
        assert (gap < 1e-3 * process).all()  # the budget is the process noise; 6e-9 m of 2e-4 m when measured
    assert lost <= 1e-3 * ticks
    rows = unpack(now.files()["schedule.bin"]).values()[:, : len(process)]
    assert np.abs(rows - trajectory.x).max() < 1e-8


def test_twice_the_amplitude_is_refused_with_the_signal(folder: Path) -> None:
    with pytest.raises(
        RangeError, match=r"signal '\w+' \(.+\) needs numbers \d\.\d+ times as large as .*has room for"
    ) as said:
        made(times(2), with_formats(), folder)
    for part in ("first.json", "more do not fit", "They reach", "build and flash the firmware again"):
        assert part in message_of(said.value)


def test_a_line_that_does_not_fit_has_its_block(folder: Path) -> None:
    """Formats whose fields all fit, and of whose lines one has two bits too few."""
    first = made(TEXT, FIRST, folder)
    assert isinstance(first, Design)
    known = pinned.unpack((folder / "first.json").read_bytes(), "first.json")
    number = first.program.block_of(BlockRole.PREDICT)
    bits = known.formats.blocks[number]
    line = next(i for i, op in enumerate(first.program.blocks[number].operations) if op.code == ca.OP_INV)
    finer = replace(bits, operations=tuple(f + 2 * (i == line) for i, f in enumerate(bits.operations)))
    blocks = tuple(finer if block is bits else block for block in known.formats.blocks)
    with pytest.raises(
        RangeError,
        match=r"the prediction of the next tick, on its way to \w+ \[m\] \(operation \d+ of 'predict'\) needs .*"
        r"\ncause: .*\nhint: .* stepmap ranges --block predict",
    ):
        pinned.require_fit(replace(known, formats=replace(known.formats, blocks=blocks)), first.program, first.ranges)


def test_room_holds_what_is_tuned_later(folder: Path) -> None:
    """Four times the ranges: two bits, and what was refused above."""
    first, roomy = made(TEXT, FIRST, folder), made(TEXT, ROOMY, folder)
    now = made(times(1.3), with_formats("roomy"), folder)
    assert now.digest == roomy.digest != first.digest
    assert first.formats is not None
    assert roomy.formats is not None
    for i, field in enumerate(first.program.fields):
        bits = 0 if first.ranges.limited(first.program)[i] else 2
        assert first.formats.fields[i] - roomy.formats.fields[i] == bits, field.name


@pytest.mark.parametrize(
    ("text", "codegen", "message"),
    [
        (edited(("q = 0.0002 ", "q = 0.0003 ")), "", "the process noise of 'xm' was 0.0002 and is 0.0003"),
        (edited(("xr = 0.0012 ", "xr = 0.002 ")), "", "the measurement noise of 'xr' was 0.0012 and is 0.002"),
        (edited(("gate = 5.0", "gate = 4.0")), "", "the gate was 5 and is 4"),
        (edited(("q = 0.03\n", "q = 0.04\n")), "", "uncertainty of the start, cov(xm, xm), was 0.0009 and is 0.0016"),
        (
            edited(("ym = 0.25 ", "ym = 0.26 "), ("r = 0.75 ", "r = 0.74 ")),
            "",
            "the start of 'ym' was 0.25 and is 0.26",
        ),
        (edited(("mass = 0.1 ", "mass = 0.12 ")), "", "parameter 'mass' was 0.1 and is 0.12"),
        (edited(('dt = "1/30"', 'dt = "1/40"')), "", "the period was 0.0333333 and is 0.025"),
        (TEXT, "newton = 3\n", "newton was 2 and is 3"),
        (TEXT, "word = 31\n", "its words have 32 bits, and 31 are asked for"),
        (TEXT, 'scalar = "float32"\n', "floating point has no formats to pin"),
    ],
)
def test_another_model_is_refused_with_what_differs(text: str, codegen: str, message: str, folder: Path) -> None:
    with pytest.raises(ModelError) as said:
        made(text, with_formats() + codegen, folder)
    assert message in str(said.value)
    assert "first.json" in str(said.value)


def test_another_system_is_refused_before_anything_is_done(folder: Path) -> None:
    other = (Path(__file__).parents[2] / "examples" / "cart_pendulum.toml").read_text()
    job, choices = _load(other + with_formats(), folder)
    with pytest.raises(ModelError, match="it is of system 'suspended_mass', and the job is of 'cart_pendulum'"):
        generation.require(job, choices)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"{", "holds no formats"),
        (b"[]", "holds no formats"),
        (b"{}", "'format' is missing"),
        (b'{"format": "stepmap-controller-1"}', "its format is 'stepmap-controller-1', not 'stepmap-formats-2'"),
        (b'{"format": "stepmap-formats-2"}', "'fields' is missing"),
    ],
)
def test_a_file_that_holds_none(content: bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "first.json").write_bytes(content)
    with pytest.raises(JobError) as said:
        _load(TEXT + with_formats(), tmp_path)
    assert message in str(said.value)
    assert said.value.line == (TEXT + with_formats()).count("\n")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"bits": 30', '"bits": 30.5'),
        ('"bits": 30', '"bits": "x"'),
        ('"word": 32', '"word": 99'),
        ('"low": ', '"lo": '),
    ],
)
def test_a_file_that_was_changed_by_hand(old: str, new: str, folder: Path) -> None:
    text = (folder / "first.json").read_text()
    assert old in text
    with pytest.raises(ModelError, match=r"x\.json holds no formats: "):
        pinned.unpack(text.replace(old, new).encode(), "x.json")


def test_bits_that_were_changed_by_hand_are_another_model(folder: Path) -> None:
    text = (folder / "first.json").read_text()
    (folder / "off.json").write_text(text.replace('"bits": 30', '"bits": 29', 1))
    with pytest.raises(ModelError, match=r"off\.json has the formats of another model: its equations are others"):
        made(TEXT, with_formats("off"), folder)


def test_what_is_kept_holds_less_than_what_is_chosen() -> None:
    """A margin for what runs do not show; one as large as that of new formats would refuse most changes."""
    assert 1 < PINNED_MARGIN < MARGIN


TUNED = {
    "all weights of the state, to the end of what is promised": "[weights.controller]\nstate_factor = 4\n"
    "input_factor = 0.25\n",
    "those of the input": "[weights.controller]\ninput_factor = 3\n",
    "some weights by themselves": "[weights.controller]\nstate = { q = 200, rho = 0.5, p = 0.15, v = 0.6 }\n"
    "input = { rho_next = 1.5 }\n",
}


@pytest.mark.parametrize("what", TUNED)
def test_feedback_is_tuned_without_a_new_firmware(what: str, folder: Path) -> None:
    """No formats are named: weights of the feedback decide the schedule alone, and the plan stays as it is."""
    first, now = made(TEXT, "", folder), made(TEXT, TUNED[what], folder)
    assert now.digest == first.digest
    old, new = first.files(), now.files()
    assert {name for name in old if old[name] != new[name]} <= SCHEDULE
    assert old["schedule.bin"] != new["schedule.bin"]
    assert now.formats_file() == first.formats_file()
    states = len(now.plant.step.state_names)
    assert (first.schedule.rows[:, :states] == now.schedule.rows[:, :states]).all()


def test_weights_far_away_get_formats_of_their_own(folder: Path) -> None:
    weights = "[weights.controller]\nstate = { q = 5000, rho = 1, p = 0.1, v = 1 }\ninput = { rho_next = 1 }\n"
    far = made(TEXT, weights, folder)
    assert far.digest != made(TEXT, "", folder).digest
    assert far.pinned is None

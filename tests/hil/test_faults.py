"""Every fault of examples/faults is taken as its file expects; mistakes in fault files are found, with their line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stepmap.errors import JobError, ModelError
from stepmap_hil.bench.execute import closed_loop
from stepmap_hil.faults.port import FaultyPort, Rule
from stepmap_hil.faults.spec import KINDS, Fault, read_faults
from stepmap_hil.report.summary import bit_exact
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from tests.hil.rigs import FAULTS, FILES, quiet, rig

STRUCK = FAULTS.parent / "strings" / "blow.toml"  # for a job with a string

ENDING = {
    "cut",
    "driver_fault",
    "encoder",
    "lost_edges",
    "lost_measurements",
    "occluded",
    "reset",
    "stuck",
    "supply_low",
}
ENDING |= {"unplugged", "wrong_object"}
TELEMETRY_LOST = {"cut", "cut_short", "goes_on", "noisy_line"}


@pytest.mark.parametrize("name", FILES)
def test_reaction_on_the_native_board(name: str) -> None:
    made = rig(faults=name, ticks=100 if name == "goes_on" else 60)
    run = closed_loop(made, None, quiet)
    assert [result for result in run.results if not result.ok] == []
    assert len(run.results) == len(made.faults)
    assert bool(run.ended) == (name in ENDING)
    # In lock-step a deadline is missed where a measurement is not answered by its tick.
    lost = any(fault.kind in ("dropped", "corrupted", "overtaken", "cut") for fault in made.faults)
    assert (run.misses > 0) >= (lost and name not in ("lost_commands",))
    # A tick that was not told cannot be compared; whatever was told is what the model says.
    assert bit_exact(made.controller, run) in ((None, True) if name in TELEMETRY_LOST else (True,))


@pytest.mark.parametrize("name", ["driver_fault", "lost_measurements", "reset", "stuck"])
def test_reaction_on_the_emulated_chip(name: str) -> None:
    run = closed_loop(rig("stm32f405", faults=name, ticks=60), None, quiet)
    assert [result for result in run.results if not result.ok] == []
    assert run.digest() == closed_loop(rig(faults=name, ticks=60), None, quiet).digest()


def test_all_kinds_are_tried_out() -> None:
    files = [*(FAULTS / f"{name}.toml" for name in FILES), STRUCK]
    assert {fault.kind for file in files for fault in read_faults(file)} == set(KINDS)


def test_the_same_seed_gives_the_same_run() -> None:
    first, again, other = (closed_loop(rig(faults="noisy_line", ticks=60, seed=s), None, quiet) for s in (4, 4, 5))
    assert first.digest() == again.digest()
    assert first.digest() != other.digest()


def test_what_is_not_as_expected_is_told(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text('[[fault]]\nkind = "dropped"\nat = 0.5\nexpect = { state = "stopped", within = 0.1 }\n')
    (result,) = closed_loop(rig(faults=file, ticks=30), None, quiet).results
    assert not result.ok
    assert result.seen.startswith("running")


NEVER_HAPPEN = {
    "of frames that do not come": '[[fault]]\nkind = "dropped"\nframes = "answer"\nat = 0.5\nfor = 0.2\n',
    "after the end": '[[fault]]\nkind = "jump"\nat = 5.0\n',
    "before it": '[[fault]]\nkind = "reset"\nat = 3.0\n',
}


@pytest.mark.parametrize("what", NEVER_HAPPEN)
def test_a_fault_that_never_happens_was_not_taken(what: str, tmp_path: Path) -> None:
    file = tmp_path / "never.toml"
    file.write_text(NEVER_HAPPEN[what])
    (result,) = closed_loop(rig(faults=file, ticks=30), None, quiet).results
    assert not result.ok
    assert result.seen.startswith("did not happen")


def test_a_fault_of_uploads_needs_a_board_that_takes_them() -> None:
    with pytest.raises(ModelError, match="wrong_schedule happens to an upload, and stm32f100 takes none"):
        closed_loop(rig("stm32f100", faults="wrong_schedule", ticks=10), None, quiet)


def test_a_brown_out_that_is_to_end_otherwise_is_not_as_expected(tmp_path: Path) -> None:
    file = tmp_path / "brown_out.toml"
    file.write_text('[[fault]]\nkind = "brown_out"\nexpect = "fault"\n')
    (result,) = closed_loop(rig(faults=file, ticks=10), None, quiet).results
    assert (result.ok, result.seen) == (False, "interrupted, then uploaded")


def test_a_robot_whose_telemetry_gets_lost_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "deaf.toml"
    file.write_text('[[fault]]\nkind = "dropped"\nframes = "telemetry"\nat = 0.5\nfor = 0.7\n')
    run = closed_loop(rig(faults=file, ticks=60), None, quiet)
    assert [result.ok for result in run.results] == [True]
    assert run.ended == ""
    assert run.rows[-1].tick == 59


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ('[[fault]]\nkind = "droped"\n', 2, "hint: Did you mean 'dropped'"),
        ("[[fault]]\nat = 1\n", 1, "'kind' is missing"),
        ('[[fault]]\nkind = "jump"\nat = -1\n', 3, "at least 0 s"),
        ('[[fault]]\nkind = "jump"\ncount = 0\n', 3, "at least 1"),
        ('[[fault]]\nkind = "jump"\nfor = 1\ncount = 2\n', 4, "not both"),
        ('[[fault]]\nkind = "cut"\n', 1, "'for' is missing"),
        ('[[fault]]\nkind = "dropped"\nvalue = 1.5\n', 3, "at most 1"),
        ('[[fault]]\nkind = "delayed"\nvalue = 0\n', 3, "above 0"),
        ('[[fault]]\nkind = "dropped"\nframes = "all"\n', 3, "no choice is called 'all'"),
        ('[[fault]]\nkind = "stuck"\nexpect = "sad"\n', 3, "no choice is called 'sad'"),
        ('[[fault]]\nkind = "stuck"\n[fault.expect]\nwithin = -1\n', 4, "must be positive"),
        ('[[fault]]\nkind = "stuck"\nexpect = { reason = "fate" }\n', 3, "no choice is called 'fate'"),
        ('[[fault]]\nkind = "stuck"\nwhen = 3\n', 3, "no key is called 'when'"),
        ("[faults]\n", 1, "no key is called 'faults'"),
        ('[[fault]]\nkind = "occluded"\nchannels = [1]\n', 3, "names of channels"),
        ('[[fault]]\nkind = "occluded"\nchannels = "xr"\n', 3, "a list of names of channels"),
        ('[[fault]]\nkind = "jump"\nvalue = 1e300\n', 3, "must be within ±100 for jump"),
        ('[[fault]]\nkind = "encoder"\nvalue = -1e12\n', 3, "must be within ±1e\\+09 for encoder"),
        ("[[fault\n", 1, "not valid TOML"),
    ],
)
def test_mistakes_in_a_fault_file_are_found(text: str, line: int, told: str, tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    file.write_text(text)
    with pytest.raises(JobError, match=told) as caught:
        read_faults(file)
    assert caught.value.line == line


def test_an_empty_fault_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    file.write_text("")
    with pytest.raises(JobError, match="has no"):
        read_faults(file)


@pytest.mark.parametrize(
    ("fault", "told"),
    [(Fault("jump", channels=("mess.x",)), "no channel is called 'mess.x'"), (Fault("stuck", axis=2), "no axis 2")],
)
def test_faults_of_what_is_not_there_are_refused(fault: Fault, told: str) -> None:
    with pytest.raises(ModelError, match=told):
        closed_loop(replace(rig(ticks=1), faults=(fault,)), None, quiet)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[[fault]]\nkind = "stuck"\naxis = 99\n', "faults.toml:3: fault[1].axis: there is no axis 99; this job has 2"),
        ('[[fault]]\nkind = "jump"\nchannels = ["x"]\n', "faults.toml:3: fault[1].channels: no channel is called 'x'"),
    ],
)
def test_faults_of_what_is_not_there_are_told_with_their_line(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    file.write_text(text)
    with pytest.raises(JobError) as caught:
        read_faults(file, ["mass.x", "mass.y"], ["xr", "r"])
    assert told in str(caught.value)
    assert caught.value.hint
    assert read_faults(file)  # of any job


class Loop:
    """A port whose other end sends everything back."""

    timeout: float | None = None

    def __init__(self) -> None:
        self.bytes = bytearray()

    @property
    def in_waiting(self) -> int:
        return len(self.bytes)

    def read(self, size: int = 1, /) -> bytes:
        part = bytes(self.bytes[:size])
        del self.bytes[:size]
        return part

    def write(self, data: bytes, /) -> int:
        self.bytes += data
        return len(data)

    def close(self) -> None:
        pass


def frame(name: str, number: int) -> bytes:
    return dialect.encode(Message(name, {"tick": number} if name == "TELEMETRY" else {}), number)


@pytest.mark.parametrize(
    ("kind", "order"),
    [("dropped", [1, 2]), ("duplicated", [0, 0, 1, 2]), ("overtaken", [1, 0, 2]), ("corrupted", [1, 2])],
)
def test_frames_from_the_board(kind: str, order: list[int]) -> None:
    inner = Loop()
    port = FaultyPort(inner)
    port.rules = [Rule(Fault(kind, count=1, frames="telemetry"), np.random.default_rng(0))]
    for k in range(3):
        inner.write(frame("TELEMETRY", k))
    received = b"".join(iter(lambda: port.read(4096), b""))
    framer = dialect.Framer()
    assert [dialect.decode(found).tick for found in framer.feed(received)] == order
    assert framer.damaged + (framer.noise > 0) >= (kind == "corrupted")
    assert port.hit == 1


@pytest.mark.parametrize(
    ("kind", "order"),
    [("dropped", [1, 2]), ("duplicated", [0, 0, 1, 2]), ("overtaken", [1, 0, 2]), ("corrupted", [1, 2])],
)
def test_frames_to_the_board(kind: str, order: list[int]) -> None:
    inner = Loop()
    port = FaultyPort(inner)
    port.rules = [Rule(Fault(kind, count=1), np.random.default_rng(0))]
    delivered = []
    for k in range(3):
        port.write(frame("MEASUREMENT", k))
        delivered.append(port.delivered)
    assert [found[4] for found in dialect.Framer().feed(bytes(inner.bytes))] == order
    assert delivered == [kind == "duplicated", True, True]


def test_a_cut_leaves_the_wires_inside_the_robot_alone() -> None:
    inner = Loop()
    port = FaultyPort(inner)
    port.rules = [Rule(Fault("cut", seconds=1.0), np.random.default_rng(0))]
    for name in ("MEASUREMENT", "COMMAND", "VIRTUAL_ENCODER", "PING"):
        port.write(frame(name, 0))
    assert [dialect.decode(found).name for found in dialect.Framer().feed(bytes(inner.bytes))] == [
        "VIRTUAL_ENCODER",
        "PING",
    ]


def test_an_axis_is_called_by_its_coordinate_or_its_number(tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    for axis in ('"r"', "1"):
        file.write_text(f'[[fault]]\nkind = "stuck"\naxis = {axis}\n')
        assert read_faults(file, ["mass.x"], ["xr", "r"])[0].axis == 1
    file.write_text('[[fault]]\nkind = "stuck"\naxis = "r"\n')
    with pytest.raises(JobError, match="without a job its axes have no names"):
        read_faults(file)
    with pytest.raises(JobError, match=r"faults.toml:3: fault\[1\].axis: no axis is called 'r'\nhint: There are x, y"):
        read_faults(file, ["mass.x"], ["x", "y"])

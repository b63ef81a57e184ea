"""Whoever looks on can stop a run, and make faults happen while it goes on; one who does nothing changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stepmap.errors import LinkError
from stepmap_hil.bench.execute import closed_loop
from stepmap_hil.bench.replay import replay
from stepmap_hil.boards import NativeBoard
from stepmap_hil.faults.spec import (
    OPERATOR_FAULTS,
    SIMULATED,
    Expectation,
    Fault,
    FaultVerdict,
    offered,
    operator_fault,
)
from stepmap_hil.report import write as results
from stepmap_hil.runs.fault_verdict import TOO_EARLY, RunOutcome, evaluate_faults
from stepmap_hil.runs.listener import RunListener
from stepmap_hil.runs.log import STOPPED, Row, Run
from stepmap_hil.runs.mcap import Recorder
from stepmap_hil.runs.recording import read_run
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.link import Link
from tests.hil.rigs import quiet, rig, source
from tests.pil.built import KEY, firmware

AT = 30  # ticks, in the middle of the first bow
ENDING = {"link cut 1 s", "occluded 1 s", "motor stuck", "encoder jump", "driver fault", "supply low", "board reset"}
FACTS = {"seed": 1, "sensor": "gaussian", "flash_bytes": None, "ram_bytes": None, "instructions_per_tick": None}


class Hand(RunListener):
    """Injects faults of `OPERATOR_FAULTS` at ticks of the run, and stops it at one."""

    injects_faults = True

    def __init__(self, faults: dict[int, str] | None = None, stop: int | None = None) -> None:
        self.asked, self.stop = dict(faults or {}), stop
        self.tick = -1
        self.events: list[str] = []
        self.ended: str | None = None

    def on_tick(self, row: Row, message: Message) -> None:
        self.tick = row.tick if row.running else -1

    def on_event(self, at: float, text: str) -> None:
        self.events.append(text)

    def on_end(self, run: Run) -> None:
        self.ended = run.ended

    def stop_requested(self) -> bool:
        return self.stop is not None and self.tick >= self.stop

    def requested_faults(self) -> Sequence[Fault]:
        return [operator_fault(self.asked.pop(at)) for at in list(self.asked) if self.tick >= at]


def run(hand: RunListener | None, ticks: int = 80) -> Run:
    return closed_loop(rig(ticks=ticks), None, quiet, None, hand)


@pytest.mark.parametrize("name", OPERATOR_FAULTS)
def test_each_fault_is_taken_as_usual(name: str) -> None:
    hand = Hand({AT: name})
    made = run(hand)
    (result,) = made.results
    assert result.ok, result
    assert result.by_hand
    assert result.document()["by_hand"] is True
    assert TOO_EARLY not in result.seen
    assert f"fault by the operator: {OPERATOR_FAULTS[name].kind}" in hand.events
    assert bool(made.ended) == (name in ENDING)
    assert hand.ended == made.ended
    assert hand.events == [text for _, text in made.events]


@pytest.mark.parametrize("name", ["link cut 1 s", "6 frames lost", "board reset", "encoder jump"])
def test_it_is_the_same_as_from_a_file(name: str) -> None:
    made = run(Hand({AT: name}))
    planned = replace(operator_fault(name, at=made.results[0].at), by_operator=False)
    again = closed_loop(replace(rig(ticks=80), faults=(planned,)), None, quiet)
    assert [told(row) for row in made.rows] == [told(row) for row in again.rows]
    assert made.ended == again.ended
    assert [replace(result, by_hand=False) for result in made.results] == again.results


def told(row: Row) -> list[object]:
    return [getattr(row, name) for name in ("tick", "state", "estimate", "command", "coordinates")]


def test_who_does_nothing_changes_nothing() -> None:
    assert run(Hand(), 40).digest() == run(None, 40).digest()


@pytest.mark.parametrize("name", ["link cut 0.15 s", "6 frames lost", "sensor jump", "motor stuck", "board reset"])
def test_recordings_replay(name: str, tmp_path: Path) -> None:
    path, made = tmp_path / "run.mcap", rig(ticks=60)
    with Recorder(path, made.about(), source().attachments()) as recorder:
        done = closed_loop(made, recorder, quiet, None, Hand({AT: name}))
        results.conclude(recorder, done, FACTS)
    recorded = read_run(path)
    assert recorded.closed.results == done.results
    assert recorded.closed.digest() == done.digest()
    found = replay(recorded, NativeBoard(firmware("native").program), KEY)
    assert found.first == ""
    assert found.equal == found.ticks > 30


# Stopping


def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of all commands from now on."""
    found: list[str] = []
    command = Link.command

    def listen(link: Link, name: str, *options: str, timeout: float = 2.0) -> Message:
        found.append(name)
        return command(link, name, *options, timeout=timeout)

    monkeypatch.setattr(Link, "command", listen)
    return found


def test_stop_before_the_run_keeps_the_robot_still(monkeypatch: pytest.MonkeyPatch) -> None:
    found = commands(monkeypatch)
    with pytest.raises(LinkError, match="stopped by the user before the run began"):
        run(Hand(stop=-1))
    assert found == ["calibrate", "stop"]  # neither armed nor run


def test_stop_while_armed_keeps_the_robot_still(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(Hand):
        def stop_requested(self) -> bool:
            return "armed" in self.events

    found = commands(monkeypatch)
    with pytest.raises(LinkError, match="before the run began"):
        run(Late())
    assert found == ["calibrate", "arm", "stop"]


def test_stop_ends_the_run() -> None:
    hand = Hand(stop=20)
    made = run(hand)
    assert made.ended == STOPPED
    assert hand.events == ["armed", "running", "stopped"]
    assert sum(row.running for row in made.rows) == 21


def test_no_injected_fault_keeps_a_robot_from_being_stopped() -> None:
    hand = Hand({AT: "6 frames lost", AT + 2: "link cut 1 s"}, stop=AT + 2)
    made = run(hand)
    assert made.ended == STOPPED
    assert hand.events[-1] == "stopped"
    assert [result.ok for result in made.results] == [True] * len(made.results)


# Judging


def course(seconds: float, ended: tuple[str, str] | None = None, end: float = np.inf) -> RunOutcome:
    """A run in which nothing but the clock moves."""
    time = np.arange(0.0, seconds, 0.1)
    row = rig_row()
    return RunOutcome(time, [row] * len(time), np.zeros(len(time)), time, np.zeros((len(time), 1)), 0.1, ended, end)


def rig_row() -> Row:
    numbers = dict.fromkeys(Row.__annotations__, 0)
    return Row(**{**numbers, "state": 4, "reason": 5})  # type: ignore[arg-type]


def verdicts(faults: Sequence[Fault], *more: object) -> list[tuple[bool, bool]]:
    """(ok, too early) of each."""
    return [(r.ok, TOO_EARLY in r.seen) for r in evaluate_faults(faults, course(*more), [True] * len(faults))]  # type: ignore[arg-type]


def test_what_a_run_cannot_show_is_not_held_against_it() -> None:
    reset = operator_fault("board reset", at=1.0)
    assert verdicts([reset], 5.0) == [(False, False)]  # it went on for seconds: the reset was not noticed
    assert verdicts([reset], 1.2) == [(True, True)]  # it was stopped at once
    assert verdicts([replace(reset, by_operator=False)], 1.2) == [
        (False, False)
    ]  # who plans a fault plans for it to show
    assert verdicts([operator_fault("motor stuck", at=1.0)], 5.0) == [(True, True)]  # it may not have had to move


def test_faults_on_top_of_each_other_are_not_told_apart() -> None:
    both = [operator_fault("sensor jump", at=1.0), operator_fault("encoder jump", at=1.1)]
    assert verdicts(both, 1.5, ("fault", "motor_following"), 1.3) == [(True, False), (True, True)]
    apart = [operator_fault("sensor jump", at=1.0), operator_fault("encoder jump", at=3.0)]
    assert verdicts(apart, 4.5, ("fault", "motor_following"), 3.3) == [(True, False), (False, False)]


def test_what_is_pressed_after_the_end_does_not_count() -> None:
    assert verdicts([operator_fault("sensor jump", at=2.0)], 2.5, ("fault", "motor_following"), 1.5)[0][0]


# What is offered


def test_only_what_a_run_can_have_is_offered() -> None:
    assert offered(motors=True, reset=True) == list(OPERATOR_FAULTS)
    kinds = {OPERATOR_FAULTS[name].kind for name in offered(motors=False, reset=False)}
    assert not kinds & {*SIMULATED, "reset"}
    assert {operator_fault(name).expect.state for name in ENDING} == {"stopped", "fault", "idle"}
    assert all(operator_fault(name).expect == Expectation() for name in set(OPERATOR_FAULTS) - ENDING)


def test_results_of_files_do_not_mention_hands() -> None:
    assert "by_hand" not in FaultVerdict("cut", 1.0, "running", "running", ok=True).document()

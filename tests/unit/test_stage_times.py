"""Stages of a command: what they are timed by, and how a terminal shows them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from stepmap.cli.output import Screen
from stepmap.errors import DamagedError
from stepmap_hil.commands.bench.finish import verdict_line
from stepmap_hil.commands.stage_list import StageList, print_memory
from stepmap_hil.report.sentences import outcome, stages
from stepmap_hil.runs import recording_checks
from stepmap_hil.runs.stage_times import StageClock, StageTime

CHIP = {
    "flash_bytes": 58696,
    "flash_limit_bytes": 1048576,
    "ram_bytes": 96092,
    "ram_limit_bytes": 131072,
    "stack_bytes": 1772,
    "stack_limit_bytes": 8192,
}
MADE = [
    StageTime("start", None, 0.812, 0.79),
    StageTime("build stm32f405", True, 0.02, 0.01),
    StageTime("instruction count", False, 123.4, 61.0),
]


def test_stages_follow_each_other_without_a_gap() -> None:
    told: list[StageTime] = []
    clock = StageClock(told.append)
    clock.begin("solve")
    clock.mark_reused(True)
    clock.begin("build")
    clock.mark_reused(False)
    clock.end()
    clock.end()  # nothing goes on
    with clock.stage("run"):
        pass
    assert [(s.name, s.reused) for s in told] == [("start", None), ("solve", True), ("build", False), ("run", None)]
    assert clock.document() == [vars(stage) for stage in told]
    assert all(stage.seconds >= 0 and stage.cpu_seconds >= 0 for stage in told)


def test_a_stage_that_an_error_leaves_is_not_done() -> None:
    clock = StageClock()
    with pytest.raises(ValueError, match="left"), clock.stage("solve"):
        raise ValueError("left")
    assert [stage.name for stage in clock.done] == ["start"]


def test_cpu_time_is_that_of_children_too() -> None:
    """A child that counts until it has used 0.2 s of CPU time; its clock has a resolution of 0.01 s."""
    clock = StageClock()
    with clock.stage("child"):
        subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.2:\n    pass"], check=True)
    assert clock.done[-1].cpu_seconds >= 0.19


@pytest.mark.parametrize("columns", [60, 100])
def test_lines_fit_a_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    StageList(MADE)
    print_memory(CHIP)
    printed = capsys.readouterr().out
    assert printed.splitlines() == [
        "stage             result           time   CPU time",
        "start             done           0.81 s     0.79 s",
        "build stm32f405   up to date     0.02 s     0.01 s",
        "instruction count made            123 s    61.00 s",
        "flash [=         ]   5.6 %  58696 of 1048576 bytes",
        "RAM   [=======   ]  73.3 %  96092 of 131072 bytes",
        "stack [==        ]  21.6 %  1772 of 8192 bytes",
    ]


def test_a_process_has_no_memory_to_show(capsys: pytest.CaptureFixture[str]) -> None:
    print_memory({**CHIP, "flash_limit_bytes": None, "ram_limit_bytes": None, "stack_limit_bytes": None})
    print_memory({"flash_bytes": 1, "ram_bytes": 2})  # of a recording of an older version
    assert capsys.readouterr().out == ""


SUMMARY: dict[str, Any] = {"ended": "done", "ticks": 300, "fault_results": []}


@pytest.mark.parametrize(("verdict", "color"), [("passed", "32"), ("stopped", "33"), ("failed", "31")])
def test_the_verdict_has_a_color(verdict: str, color: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown() -> str:
        screen = Screen(force_terminal=True, color_system="standard")
        with screen.capture() as captured:
            screen.print(verdict_line(verdict, SUMMARY))
        return captured.get()

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert shown().startswith(f"\x1b[1;{color}m{verdict.upper()}\x1b[0m  Ran to its end: 300 ticks.")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[\d;]*3\d", shown())


@pytest.mark.parametrize(
    ("opened", "closed", "told"), [(0.5, 20.0, "40 times worse"), (0.5, 0.1, ""), (None, None, "")]
)
def test_a_run_that_feedback_made_worse_says_so_in_its_first_line(
    opened: float | None, closed: float | None, told: str
) -> None:
    said = outcome({**SUMMARY, "open_loop_rms_m": opened, "closed_loop_rms_m": closed})
    assert said.startswith("Ran to its end: 300 ticks.")
    assert ("But feedback made it" in said) is bool(told)
    assert told in said


# Recorded


def facts(**more: Any) -> dict[str, Any]:
    return recording_checks.facts(json.dumps({"seed": 1, "sensor": "gaussian", **more}))


def test_recorded_stages_come_back() -> None:
    told = [vars(stage) for stage in MADE]
    found = facts(stages=told, board_started_after_seconds=1.25)
    assert (found["stages"], found["board_started_after_seconds"]) == (told, 1.25)
    assert stages(found)[1] == ("build stm32f405", "up to date", "0.02 s", "0.01 s")


def test_recordings_of_older_versions_have_none() -> None:
    found = facts()
    assert "stages" not in found
    assert stages(found) == []


@pytest.mark.parametrize(
    "wrong",
    [
        [{"name": "solve", "reused": "no", "seconds": 1.0, "cpu_seconds": 1.0}],
        [{"name": "solve", "reused": True, "seconds": "1", "cpu_seconds": 1.0}],
        [{"name": 7, "reused": True, "seconds": 1.0, "cpu_seconds": 1.0}],
        {"name": "solve"},
    ],
)
def test_stages_that_are_damaged(wrong: object) -> None:
    with pytest.raises(DamagedError):
        facts(stages=wrong)

"""A bench twice in a row: nothing is solved, designed or built again, and both runs differ in their times alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.hil.commands import build_folder, command, run

TIMED = ("stages", "board_started_after_seconds", "board_id")
BEFORE = ("optimize", "generate", "build native")


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = build_folder(tmp_path_factory.mktemp("build"))
    shutil.rmtree(made / "suspended_mass" / "optimize")
    return made


@pytest.fixture(scope="module")
def twice(build: Path) -> list[tuple[str, dict[str, Any]]]:
    """What two runs print and leave in summary.json."""
    found = []
    for _ in range(2):
        code, printed, complaints = run(command(build, "--seconds", "0.5"))
        assert (code, complaints) == (0, "")
        found.append((printed, json.loads((build / "suspended_mass" / "bench" / "summary.json").read_text())))
    return found


def reused(summary: dict[str, Any]) -> dict[str, bool | None]:
    return {stage["name"]: stage["reused"] for stage in summary["stages"]}


def test_the_first_run_makes_what_is_missing(twice: list[tuple[str, dict[str, Any]]]) -> None:
    assert [reused(twice[0][1])[name] for name in BEFORE] == [False, True, True]


def test_the_second_run_makes_nothing_before_the_board(twice: list[tuple[str, dict[str, Any]]]) -> None:
    found = reused(twice[1][1])
    names = list(found)
    before = names[: names.index("boot")]
    assert before == ["start", "read job", *BEFORE, "sensor"]
    assert [found[name] for name in before if found[name] is not None] == [True] * len(BEFORE)
    assert names[names.index("boot") :] == ["boot", "upload", "arm", "closed loop", "open loop", "report"]
    assert twice[1][1]["board_started_after_seconds"] > 0


def test_times_are_all_that_differs(twice: list[tuple[str, dict[str, Any]]]) -> None:
    first, second = ({k: v for k, v in summary.items() if k not in TIMED} for _, summary in twice)
    assert first == second


def test_the_terminal_lists_them_and_ends_with_the_verdict(twice: list[tuple[str, dict[str, Any]]]) -> None:
    lines = [line.rstrip() for line in twice[1][0].splitlines()]
    stages = twice[1][1]["stages"]
    assert lines[0].split() == ["stage", "result", "time", "CPU", "time"]
    for line, stage in zip(lines[1:], stages, strict=False):
        assert line.startswith(stage["name"])
        assert ("up to date" in line) is (stage["reused"] is True)
    assert lines[-3] == "PASSED  Ran to its end: 15 ticks."
    assert lines[-2].startswith("report  ")
    assert lines[-1].startswith("recording  ")


def test_the_report_has_them_also_when_it_is_made_of_the_recording(
    build: Path, twice: list[tuple[str, dict[str, Any]]], tmp_path: Path
) -> None:
    folder = build / "suspended_mass" / "bench"
    page = (folder / "report.html").read_text()
    assert "<h1>suspended_mass on native</h1>" in page
    assert 'class="pill">PASS</b>' in page
    for stage in twice[1][1]["stages"]:
        assert f"<td>{stage['name']}</td>" in page
    words = command(build)
    again = [*words[: words.index("bench")], "report", str(folder / "run.mcap"), "--out", str(tmp_path)]
    code, printed, complaints = run(again)
    assert (code, complaints) == (0, "")
    recorded = json.loads((tmp_path / "summary.json").read_text())["stages"]
    assert recorded == [stage for stage in twice[1][1]["stages"] if stage["name"] != "report"]  # that comes afterwards
    assert "<h2>Stages</h2>" in (tmp_path / "report.html").read_text()
    assert printed.startswith("stage  ")

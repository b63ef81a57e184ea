"""``stepmap new`` and ``stepmap check``: a project that works at once, and everything wrong told before work begins."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import stepmap as sm
from stepmap.cli import app
from stepmap.jobs.job import TrackingJob
from stepmap_codegen import boards, forecast
from stepmap_codegen import generate as generation
from stepmap_codegen.emit import size
from stepmap_hil.commands.check import NOTE, WRONG, Finding, examine
from tests.pages import ROOT
from tests.processes import PATIENCE
from tests.undrawn import STEPMAP


def invoke(*words: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects") / "crane"
    done = invoke("new", "my_crane", "--dir", folder)
    assert done.exit_code == 0, done.output
    return folder


def changed(project: Path, tmp_path: Path, changes: dict[str, tuple[str, str]]) -> Path:
    """The job of a copy of the project in which texts were replaced, by file."""
    for path in project.glob("my_crane.*"):
        text = path.read_text(encoding="utf-8")
        for old, new in [changes[path.suffix]] if path.suffix in changes else []:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    return tmp_path / "my_crane.toml"


def states(found: list[Finding]) -> dict[str, str]:
    return {finding.name: finding.state for finding in found}


# stepmap new


def test_a_new_project_says_of_itself_what_there_is(project: Path) -> None:
    files = sorted(path.name for path in project.iterdir())
    assert files == ["README.md", "my_crane.py", "my_crane.toml", "test_my_crane.py"]
    readme = (project / "README.md").read_text(encoding="utf-8")
    assert readme.startswith("# My crane\n")
    assert set(re.findall(r"`((?:test_)?my_crane\.\w+)`", readme)) == {*files} - {"README.md"}
    assert not any("{{" in path.read_text(encoding="utf-8") for path in project.iterdir())


def test_it_is_checked_optimized_generated_and_its_own_tests_pass(project: Path, tmp_path: Path) -> None:
    """The bench takes it in tests/hil/test_tutorial.py."""
    job = project / "my_crane.toml"
    for command in ("check", "optimize", "generate"):
        done = invoke(command, job, "--build", tmp_path)
        assert done.exit_code == 0, done.output
    scope: dict[str, object] = {"my_crane": sm.systems.from_file(project / "my_crane.py")}
    code = (project / "test_my_crane.py").read_text(encoding="utf-8").replace("from my_crane import my_crane\n", "")
    exec(code, scope)
    tests = [test for name, test in scope.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()  # type: ignore[operator]


def test_nothing_is_replaced(project: Path) -> None:
    before = {path: path.read_bytes() for path in project.iterdir()}
    done = invoke("new", "my_crane", "--dir", project)
    assert done.exit_code == 2
    assert "my_crane.py, my_crane.toml, README.md, test_my_crane.py in" in done.stderr
    assert "--dir my_crane" in done.stderr
    assert {path: path.read_bytes() for path in project.iterdir()} == before


@pytest.mark.parametrize("name", ["3d", "my crane", "class", "../x", "numpy", "", "Öl", "_x", "test_x"])
def test_a_name_that_cannot_be_a_module_is_refused(name: str, tmp_path: Path) -> None:
    done = invoke("new", "--dir", tmp_path / "there", "--", name)
    assert done.exit_code == 2
    assert "hint: Take" in done.stderr
    assert not (tmp_path / "there").exists()


# stepmap check

WRONGS = {
    "name of a state": ("job", {".toml": ("rho = 1\n", "roh = 1\n")}, "'roh'", "'rho'"),
    "name of a coordinate": ("job", {".toml": ("cable = 1.5", "cabel = 1.5")}, "cabel", "'cable'"),
    "a mistake in the system": (
        "job",
        {".py": ("b.damping(x, c)", "b.damping(z, c)")},
        "my_crane.py:35: NameError",
        "",
    ),
    "start outside": (
        "ranges",
        {".toml": ("[reference]", "[start]\nx = 5\nsatisfy = true\n[reference]")},
        "5 m",
        "Widen",
    ),
    "no limits": (
        "ranges",
        {".py": (", low=-1.0, high=4.0)\n    y", ")\n    y")},
        "'x' [m] has no limits",
        "low and high",
    ),
    "an end that falls": (
        "end",
        {".toml": ("trolley = 2.0\ncable = 2.0\n", "trolley = 1.5\n[end]\nrest = true\n")},
        "no inputs hold",
        "x = 1.5",
    ),
    "no noise": (
        "[noise]",
        {".toml": ("[noise.measurement]\nload = 0.005", "[noise.measurement]\nload = 0")},
        "load",
        "",
    ),
    "a choice of the generator": ("[codegen]", {".toml": ("[bench]", "[codegen]\nword = 40\n[bench]")}, "word", ""),
    "an axis": (
        "[codegen]",
        {".toml": ("[bench]", "[board.axes.troley]\nspeed = 1.0\n[bench]")},
        "'troley'",
        "'trolley'",
    ),
    "a sensor": ("[bench]", {".toml": ('"gaussian"', '"gausian"')}, "'gausian'", "'gaussian'"),
    "an argument of the plant": ("[bench]", {".toml": ("mass = 55.0", "mas = 55.0")}, "'mas'", "'mass'"),
}


@pytest.mark.parametrize("wrong", WRONGS)
def test_what_is_wrong_is_listed_with_what_to_do(
    wrong: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unexpected(*_: object, **__: object) -> None:
        raise AssertionError("check solves and compiles nothing")

    monkeypatch.setattr(TrackingJob, "solve", unexpected)
    monkeypatch.setattr(TrackingJob, "build", unexpected)
    name, changes, text, hint = WRONGS[wrong]
    job = changed(project, tmp_path, changes)
    found = [finding for finding in examine(job, None, tmp_path) if finding.state == WRONG]
    assert any(f.name in (name, "job") and text in f.text and hint in f.hint for f in found), found
    done = invoke("check", job, "--build", tmp_path)
    assert done.exit_code == 1
    assert "✗" in done.stdout
    assert f"{len(found)} thing" in done.stdout


def test_a_reference_beyond_the_ranges_is_noted(project: Path, tmp_path: Path) -> None:
    job = changed(project, tmp_path, {".toml": ("x = 1.0", "x = 9.0")})
    found = examine(job, None, tmp_path)
    assert states(found)["ranges"] == NOTE
    assert any("the reference of x leaves -1 … 4: 9 m at t = 2 s" in f.text for f in found)
    assert invoke("check", job, "--build", tmp_path).exit_code == 0


def test_tools_motors_memory_and_folder_are_those_of_the_board(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = project / "my_crane.toml"
    monkeypatch.setattr("shutil.which", lambda name, **_: None if name == "qemu-system-arm" else f"/bin/{name}")
    found = {f.name: f for f in examine(job, "stm32f405", tmp_path)}
    assert found["tools"].state == WRONG
    assert "stm32f405 runs in qemu-system-arm, which is not installed" in found["tools"].text
    assert "apt-get install" in found["tools"].hint
    small = boards.BoardSpec(
        name="tiny", flash_bytes=8192, ram_bytes=1024, runs=boards.Runs.PROCESS, target=boards.NATIVE.target, motors=1
    )
    monkeypatch.setitem(boards.REGISTERED, "tiny", small)
    found = {f.name: f for f in examine(job, "tiny", Path("/proc/none"))}
    assert "2 commands, and tiny has 1 motors" in found["motors"].text
    assert found["build folder"].state == WRONG
    monkeypatch.setitem(boards.REGISTERED, "tiny", boards.BoardSpec(**{**vars(small), "motors": 2}))
    assert states(examine(job, "tiny", tmp_path))["memory"] == WRONG


@pytest.mark.parametrize("name", ["suspended_mass", "cart_pendulum"])
def test_the_forecast_is_near_what_is_generated(name: str) -> None:
    """The committed controllers' own estimates, which tests/unit/test_size.py compares with the compiler."""
    import json

    from stepmap import jobs

    job = jobs.load(ROOT / "examples" / f"{name}.toml")
    text = (ROOT / "firmware" / "generated" / name / "signals.json").read_text(encoding="utf-8")
    made = size.Estimate(**json.loads(text)["estimate"])
    told = forecast.forecast(job, generation.choices_in(job.root), "stm32f405")
    for part in ("code", "ram", "stack"):
        assert getattr(told, part) == pytest.approx(getattr(made, part), rel=0.25), part
    row = made.schedule / (job.steps + 1)
    assert abs(told.schedule - made.schedule) <= row + 1  # that in which forces hold the start is left out


def test_it_takes_no_more_than_two_seconds_of_the_processor(project: Path, tmp_path: Path) -> None:
    before = os.times()
    done = subprocess.run(
        [*STEPMAP, "check", str(project / "my_crane.toml"), "--board", "stm32f405", "--build", str(tmp_path)],
        capture_output=True,
        timeout=PATIENCE,
    )
    after = os.times()
    assert b"[codegen]" in done.stdout, done.stderr
    assert after.children_user + after.children_system - before.children_user - before.children_system < 2.0


# Commands check first what concerns them


@pytest.mark.parametrize(
    "command", [("bench",), ("bench", "--board", "stm32f405"), ("robot",), ("build", "--board", "native")]
)
def test_commands_tell_it_before_they_solve(
    command: tuple[str, ...], project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unexpected(*_: object, **__: object) -> None:
        raise AssertionError("nothing is solved")

    monkeypatch.setattr(TrackingJob, "solve", unexpected)
    monkeypatch.setattr(TrackingJob, "build", unexpected)
    monkeypatch.setattr("shutil.which", lambda name, **_: None)
    job = project / "my_crane.toml"
    done = invoke(command[0], job, *command[1:], "--build", tmp_path / "build")
    assert done.exit_code == 1
    assert "which is not installed" in done.stderr
    assert not (tmp_path / "build").exists()


@pytest.mark.parametrize(
    ("board", "slot", "file", "seconds"),
    [("native", 2048, "port/native/regions.c", 1200), ("stm32f405", 40, "port/stm32f4/chip.h", 30)],
    ids=["native", "stm32f405"],
)
def test_a_schedule_that_is_too_long_is_told_before_it_is_solved(
    board: str, slot: int, file: str, seconds: int, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slots as firmware/port has them; 22 entries per row."""
    assert str(slot * boards.KIB) in (ROOT / "firmware" / file).read_text()
    monkeypatch.setattr(TrackingJob, "solve", lambda *_, **__: pytest.fail("nothing is solved"))
    job = project / "my_crane.toml"
    long = project / "long.toml"
    long.write_text(job.read_text().replace("duration = 6.0", f"duration = {seconds}.0"))
    done = invoke("bench", long, "--board", board, "--build", tmp_path / "build")
    assert done.exit_code == 1
    assert f"does not fit {'the emulated ' * (board != 'native')}{board}" in done.stderr
    assert "shorter horizon" in done.stderr
    found = {f.name: f for f in examine(long, board, tmp_path)}["memory"]
    assert (found.state == WRONG) == (board == "native")  # a real chip has room for it
    assert "schedule" in found.text


def test_a_folder_for_runs_that_cannot_be_written_is_told_first(project: Path, tmp_path: Path) -> None:
    before = time.process_time()
    done = invoke("bench", project / "my_crane.toml", "--build", tmp_path / "build", "--runs", "/proc/x")
    assert done.exit_code == 2
    assert "--runs: no files can be written to /proc/x" in done.stderr
    assert not (tmp_path / "build").exists()
    assert time.process_time() - before < 5.0

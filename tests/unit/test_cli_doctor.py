"""The doctor: what is missing has a remedy, and only what stops simulation is an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from stepmap import doctor
from stepmap.cli import app

ASKED = {
    "C compiler",
    "cache folder",
    "casadi",
    "numpy",
    "arm-none-eabi-gcc",
    "qemu-system-arm",
    "qemu-system-riscv32",
    "riscv64-unknown-elf-gcc",
    "qemu-system-xtensa",
    "xtensa-lx106-elf-gcc",
    "pio",
    "stm32flash",
    "clang-format",
    "cppcheck",
    "chromium",
    "libfreenect",
    "fakenect",
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *arguments])


def findings(result: Result) -> dict[str, dict[str, str]]:
    return {finding["name"]: finding for finding in json.loads(result.stdout)}


def test_looks_for_everything_and_knows_a_remedy() -> None:
    result = run("--json")
    assert result.exit_code == 0
    found = findings(result)
    assert set(found) >= ASKED
    for finding in found.values():
        assert finding["state"] in ("ok", "missing", "broken")
        assert finding["remedy"]
    assert found["casadi"]["detail"].count(".") >= 2


def test_table_names_remedies_of_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("COLUMNS", "200")
    result = run()
    assert result.exit_code == 0  # also without any program, simulation works
    assert "pip install platformio" in result.stdout
    assert "apt-get install qemu-system-arm" in result.stdout


def test_programs_beside_python_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `stepmap build` finds them where the environment was not activated."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    (tmp_path / "pio").write_text("#!/bin/sh\necho PlatformIO 1.2.3\n")
    (tmp_path / "pio").chmod(0o755)
    assert findings(run("--json"))["pio"]["detail"] == "PlatformIO 1.2.3"


def test_no_compiler_is_slow_but_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    result = run("--json")
    assert result.exit_code == 0
    compiler = findings(result)["C compiler"]
    assert compiler["state"] == "missing"
    assert "CC=no-such-compiler is not there" in compiler["detail"]


@pytest.mark.parametrize("command", ["false", "true"])  # one fails, one succeeds and writes nothing
def test_a_broken_compiler_is_an_error(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("CC", command)
    result = run("--json")
    assert result.exit_code == 1
    assert findings(result)["C compiler"]["state"] == "broken"


def test_a_cache_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("STEPMAP_CACHE", str(tmp_path / "file" / "below"))
    result = run("--json")
    assert result.exit_code == 0
    assert findings(result)["cache folder"]["state"] == "missing"
    assert result.stderr == ""


def test_leaves_nothing_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STEPMAP_CACHE", str(tmp_path))
    run("--json")
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PACKAGES", ("numpy", "no-such-package"))
    result = run("--json")
    assert result.exit_code == 1
    assert findings(result)["no-such-package"]["remedy"] == "pip install no-such-package"


def test_says_what_the_machine_can_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    found = {one.name: one for one in doctor.abilities(doctor.examine())}
    assert list(found) == list(doctor.ABILITIES)
    assert found["emulate STM32"].state == "no"
    assert [one.name for one in found["emulate STM32"].lacking] == ["qemu-system-arm"]
    assert found[doctor.SIMULATION].state in ("yes", "slowly")
    monkeypatch.setattr(doctor, "PACKAGES", ("no-such-package",))
    assert doctor.abilities(doctor.examine())[0].state == "no"
    assert "this machine can" in run().stdout

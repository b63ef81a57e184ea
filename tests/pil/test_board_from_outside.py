"""A board from outside the package: one file with an entry point, and the bench runs a job on it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from stepmap_codegen.toolchain import TARGETS
from tests.pil.built import JOB, OUT, ROOT, solution
from tests.undrawn import STEPMAP

MISSING = TARGETS["cortex-m3"].missing()
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that Python takes for an installed package: the file of the board, and its entry point."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(Path(__file__).with_name("netduino2.py"), folder / "netduino2_board.py")
    info = folder / "netduino2_board-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: netduino2_board\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[stepmap.boards]\nnetduino2 = netduino2_board:BOARD\n")
    return folder


def stepmap(site: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*STEPMAP, *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build folder in which the controller is generated already."""
    solution()
    folder = tmp_path_factory.mktemp("build")
    for stage in ("optimize", "generate"):
        shutil.copytree(OUT / "suspended_mass" / stage, folder / "suspended_mass" / stage)
    return folder


@pytest.mark.slow
def test_the_bench_runs_a_job_on_it_bit_for_bit(site: Path, built: Path) -> None:
    """Built by PlatformIO, flashed through its bootloader, booted by QEMU; 2 s in lock-step with noise and errors."""
    options = ("--seconds", 2, "--sensor", "gaussian", "--no-open-loop", "--build", built)
    run = stepmap(site, "bench", JOB, "--board", "netduino2", *options)
    assert run.returncode == 0, run.stderr
    summary = json.loads((built / "suspended_mass" / "bench" / "summary.json").read_text())
    assert summary["board"] == "netduino2"
    assert summary["ticks"] == 60
    assert summary["bit_exact_with_host"] is True
    assert summary["instructions_per_tick"] > 1000
    firmware = json.loads((built / "suspended_mass" / "build-netduino2" / "summary.json").read_text())
    assert (firmware["flash_limit"], firmware["ram_limit"]) == (512 * 1024, 128 * 1024)
    assert 0 < firmware["stack_bytes"] < 8 * 1024
    if shutil.which("stm32flash") is not None:
        assert summary["flashed_bytes"] == firmware["flash_bytes"]


def test_commands_offer_it(site: Path) -> None:
    for command in ("generate", "build", "flash", "bench", "replay"):
        assert "netduino2" in stepmap(site, command, "--help").stdout, command


def test_without_its_package_there_is_no_such_board(site: Path) -> None:
    run = stepmap(site.parent, "build", JOB, "--board", "netduino2")
    assert run.returncode == 2
    assert "netduino2" in run.stderr

"""The main job on the bench, with the firmware that all tests share; its sensor is Gaussian."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stepmap_hil.bench.settings import read_settings
from stepmap_hil.bench.setup import Setup, Source
from stepmap_hil.faults.spec import read_faults
from tests.pil.built import JOB, KEY, OUT, ROOT, firmware, job, solution

FAULTS = ROOT / "examples" / "faults"
FILES = sorted(path.stem for path in FAULTS.glob("*.toml"))


def rig(board: str = "native", *, faults: str | Path | None = None, ticks: int | None = None, seed: int = 1) -> Setup:
    """A setup in lock-step; `faults` names a file of examples/faults."""
    file = FAULTS / f"{faults}.toml" if isinstance(faults, str) else faults
    settings = replace(read_settings(JOB), sensor="gaussian")
    wrong = read_faults(file) if file is not None else ()
    return Setup(job(), solution()[1], firmware(board), settings, KEY, seed, ticks=ticks, faults=wrong)


def source() -> Source:
    from stepmap.jobs import optimize as optimum

    plan = optimum.result(optimum.stage(job(), OUT), job())
    return Source(JOB.read_bytes(), dict(job().files), plan.trajectory, plan.gains)


def quiet(text: str) -> None:
    """What a run says, to nobody."""

"""The real firmware of the main job, built once for all tests of all processes, with a key that is no secret."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from stepmap import jobs
from stepmap.jobs import Job, Stage
from stepmap.jobs import optimize as optimum
from stepmap.steps.protocol import Trajectory
from stepmap_codegen import Controller
from stepmap_codegen import generate as generation
from stepmap_hil.boards import NativeBoard, QemuBoard
from stepmap_hil.boards.base import Board
from stepmap_hil.firmware import build as building
from stepmap_hil.firmware.build import Choices, Firmware
from stepmap_hil.wire.key import Key

ROOT = Path(__file__).parents[2]
JOB = ROOT / "examples" / "suspended_mass.toml"
OUT = ROOT / "build" / "tests" / "pil"
KEY = Key(bytes(range(32)))
KEY_FILE = OUT / "key"
BOARDS = ("native", "stm32f405", "stm32f100")


@contextmanager
def alone() -> Iterator[None]:
    """One process at a time builds; the others find what it made."""
    OUT.mkdir(parents=True, exist_ok=True)
    with (OUT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not KEY_FILE.exists():
            KEY_FILE.touch(mode=0o600)
            KEY_FILE.write_text(KEY.secret.hex() + "\n")
        yield


@cache
def job() -> Job:
    return jobs.load(JOB)


@cache
def solution() -> tuple[Trajectory, Controller, Stage]:
    """The trajectory, its controller, and the stage with the controller's code."""
    with alone():
        solved = optimum.stage(job(), OUT)
        if not solved.unchanged():
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(optimum, "draw", lambda *_: {})  # nobody looks at pictures
                optimum.write(solved, job(), job().solve().require(), 0.0)
        plan = optimum.result(solved, job())
        choices = generation.read_choices(JOB)
        stage = generation.stage(job(), solved, choices, OUT)
        if stage.unchanged():
            made: Controller = generation.load(stage, job(), choices)
        else:
            made = generation.controller(job(), plan, choices)
            generation.write(stage, made)
    return plan.trajectory, made, stage


@cache
def firmware(board: str) -> Firmware:
    _, _, generated = solution()
    choices = Choices(board, KEY_FILE)
    with alone():
        stage = building.stage(job(), generated, choices, KEY, OUT)
        if not stage.unchanged():
            building.build(stage, generated.folder, choices)
    return Firmware(stage.folder, board)


def board(name: str) -> NativeBoard | QemuBoard:
    program = firmware(name).program
    return NativeBoard(program) if name == "native" else QemuBoard(name, program)


def schedule() -> bytes:
    return (solution()[2].folder / "schedule.bin").read_bytes()


__all__ = [
    "BOARDS",
    "JOB",
    "KEY",
    "KEY_FILE",
    "OUT",
    "ROOT",
    "Board",
    "board",
    "firmware",
    "job",
    "schedule",
    "solution",
]

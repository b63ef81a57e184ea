"""What a run on the bench needs: controller and firmware, made where they are missing, and a flashed chip."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import stepmap
from stepmap.jobs import Stage
from stepmap.jobs.stage import digest_data, digest_sources
from stepmap_codegen import boards
from stepmap_codegen.boards import NATIVE, Runs
from stepmap_hil.bench.setup import Setup, Source
from stepmap_hil.commands.bench.progress import part_done
from stepmap_hil.commands.bench.request import Request, Task
from stepmap_hil.commands.prepare import controller_of, firmware, own_key
from stepmap_hil.firmware import build as building
from stepmap_hil.firmware.flash import flash_emulated
from stepmap_hil.runs.stage_times import StageClock
from stepmap_hil.wire import key as keys


@dataclass(frozen=True)
class Prepared:
    """A setup, and what it was made from."""

    request: Request
    setup: Setup
    source: Source
    generated: Stage
    built: Stage
    key_file: Path

    @property
    def compares(self) -> bool:
        """Whether a run of feedforward only follows.

        Not on a real robot, nor with a joystick, never twice the same, nor of a robot that walks, which falls at once.
        """
        reference = self.setup.reference
        repeatable = reference is None or reference.repeatable
        walks = self.setup.controller.plant.gait is not None
        return not walks and self.request.open_loop and not self.setup.rig.real and repeatable

    def about(self) -> dict[str, Any]:
        """Entries of run.json."""
        s = self.setup
        settings = (s.settings, s.seed, s.port, s.mode, s.faults, s.ticks, s.rig, s.reference)
        inputs = {
            "build": self.built.digest,
            "settings": digest_data(repr(settings)),
            "hil": digest_sources("stepmap_hil", ["."]),
        }
        told = {"job": s.job.name, "mode": s.mode, "sensor": s.sensor_name, "seed": s.seed, "inputs": inputs}
        return {**told, "stepmap": stepmap.__version__}

    def flashed(self, folder: Path, clock: StageClock) -> Setup:
        """An emulated chip gets its firmware as a real one does; QEMU then boots what is in its flash."""
        board = self.setup.firmware.board
        if self.setup.port is not None or boards.find(board).runs is not Runs.QEMU:
            return self.setup
        with clock.stage("flash"), part_done(f"flashing {board}") as told:
            return replace(self.setup, flashed=flash_emulated(board, self.setup.firmware.image, folder, told))

    def with_uploads(self, clock: StageClock, *, port: bool = True) -> Setup:
        """A setup with a board that takes uploads: for an emulated one a process, which gives the same bits sooner.

        ``port``: whether the one at the port does, where there is one.
        """
        setup = self.setup
        if (setup.port is not None and port) or (setup.port is None and setup.firmware.board == NATIVE.name):
            return setup
        choices = building.Choices(NATIVE.name, self.key_file)
        _, other = firmware(setup.job, self.generated, choices, self.request.build, clock)
        rig = replace(setup.rig, board_id=None)
        return replace(setup, firmware=other, flashed=None, port=None, rig=rig)


def prepare(request: Request, task: Task, clock: StageClock) -> Prepared:
    """Makes what has changed since it was made last; nothing moves yet."""
    job, build = task.job, request.build
    controller, generated, source = controller_of(job, build, clock)
    key_file = task.key or (own_key(build / job.name) if task.port is None else keys.default_path())
    built, program = firmware(job, generated, building.Choices(task.board, key_file), build, clock)
    setup = Setup(
        job=job,
        controller=controller,
        firmware=program,
        settings=task.settings,
        key=keys.read(key_file),
        seed=request.seed,
        port=task.port,
        mode=task.mode,
        faults=task.faults,
        ticks=task.ticks,
        rig=task.rig,
        reference=task.reference,
        verdict=source.verdict,
        acts=source.acts,
    )
    return Prepared(request, setup, source, generated, built, key_file)

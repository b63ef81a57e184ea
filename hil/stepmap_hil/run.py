"""A whole run on the bench: from a job to its summary, pictures, recording and report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stepmap.jobs import Job
from stepmap.jobs.stage import Stage
from stepmap.report import Picture, Section, page
from stepmap_codegen import Controller
from stepmap_codegen.toolchain import TARGETS, build, run
from stepmap_hil import figures
from stepmap_hil.bench import Bench, Run, Watch
from stepmap_hil.board import Board
from stepmap_hil.boards import NativeBoard, QemuBoard, SerialBoard
from stepmap_hil.build import Firmware, checkout
from stepmap_hil.key import Key
from stepmap_hil.link import Link
from stepmap_hil.plant import Plant
from stepmap_hil.record import Recorder
from stepmap_hil.sensors import Gaussian, Sensor
from stepmap_hil.settings import BenchSettings
from stepmap_hil.summary import rms, series, summarize
from stepmap_hil.upload import upload

Say = Callable[[str], None]
CHIPS = {"stm32f405": "cortex-m4f", "stm32f100": "cortex-m3"}
BANKS = ("native", "stm32f405")  # boards that take uploads


@dataclass(frozen=True)
class Rig:
    """What a job is tried out with."""

    job: Job
    controller: Controller
    firmware: Firmware
    settings: BenchSettings
    key: Key
    seed: int = 1
    port: str | None = None

    def board(self) -> Board:
        if self.port is not None:
            return SerialBoard(self.port)
        if self.firmware.board == "native":
            return NativeBoard(self.firmware.program)
        return QemuBoard(self.firmware.board, self.firmware.program)

    def sensor(self) -> Sensor:
        if self.settings.sensor == "kinect":
            from stepmap_hil.kinect_sensor import KinectSensor

            return KinectSensor(self.job, self.seed)
        noise = self.job.noise
        assert noise is not None  # the controller was made with it
        return Gaussian(noise.measurement, self.seed)


@contextmanager
def watching(rig: Rig) -> Iterator[Sensor]:
    sensor = rig.sensor()
    try:
        yield sensor
    finally:
        sensor.close()


def closed_loop(rig: Rig, recording: Path | None, say: Say, watch: Watch | None = None) -> Run:
    """The job on the board, with its schedule uploaded first where the board takes uploads."""
    about = {"job": rig.job.name, "board": rig.firmware.board, "model": rig.controller.digest, "seed": str(rig.seed)}
    return _run(rig, rig.controller, recording, about, say, watch)


def open_loop(rig: Rig, say: Say) -> Run:
    """The same with gains of zero: the commands are those of the plan, whatever is measured."""
    rows = rig.controller.schedule.rows.copy()
    step = rig.controller.plant.step
    rows[:, step.nx + step.nu :] = 0
    schedule = replace(rig.controller.schedule, rows=rows)
    plant = replace(rig.controller.plant, gains=np.zeros_like(rig.controller.plant.gains))
    return _run(rig, replace(rig.controller, schedule=schedule, plant=plant), None, {}, say, None)


def _run(
    rig: Rig, controller: Controller, recording: Path | None, about: dict[str, str], say: Say, watch: Watch | None
) -> Run:
    plant = Plant(rig.job, controller.axes, rig.settings.plant)
    with watching(rig) as sensor, rig.board() as board:
        say("starting the board")
        link = Link(board.open(), rig.key)
        link.connect()
        if rig.firmware.board in BANKS or rig.port is not None:
            say("uploading the schedule")
            upload(link, controller.schedule.pack(), rig.key)
        recorder = Recorder(recording, about) if recording is not None else None
        try:
            bench = Bench(
                rig.job,
                controller,
                link,
                plant,
                sensor,
                board=rig.firmware.board,
                substeps=rig.settings.substeps,
                recorder=recorder,
            )
            say("calibrating and arming")
            bench.prepare()
            say("running")
            return bench.go(rig.job.steps, watch)
        finally:
            if recorder is not None:
                recorder.close()


def instructions(controller: Controller, board: str, folder: Path) -> int | None:
    """Instructions of a tick on the board's processor, counted by QEMU; None for a board without a chip."""
    if board not in CHIPS:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in controller.files().items():
        (folder / name).write_bytes(content)
    (folder / "count.c").write_text(COUNT)
    core = checkout() / "firmware" / "core"
    sources = [
        folder / "count.c",
        folder / "controller.c",
        *(core / f"sm_{n}.c" for n in ("fixed", "rows", "schedule")),
    ]
    made = build(TARGETS[CHIPS[board]], sources, [core, folder], folder / "objects", options=("-Os",))
    return int.from_bytes(run(made), "little")


COUNT = """#include "controller.h"
#include "sm_bench.h"

int app(void) {
  static sm_controller c;
  if (sm_self_test(&c) != 0) {
    return 1;
  }
  for (unsigned i = 0; i < SM_NX && i < SM_NZ; i++) {
    c.z[i] = c.x[i];
  }
  count_begin();
  (void)sm_measure(&c, (1U << SM_NZ) - 1U);
  sm_law(&c);
  sm_predict(&c);
  const uint32_t count = count_end();
  io_write(&count, sizeof count);
  return 0;
}
"""


def leave(made: Stage, rig: Rig, closed: Run, opened: Run | None, recording: Path) -> dict[str, Any]:
    """Writes summary.json, pictures, the recording and report.html into the stage's folder; returns the summary."""
    from stepmap import plots

    nd = rig.controller.plant.step.nd
    shown = series(rig.controller, closed)
    other = series(rig.controller, opened) if opened is not None else None
    built = rig.firmware.summary
    with made.replace() as folder:
        more = {
            "open_loop_rms_m": None if other is None else rms(other.coordinates[:, :nd] - other.reference[:, :nd]),
            "seed": rig.seed,
            "sensor": rig.settings.sensor,
            "flash_bytes": built.get("flash_bytes"),
            "ram_bytes": built.get("ram_bytes"),
            "instructions_per_tick": instructions(rig.controller, rig.firmware.board, made.folder.parent / ".count"),
        }
        summary = summarize(rig.controller, closed, more)
        text = json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False)
        (folder / "summary.json").write_text(text + "\n")
        drawn = figures.draw(rig.controller, shown, other)
        for name, figure in drawn.items():
            for form in ("png", "svg"):
                (folder / f"{name}.{form}").write_bytes(plots.render(figure, form))
        pictures = [Picture(figures.CAPTIONS[name], plots.render(figure, "svg")) for name, figure in drawn.items()]
        events = [(f"{at:.2f} s", what) for at, what in closed.events]
        section = Section("The run", INTRODUCTION, table(summary), pictures, events)
        (folder / "report.html").write_text(page(f"{rig.job.name} on {rig.firmware.board}", [section]))
        if recording.exists():
            recording.replace(folder / "run.mcap")
    return summary


INTRODUCTION = (
    "A board controls a simulated plant over its serial line. The plant differs from the model the board knows: mass, "
    "drag, string length, start, lag and play of the motors."
)


def table(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The summary for people."""
    opened = summary["open_loop_rms_m"]
    gain = "" if not opened else f", {opened / summary['tracking_rms_m']:.1f} times better than open loop"
    raw, filtered = summary["command_roughness_raw"], summary["command_roughness_filtered"]
    smoother = "" if not raw else f", {raw / filtered:.1f} times smoother than from raw measurements"
    better = summary["raw_measurement_rms_m"] / summary["estimate_rms_m"]
    latency = summary["latency_ms"]
    exact = {True: "yes", False: "NO", None: "not comparable: telemetry is missing"}[summary["bit_exact_with_host"]]
    rows = [
        ("board", f"{summary['board']}, {summary['mode']}, {summary['ticks']} ticks, {summary['sensor']}"),
        (
            "tracking",
            f"{1e3 * summary['tracking_rms_m']:.2f} mm RMS, {1e3 * summary['tracking_max_m']:.1f} mm at most{gain}",
        ),
        ("estimate", f"{1e3 * summary['estimate_rms_m']:.2f} mm RMS, {better:.1f} times better than the measurements"),
        ("commands", f"{1e3 * filtered:.2f} mm RMS second difference{smoother}"),
        ("bit-exact", exact),
        ("latency", f"{latency['p50']:.1f} ms median, {latency['p99']:.1f} ms at the 99th percentile"),
        (
            "events",
            f"{summary['gated']} values gated, {summary['saturations']} saturations, {summary['faults']} faults",
        ),
    ]
    if summary["flash_bytes"]:
        size = f"{summary['flash_bytes']} bytes of flash, {summary['ram_bytes']} of RAM"
        count = summary["instructions_per_tick"]
        rows.append(("firmware", size + (f", {count} instructions a tick" if count else "")))
    return rows

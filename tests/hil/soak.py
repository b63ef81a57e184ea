"""An hour of runs in lock-step on one native board with random faults: `python -m tests.hil.soak [TICKS] [SEED]`.

Prints how it went and a digest of all results, the same for one seed. Ends with exit code 1 where the board or the
bench fails, memory grows, a command is acknowledged that never arrived, or an estimate is not the model's.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from dataclasses import replace

import numpy as np

from stepmap_hil.bench.setup import Opened
from stepmap_hil.bench.simulated import Bench
from stepmap_hil.faults.injector import Injector
from stepmap_hil.faults.port import FaultyPort
from stepmap_hil.faults.spec import Expectation, Fault
from stepmap_hil.plant.mechanism import Plant
from stepmap_hil.report.summary import bit_exact
from stepmap_hil.runs.log import Run
from stepmap_hil.sensors.gaussian import Gaussian
from stepmap_hil.wire.link import Link
from stepmap_hil.wire.raw_values import SignalCodec
from stepmap_hil.wire.upload import upload
from tests.hil.rigs import rig
from tests.pil.built import KEY

HOUR = 108_000  # ticks
GROWTH = 64 * 2**20  # bytes
USUAL = ("dropped", "overtaken", "duplicated", "corrupted", "delayed", "jump", "occluded")
RARE = ("cut", "reset", "stuck", "encoder")
SAMPLE = 10  # one run in so many is compared with the integer model, which is slower than the board
FRAMES = ("measurement", "telemetry", "command", "answer")


def draw(rng: np.random.Generator, seconds: float) -> tuple[Fault, ...]:
    """Some faults of a run; one run in three ends by one of them."""
    made = []
    for _ in range(int(rng.integers(0, 6))):
        kind, frames = str(rng.choice(USUAL)), "measurement"
        if kind in USUAL[:4]:
            frames = str(rng.choice(FRAMES))
        value = {"delayed": float(rng.uniform(0.001, 0.06)), "jump": float(rng.normal(0, 0.3))}.get(kind)
        at, count = float(rng.uniform(0, seconds)), int(rng.integers(1, 5))
        made.append(Fault(kind, at, count=count, value=value, frames=frames, axis=int(rng.integers(2))))
    if rng.random() < 1 / 3:
        kind = str(rng.choice(RARE))
        lasts = float(rng.uniform(0.05, 0.8)) if kind == "cut" else np.inf
        made.append(Fault(kind, float(rng.uniform(0, seconds)), lasts, axis=int(rng.integers(2))))
    return tuple(replace(fault, expect=Expectation("any")) for fault in sorted(made, key=lambda f: f.at))


def resident() -> int:
    """Bytes of memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(ticks: int = HOUR, seed: int = 1) -> int:
    usual, rng, total = rig(), np.random.default_rng(seed), hashlib.sha256()
    made = replace(usual, settings=replace(usual.settings, io_cycles=4, jitter=0.0, latency=0.0))
    words = SignalCodec.parse(made.controller.description())
    done, runs, ended, board_memory, begun = 0, 0, 0, 0, time.monotonic()
    noise = made.job.noise
    assert noise is not None
    base, checked = 0, 0
    with made.board() as board:
        port = FaultyPort(board.open())
        link = Link(port, KEY)
        link.connect()
        upload(link, made.controller.schedule.pack(), KEY)
        while done < ticks:
            plant = Plant(made.job, made.controller.axes, made.settings.plant)
            faults = draw(rng, made.job.steps * made.job.dt)
            injector = Injector(faults, words.names("measurement"), len(plant.motors), port, seed + runs)
            sensor = Gaussian(noise.measurement, seed + runs)
            port.rules = []
            with Bench(made, Opened(link, plant, sensor, board, injector)) as bench:
                bench.prepare()
                run = bench.go(min(made.job.steps, ticks - done))
            exact = bit_exact(made.controller, run) if runs % SAMPLE == 0 else None
            checked += exact is True
            if exact is False:
                return _failed(f"run {runs}: estimates are not the model's", faults, run)
            if not port.answers <= port.commands:
                return _failed(f"run {runs}: a command was acknowledged that never arrived", faults, run)
            total.update(run.digest().encode())
            done, runs, ended = done + sum(row.running for row in run.rows), runs + 1, ended + bool(run.ended)
            base = base or resident()
            if resident() > base + GROWTH:
                return _failed(f"memory grew from {base} to {resident()} bytes", faults, run)
            if runs % 20 == 0:
                print(f"{done} ticks, {runs} runs, {resident() >> 20} MB, {time.monotonic() - begun:.0f} s", flush=True)
        with open(f"/proc/{board.child.pid}/statm") as file:  # type: ignore[attr-defined]
            board_memory = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    seconds = time.monotonic() - begun
    print(
        f"{done} ticks in {runs} runs, {ended} ended by the board, {checked} compared with the model; {seconds:.0f} s"
    )
    print(f"{port.hit} frames hit, {len(port.answers)} of {len(port.commands)} commands answered, none that was lost")
    print(f"memory: bench {base >> 20} to {resident() >> 20} MB, board {board_memory >> 10} kB at the end")
    print(f"digest {total.hexdigest()}")
    return 0


def _failed(text: str, faults: tuple[Fault, ...], run: Run) -> int:
    print(f"{text}\n{faults}\n{run.ended or 'done'}")
    return 1


if __name__ == "__main__":
    sys.exit(main(*(int(word) for word in sys.argv[1:])))

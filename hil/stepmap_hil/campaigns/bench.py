"""Kind "bench": runs in lock-step with the firmware as a process; seeds, faults and what the plant does vary.

The controller is generated and the firmware built once, here. Workers get the program itself: they need no compiler,
and a computer like this one.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from stepmap.campaigns.columns import Column, Row, Value
from stepmap.campaigns.study import Base, each, require_key
from stepmap.campaigns.tables import leaves
from stepmap.campaigns.varied import Trial, Varied
from stepmap.errors import ModelError, ToolchainError
from stepmap.jobs import Job, for_board
from stepmap.jobs.stage import digest, digest_sources
from stepmap.toml.tables import Table
from stepmap_codegen import generate as generation
from stepmap_codegen.boards import NATIVE
from stepmap_hil.bench.execute import closed_loop
from stepmap_hil.bench.settings import settings_in
from stepmap_hil.bench.setup import Setup
from stepmap_hil.boards import NativeBoard
from stepmap_hil.commands.bench.finish import verdict_on
from stepmap_hil.commands.prepare import controller_of, firmware, own_key
from stepmap_hil.faults.spec import Fault, read_faults
from stepmap_hil.firmware import build as building
from stepmap_hil.firmware.build import Firmware
from stepmap_hil.firmware.sources import mark
from stepmap_hil.firmware.tools import require_tools
from stepmap_hil.report.series import series
from stepmap_hil.report.summary import summarize
from stepmap_hil.sensors import base as sensors
from stepmap_hil.wire import key as keys
from stepmap_hil.wire.key import Key
from stepmap_hil.wire.link import Link

FAULTS, NONE = "faults", "none"
COLUMNS = (
    Column("verdict", "passed, failed or stopped, as of a run of stepmap bench", type="text"),
    Column("ended", "how the run ended", type="text"),
    Column("ticks", "ticks until then", type="whole"),
    Column("tracking_rms", "distance of the bodies from the reference", "m", shown=True),
    Column("tracking_max", "the largest of it", "m", shown=True),
    Column("estimate_rms", "distance of the estimate from the bodies", "m", shown=True),
    Column("gated", "measurements that the gate shut out", type="whole"),
    Column("saturations", "calls in which anything saturated", type="whole"),
    Column("faults_ok", "whether every fault had the reaction that was expected", type="flag"),
    Column("bit_exact", "whether all bits are those of the integer model", type="flag"),
    Column("run", "digest of all that happened", type="text"),
)


@dataclass(frozen=True, eq=False)
class BenchStudy:
    """Runs on the bench; ``faults`` by the names that the campaign gives their files."""

    base: Base
    faults: Mapping[str, tuple[Fault, ...]]
    contents: Mapping[str, bytes]  # of these files
    sensor: str | None
    ticks: int | None
    setup: Setup | None = None  # and the program, from ``prepared`` on
    program: bytes = field(default=b"", repr=False)

    chunk = 5
    preload = ("stepmap_hil.campaigns.bench",)
    columns = COLUMNS

    def inputs(self) -> dict[str, str]:
        """Faults, code generator and firmware."""
        made = {f"faults {name}": digest(content) for name, content in self.contents.items()}
        return {**made, "codegen": digest_sources("stepmap_codegen", ["."]), "firmware": mark()}

    def check(self, name: str, value: Value) -> None:
        if name == FAULTS:
            return
        require_key(self.base, name, value, (FAULTS, "bench"))
        settings_in(self.base.with_values({name: value}))

    def prepared(self, varied: Varied, build: Path) -> BenchStudy:
        """With controller and firmware, from the job's build folder where they are there."""
        job = for_board(self.base.job({}))
        generation.require_board(job, NATIVE.name)
        require_tools(NATIVE.name, runs=True)
        controller, generated, source = controller_of(job, build)
        key = own_key(build / job.name)
        _, built = firmware(job, generated, building.Choices(NATIVE.name, key), build)
        setup = Setup(
            job=job,
            controller=controller,
            firmware=built,
            settings=settings_in(job.root),
            key=keys.read(key),
            ticks=self.ticks,
            verdict=source.verdict,
            acts=source.acts,
        )
        return replace(self, setup=setup, program=built.program.read_bytes())

    def run(self, trials: Sequence[Trial]) -> list[Row]:
        assert self.setup is not None  # prepared
        here = replace(self.setup, firmware=_placed(self.program, self.setup.key))
        return each(trials, lambda trial: self._one(here, trial))

    def tells(self, columns: Mapping[str, Any]) -> list[tuple[str, str]]:
        verdicts = [str(verdict) for verdict in columns["verdict"]]
        counted = ", ".join(f"{verdicts.count(word)} {word}" for word in sorted(set(verdicts)))
        unlike = sum(1 for same in columns["bit_exact"] if same is False)
        bits = f"{unlike} runs differ" if unlike else "all runs that have every tick"
        return [("verdicts", counted), ("bits of the model", bits)]

    def _one(self, setup: Setup, trial: Trial) -> Row:
        values = {name: value for name, value in trial.values.items() if name != FAULTS}
        settings = settings_in(self.base.with_values(values))
        if self.sensor is not None:
            settings = replace(settings, sensor=self.sensor)
        chosen = self.faults[str(trial.values.get(FAULTS, NONE))]
        try:
            run = closed_loop(
                replace(setup, settings=settings, seed=trial.seed, faults=chosen), None, lambda text: None
            )
        except ToolchainError as error:  # the program starts here, as was tried: it has ended in this run
            raise ModelError(f"the board: {error}") from None
        told = summarize(setup.controller, run, series(setup.controller, run), {})
        verdict, reason = verdict_on(run, told)
        return {
            "verdict": verdict,
            "ended": reason or told["ended"],
            "ticks": told["ticks"],
            "tracking_rms": told["tracking_rms_m"],
            "tracking_max": told["tracking_max_m"],
            "estimate_rms": told["estimate_rms_m"],
            "gated": told["gated"],
            "saturations": told["saturations"],
            "faults_ok": all(result["ok"] for result in told["fault_results"]),
            "bit_exact": told["bit_exact_with_host"],
            "run": told["digest"],
        }


@lru_cache(maxsize=2)
def _placed(program: bytes, key: Key) -> Firmware:
    """The program in a folder of this process, started once: raises ToolchainError where it does not run here."""
    folder = Path(tempfile.mkdtemp(prefix="stepmap-campaign-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = Firmware(folder, NATIVE.name)
    made.program.write_bytes(program)
    made.program.chmod(0o700)
    with NativeBoard(made.program) as board:
        Link(board.open(), key).connect()
    return made


def read(root: Table, base: Base) -> BenchStudy:
    """Runs with the table [bench] of the campaign; faults are files, of [grid] or [together]."""
    table = root.table("bench")
    table.only(("sensor", "seconds"))
    job: Job = for_board(base.job({}))
    generation.require(job, generation.choices_in(job.root))
    settings_in(job.root)
    sensor = table.choice("sensor", sensors.names()) if "sensor" in table else None
    ticks = None
    if "seconds" in table:
        seconds = table.number("seconds", unit="seconds")
        if not 3 * job.dt <= seconds <= 3600.0:
            raise table.error(f"must be {3 * job.dt:.3g} s (three ticks) to 3600 s, got {seconds:g}", "seconds")
        ticks = round(seconds / job.dt)
    faults, contents = _faults(root, job)
    return BenchStudy(base, faults, contents, sensor, ticks)


def _faults(root: Table, job: Job) -> tuple[dict[str, tuple[Fault, ...]], dict[str, bytes]]:
    """Faults by the names of their files, which are relative to the campaign's."""
    faults: dict[str, tuple[Fault, ...]] = {NONE: ()}
    contents: dict[str, bytes] = {}
    channels = [name for name, _ in job.system.sensor_channels]
    axes = [c.name for c in job.system.kinematic]
    for group in ("grid", "together", "random"):
        for name, table, key in leaves(root.table(group)):
            if name != FAULTS:
                continue
            given = table.entries[key]
            names = given if isinstance(given, list) else given.get("choice", ())
            for i, file in enumerate(names):
                if file == NONE:
                    continue
                path = Path(root.file).parent / str(file)
                if not path.is_file():
                    raise table.error(f"there is no file {path}", key, i, hint=f'Name fault files, or "{NONE}".')
                faults[str(file)] = read_faults(path, channels, axes, job.system.gap_names)
                contents[str(file)] = path.read_bytes()
    return faults, contents

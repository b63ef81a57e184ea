"""Digests of what examples compute, bit for bit: model, schedule and a run of the integer model.

The run's measurements are those of the plan with noise of a fixed seed; in some ticks channels are missing or wrong.
Set-points are streamed behind the plan, and feet come down, where a model has them. Plans come from searches in
floating point, so their last bits are left out before anything is generated: those are the processor's.

    python -m tests.fingerprints [--update] [--old-processor] [EXAMPLE]...

compares all examples with tests/data/fingerprints.json, or writes them anew; an example without code has the reason
there. `make test` compares the quick ones. A digest that changes is a change of bits on boards: say why in the commit.
With --old-processor libraries, BLAS, numpy and the C library compute as on the first x86-64 processors, with other last
bits of sines and products of matrices: digests must be the same all the same, as they are compared on any machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stepmap import jobs
from stepmap.errors import StepmapError
from stepmap.estimate.measurement import measurement_model
from stepmap.optimal.plan import Plan
from stepmap_codegen import generate as generation
from stepmap_codegen.controller import Controller
from stepmap_codegen.model.program import Role
from stepmap_codegen.model.scalar import Scalar
from stepmap_codegen.reference_loop import CONTACT_BIT, ReferenceLoop

ROOT = Path(__file__).parents[1]
FILE = ROOT / "tests" / "data" / "fingerprints.json"
TICKS = 150
SET_POINTS = 6
GRID = 24  # bits
# One of each kind of filter and feedback: forces, streamed set-points, an attitude, a string that goes slack.
QUICK = ("cart_pendulum.toml", "streams/mass.toml", "mechanisms/quadrotor.toml", "strings/suspended_mass_string.toml")
UNSTEADY = dict.fromkeys(("plans/reach.toml", "streams/arm.toml"), "its model differs between processors")
NO_JOBS = ("campaigns", "faults", "rigs")
OLD_PROCESSOR = {
    "STEPMAP_MARCH": "x86-64",
    "OPENBLAS_CORETYPE": "Prescott",
    "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX2 FMA3 AVX F16C",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX,-AVX512F,-AVX512VL,-FMA4,-AVX2_Usable,-FMA_Usable",
}


def examples() -> list[str]:
    """Every job of examples/."""
    folder = ROOT / "examples"
    files = [path for path in sorted(folder.rglob("*.toml")) if path.relative_to(folder).parts[0] not in NO_JOBS]
    return [path.relative_to(folder).as_posix() for path in files if "system" in tomllib.loads(path.read_text())]


def known() -> dict[str, dict[str, str]]:
    """The digests of the file, by example."""
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


def fingerprint(example: str) -> dict[str, str]:
    """The digests of an example as it is now, or why there are none."""
    if example in UNSTEADY:
        return {"not compared": UNSTEADY[example]}
    file = ROOT / "examples" / example
    try:
        choices = generation.read_choices(file)
        if choices.options.scalar is not Scalar.FIXED32:
            return {"no code": "in floating point, whose last bits are the processor's"}
        whole = jobs.load(file)
        if whole.noise is None:
            return {"no code": "has no table [noise]"}
        job = jobs.for_board(whole)
        plan = steady(jobs.planned(job, jobs.solved(job).solve().require().plan))
        made = generation.controller(job, plan, choices)
    except StepmapError as error:
        return {"no code": str(error).splitlines()[0].replace(str(ROOT) + "/", "")[:160]}
    return {
        "model": made.digest,
        "schedule": hashlib.sha256(made.schedule.pack()).hexdigest(),
        "run": run(made, plan.trajectory.x),
    }


def steady(plan: Plan) -> Plan:
    """The plan on a grid of 2^-24 of each column's largest number: without last bits, which are the processor's."""
    path, reference = (replace(p, x=coarse(p.x), u=coarse(p.u)) for p in (plan.trajectory, plan.reference))
    return replace(plan, trajectory=path, gains=coarse(plan.gains), reference=reference)


def coarse(values: np.ndarray) -> np.ndarray:
    largest = np.abs(values).max(axis=0, keepdims=True)
    unit = np.exp2(np.frexp(np.where(largest > 0, largest, 1.0))[1] - GRID)
    return np.asarray(np.rint(values / unit) * unit)


def run(controller: Controller, x: np.ndarray) -> str:
    """The digest of estimates, commands and accepted channels of a run."""
    rng = np.random.default_rng(20)
    model = measurement_model(controller.plant.step)
    states = len(controller.program.of(Role.STATE))
    fractions = [controller.formats.fields[i] for i in controller.program.of(Role.MEASUREMENT)]  # type: ignore[union-attr]
    loop, told = ReferenceLoop(controller), hashlib.sha256()
    points, ticks = np.random.default_rng(21), TICKS if loop.follower is None else len(controller.schedule.rows) + TICKS
    full = (1 << len(fractions)) - 1
    sigma = np.sqrt(controller.plant.noise.measurement)
    for k in range(ticks):
        z = np.asarray(model.readings(x[min(k, len(x) - 1), :states])) + sigma * rng.normal(size=len(fractions))
        if k % 37 == 36:
            z[0] += 40 * sigma[0]  # gated
        raw = [int(np.clip(round(v * 2.0**f), -(2**31), 2**31 - 1)) for v, f in zip(z, fractions, strict=True)]
        valid = 0 if k % 23 == 22 else full & ~1 if k % 11 == 10 else full
        if loop.walk is not None:  # a foot comes down now and then, some time before it is told
            raw.append(k << 15)
            valid |= (k % 16 == 15) << CONTACT_BIT
        moves: dict[str, Any] = {"follow": k >= 3, "running": k >= 3, "hold": k < 3}
        if loop.follower is not None:
            point = [int(v) for v in points.integers(-(2**30), 2**30, SET_POINTS)]
            moves |= {"set_point": point if k % 25 == 10 else None, "lost": k % 100 > 80}
        estimate, command, accepted = loop.step(valid, raw, **moves)
        told.update(json.dumps([estimate, command, accepted]).encode())
    return told.hexdigest()


def main(words: Sequence[str]) -> int:
    asked = argparse.ArgumentParser("python -m tests.fingerprints")
    asked.add_argument("--update", action="store_true", help="write the digests of now")
    asked.add_argument("--old-processor", action="store_true", help="compute as the first x86-64 processors do")
    asked.add_argument("example", nargs="*", help="file below examples; usually all of the digests' file")
    given = asked.parse_args(words)
    if given.old_processor and not OLD_PROCESSOR.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, "-m", "tests.fingerprints", *words], os.environ | OLD_PROCESSOR)
    digests = known() if FILE.exists() else {}
    changed = []
    for example in given.example or examples():
        now = fingerprint(example)
        if now != digests.get(example):
            changed.append(example)
            print(f"{example}: {digests.get(example)} was, {now} is", flush=True)
        else:
            print(
                f"{example}: as it was{'' if 'run' in now else f', without digests: {next(iter(now.values()))}'}",
                flush=True,
            )
        if given.update:
            digests[example] = now
            FILE.write_text(json.dumps(dict(sorted(digests.items())), indent=1) + "\n", encoding="utf-8")
    gone = [] if given.example else sorted(digests.keys() - set(examples()))
    for example in gone:
        print(f"{example}: no such example any more", flush=True)
        digests.pop(example)
    if given.update:
        FILE.write_text(json.dumps(dict(sorted(digests.items())), indent=1) + "\n", encoding="utf-8")
    return 1 if (changed or gone) and not given.update else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Digests of what examples compute, bit for bit: model, schedule and a run of the integer model.

The run's measurements are those of the plan with noise of a fixed seed; in some ticks channels are missing or wrong.

    python -m tests.fingerprints [--update] [EXAMPLE]...

compares all examples of tests/data/fingerprints.json, or writes them anew; an example that is named is put there, too.
`make test` compares the quick ones. A digest that changes is a change of bits on boards: say why in the commit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stepmap import jobs
from stepmap.errors import StepmapError
from stepmap.estimate.measurement import measurement_model
from stepmap_codegen import generate as generation
from stepmap_codegen.controller import Controller
from stepmap_codegen.model.program import Role
from stepmap_codegen.reference_loop import ReferenceLoop

ROOT = Path(__file__).parents[1]
FILE = ROOT / "tests" / "data" / "fingerprints.json"
TICKS = 150
QUICK = ("cart_pendulum.toml", "suspended_mass.toml")


def known() -> dict[str, dict[str, str]]:
    """The digests of the file, by example."""
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


def fingerprint(example: str) -> dict[str, str]:
    """The digests of an example as it is now, or why there is no code for it."""
    file = ROOT / "examples" / example
    try:
        job = jobs.load(file)
        plan = job.solve().require().plan
        made = generation.controller(job, plan, generation.read_choices(file))
    except StepmapError as error:
        return {"no code": str(error).splitlines()[0].replace(str(ROOT) + "/", "")[:160]}
    if made.formats is None:
        return {"no code": "in floating point, whose last bits are the processor's"}
    return {
        "model": made.digest,
        "schedule": hashlib.sha256(made.schedule.pack()).hexdigest(),
        "run": run(made, plan.trajectory.x),
    }


def run(controller: Controller, x: np.ndarray) -> str:
    """The digest of estimates, commands and accepted channels of a run."""
    rng = np.random.default_rng(20)
    model = measurement_model(controller.plant.step)
    states = len(controller.program.of(Role.STATE))
    fractions = [controller.formats.fields[i] for i in controller.program.of(Role.MEASUREMENT)]  # type: ignore[union-attr]
    loop, told = ReferenceLoop(controller), hashlib.sha256()
    full = (1 << len(fractions)) - 1
    sigma = np.sqrt(controller.plant.noise.measurement)
    for k in range(TICKS):
        z = np.asarray(model.readings(x[min(k, len(x) - 1), :states])) + sigma * rng.normal(size=len(fractions))
        if k % 37 == 36:
            z[0] += 40 * sigma[0]  # gated
        raw = [int(np.clip(round(v * 2.0**f), -(2**31), 2**31 - 1)) for v, f in zip(z, fractions, strict=True)]
        valid = 0 if k % 23 == 22 else full & ~1 if k % 11 == 10 else full
        estimate, command, accepted = loop.step(valid, raw, follow=k >= 3, running=k >= 3, hold=k < 3)
        told.update(json.dumps([estimate, command, accepted]).encode())
    return told.hexdigest()


def main(words: Sequence[str]) -> int:
    asked = argparse.ArgumentParser("python -m tests.fingerprints")
    asked.add_argument("--update", action="store_true", help="write the digests of now")
    asked.add_argument("example", nargs="*", help="file below examples; usually all of the digests' file")
    given = asked.parse_args(words)
    digests = known() if FILE.exists() else {}
    changed = []
    for example in given.example or sorted(digests):
        now = fingerprint(example)
        if now != digests.get(example):
            changed.append(example)
            print(f"{example}: {digests.get(example)} was, {now} is", flush=True)
        else:
            print(f"{example}: as it was", flush=True)
        if given.update:
            digests[example] = now
            FILE.write_text(json.dumps(dict(sorted(digests.items())), indent=1) + "\n", encoding="utf-8")
    return 1 if changed and not given.update else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The quick part of the proofs, in `make check`: ticks of the committed controllers, and some cases of each primitive.

    python -m tests.proof.quick

What passed is not proved again before something changes that it depends on. Where Frama-C is not installed no tick is
proved, and that is said.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.proof import equal, tick
from tests.proof.eva import CORE, MODELS, ROOT, installed
from tests.proof.symbolic import parse

GENERATED = ROOT / "firmware" / "generated"
JOBS = ("suspended_mass", "cart_pendulum")
STAMPS = ROOT / "build" / "check"
FEW = {"sm_mul": ((1, 32), (22, 28), (31, 32)), "sm_mul_cut": ((7, 30),), "sm_mul_wide": ((20,), (32,), (50,))}
NOT_INSTALLED = "Frama-C is not installed; `make prove` installs it (0.9 GB)"


def some(name: str) -> equal.Primitive:
    """A primitive with a few of its constants."""
    one = next(one for one in equal.PRIMITIVES if one.name == name)
    return replace(one, constants=FEW.get(name, one.constants[:: max(1, len(one.constants) // 3)]))


def wrong_primitives() -> list[str]:
    """What is wrong with some cases of the primitives."""
    real, model = parse(CORE / "sm_fixed.h"), parse(MODELS / "sm_fixed.h", [MODELS])
    said = [said for one in equal.PRIMITIVES for said in equal.wrong(some(one.name), real, model)]
    said += [said for one in equal.DEFINED for said in equal.wrong(one, real, None)]
    return said if equal.counted_zeros() else [*said, "__builtin_clz: its contract is not gcc's"]


def wrong_ticks(folder: Path) -> Iterator[str]:
    """Alarms in the committed controllers, and statements that were not reached."""
    for job in JOBS:
        verdict = tick.prove(GENERATED / job, folder / job)
        yield from (f"{job}: {alarm}" for alarm in verdict.alarms)
        if verdict.reached != verdict.statements:
            yield f"{job}: {verdict.statements - verdict.reached} statements were never reached"


def digest() -> str:
    """Of all that the result depends on."""
    files = [*Path(__file__).parent.rglob("*.[chp]*"), *CORE.glob("sm_fixed.*"), *CORE.glob("sm_schedule.*")]
    files += [file for job in JOBS for file in (GENERATED / job).glob("*.[ch]")]
    version = ["frama-c", "-version"] if installed() else []
    state = hashlib.sha256(subprocess.run(version, capture_output=True).stdout if version else b"none")
    for file in sorted(file for file in files if file.is_file() and "__pycache__" not in file.parts):
        state.update(file.read_bytes())
    return state.hexdigest()


def main() -> None:
    stamp = STAMPS / f"proofs-{digest()}"
    if not stamp.exists():
        said = wrong_primitives()
        if installed():
            with tempfile.TemporaryDirectory(prefix="stepmap-proofs-") as folder:
                said += wrong_ticks(Path(folder))
        if said:
            print(*said, sep="\n")
            sys.exit(1)
        STAMPS.mkdir(parents=True, exist_ok=True)
        stamp.touch()
    ticks = f"ticks of {' and '.join(JOBS)}" if shutil.which("frama-c") else f"NO TICK: {NOT_INSTALLED}"
    print(f"proved: some cases of each primitive; {ticks}")


if __name__ == "__main__":
    main()

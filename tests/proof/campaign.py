"""Proves the tick of every committed job that has fixed-point code, and the primitives below it.

    make prove                                          all of it; writes build/bench/prove.json
    python -m tests.proof.campaign [--docs] [JOB ...]   of these jobs alone; --docs fills the table of docs/soundness.md

Controllers are generated into build/prove, where they stay. The campaign fails where the analyser has an alarm, did not
reach a statement, or does not find a fault that was put in.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stepmap.files import write_whole
from stepmap.toml.tables import read
from stepmap_codegen.generate import choices_in
from stepmap_codegen.model.scalar import Scalar
from tests.proof import equal, faults, tick
from tests.proof.eva import CORE, MODELS, ROOT, analyse
from tests.undrawn import STEPMAP

OUTPUT = ROOT / "build" / "bench" / "prove.json"
WORK = ROOT / "build" / "prove"
PAGE = ROOT / "docs" / "soundness.md"
MARKS = "<!-- proofs -->", "<!-- end of proofs -->"
SEEDED_IN = "examples/suspended_mass.toml"


def fixed_jobs() -> tuple[list[Path], list[Path]]:
    """Committed jobs from which fixed-point code can be generated, and those of which floating-point code is."""
    fixed, floating = [], []
    for file in sorted((ROOT / "examples").rglob("*.toml")):
        root = read(file)
        if "noise" in root and "system" in root:
            (fixed if choices_in(root).options.scalar is Scalar.FIXED32 else floating).append(file)
    return fixed, floating


def generated(file: Path) -> Path:
    """The generated folder of a job."""
    group = WORK / "-".join(file.relative_to(ROOT / "examples").with_suffix("").parts)
    subprocess.run([*STEPMAP, "generate", str(file), "--build", str(group)], check=True, capture_output=True, text=True)
    return next(group.glob("*/generate"))


def primitives() -> dict[str, Any]:
    """What was shown of sm_fixed.h and sm_fixed.c."""
    begin = time.process_time()
    cases, wrong = equal.check()
    seconds = time.process_time() - begin
    verdict = analyse([MODELS / "primitives.c", CORE / "sm_fixed.c"], [MODELS], WORK / "primitives")
    program = WORK / "primitives" / "waves"
    command = ["gcc", "-O3", "-DSM_PLAIN", f"-I{CORE}", str(MODELS / "waves.c"), "-o", str(program)]
    subprocess.run(command, check=True)
    outside = subprocess.run([str(program)], check=False).returncode
    return {
        "equal": {"cases": cases, "wrong": wrong, "seconds": round(seconds, 1)},
        "sm_fixed.c": asdict(verdict),
        "waves": {"angles": 2**32, "outside": bool(outside)},
    }


def proved(file: Path) -> dict[str, Any]:
    """A row of the report."""
    folder = generated(file)
    name = str(file.relative_to(ROOT))
    verdict = tick.prove(folder, WORK / "eva" / folder.parent.parent.name)
    return {"job": name, "functions": len(tick.functions(folder)), **asdict(verdict)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="*", type=Path, help="Of these jobs alone.")
    parser.add_argument("--docs", action="store_true", help="Put the table into docs/soundness.md.")
    options = parser.parse_args()
    fixed, floating = fixed_jobs()
    report: dict[str, Any] = {"primitives": primitives(), "jobs": []}
    for file in [path.resolve() for path in options.jobs] or fixed:
        row = proved(file)
        report["jobs"].append(row)
        print(f"{row['job']}: {len(row['alarms'])} alarms, {row['reached']} of {row['statements']}", flush=True)
    report["seeded"] = faults.all_found(generated(ROOT / SEEDED_IN), WORK / "seeded")
    report["not_proved"] = [str(file.relative_to(ROOT)) for file in floating]
    write_whole(OUTPUT, (json.dumps(report, indent=1) + "\n").encode())
    if options.docs:
        fill(report)
    failed = complaints(report)
    found = sum(report["seeded"].values())
    print(*failed, f"{len(report['jobs'])} jobs, seeded faults found: {found} of {len(report['seeded'])}", sep="\n")
    sys.exit(bool(failed))


def complaints(report: dict[str, Any]) -> list[str]:
    """What keeps the report from being a proof."""
    low = report["primitives"]
    rows = [{"job": "sm_fixed.c", **low["sm_fixed.c"]}, *report["jobs"]]
    said = [f"{row['job']}: {alarm}" for row in rows for alarm in row["alarms"]]
    said += [
        f"{row['job']}: {row['statements'] - row['reached']} statements were never reached"
        for row in rows
        if row["reached"] != row["statements"]
    ]
    said += low["equal"]["wrong"]
    said += ["a sine or cosine is above 1"] if low["waves"]["outside"] else []
    said += [f"seeded fault not found: {name}" for name, found in report["seeded"].items() if not found]
    return said


def fill(report: dict[str, Any]) -> None:
    """Puts the table of jobs into the page."""
    lines = ["| job | functions | statements | reached | alarms | CPU s |", "|---|---|---|---|---|---|"]
    for row in report["jobs"]:
        cells = [row["functions"], row["statements"], row["reached"], len(row["alarms"]), f"{row['seconds']:.0f}"]
        lines.append(f"| `{row['job']}` | {' | '.join(map(str, cells))} |")
    before, rest = PAGE.read_text().split(MARKS[0])
    _, after = rest.split(MARKS[1])
    write_whole(PAGE, "\n".join([before + MARKS[0], *lines, MARKS[1] + after]).encode())


if __name__ == "__main__":
    main()

"""The outcomes so far: one line of JSON each in build/mutants/table.jsonl, by what was changed where."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from typing import Any

from tools.mutants import tree
from tools.mutants.mutant import Mutant
from tools.mutants.server import Trial
from tools.mutants.suites import Suite

TABLE = tree.PLACE / "table.jsonl"
COUNTS = tree.PLACE / "counts.json"


def key(mutant: Mutant) -> str:
    """Of a mutant of the copy as it is now."""
    return mutant.key((tree.TREE / mutant.file).read_text())


def of_tests(suite: Suite) -> str:
    """What tells the tests of a suite from those of another day."""
    whole = hashlib.sha256()
    for test in suite.tests:
        whole.update((tree.TREE / test.split("::")[0]).read_bytes())
    return whole.hexdigest()[:12]


def tried(suite: Suite) -> set[str]:
    """Keys of mutants that need not be tried again: noticed, refused, or survivors of the very tests of now."""
    now = of_tests(suite)
    return {key for key, row in outcomes().items() if row["outcome"] != "survived" or row.get("tests") == now}


def outcomes() -> dict[str, dict[str, Any]]:
    """By key, the last outcome of each."""
    if not TABLE.exists():
        return {}
    rows = [json.loads(line) for line in TABLE.read_text().splitlines() if line.endswith("}")]
    return {row["key"]: row for row in rows}


def add(suite: Suite, mutant: Mutant, trial: Trial) -> None:
    """Writes one outcome."""
    told = {"told": str(mutant), "outcome": trial.outcome, "cpu": trial.cpu}
    place = {"file": mutant.file, "line": mutant.line, "kind": mutant.kind}
    row = {"key": key(mutant), "suite": suite.name, "tests": of_tests(suite), **place, **told}
    with TABLE.open("a") as file:
        file.write(json.dumps(row) + "\n")


def sample(mutants: Sequence[Mutant], size: int, seed: int) -> list[Mutant]:
    """The first of all in the order that the seed gives them: a larger sample holds the smaller ones."""
    order = sorted(mutants, key=lambda m: random.Random(f"{seed} {key(m)}").random())
    return order[:size]


def count(suite: str, mutants: int) -> None:
    """Keeps how many mutants there are on reached lines."""
    known = counts() | {suite: mutants}
    COUNTS.write_text(json.dumps(known))


def counts() -> dict[str, int]:
    return dict(json.loads(COUNTS.read_text())) if COUNTS.exists() else {}

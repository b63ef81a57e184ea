"""docs/codegen-bench.md: what a tick costs in fixed point, measured again on every chip."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from stepmap_codegen import Form, Scalar
from stepmap_codegen.toolchain import TARGETS, Target
from tests.bench.codegen import CHIPS, OPTIONS, Workshop
from tests.bench.peers import kits
from tests.bench.peers.kits import Kit
from tests.sil.controllers import suspended_mass

PAGE = Path(__file__).parents[2] / "docs" / "codegen-bench.md"
COMPILER = "12.2"  # that of the page
# How far a bound may be above what is measured. Where sums branch when they saturate, the longest path has all of them
# saturate, as no data make it; a Cortex-M4 does it without a branch. A division of a Cortex-M0+ takes 4 turns at most.
LOOSE = {"cortex-m0plus": 1.5, "cortex-m3": 1.9, "cortex-m4f": 1.25, "rv32imc": 1.9}


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    bench = kits.make_bench("suspended_mass", suspended_mass()[0])
    return kits.stepmap_tick(bench, Scalar.FIXED32, Form.STRAIGHT, tmp_path_factory.mktemp("bench") / "tick")


def shown(number: int) -> list[str]:
    """Cells of the page's rows `stepmap | fixed32`, without marks: of instructions, of memory."""
    rows = re.findall(r"^\| stepmap \| fixed32 \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    return [re.sub(r" \(.*\)|\*", "", cell).strip() for cell in rows[number].split("|")]


def version(target: Target) -> str:
    said = subprocess.run([target.tool("gcc"), "-dumpfullversion"], capture_output=True, text=True, check=True)
    return said.stdout.strip()


@pytest.mark.parametrize("target", [pytest.param(target, id=target.name) for target in CHIPS])
def test_the_page_shows_what_is_measured(target: Target, kit: Kit) -> None:
    if not version(target).startswith(COMPILER):
        pytest.skip(f"the page is of gcc {COMPILER}, and {target.tool('gcc')} is {version(target)}")
    for options in OPTIONS:
        row = Workshop().measure(kit, target, options)
        at = CHIPS.index(target) * len(OPTIONS) + OPTIONS.index(options)
        assert int(shown(0)[at].replace(" ", "")) == row["instructions"]
        assert shown(1)[at] == f"{row['text_bytes']} / {row['stack_bytes']}"
        bound = row["instructions_at_most"]
        assert (bound is None) == (target.name == "xtensa-lx106")
        if bound is not None:
            assert row["instructions"] <= int(bound) <= LOOSE[target.name] * int(row["instructions"])


def test_the_page_has_a_column_for_every_chip() -> None:
    heading = next(line for line in PAGE.read_text().splitlines() if line.startswith("| source | scalar |"))
    plain = heading.lower().replace(" ", "-").replace("+", "plus")
    places = [plain.find(name) for name in TARGETS if TARGETS[name].memory]
    assert -1 not in places
    assert places == sorted(places)

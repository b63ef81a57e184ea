"""The proofs are proofs: controllers have no alarm, primitives are equal, and faults that are put in are found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.proof import equal, faults, quick, tick
from tests.proof.eva import CORE, MODELS, ROOT, installed
from tests.proof.symbolic import parse

eva = pytest.mark.skipif(not installed(), reason=quick.NOT_INSTALLED)
WRONG = {  # a change of sm_fixed.h, and the primitive that is no longer what it was
    "sm_high": ("high + (int32_t)(low >> 31)", "high + (int32_t)(low >> 30)"),
    "sm_right": ("(v >> right) + ((v >> (right - 1U)) & 1)", "(v + (1 << (right - 1U))) >> right"),
    "sm_mul": ("32U - right, overflowed);\n  return upper", "31U - right, overflowed);\n  return upper"),
    "sm_sub": ("sm_saturated(~b, overflowed)", "sm_saturated(b, overflowed)"),
}


@eva
@pytest.mark.parametrize("name", quick.JOBS)
def test_a_tick_from_any_fields_has_no_alarm_and_all_of_it_was_reached(name: str, tmp_path: Path) -> None:
    verdict = tick.prove(quick.GENERATED / name, tmp_path)
    assert verdict.alarms == ()
    assert verdict.reached == verdict.statements > 500


@eva
@pytest.mark.parametrize("name", ["a sum without a check", "a division by a field"])
def test_a_fault_in_a_controller_is_found(name: str, tmp_path: Path) -> None:
    assert faults.found(name, quick.GENERATED / "suspended_mass", tmp_path)


def test_primitives_that_the_analyser_reads_equal_those_of_the_firmware() -> None:
    assert quick.wrong_primitives() == []


def test_the_quick_part_says_where_no_tick_was_proved() -> None:
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            "import shutil; shutil.which = lambda name: None; from tests.proof import quick; quick.main()",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "NO TICK: Frama-C is not installed; `make prove` installs it" in run.stdout


@pytest.mark.parametrize("name", WRONG)
def test_a_primitive_that_is_changed_is_found(name: str, tmp_path: Path) -> None:
    text = (CORE / "sm_fixed.h").read_text()
    assert text.count(WRONG[name][0]) == 1
    changed = tmp_path / "sm_fixed.h"
    changed.write_text(text.replace(*WRONG[name]))
    real, model = parse(changed), parse(MODELS / "sm_fixed.h", [MODELS])
    assert list(equal.wrong(quick.some(name), real, model))

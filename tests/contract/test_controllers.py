"""Every system of the catalog that a small chip can carry becomes a controller whose C is its integer model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepmap import systems
from stepmap_codegen import Controller, Form, IntegerMachine, Role, Scalar, decode, encode
from stepmap_codegen.model.command_rates import CommandRates
from tests.mechanisms import cataloged
from tests.sil.controllers import TRAP, compare, holding, library, random_fields, rewritten

LARGEST = 6  # dynamic coordinates
TICKS = 20
LARGE = 5000  # operations; the bench and the golden files have larger controllers as straight lines
STRINGS = ["planar_arm_string", "suspended_mass_string"]  # of those with gaps; others bounce, stick or are many


BALLS = [("spherical_pendulum", "exp"), ("spherical_pendulum", "cayley")]  # of those with balls; others are larger


def _apart(name: str) -> bool:
    """Gaps and balls are chosen."""
    return bool(cataloged(name).gap_names or cataloged(name).balls)


SMALL = [
    *(n for n in systems.names() if len(cataloged(n).dynamic) <= LARGEST and not _apart(n)),
    *STRINGS,
]
CASES = [*((name, "exp") for name in SMALL), *BALLS]


def test_the_catalog_has_such_systems() -> None:
    """And among them sines, strings, kinematic inputs and dampers."""
    found = [cataloged(name) for name in SMALL]
    assert len(found) >= 5
    assert any(s.constraint_names for s in found)
    assert any(s.kinematic for s in found)
    assert any(s.inputs for s in found)


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def made(request: pytest.FixtureRequest) -> Controller:
    """A controller; tests of one follow each other, so that one process designs it."""
    name, rotation = request.param
    return holding(name, TICKS, rotation=rotation)[0]


def test_c_equals_the_integer_model(made: Controller, tmp_path: Path) -> None:
    """As straight lines, or as a table where these would take the compiler several seconds; optimized, in tests/sil."""
    operations = sum(len(block.operations) for block in made.program.blocks)
    written = made if operations < LARGE else rewritten(made, Scalar.FIXED32, Form.ROWS)
    loaded = library(written, tmp_path, [*TRAP, "-O0"])
    for seed, scale in enumerate((0.3, 1.0, 30.0)):
        compare(made, loaded, random_fields(made, scale, 60, seed))


def test_integers_round_no_more_than_the_noise(made: Controller) -> None:
    """One tick from simulated fields: estimates within a tenth of the process noise of 1e-3, and nothing saturates."""
    program, formats = made.program, made.formats
    assert formats is not None
    errors = {s.name: s.error for s in made.signals}
    for i in program.of(Role.STATE):
        assert errors[program.fields[i].name] < 1e-4
    machine = IntegerMachine(program, formats, encode(made.recording.snapshots, formats.fields, 32))
    rates = CommandRates(program, formats.fields)
    for block in range(len(program.blocks)):
        before = machine.fields.copy()
        machine.run(block)
        rates.apply(block, before, machine.fields)
    assert not machine.saturations.any()
    assert np.isfinite(decode(machine.fields, formats.fields)).all()

"""A controller that is loaded from its stage is the one that was designed, to the bit."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stepmap import jobs
from stepmap.errors import DamagedError
from stepmap.jobs import optimize as optimum
from stepmap_codegen import Controller, Scalar, saved
from stepmap_codegen import generate as generation

ROOT = Path(__file__).parents[2]


def made(name: str, folder: Path, **given: object) -> tuple[Controller, Controller]:
    """The controller of an example, as it is designed and as it is loaded."""
    file = ROOT / "examples" / f"{name}.toml"
    job, choices = jobs.load(file), generation.with_options(generation.read_choices(file), **given)
    solution = job.solve().require()
    stage = generation.stage(job, optimum.stage(job, folder), choices, folder)
    designed = generation.controller(job, solution.plan, choices)
    generation.write(stage, designed)
    assert stage.unchanged()
    return designed, generation.load(stage, job, choices)


@pytest.mark.parametrize(
    ("name", "scalar"),
    [("suspended_mass", Scalar.FIXED32), ("cart_pendulum", Scalar.FIXED32), ("cart_pendulum", Scalar.FLOAT32)],
)
def test_it_is_the_same(name: str, scalar: Scalar, tmp_path: Path) -> None:
    designed, loaded = made(name, tmp_path, scalar=scalar)
    assert loaded.files() == designed.files()
    assert loaded.formats_file() == designed.formats_file()
    assert (loaded.program, loaded.formats) == (designed.program, designed.formats)
    assert (loaded.axes, loaded.sensor_delay, loaded.digest) == (designed.axes, designed.sensor_delay, designed.digest)
    np.testing.assert_array_equal(loaded.plant.gains, designed.plant.gains)
    np.testing.assert_array_equal(loaded.output.start, designed.output.start)
    np.testing.assert_array_equal(loaded.schedule.rows, designed.schedule.rows)
    assert loaded.plant.settings == designed.plant.settings
    assert saved.pack(loaded) == saved.pack(designed)


def test_what_is_no_controller(tmp_path: Path) -> None:
    designed, _ = made("cart_pendulum", tmp_path)
    content = saved.pack(designed)
    for wrong in (b"", b"PK", content[: len(content) // 2]):
        with pytest.raises(DamagedError, match="no archive"):
            saved.unpack(wrong, designed.plant)
    other = saved.pack(replace(designed, axes=[]))
    assert saved.unpack(other, designed.plant).axes == []
    document = b'{"format": "another"}'
    with pytest.raises(DamagedError, match="no controller: its format is 'another'"):
        saved.unpack(_with_document(content, document), designed.plant)


def _with_document(content: bytes, document: bytes) -> bytes:
    arrays = dict(np.load(io.BytesIO(content)))
    arrays["document"] = np.frombuffer(document, np.uint8)
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()

"""A million random ticks of the suspended mass: integer model = C on this machine, bit for bit; and its edges."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stepmap_codegen import Form, Options, Role
from stepmap_codegen.model.integers import Ints
from stepmap_codegen.toolchain import TARGETS, Built
from tests.sil.controllers import suspended_mass
from tests.sil.ticks import build_ticks, compare, vectors

CHUNKS, CHUNK = 50, 20_000
# Aborts at the first wrong access, shift or overflow; run() then raises with the report.
SANITIZE = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
EDGES = sorted({s * (1 << k) + d for k in range(31) for s in (-1, 1) for d in (-1, 0, 1)} | {-(1 << 31), (1 << 31) - 1})


Build = Callable[[Form, tuple[str, ...]], Built]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Builds the driver on this machine, each kind once."""
    done: dict[tuple[Form, tuple[str, ...]], Built] = {}

    def made(form: Form, options: tuple[str, ...]) -> Built:
        if (form, options) not in done:
            controller, _ = suspended_mass(Options(form=form))
            folder = tmp_path_factory.mktemp("ticks")
            done[form, options] = build_ticks(controller, TARGETS["host"], folder, options)
        return done[form, options]

    return made


@pytest.mark.slow
def test_a_million_ticks_are_the_same_in_c(built: Build) -> None:
    made, _ = suspended_mass()
    program = built(Form.STRAIGHT, ("-O2",))
    taken, clean = np.zeros(len(made.program.of(Role.MEASUREMENT))), 0
    for seed in range(CHUNKS):
        fields, valid = vectors(made, CHUNK, seed)
        ticks = compare(made, program, fields, valid)
        taken += [int(((ticks.taken >> bit) & 1).sum()) for bit in range(len(taken))]
        clean += int((ticks.overflows == 0).sum())
    total = CHUNKS * CHUNK
    # Both ways of every gate, ticks that saturate and ticks that do not: each in a tenth of the million at least.
    assert (taken > 0.1 * total).all()
    assert (taken < 0.9 * total).all()
    assert 0.1 * total < clean < 0.9 * total


@pytest.mark.parametrize("form", [Form.STRAIGHT, Form.ROWS])
def test_random_ticks_with_sanitizers(form: Form, built: Build) -> None:
    """In range as above, and a quarter of the fields replaced by edges."""
    made, _ = suspended_mass(Options(form=form))
    fields, valid = vectors(made, CHUNK, CHUNKS)
    rng = np.random.default_rng(CHUNKS)
    replaced = rng.random(fields.shape) < 0.5 * (np.arange(CHUNK) % 2)
    fields[replaced] = rng.choice(EDGES, size=int(replaced.sum()))
    compare(made, built(form, SANITIZE), fields, valid)


@st.composite
def edges(draw: st.DrawFn) -> tuple[Ints, Ints]:
    """Four vectors of fields, each at an edge or anywhere, and any measurements."""
    program = suspended_mass()[0].program
    anything = st.sampled_from(EDGES) | st.integers(-(1 << 31), (1 << 31) - 1)
    masks = st.integers(0, (1 << len(program.of(Role.MEASUREMENT))) - 1)
    return draw(arrays(np.int64, (len(program.fields), 4), elements=anything)), draw(
        arrays(np.int64, 4, elements=masks)
    )


@settings(max_examples=100)
@given(vectors=edges())
def test_edges_with_sanitizers(vectors: tuple[Ints, Ints], built: Build) -> None:
    compare(suspended_mass()[0], built(Form.STRAIGHT, SANITIZE), *vectors)

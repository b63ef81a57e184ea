"""Controllers by loops: the numbers of straight-line code, in Python and in C, for models small enough to have both."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import systems
from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap_codegen import Controller, Form, Noise, Options, Plant, Role, Scalar, Settings, design, saved
from stepmap_codegen.emit import floating, size
from stepmap_codegen.emit.c_text import field_order
from stepmap_codegen.model.float_machine import FloatMachine
from stepmap_codegen.model.program import BlockRole
from stepmap_codegen.precision.ensemble import Ensemble
from tests.sil.controllers import library

TICKS = 12
SHORT = 40  # operations of a part, so that small tapes have several
NAMES = ("suspended_mass", "planar_arm")  # a wire, and limbs with two


def plant(name: str, **settings: object) -> tuple[Plant, sm.Trajectory]:
    """A system of the catalog, held where it hangs; something measured is far off now and then."""
    system = systems.get(name)
    step = sm.discretize(system, 1 / 30)
    x, u = step.equilibrium({"theta1": -0.6, "theta2": 0.9, "x": 0.3, "L": 1.0} if name == "planar_arm" else None)
    trajectory = sm.Trajectory(np.arange(TICKS + 1) / 30, np.tile(x, (TICKS + 1, 1)), np.tile(u, (TICKS, 1)))
    gains = sm.lqr(step, trajectory, np.eye(step.ndx), np.eye(step.nu), np.eye(step.ndx))
    spread = np.diag(np.linspace(1e-3, 3e-3, step.ndx)) ** 2
    noise = Noise(spread, np.linspace(1e-4, 2e-4, len(system.sensor_channels)), 4 * spread)
    return Plant(step, noise, gains, Settings(**settings)), trajectory  # type: ignore[arg-type]


def made(name: str, form: Form, scalar: Scalar = Scalar.FLOAT64) -> Controller:
    options = Options(scalar, form=form, ensemble=Ensemble(runs=2, gap_rate=0.2))
    return design(*plant(name), options)


def measured(one: Controller) -> Array:
    """Measurements of every tick; the first channel is out of the question in the fifth."""
    z = np.tile(one.output.test.measurements, (TICKS, 1))
    z += 0.01 * np.random.default_rng(3).standard_normal(z.shape)
    z[4, 0] += 50.0
    return z


def straight(one: Controller) -> tuple[Array, list[list[bool]]]:
    """States and covariances by place after each tick, and which channels the gate took."""
    program = one.program
    machine = FloatMachine(program, one.output.start[:, None])
    rows, told = one.schedule.values(), []
    found = []
    for tick, z in enumerate(measured(one)):
        machine.load(program.of(Role.MEASUREMENT), z[:, None])
        machine.load(program.of(Role.SCHEDULE), rows[tick][:, None])
        held = [bool(machine.run(k)[0]) for k in range(len(program.blocks))]
        told.append([held[k] for k in program.blocks_of(BlockRole.UPDATE)])
        found.append(numbers(one, machine.fields[:, 0]))
    return np.array(found), told


def numbers(one: Controller, fields: Array) -> Array:
    """The estimate and the whole covariance, row by row."""
    program, n = one.program, one.plant.step.ndx
    P = np.zeros((n, n))
    for i in program.of(Role.COVARIANCE):
        place = program.fields[i].place
        assert place is not None
        P[place] = P[place[::-1]] = fields[i]
    return np.concatenate([fields[program.of(Role.STATE)], P.ravel(), fields[program.of(Role.COMMAND)]])


def compiled(one: Controller, folder: Path) -> tuple[Array, list[list[bool]]]:
    """The same of the C."""
    program, order = one.program, field_order(one.program)
    kind = np.dtype("f8" if one.output.scalar is Scalar.FLOAT64 else "f4")
    loaded = library(one, folder, ["-O1"])
    place = {field: k for k, field in enumerate(order)}
    memory = np.zeros(len(order) + 2, dtype=kind)
    address = memory.ctypes.data_as(ctypes.c_void_p)
    assert loaded.sm_self_test(address) == 0
    loaded.sm_update.restype = ctypes.c_uint32
    rows, told, found = one.schedule.values(), [], []
    channels = program.of(Role.MEASUREMENT)
    for tick, z in enumerate(measured(one)):
        memory[[place[i] for i in channels]] = z
        memory[[place[i] for i in program.of(Role.SCHEDULE)]] = rows[tick]
        taken = loaded.sm_update(address, ctypes.c_uint32((1 << len(channels)) - 1))
        loaded.sm_state_feedback(address)
        loaded.sm_predict(address)
        told.append([bool(taken >> k & 1) for k in range(len(channels))])
        fields = np.zeros(len(order))
        fields[order] = memory[: len(order)]
        found.append(numbers(one, fields))
    return np.array(found), told


@pytest.mark.parametrize("name", NAMES)
def test_loops_compute_what_straight_line_code_does(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floating, "PART", SHORT)
    expected, taken = straight(made(name, Form.STRAIGHT))
    looped = made(name, Form.LOOPS)
    assert looped.program.tapes
    assert not all(taken[4])  # by the gate
    scale = np.abs(expected).max(axis=0)
    for found, told in (straight(looped), compiled(looped, tmp_path)):
        assert told == taken
        assert (np.abs(found - expected) <= 1e-11 * scale + 1e-15).all()
    source = (tmp_path / "controller.c").read_text()
    assert "linearize_1(c, kept)" in source
    (tmp_path / "narrow").mkdir()
    narrow = made(name, Form.LOOPS, Scalar.FLOAT32)
    found, told = compiled(narrow, tmp_path / "narrow")
    assert told == taken
    n, nx = looped.plant.step.ndx, looped.plant.step.nx
    off, covariance = np.abs(found - expected), expected[:, nx : nx + n * n].reshape(TICKS, n, n)
    sigma = np.sqrt(np.einsum("kii->ki", covariance))
    assert (off[:, nx : nx + n * n] <= 2e-3 * np.einsum("ki,kj->kij", sigma, sigma).reshape(TICKS, -1)).all()
    assert (np.delete(off, np.s_[nx : nx + n * n], axis=1) <= 2e-5).all()


def test_a_controller_by_loops_is_read_back_as_it_was() -> None:
    one = made("suspended_mass", Form.LOOPS, Scalar.FLOAT32)
    again = saved.unpack(saved.pack(one), one.plant)
    assert again.files() == one.files()
    assert again.program.counts() == one.program.counts()
    assert {field["role"] for field in one.description()["fields"]}.isdisjoint({"work"})


def test_the_covariance_of_a_real_run_is_what_variances_are_limited_by() -> None:
    narrow, wide = made("suspended_mass", Form.LOOPS, Scalar.FLOAT32), made("suspended_mass", Form.STRAIGHT)
    of = [
        {
            one.program.fields[i].place: v
            for i, v in zip(one.program.of(Role.COVARIANCE), one.output.variances, strict=True)
        }
        for one in (narrow, wide)
    ]
    for k in range(narrow.plant.step.ndx):
        assert of[0][k, k] == pytest.approx(of[1][k, k], rel=0.5)


def test_large_models_in_floating_point_are_loops_and_nothing_else_is() -> None:
    assert size.preferred(Scalar.FLOAT32, 80, None) is Form.LOOPS
    assert size.preferred(Scalar.FLOAT32, 28, None) is None
    assert size.preferred(Scalar.FIXED32, 80, None) is None
    assert size.preferred(Scalar.FLOAT32, 80, Form.STRAIGHT) is Form.STRAIGHT


def test_what_loops_do_not_know_is_refused() -> None:
    with pytest.raises(ModelError, match="form: loops are for float32 and float64"):
        made("suspended_mass", Form.LOOPS, Scalar.FIXED32)
    known, trajectory = plant("suspended_mass")
    correlated = np.full_like(known.noise.process, 1e-6) + known.noise.process
    noisy = replace(known, noise=replace(known.noise, process=correlated))
    options = Options(Scalar.FLOAT32, form=Form.LOOPS, ensemble=Ensemble(runs=2))
    with pytest.raises(ModelError, match="form: no loops are written for process noise with correlations"):
        design(noisy, trajectory, options)
    gaps = sm.discretize(systems.get("suspended_mass_string"), 1 / 30)
    with pytest.raises(ModelError, match="form: no loops are written for gaps"):
        design(replace(known, step=gaps), trajectory, options)

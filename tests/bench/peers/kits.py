"""Programs to measure: stepmap's C and that of its peers, each with records to run on and what must come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from stepmap.arrays import Array
from stepmap_codegen import BlockRole, Controller, FloatMachine, Form, Formats, Program, Role, Scalar, decode, encode
from stepmap_codegen.emit.c_text import field_order
from stepmap_codegen.emit.header import emit_header
from stepmap_codegen.emit.source import emit_source
from stepmap_codegen.lower.controller import make_block
from stepmap_codegen.lower.step_graph import StepGraph
from stepmap_codegen.precision.assign import assign
from stepmap_codegen.precision.ranges import measure
from tests.bench.peers.symbolic import GIVEN, MADE, Call, map_function, model_functions, tick_function, write_functions

PEERS = Path(__file__).parent
CORE = PEERS.parents[2] / "firmware" / "core"
TICKS = 200
KINDS = {Scalar.FIXED32: "<i4", Scalar.FLOAT32: "<f4", Scalar.FLOAT64: "<f8"}
REALS = {Scalar.FLOAT32: "float", Scalar.FLOAT64: "double"}
# After one tick from the same fields: of estimates and commands in SI units; of covariances, relative to the largest.
TOLERANCE = {Scalar.FIXED32: 1e-5, Scalar.FLOAT32: 1e-4, Scalar.FLOAT64: 1e-12}
COVARIANCE_TOLERANCE = {Scalar.FIXED32: 1e-5, Scalar.FLOAT32: 1e-5, Scalar.FLOAT64: 1e-12}


@dataclass(frozen=True, eq=False)
class Kit:
    """A program for every target: sources that are measured, a driver that is not, and an empty version of them."""

    system: str
    what: str  # map or tick
    source: str  # stepmap, casadi or matrix-ekf
    scalar: Scalar
    form: Form
    folder: Path
    sources: Sequence[Path]
    driver: Path
    empty: Path
    entries: Sequence[str]  # functions the driver calls
    records: NDArray[np.generic]  # (ticks, numbers)
    check: Callable[[NDArray[np.generic]], None]  # of (ticks, numbers) that came out
    defines: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Bench:
    """A controller, fields of closed-loop ticks in which every gate holds, and the same after each tick in float64."""

    system: str
    made: Controller
    before: Array
    middle: Array  # before the prediction
    after: Array


def make_bench(system: str, made: Controller) -> Bench:
    """Ticks from the simulated runs, evenly over time."""
    before = made.recording.snapshots
    machine = FloatMachine(made.program, before)
    held = np.ones(before.shape[1], bool)
    middle = before
    for number, block in enumerate(made.program.blocks):
        if block.role is BlockRole.PREDICT:
            middle = machine.fields.copy()
        held &= machine.run(number)
    chosen = np.flatnonzero(held)[np.linspace(0, held.sum() - 1, TICKS).astype(int)]
    return Bench(system, made, before[:, chosen], middle[:, chosen], machine.fields[:, chosen])


# stepmap --------------------------------------------------------------------------------------------------------------


def stepmap_tick(bench: Bench, scalar: Scalar, form: Form, folder: Path) -> Kit:
    """The generated controller, as it is."""
    made = bench.made
    return _stepmap(bench, "tick", made.program, made.formats, scalar, form, folder, bench.before)


def stepmap_map(bench: Bench, scalar: Scalar, folder: Path) -> Kit:
    """A controller that predicts without its covariance: the map alone, its formats by the same rules."""
    made = bench.made
    step, program = made.plant.step, made.program
    x, u = ca.SX.sym("x", step.nx), ca.SX.sym("u", step.nu)
    after = StepGraph(step, made.plant.settings.newton).map(x, u)[0]
    inputs = list(
        zip([*program.of(Role.STATE), *program.of(Role.COMMAND)], ca.vertsplit(ca.vertcat(x, u)), strict=True)
    )
    outputs = list(zip(program.of(Role.STATE), ca.vertsplit(after), strict=True))
    block = make_block("predict", BlockRole.PREDICT, "one step of the map", inputs, outputs, None)
    program = replace(program, blocks=tuple(block if b.role is BlockRole.PREDICT else b for b in program.blocks))
    machine = FloatMachine(program, made.recording.snapshots)
    machine.load(range(len(program.fields)), made.recording.snapshots)
    for number in range(len(program.blocks)):
        machine.run(number)
    formats = assign(program, measure(program, [replace(made.recording, magnitudes=machine.magnitudes())]), 32)
    return _stepmap(bench, "map", program, formats, scalar, Form.STRAIGHT, folder, bench.middle)


def _stepmap(
    bench: Bench,
    what: str,
    program: Program,
    assigned: Formats | None,
    scalar: Scalar,
    form: Form,
    folder: Path,
    before: Array,
) -> Kit:
    formats = assigned if scalar is Scalar.FIXED32 else None
    output = replace(bench.made.output, scalar=scalar, form=form)
    folder.mkdir(parents=True)
    (folder / "controller.h").write_text(emit_header(program, formats, output))
    (folder / "controller.c").write_text(emit_source(program, formats, output))
    (folder / "empty.c").write_text(EMPTY)
    order = field_order(program)
    raw = before if formats is None else encode(before, formats.fields, formats.word)
    sources = [folder / "controller.c"]
    if formats is not None:
        sources += [CORE / "sm_fixed.c"] + ([CORE / "sm_rows.c"] if form is Form.ROWS else [])

    def check(found: NDArray[np.generic]) -> None:
        fields = np.empty_like(before)
        fields[order] = found.T
        if formats is not None:
            fields = decode(fields.astype(np.int64), formats.fields)
        _compare(program, scalar, fields, bench.after, covariance=what == "tick")

    return Kit(
        bench.system,
        what,
        "stepmap",
        scalar,
        form,
        folder,
        sources,
        PEERS / "stepmap.c",
        folder / "empty.c",
        ("sm_update", "sm_state_feedback", "sm_predict") if what == "tick" else ("sm_predict",),
        raw[order].T.astype(KINDS[scalar]),
        check,
        {"ONLY_MAP": int(what == "map")},
    )


EMPTY = """
#include "controller.h"
uint32_t sm_update(sm_controller *c, uint32_t valid) { (void)c; return valid; }
void sm_state_feedback(sm_controller *c) { (void)c; }
void sm_predict(sm_controller *c) { (void)c; }
"""


def _compare(program: Program, scalar: Scalar, found: Array, expected: Array, *, covariance: bool) -> None:
    """Estimates, commands and covariances after a tick."""
    main, spread = [*program.of(Role.STATE), *program.of(Role.COMMAND)], program.of(Role.COVARIANCE)
    _near(found[main], expected[main], TOLERANCE[scalar])
    if covariance:
        _near(found[spread], expected[spread], COVARIANCE_TOLERANCE[scalar] * float(np.abs(expected[spread]).max()))


def _near(found: Array, expected: Array, tolerance: float) -> None:
    worst = float(np.abs(np.asarray(found, dtype=float) - expected).max())
    if not worst <= tolerance:
        raise AssertionError(f"does not compute the same: {worst:.2g} off, allowed is {tolerance:.2g}")


# peers ----------------------------------------------------------------------------------------------------------------


def casadi_tick(bench: Bench, scalar: Scalar, folder: Path) -> Kit:
    """CasADi's C of the whole tick: the same operations on the same sparse covariance, without gates."""
    program = bench.made.program
    given, made = ([i for role in roles for i in program.of(role)] for roles in (GIVEN, MADE))
    starts = [np.cumsum([0, *(len(program.of(role)) for role in roles)])[:-1] for roles in (GIVEN, MADE)]
    arguments, results = ([f"{name} + {k}" for k in at] for name, at in zip(("in", "out"), starts, strict=True))

    def check(found: NDArray[np.generic]) -> None:
        fields = bench.after.copy()
        fields[made] = found.T
        _compare(program, scalar, fields, bench.after, covariance=True)

    call = Call("peer", tick_function(program), arguments, results)
    return _peer(bench, "tick", "casadi", scalar, folder, [call], bench.before[given].T, len(made), check)


def casadi_map(bench: Bench, scalar: Scalar, folder: Path) -> Kit:
    """CasADi's C of the map."""
    program = bench.made.program
    state = program.of(Role.STATE)
    given = [*state, *program.of(Role.COMMAND)]
    call = Call("peer", map_function(bench.made.plant), ["in", f"in + {len(state)}"], ["out"])

    def check(found: NDArray[np.generic]) -> None:
        _near(found.T, bench.after[state], TOLERANCE[scalar])

    return _peer(bench, "map", "casadi", scalar, folder, [call], bench.middle[given].T, len(state), check)


def matrix_tick(bench: Bench, scalar: Scalar, folder: Path) -> Kit:
    """A filter in matrix form around CasADi's C of the model."""
    made, program = bench.made, bench.made.program
    step, noise = made.plant.step, made.plant.noise
    state, command = program.of(Role.STATE), program.of(Role.COMMAND)
    nx, nu, nz = step.nx, step.nu, len(noise.measurement)
    dense = partial(_dense, program, Role.COVARIANCE, (nx, nx))
    row = program.of(Role.SCHEDULE)
    gains = _dense(program, Role.SCHEDULE, (nu, nx), bench.before, symmetric=False)
    parts = [bench.before[state], dense(bench.before), bench.before[program.of(Role.MEASUREMENT)]]
    records = np.concatenate([*parts, bench.before[row[: nx + nu]], gains]).T

    def check(found: NDArray[np.generic]) -> None:
        values = found.T.astype(float)
        covariance, expected = values[nx : nx + nx * nx], dense(bench.after)
        _near(values[:nx], bench.after[state], TOLERANCE[scalar])
        _near(covariance, expected, COVARIANCE_TOLERANCE[scalar] * float(np.abs(expected).max()))
        _near(values[-nu:], bench.after[command], TOLERANCE[scalar])

    limits = [program.fields[i] for i in command]
    defines = {"NX": nx, "NU": nu, "NZ": nz, "ND": step.nd}
    tables: dict[str, Sequence[float | None]] = {
        "PROCESS": list(noise.process.ravel()),
        "MEASUREMENT": list(noise.measurement),
        "LOW": [f.low for f in limits],
        "HIGH": [f.high for f in limits],
    }
    text = [f"#define {name} {value}" for name, value in defines.items()]
    suffix = "f" if scalar is Scalar.FLOAT32 else ""
    for name, values in tables.items():
        text.append(f"#define {name} {{{', '.join(f'{float(v or 0.0):.17e}{suffix}' for v in values)}}}")
    function = model_functions(made.plant, program)
    calls = [
        Call("model_step", function[0], ["x", "u"], ["next", "F"]),
        Call("model_readings", function[1], ["x"], ["h", "H"]),
        Call("model_project", function[2], ["x"], ["q"]),
    ]
    kit = _peer(bench, "tick", "matrix-ekf", scalar, folder, calls, records, nx + nx * nx + nu, check, text)
    return replace(kit, sources=[*kit.sources, PEERS / "matrix_ekf.c"])


def _dense(program: Program, role: Role, shape: tuple[int, int], fields: Array, *, symmetric: bool = True) -> Array:
    """Entries of a matrix by row (rows · columns, ticks); those without a field are zero."""
    out = np.zeros((*shape, fields.shape[1]))
    for i in program.of(role):
        place = program.fields[i].place
        if place is not None:
            out[place] = fields[i]
            if symmetric:
                out[place[::-1]] = fields[i]
    return out.reshape(-1, fields.shape[1])


PROTOTYPES = {
    "peer": "void peer(const peer_real *in, peer_real *out)",
    "model_step": "void model_step(const peer_real *x, const peer_real *u, peer_real *next, peer_real *F)",
    "model_readings": "void model_readings(const peer_real *x, peer_real *h, peer_real *H)",
    "model_project": "void model_project(const peer_real *x, peer_real *q)",
}


def _peer(
    bench: Bench,
    what: str,
    source: str,
    scalar: Scalar,
    folder: Path,
    calls: Sequence[Call],
    records: Array,
    out: int,
    check: Callable[[NDArray[np.generic]], None],
    more: Sequence[str] = (),
) -> Kit:
    folder.mkdir(parents=True)
    text = [
        f"typedef {REALS[scalar]} peer_real;",
        f"#define PEER_IN {records.shape[1]}",
        f"#define PEER_OUT {out}",
        *more,
    ]
    text += [f"{prototype};" for prototype in PROTOTYPES.values()]
    (folder / "peer.h").write_text("\n".join(["#ifndef PEER_H", "#define PEER_H", *text, "#endif", ""]))
    (folder / "empty.c").write_text(f'#include "peer.h"\n{PROTOTYPES["peer"]} {{ (void)in; (void)out; }}\n')
    return Kit(
        bench.system,
        what,
        source,
        scalar,
        Form.STRAIGHT,
        folder,
        write_functions(folder, REALS[scalar], calls, PROTOTYPES),
        PEERS / "driver.c",
        folder / "empty.c",
        ("peer",),
        records.astype(KINDS[scalar]),
        check,
    )

"""Controllers to test with, each designed once a session, and their C on this machine."""

from __future__ import annotations

import ctypes
import functools
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import stepmap as sm
from stepmap import systems
from stepmap.steps.rotations.maps import Rotation
from stepmap_codegen import Controller, Form, IntegerMachine, Noise, Options, Plant, Role, Scalar, Settings, design
from stepmap_codegen.emit.c_text import field_order
from stepmap_codegen.model.integers import Ints
from stepmap_codegen.precision.ensemble import Ensemble
from stepmap_codegen.stream.settings import Quantity, Stream
from tests import problems

CORE = Path(__file__).parents[2] / "firmware" / "core"
STRICT = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
TRAP = [  # what integers and arrays can do wrong: checks of pointers to fields take gcc as long again, and never fail
    "-O1",  # straight-line code: -O2 takes twice as long
    "-fsanitize=signed-integer-overflow,shift,bounds,integer-divide-by-zero,float-cast-overflow,unreachable",
    "-fsanitize-undefined-trap-on-error",
]


@functools.cache
def suspended_mass(options: Options | None = None) -> tuple[Controller, sm.Trajectory]:
    """The figure of eight at 30 Hz."""
    problem = problems.figure_eight(300)
    solution = sm.optimize(problem).require()
    step = problem.step
    assert isinstance(step, sm.VariationalStep)
    process = np.diag([1e-3] * 4 + [2e-3] * 2 + [2e-2] * 2) ** 2
    plant = Plant(step, Noise(process, np.full(4, 1e-4), process), solution.gains, Settings())
    return design(plant, solution.trajectory, options), solution.trajectory


STRING = Noise(  # of examples/suspended_mass.toml
    np.diag([2e-4, 2e-4, 1e-3, 1e-3, 2e-4, 2e-4, 5e-2, 5e-2]) ** 2,
    np.array([1.8e-3, 1.8e-3, 1.2e-3, 2.2e-3]) ** 2,
    np.diag([0.03, 0.03, 0.005, 0.005, 0.01, 0.01, 0.05, 0.05]) ** 2,
)


@cache
def on_a_string(name: str) -> tuple[Controller, sm.Trajectory]:
    """The figure of eight with the noise of the job: of ``suspended_mass``, a wire, or ``suspended_mass_string``."""
    problem = problems.figure_eight(300)
    solution = sm.optimize(problem).require()  # a taut string is a wire
    step = sm.discretize(systems.get(name), problem.step.dt, forces="left")
    plant = Plant(step, STRING, solution.gains, Settings(gate=5.0))
    return design(plant, solution.trajectory), solution.trajectory


@cache
def holding(
    name: str, ticks: int = 60, newton: int = 2, rotation: Rotation = "exp", **arguments: Any
) -> tuple[Controller, sm.Trajectory]:
    """A system of the catalog, held where it hangs: the least that has everything a controller has."""
    system = systems.get(name, **arguments)
    step = sm.discretize(system, 0.02, rotation=rotation)
    pose = {"theta1": -0.6, "theta2": 0.9, "x": 0.3, "L": 1.0} if name.startswith("planar_arm") else None
    x, u = step.equilibrium(pose)
    trajectory = sm.Trajectory(0.02 * np.arange(ticks + 1), np.tile(x, (ticks + 1, 1)), np.tile(u, (ticks, 1)))
    gains = np.zeros((ticks, 0, step.ndx))
    if step.nu:
        gains = sm.lqr(step, trajectory, np.eye(step.ndx), np.eye(step.nu), np.eye(step.ndx))
    process = np.diag(np.full(step.ndx, 1e-3)) ** 2
    noise = Noise(process, np.full(len(system.sensor_channels), 1e-4), process)
    plant = Plant(step, noise, gains, Settings(newton))
    return design(plant, trajectory, Options(ensemble=Ensemble(runs=16, outlier=0.05))), trajectory


@cache
def streaming(scalar: Scalar = Scalar.FIXED32) -> tuple[Controller, sm.Trajectory]:
    """A cart that is sent where to be, in a fifth of a second without set-points it stays."""
    made, path = holding("cart_pendulum")
    place = [c.name for c in made.plant.step.system.coordinates].index("x")
    stream = Stream((Quantity("x", "m", place, -0.4, 0.5, 0.5, 2.0),), 0.2)
    plant = replace(made.plant, stream=stream)
    return design(plant, path, Options(scalar=scalar, ensemble=Ensemble(runs=16, outlier=0.05))), path


def rewritten(made: Controller, scalar: Scalar, form: Form = Form.STRAIGHT) -> Controller:
    """The same program written with another scalar or in another form; its ranges need not be measured again."""
    if scalar is Scalar.FIXED32:
        return replace(made, output=replace(made.output, form=form))
    output = replace(made.output, scalar=scalar, signals=[], test=replace(made.output.test, checksum=None))
    return replace(made, formats=None, output=output)


def library(made: Controller, folder: Path, flags: list[str] | None = None) -> ctypes.CDLL:
    """The generated C, compiled for this machine with undefined behaviour trapped."""
    for name, content in made.files().items():
        (folder / name).write_bytes(content)
    sources = [
        str(folder / "controller.c"),
        *(str(CORE / f"{name}.c") for name in ("sm_fixed", "sm_rows", "sm_schedule")),
    ]
    built = folder / "controller.so"
    command = ["gcc", *STRICT, *(TRAP if flags is None else flags), "-shared", "-fPIC", f"-I{CORE}", f"-I{folder}"]
    subprocess.run([*command, "-o", str(built), *sources, "-lm"], check=True)
    return ctypes.CDLL(str(built))


def random_fields(made: Controller, scale: float, runs: int, seed: int) -> Ints:
    """Fields within ``scale`` times their ranges, in their formats; beyond the format they saturate."""
    assert made.formats is not None
    rng = np.random.default_rng(seed)
    top = 2.0 ** (made.formats.word - 1) - 1
    sizes = np.minimum(scale * made.ranges.sizes * 2.0 ** np.array(made.formats.fields, dtype=float), top)
    made_up: Ints = np.rint(rng.uniform(-1, 1, (len(sizes), runs)) * sizes[:, None]).astype(np.int64)
    return made_up


def compare(made: Controller, loaded: ctypes.CDLL, fields: Ints) -> None:
    """One tick from each column of fields, in the model and in C: values, gates and saturations must be equal."""
    program, formats = made.program, made.formats
    assert formats is not None
    model = IntegerMachine(program, formats, fields)
    held = [model.run(block) for block in range(len(program.blocks))]
    order = field_order(program)
    memory = np.zeros(len(order) + 1, dtype=np.int32)
    address = memory.ctypes.data_as(ctypes.c_void_p)
    assert loaded.sm_self_test(address) == 0
    functions = [getattr(loaded, f"sm_{block.name}") for block in program.blocks]
    for run in range(fields.shape[1]):
        memory[:-1], memory[-1] = fields[order, run], 0
        done = ""  # the chain of which a block was taken
        for number, block in enumerate(program.blocks):
            if block.chain and block.chain == done:
                assert not held[number][run], (block.name, run)
                continue
            taken = functions[number](address)
            done = block.chain if block.chain and (block.guard is None or taken) else done
            assert block.guard is None or taken == held[number][run], (block.name, run)
        np.testing.assert_array_equal(memory[:-1], model.fields[order, run])
        assert memory[-1] == model.saturations[run]


def outside(made: Controller) -> list[int]:
    """Fields that come from outside at every tick."""
    return [*made.program.of(Role.MEASUREMENT), *made.program.of(Role.SCHEDULE)]

"""A tube of simulated closed-loop runs: how large every field and every line of a program becomes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.steps.protocol import Trajectory
from stepmap_codegen.lower import Plant
from stepmap_codegen.machine import FloatMachine
from stepmap_codegen.program import Program, Role


@dataclass(frozen=True)
class Tube:
    """What the runs see besides the nominal motion."""

    runs: int = 32
    seed: int = 1
    jump: float = 0.3  # standard deviation of measurement jumps, in the channel's unit
    jump_rate: float = 0.01  # part of the measurements that jump


@dataclass(frozen=True)
class Recording:
    """What went into the controller, tick by tick, and the controller after the last one."""

    start: Array  # (fields, runs)
    measurements: Array  # (ticks, channels, runs)
    schedule: Array  # (ticks, entries)
    machine: FloatMachine


def simulate(program: Program, plant: Plant, trajectory: Trajectory, tube: Tube) -> Recording:
    """Closed-loop runs of the program in float64: disturbed starts, noise and jumps; the plant is the map itself."""
    step, rng = plant.step, np.random.default_rng(tube.seed)
    x = np.tile(trajectory.x[0], (tube.runs, 1))
    start = first_fields(program, plant, x + rng.standard_normal(x.shape) * np.sqrt(np.diagonal(plant.noise.start)))
    machine = FloatMachine(program, start)
    noise = np.sqrt(plant.noise.measurement)
    schedule = schedule_rows(program, plant, trajectory)
    measured = []
    for row in schedule:
        z = step.system.readings(x[:, : step.nd + step.nk]) + noise * rng.standard_normal((tube.runs, len(noise)))
        jumps = rng.random((tube.runs, 1)) < tube.jump_rate
        z = z + jumps * tube.jump * rng.standard_normal(z.shape)
        measured.append(z.T)
        machine.load(program.of(Role.MEASUREMENT), z.T)
        machine.load(program.of(Role.SCHEDULE), np.tile(row[:, None], (1, tube.runs)))
        for block in range(len(program.blocks)):
            machine.run(block)
        inputs = machine.fields[program.of(Role.COMMAND)].T
        x = np.array([step.step(state, u).x for state, u in zip(x, inputs, strict=True)])
    return Recording(start, np.array(measured), schedule, machine)


def first_fields(program: Program, plant: Plant, x: Array) -> Array:
    """Fields of controllers that start with estimates x (runs, nx) and the starting covariance."""
    fields = np.zeros((len(program.fields), len(x)))
    fields[program.of(Role.STATE)] = x.T
    for i in program.of(Role.COVARIANCE):
        row, column = (int(part) for part in program.fields[i].name.split("_")[1:])
        fields[i] = plant.noise.start[row, column]
    return fields


def schedule_rows(program: Program, plant: Plant, trajectory: Trajectory) -> Array:
    """Reference states, reference inputs and gains of every tick, in the order of the schedule's fields."""
    names = [program.fields[i].name for i in program.of(Role.SCHEDULE)]
    places = [tuple(int(part) for part in name.split("_")[1:]) for name in names if name.startswith("K_")]
    gains = np.array([[K[i, j] for i, j in places] for K in plant.gains])
    return np.concatenate([trajectory.x[:-1], trajectory.u, gains], axis=1)

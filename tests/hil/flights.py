"""Runs without a board or a line: the bit-exact reference model of the controller moves the simulated plant."""

from __future__ import annotations

import numpy as np

from stepmap.jobs import Job
from stepmap_codegen import Controller
from stepmap_codegen.reference_loop import ReferenceLoop
from stepmap_hil.plant.mechanism import Plant, PlantErrors
from stepmap_hil.runs.log import Row, Run
from stepmap_hil.wire import dialect
from stepmap_hil.wire.raw_values import SignalCodec


def fly(job: Job, controller: Controller, ticks: int, errors: PlantErrors, *, feedback: bool = True) -> Run:
    """A run of some ticks, with measurements as noisy as the job says; without ``feedback`` commands are the plan's."""
    codec, loop = SignalCodec.parse(controller.description()), ReferenceLoop(controller)
    plant, rng = Plant(job, controller.axes, errors), np.random.default_rng(1)
    running, period = dialect.value("STEPMAP_STATE_RUNNING"), controller.program.period
    step, plan = controller.plant.step, controller.schedule.values()
    assert job.noise is not None
    run = Run(job.name, "native", "lockstep")
    for tick in range(ticks):
        truth = plant.readings()
        z = truth + job.noise.measurement * rng.standard_normal(len(truth))
        raw, everything = tuple(codec.encode("measurement", z)), (1 << len(z)) - 1
        estimate, command, taken = loop.step(everything, raw, follow=True, running=True)
        run.rows.append(
            Row(
                time=tick * period,
                tick=tick,
                state=running,
                reason=0,
                running=True,
                measured=True,
                valid=everything,
                taken=taken,
                z=list(z),
                words=list(raw),
                estimate=estimate,
                command=command,
                coordinates=list(plant.coordinates),
                truth=list(truth),
                latency_ms=0.0,
                jitter_ms=0.0,
                saturations=0,
                gated=0,
                faults=0,
                sequence=tick,
                stamp_us=0,
            )
        )
        u = codec.decode("command", command) if feedback else plan[tick, step.nx : step.nx + step.nu]
        efforts = [round(value * axis.effort_per_unit) for value, axis in zip(u, controller.axes, strict=True)]
        plant.advance(efforts, True, period)
    return run

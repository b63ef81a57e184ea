"""/sigma and /innovation of a recording: how sure the board's filter was, which telemetry does not say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import StepmapError
from stepmap_codegen import Controller
from stepmap_hil.runs.filter_replay import replay_filter
from stepmap_hil.runs.log import Run
from stepmap_hil.runs.mcap import Recorder


def write_confidence(recorder: Recorder, controller: Controller, run: Run) -> None:
    """σ of the estimate by name in SI units, and innovations in σ by channel, from the filter run once more.

    Without a filter's program that can be run again nothing is written.
    """
    step = controller.plant.step
    channels = [name for name, _ in step.system.sensor_channels]
    try:
        found = replay_filter(controller, run)
    except StepmapError:
        return
    for k, row in enumerate(run.rows):
        for topic, names, values in (
            ("/sigma", step.layout.tangent_names, found.sigma[k]),
            ("/innovation", channels, found.innovation[k]),
        ):
            told = _finite(names, values)
            if told:
                recorder.write(topic, row.time, **told)


def _finite(names: Sequence[str], values: Array) -> dict[str, float]:
    """JSON has no number for what a filter does not keep."""
    return {name: float(value) for name, value in zip(names, values, strict=True) if np.isfinite(value)}

"""A measurement on its way: what the sensor gives, what is known of it, what faults leave of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from stepmap_hil.faults.injector import Injector
from stepmap_hil.faults.spec import Fault
from stepmap_hil.plant.mechanism import Plant
from stepmap_hil.sensors.measurement import Measurement


class Still:
    """A plant that does not move."""

    coordinates = np.array([1.0, 2.0, 3.0])
    motors: tuple[Any, ...] = ()
    contact = (0, 0.0)  # no foot

    def readings(self) -> np.ndarray:
        return np.array([0.5, -0.5])


PLANT = cast(Plant, Still())


def test_a_sample_has_seen_nothing_yet() -> None:
    made = Measurement.sample(PLANT, 2.0, arrived=7.0, jitter_ms=0.1)
    assert (made.time, made.due, made.arrived, made.jitter_ms, made.valid) == (2.0, 2.0, 7.0, 0.1, 0)
    assert made.raw == (0, 0)
    assert np.array_equal(made.truth, [0.5, -0.5])
    assert made.coordinates is not Still.coordinates  # the plant moves on


def test_a_sensor_adds_values_and_what_is_known_stays() -> None:
    sample = Measurement.sample(PLANT, 2.0, arrived=7.0)
    made = sample.seen(Measurement(np.array([0.6, -0.4]), 0b01))
    assert (made.z.tolist(), made.valid) == ([0.6, -0.4], 0b01)
    assert (made.time, made.arrived) == (2.0, 7.0)
    assert made.truth is sample.truth


def injector(*faults: Fault) -> Injector:
    made = Injector(faults, ("a", "b"), 0, cast(Any, SimpleNamespace(rules=[])))
    made.begin(0.0, PLANT)
    return made


@pytest.mark.parametrize(
    ("fault", "z", "valid", "due"),
    [
        (Fault("jump", count=1, value=0.25, channels=("b",)), [0.5, -0.25], 0b11, 2.0),
        (Fault("occluded", count=1, channels=("a",)), [0.5, -0.5], 0b10, 2.0),
        (Fault("delayed", count=1, value=0.25), [0.5, -0.5], 0b11, 2.25),
    ],
)
def test_each_fault_changes_its_part_once(fault: Fault, z: list[float], valid: int, due: float) -> None:
    whole, faults = replace(Measurement.sample(PLANT, 2.0), valid=0b11), injector(fault)
    made = faults.apply(whole)
    assert (made.z.tolist(), made.valid, made.due) == (z, valid, due)
    assert whole.z.tolist() == [0.5, -0.5]
    again = faults.apply(whole)
    assert (again.z.tolist(), again.valid, again.due) == ([0.5, -0.5], 0b11, 2.0)
    assert faults.happened == [True]

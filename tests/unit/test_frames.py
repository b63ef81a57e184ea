"""Frames: where a chain of every kind of joint puts things, against products of 4x4 matrices."""

from __future__ import annotations

import numpy as np

import stepmap as sm
from tests.trees import KINDS, motion, rigid

FIXED = rigid((0.3, -0.2, 0.9), (0.1, 0.2, -0.3))


def test_positions_are_products_of_homogeneous_matrices() -> None:
    b = sm.Builder("chain")
    frame = b.world
    for kind in KINDS:
        frame = getattr(frame, kind)(b.coordinate(kind), name=f"moved_{kind}").fixed(FIXED, name=f"after_{kind}")
        frame = getattr(frame, kind)(0.4, name=f"constant_{kind}").translate(0.1, -0.2, 0.3, name=f"shifted_{kind}")
    b.mass(frame, 1.0, inertia=(1, 1, 1))
    system = b.build()
    q = np.random.default_rng(1).uniform(-2, 2, len(KINDS))
    where = dict(zip(system.frame_names, system.positions(q), strict=True))
    pose = np.eye(4)
    for kind, amount in zip(KINDS, q, strict=True):
        for name, move in (
            ("moved", motion(kind, amount)),
            ("after", FIXED),
            ("constant", motion(kind, 0.4)),
            ("shifted", rigid((0, 0, 0), (0.1, -0.2, 0.3))),
        ):
            pose = pose @ move
            np.testing.assert_allclose(where[f"{name}_{kind}"], pose[:3, 3], rtol=0, atol=1e-14)


def test_world_is_the_first_frame_and_stays_at_the_origin() -> None:
    system = sm.systems.get("pendulum")
    assert system.frame_names[0] == "world"
    np.testing.assert_array_equal(system.positions([0.7])[0], 0.0)


def test_a_transform_may_be_any_4x4_of_numbers() -> None:
    for given in (FIXED, FIXED.tolist(), tuple(map(tuple, FIXED))):
        b = sm.Builder("fixed")
        b.mass(b.world.tx(b.coordinate("x")), 1.0)
        b.world.fixed(given, name="there")
        assert dict(zip(b.build().frame_names, b.build().positions([0.0]), strict=True))["there"].tolist() == [
            0.1,
            0.2,
            -0.3,
        ]

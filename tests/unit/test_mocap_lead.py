"""The way to a dancer's first pose: limbs keep their lengths where the dancer looks elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from stepmap.mocap.lead import Lead

UP = np.array([0.0, 0.0, 1.0])
FIRST = np.array([[0.0, 0.0, 1.0], [0.3, 0.0, 1.2], [-0.3, 0.1, 1.2], [0.1, -0.2, 0.4]])
PARTS = np.linspace(0.0, 1.0, 9)


@pytest.mark.parametrize("degrees", [90.0, 180.0 - 1e-6, -120.0])
def test_limbs_keep_their_lengths_on_the_way_to_a_dancer_who_looks_elsewhere(degrees: float) -> None:
    last = Rotation.from_rotvec(np.radians(degrees) * UP).apply(FIRST) + np.array([0.1, 0.2, -0.05])
    lead = Lead.between(FIRST, last, UP)
    assert np.degrees(lead.angle) == pytest.approx(degrees)
    places = lead.to(last, PARTS)
    np.testing.assert_allclose(places[[0, -1]], [FIRST, last], atol=1e-12)
    lengths = np.linalg.norm(places - places[:, :1], axis=2)
    np.testing.assert_allclose(lengths, np.broadcast_to(lengths[0], lengths.shape), atol=1e-12)


def test_small_turns_are_led_along_straight_lines() -> None:
    last = Rotation.from_rotvec(0.2 * UP).apply(FIRST)
    lead = Lead.between(FIRST, last, UP)
    assert lead.angle == 0.0
    np.testing.assert_allclose(lead.to(last, PARTS), FIRST + PARTS[:, None, None] * (last - FIRST), atol=1e-12)

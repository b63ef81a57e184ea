"""Sensors: channels, units and readings."""

from __future__ import annotations

import numpy as np

import stepmap as sm


def test_markers_and_encoders_read_in_the_order_they_were_added() -> None:
    b = sm.Builder("arm")
    theta = b.coordinate("theta", unit="rad")
    x = b.coordinate("x", unit="m", kinematic=True)
    tip = b.world.tx(x).rz(theta).tx(2.0, name="tip")
    b.mass(tip, 1.0)
    b.marker(tip, axes="yx")
    b.encoder(theta)
    b.marker(tip, name="camera")
    b.encoder(x, name="rail")
    system = b.build()
    assert system.sensor_channels == (
        ("tip.y", "m"),
        ("tip.x", "m"),
        ("theta", "rad"),
        ("camera.x", "m"),
        ("camera.y", "m"),
        ("camera.z", "m"),
        ("rail", "m"),
    )
    px, py = 0.3 + 2.0 * np.cos(0.7), 2.0 * np.sin(0.7)
    np.testing.assert_allclose(system.readings([0.7, 0.3]), [py, px, 0.7, px, py, 0.0, 0.3], rtol=1e-15)


def test_a_system_without_sensors_reads_nothing() -> None:
    b = sm.Builder("blind")
    b.mass(b.world.tx(b.coordinate("x")), 1.0)
    assert b.build().readings([[0.0], [1.0]]).shape == (2, 0)

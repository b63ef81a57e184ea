"""A pendulum on a cart pushed by a force (Murphey & Johnson, Fig. 4a)."""

from __future__ import annotations

from stepmap.mechanics import Builder, System

EXAMPLE = {"theta": 2.5}


def cart_pendulum(
    cart_mass: float = 10.0,
    mass: float = 1.0,
    length: float = 1.0,
    gravity: float = 9.8,
    damping: float = 0.01,
) -> System:
    """Cart at x, point mass on a massless rod below it at theta = 0; the force acts on the cart."""
    b = Builder("cart_pendulum")
    cart_m = b.parameter("cart_mass", cart_mass, unit="kg")
    m = b.parameter("mass", mass, unit="kg")
    rod = b.parameter("length", length, unit="m")
    g = b.parameter("gravity", gravity, unit="m/s²")
    c = b.parameter("damping", damping, unit="N s/m, N m s")
    x = b.coordinate("x", unit="m", low=-2.0, high=2.0)
    theta = b.coordinate("theta", unit="rad", low=-7.0, high=7.0)
    force = b.input("force", unit="N", low=-200.0, high=200.0)
    cart = b.world.tx(x, name="cart")
    bob = cart.rz(theta, name="pivot").ty(-rod, name="bob")
    b.mass(cart, cart_m)
    b.mass(bob, m)
    b.gravity((0, -g, 0))
    b.damping(x, c)
    b.damping(theta, c)
    b.drive(x, force)
    b.encoder(x)
    b.encoder(theta)
    return b.build()

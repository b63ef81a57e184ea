"""Carriages that robots pull by springs: more states, channels, commands and encoders than short messages carry."""

import stepmap as sm

EXAMPLE = {"r0": 0.1}


def many(pairs: int = 9, mass: float = 0.3) -> sm.System:
    """One carriage per robot, all of them measured."""
    b = sm.Builder("many")
    m = b.parameter("mass", mass, unit="kg")
    loads = [b.coordinate(f"x{k}", unit="m", low=-1, high=1) for k in range(int(pairs))]
    robots = [b.coordinate(f"r{k}", unit="m", kinematic=True, low=-1, high=1) for k in range(int(pairs))]
    for k, (load, robot) in enumerate(zip(loads, robots, strict=True)):
        b.mass(b.world.ty(0.1 * k).tx(load, name=f"load{k}"), m)
        b.coordinate_spring([(load, 1.0), (robot, -1.0)], stiffness=20.0)
        b.damping(load, 0.4)
    for moved in (*loads, *robots):
        b.encoder(moved)
    return b.build()

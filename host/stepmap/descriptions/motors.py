"""Motors and tendons of a description, as forces of the builder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepmap.descriptions.model import Model, Motor, Tendon

if TYPE_CHECKING:
    from stepmap.descriptions.assemble import Assembly


def add_tendon(made: Assembly, tendon: Tendon) -> None:
    """Its length, spring and damper; what has no counterpart is told."""
    if tendon.joints:
        _add_joint_sum(made, tendon)
        return
    b, path = made.builder, [made.point(point) for point in tendon.path]
    low, high = tendon.rest
    straight = len(path) == 2
    if tendon.stiffness:
        if straight and low == high:
            b.spring(path[0], path[1], stiffness=tendon.stiffness, length=low)
        elif low <= 0 < high:
            b.tendon(path, length=high, stiffness=tendon.stiffness, name=f"{tendon.name}.spring")
        else:
            made.left_out.append(f"spring of tendon {tendon.name!r}: it pushes, too, and tendons here only pull")
    if tendon.damping:
        if straight:
            b.damper(path[0], path[1], tendon.damping)
        else:
            made.left_out.append(f"damping of tendon {tendon.name!r}")
    if tendon.longest is not None:
        if straight:
            b.string(path[0], path[1], tendon.longest, name=tendon.name)
        else:
            b.tendon(path, length=tendon.longest, name=tendon.name)


def _add_joint_sum(made: Assembly, tendon: Tendon) -> None:
    """Forces of a tendon whose length is Σ c q."""
    low, high = tendon.rest
    if tendon.stiffness and low != high:
        made.left_out.append(f"spring of tendon {tendon.name!r}: it is slack between two lengths")
    elif tendon.stiffness:
        pairs = [(made.coordinates[joint], weight) for joint, weight in tendon.joints]
        made.builder.coordinate_spring(pairs, stiffness=tendon.stiffness, rest=low)
    if tendon.damping:
        _, speed = _joint_sum(made, tendon)
        for joint, weight in tendon.joints:
            made.builder.drive(made.coordinates[joint], -weight * tendon.damping * speed)


def _joint_sum(made: Assembly, tendon: Tendon) -> tuple[Any, Any]:
    length: Any = 0.0
    speed: Any = 0.0
    for joint, weight in tendon.joints:
        coordinate = made.coordinates[joint]
        length, speed = length + weight * coordinate.symbol, speed + weight * coordinate.rate
    return length, speed


def add_motor(made: Assembly, motor: Motor, model: Model) -> None:
    """Its input, and the force on a joint or along a tendon."""
    b = made.builder
    tendon = next((t for t in model.tendons if t.name == motor.tendon), None)
    kinds = {joint.name: joint.kind for body in model.bodies for joint in body.joints}
    unit = "" if motor.gain != 1.0 else ("N m" if kinds.get(motor.joint or "") in ("hinge", "ball") else "N")
    if tendon is not None and tendon.path:
        if any(motor.bias[1:]):
            made.left_out.append(f"feedback of motor {motor.name!r} along its tendon")
            return
        source = b.input(motor.name, unit=unit, low=motor.low, high=motor.high)
        pull = -motor.gear[0] * (motor.gain * source.symbol + motor.bias[0])
        b.tendon([made.point(point) for point in tendon.path], tension=pull, name=f"{motor.name}.pull")
        return
    source = b.input(motor.name, unit=unit, low=motor.low, high=motor.high)
    plain = motor.gain == 1.0 and not any(motor.bias)
    given = source if plain else motor.gain * source.symbol + motor.bias[0]
    if motor.joint in made.balls:
        b.drive(made.balls[motor.joint], tuple(gear * (source.symbol if plain else given) for gear in motor.gear))
        return
    if tendon is not None:
        length, speed = (motor.gear[0] * e for e in _joint_sum(made, tendon))
        shares = [(joint, motor.gear[0] * weight) for joint, weight in tendon.joints]
    else:
        coordinate = made.coordinates[motor.joint or ""]
        length, speed = motor.gear[0] * coordinate.symbol, motor.gear[0] * coordinate.rate
        shares = [(coordinate.name, motor.gear[0])]
    for joint, gear in shares:
        if plain and gear == 1.0:
            b.drive(made.coordinates[joint], source)
        else:
            force = (source.symbol if plain else given) + motor.bias[1] * length + motor.bias[2] * speed
            b.drive(made.coordinates[joint], gear * force)

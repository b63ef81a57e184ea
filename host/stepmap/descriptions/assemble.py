"""From a description's model to a System."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from stepmap.arrays import Array
from stepmap.descriptions.model import LARGEST, Body, Inertia, Joint, Loop, Model, Point, located
from stepmap.descriptions.motors import add_motor, add_tendon
from stepmap.errors import ModelError
from stepmap.mechanics import Builder, System
from stepmap.mechanics.frames import Frame
from stepmap.mechanics.quantity import Ball, Coordinate

ROUNDED = 0.01  # part by which moments from a table may be rounded; above it they are told


@dataclass
class Assembly:
    """The builder, and what has been made of the model so far."""

    builder: Builder
    frames: dict[str | None, Frame] = field(default_factory=dict)
    coordinates: dict[str, Coordinate] = field(default_factory=dict)
    balls: dict[str, Frame] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def point(self, point: Point) -> Frame:
        """A frame at a point of a body, with the body's axes."""
        frame = self.frames[point.body]
        return frame.translate(*point.place) if any(point.place) else frame


def assemble(model: Model) -> System:
    """The system of a model; raises ModelError, with the file, where it cannot move."""
    if not any(body.joints for body in model.bodies):
        raise ModelError(
            f"{model.file}: has no joint that moves",
            hint="If the body moves as a whole: floating=True, or floating = true in [system] of a job.",
        )
    _require_mass(model)
    made = _assembled(model)
    loops = tuple(replace(loop, axes=_moving_axes(made, loop)) for loop in model.loops)
    return made if loops == model.loops else _assembled(replace(model, loops=loops))


def _assembled(model: Model) -> System:
    builder = Builder(model.name or "robot")
    made = Assembly(builder, {None: builder.world}, left_out=list(model.left_out))
    try:
        builder.gravity(model.gravity)
        for body in model.bodies:
            _add_body(made, body)
        for loop in model.loops:
            _add_loop(made, loop)
        for f in model.followers:
            follower, leader = made.coordinates[f.joint], made.coordinates[f.leader]
            offset, ratio, *higher = f.coefficients
            builder.couple(follower, leader, ratio=ratio, offset=offset, higher=higher, rest=f.rest, name=f.name)
        for tendon in model.tendons:
            add_tendon(made, tendon)
        for motor in model.motors:
            add_motor(made, motor, model)
        for coordinate in made.coordinates.values():
            builder.encoder(coordinate)
        builder.left_out = made.left_out
        return builder.build()
    except ModelError as error:
        raise ModelError(f"{model.file}: {error}", cause=error.cause, hint=error.hint) from error


# bodies ---------------------------------------------------------------------------------------------------------


def _add_body(made: Assembly, body: Body) -> None:
    frame, ahead = made.frames[body.parent], transform(body.rotation, body.position)
    for number, joint in enumerate(body.joints, start=1):
        name = body.name if number == len(body.joints) else None
        move = _add_axis if joint.kind in ("hinge", "slide") else _add_ball
        frame, ahead = move(made, frame, joint, ahead, name)
        _add_forces(made, joint)
    is_world = body.parent is None and body.name == "world" and np.array_equal(ahead, np.eye(4))
    made.frames[body.name] = frame if is_world or frame.name == body.name else frame.fixed(ahead, name=body.name)
    if body.inertia is not None and not body.inertia.is_none:
        _add_mass(made, body, body.inertia)


def _add_ball(made: Assembly, frame: Frame, joint: Joint, ahead: Array, name: str | None) -> tuple[Frame, Array]:
    """The frame that turns, or moves freely, and what leads from it back to the body's frame."""
    if joint.kind == "free":
        start = (*(float(e) for e in ahead[:3, 3]), *quaternion(ahead[:3, :3]))
        frame = made.balls[joint.name] = frame.free(joint.name, name=name or f"{joint.name}.joint", start=start)
        return frame, np.eye(4)
    at = transform(np.eye(3), joint.anchor)
    label = name if name is not None and not any(joint.anchor) else f"{joint.name}.joint"
    frame = made.balls[joint.name] = _placed(frame, ahead @ at).ball(joint.name, name=label)
    return frame, inverse(at)


def _add_axis(made: Assembly, frame: Frame, joint: Joint, ahead: Array, name: str | None) -> tuple[Frame, Array]:
    """The same of a hinge or slide."""
    coordinate = made.builder.coordinate(
        joint.name, unit="rad" if joint.kind == "hinge" else "m", low=joint.low, high=joint.high, start=joint.start
    )
    made.coordinates[joint.name] = coordinate
    letter, turned = principal(joint.axis)
    at = transform(turned, joint.anchor)
    frame = _placed(frame, ahead @ at)
    move = ("r" if joint.kind == "hinge" else "t") + letter
    if joint.reference:
        return getattr(getattr(frame, move)(-joint.reference), move)(coordinate), inverse(at)
    return getattr(frame, move)(coordinate, name=name if np.array_equal(at, np.eye(4)) else None), inverse(at)


def _placed(frame: Frame, by: Array) -> Frame:
    return frame if np.array_equal(by, np.eye(4)) else frame.fixed(by)


def _add_forces(made: Assembly, joint: Joint) -> None:
    b = made.builder
    if joint.kind in ("ball", "free"):
        moved = made.balls[joint.name]
        ball = moved.motion.coordinate if moved.motion is not None else None
        place = ball.place if isinstance(ball, Ball) else ()
        parts: tuple[Frame | Coordinate, ...] = (moved, *place)
        for each in parts:
            if joint.damping:
                b.damping(each, joint.damping)
            if joint.rotor:
                b.rotor(each, joint.rotor)
        return
    coordinate = made.coordinates[joint.name]
    if joint.damping:
        b.damping(coordinate, joint.damping)
    if joint.rotor:
        b.rotor(coordinate, joint.rotor)
    if joint.stiffness:
        b.coordinate_spring(coordinate, stiffness=joint.stiffness, rest=joint.rest)


def _add_mass(made: Assembly, body: Body, inertia: Inertia) -> None:
    frame, matrix = made.frames[body.name], np.array(inertia.matrix)
    where = f"link {body.name!r}" + (f" ({body.where})" if body.where else "")
    if max(abs(inertia.mass), np.abs(matrix).max()) > LARGEST:
        raise ModelError(
            f"{where}: mass and moments of inertia are up to {LARGEST:g} kg and kg m²", hint="Correct its <inertial>."
        )
    low, middle, high = np.linalg.eigvalsh(matrix)
    if inertia.mass < 0 or low < -1e-12 * max(1.0, abs(high)):
        raise ModelError(
            f"{where}: mass {inertia.mass:g} kg and principal moments {low:.4g}, {middle:.4g}, {high:.4g} kg m² belong "
            "to no body; none may be negative",
            hint="Correct its <inertial>.",
        )
    off = high / (low + middle) - 1 if low + middle > 0 else math.inf
    if off > ROUNDED and middle > 1e-9 * high and high > 1e-12:
        made.left_out.append(
            f"nothing, but in doubt: {where}: no body has the principal moments {low:.4g}, {middle:.4g} and {high:.4g} "
            "kg m², as one exceeds the sum of the others; they are taken as they are"
        )
    at = frame.translate(*inertia.center) if any(inertia.center) else frame
    made.builder.mass(at, inertia.mass, (matrix + matrix.T) / 2, rounded=max(ROUNDED, 2 * off))


def _require_mass(model: Model) -> None:
    """Raises ModelError for a joint behind which nothing has mass or inertia."""
    heavy = {b.name: b.inertia is not None and not b.inertia.is_none for b in model.bodies}
    for body in reversed(model.bodies):  # children before parents
        if heavy[body.name] and body.parent is not None:
            heavy[body.parent] = True
    for body in model.bodies:
        still = [joint for joint in body.joints if not joint.rotor]
        if still and not heavy[body.name]:
            raise ModelError(
                f"{located(model.file, still[0].where)}: joint {still[0].name!r} moves nothing with mass or inertia",
                hint=f"Give {body.name!r}, or a link it carries, an inertia, or make the joint fixed.",
            )


# loops ----------------------------------------------------------------------------------------------------------


def _add_loop(made: Assembly, loop: Loop) -> None:
    b = made.builder
    first, second = made.point(loop.a), made.point(loop.b)
    if loop.axes:
        b.point_to_point(first, second, axes=loop.axes, name=loop.name)
    if loop.rotation is None:
        return
    # Turns: two points of the second body stay in planes of the first one.
    turned = first.fixed(transform(loop.rotation, (0.0, 0.0, 0.0)))
    along, aside = second.tx(1.0), second.ty(1.0)
    for point, normal, label in ((along, (0, 1, 0), "z"), (along, (0, 0, 1), "y"), (aside, (0, 0, 1), "x")):
        b.point_on_plane(turned, point, normal=normal, name=f"{loop.name}.r{label}")


def _moving_axes(system: System, loop: Loop) -> str:
    """The axes of the world along which a loop can open at all; of a planar one there are two.

    A row that nothing moves holds or not whatever happens, and the solver has no force for it.
    """
    rng = np.random.default_rng(0)
    start = system.configuration({})
    poses = np.array([system.tangent.retract(start, rng.uniform(-1.0, 1.0, system.tangent.nv)) for _ in range(4)])
    slopes, gaps = np.abs(system.residuals_slope(poses)), np.abs(system.gaps(poses))
    largest = slopes.max()
    rows = {axis: system.constraint_names.index(f"{loop.name}.{axis}") for axis in loop.axes}
    return "".join(a for a, row in rows.items() if slopes[:, row].max() > 1e-9 * largest or gaps[:, row].max() > 1e-6)


# geometry -------------------------------------------------------------------------------------------------------


def transform(rotation: Sequence[Sequence[float]] | Array, position: Sequence[float] | Array) -> Array:
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = rotation, position
    return out


def inverse(motion: Array) -> Array:
    turned = motion[:3, :3].T
    return transform(turned, -turned @ motion[:3, 3])


def principal(axis: Iterable[float]) -> tuple[str, Array]:
    """The letter of a joint's axis after a turn, and that turn; none where the axis is x, y or z already."""
    n = np.array(list(axis))
    n = n / np.linalg.norm(n)
    for i, letter in enumerate("xyz"):
        if abs(n[i]) == 1.0:
            flipped = np.diag([1.0, -1.0, -1.0]) if i != 0 else np.diag([-1.0, -1.0, 1.0])
            return letter, np.eye(3) if n[i] > 0 else flipped
    aside = np.eye(3)[int(np.argmin(np.abs(n)))]
    x = np.cross(aside, n)
    x /= np.linalg.norm(x)
    return "z", np.column_stack([x, np.cross(n, x), n])


def quaternion(rotation: Array) -> tuple[float, float, float, float]:
    """(w, x, y, z) of a rotation matrix."""
    from scipy.spatial.transform import Rotation

    x, y, z, w = (float(e) for e in Rotation.from_matrix(rotation).as_quat())
    return w, x, y, z

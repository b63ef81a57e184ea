"""A mechanism in three dimensions: the plant, its estimate as a ghost, the reference, and what a depth camera sees.

Drawn from the same skeleton as the pictures of ``stepmap.plots``, so every system can be shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import viser

from stepmap.arrays import Array
from stepmap.mechanics.frames import Frame
from stepmap.mechanics.gravity import upward
from stepmap.mechanics.quantity import Coordinate
from stepmap.mechanics.system import System
from stepmap.wireframe import view
from stepmap.wireframe.skeleton import Skeleton, skeleton

Color = tuple[int, int, int]
Solid = viser.IcosphereHandle | viser.BoxHandle | viser.CylinderHandle | viser.LineSegmentsHandle

FIELD = np.radians(40.0)  # of view
POINTS = 4000  # at most of a depth camera
BALL = 0.024  # radius of the heaviest mass in sizes of the scene: points of a depth camera lie around it
TRAIL = 300  # positions
WIRE = 0.0022  # radius of rods of the estimate in sizes of the scene
TRAILS = 3  # at most, of the heaviest


@dataclass(frozen=True)
class Look:
    """How a pose is drawn."""

    color: Color
    line: Color
    wire: bool
    swell: float  # of balls and boxes


PLANT = Look((0, 114, 178), (112, 122, 136), False, 1.0)
GHOST = Look((230, 120, 0), (230, 120, 0), True, 1.3)
REFERENCE: Color = (0, 158, 115)
RAIL: Color = (150, 156, 165)
GRID: Color = (140, 148, 160)
DEPTH: Color = (170, 90, 200)
TRAIL_COLORS = np.array([(64, 160, 220), (240, 180, 40), (214, 40, 30)], dtype=float)  # of no, half and full error
LAYERS: dict[str, tuple[Color, bool]] = {
    "plant": (PLANT.color, True),
    "estimate": (GHOST.color, True),
    "reference": (REFERENCE, True),
    "trail": ((64, 160, 220), True),
    "depth points": (DEPTH, False),
}
"""What can be switched on and off, with its colour and whether it is on at first."""


@dataclass(frozen=True)
class Framing:
    """What the camera has to show, for a window of any shape: a box along its own axes, seen from ``toward``."""

    middle: Array
    toward: Array
    right: Array
    top: Array
    half: Array  # [m] to the right, up, and toward the camera

    def document(self) -> dict[str, Any]:
        """For the page, which knows the shape of its window."""
        return {**{name: [float(v) for v in value] for name, value in vars(self).items()}, "field": float(FIELD)}


class Scene:
    """``path``: positions of all frames along the reference, (N, frame, 3), or at the start alone, (1, frame, 3).

    The camera shows all of it, and ``besides``, (M, frame, 3).
    """

    def __init__(self, server: viser.ViserServer, system: System, path: Array, besides: Array) -> None:
        self.api, self.system, self.shape = server.scene, system, skeleton(system)
        shown = np.concatenate([path, besides])[:, self.shape.visible]
        low, high = shown.min(axis=(0, 1)), shown.max(axis=(0, 1))
        self.size = max(float(np.linalg.norm(high - low)), 1e-3)
        self.framing = _look(server, system, shown, (low + high) / 2, self.size)
        _floor(server.scene, upward(system), low, high, self.size)
        _rails(server.scene, system, self.shape, self.size)
        self._layers = {
            name: self.api.add_frame(f"/{name}", show_axes=False, visible=on) for name, (_, on) in LAYERS.items()
        }
        self.plant = Body(server.scene, "plant", self.shape, self.size, PLANT)
        self.ghost = Body(server.scene, "estimate", self.shape, self.size, GHOST)
        self.balls = [index for index, _ in self.shape.masses] or _tips(self.shape)
        width = 0.003 * self.size
        if len(path) > 1:
            self.api.add_line_segments("/reference/path", _chains(path[:, self.balls]), REFERENCE, thickness=width)
        cross = 0.08 * self.size * np.array([[-e, e] for e in np.eye(3)])
        self.crosses = [
            self.api.add_line_segments(f"/reference/{k}", cross, REFERENCE, thickness=2 * width, visible=False)
            for k in range(len(self.balls))
        ]
        heaviest = sorted(self.shape.masses, key=lambda ball: -ball[1])[:TRAILS]
        self._trailed = [index for index, _ in heaviest] or self.balls
        self._trail: list[tuple[Array, float]] = []
        self._trail_line = self.api.add_line_segments(
            "/trail/line", np.zeros((1, 2, 3)), PLANT.color, thickness=2.4 * width
        )
        self._cloud: viser.PointCloudHandle | None = None

    def show_layer(self, name: str, shown: bool) -> None:
        """Switches one of `LAYERS`."""
        self._layers[name].visible = shown

    def move(self, plant: Array | None, estimate: Array | None, reference: Array | None) -> None:
        """Positions of all frames (frame, 3); None hides."""
        self.plant.move(plant)
        self.ghost.move(estimate)
        for index, cross in zip(self.balls, self.crosses, strict=True):
            _place(cross, None if reference is None else reference[index])

    def extend_trail(self, passed: Array, errors: Array, full: float) -> None:
        """Positions of all frames that the plant has passed since, (N, frame, 3), with the errors that colour them."""
        self._trail = [*self._trail, *zip(passed[:, self._trailed], errors, strict=True)][-TRAIL:]
        self._draw_trail(full)

    def replace_trail(self, passed: Array, errors: Array, full: float) -> None:
        """The same from its beginning."""
        self._trail = []
        self.extend_trail(passed, errors, full)

    def _draw_trail(self, full: float) -> None:
        if len(self._trail) > 1:
            part = np.clip(np.nan_to_num([error / full for _, error in self._trail]), 0.0, 1.0)
            at = np.linspace(0.0, 1.0, len(TRAIL_COLORS))
            colors = np.stack([np.interp(part, at, channel) for channel in TRAIL_COLORS.T], axis=-1)
            each = np.repeat(linear(colors)[:, None], len(self._trailed), axis=1)
            self._trail_line.points = _chains(np.array([place for place, _ in self._trail]))
            self._trail_line.colors = _chains(each).astype(np.uint8)

    def draw_points(self, points: Array | None) -> None:
        """What a depth camera sees, (N, 3)."""
        few = np.zeros((0, 3), dtype=np.float32)
        if points is not None and len(points):
            few = np.asarray(points, dtype=np.float32)[:: -(-len(points) // POINTS)]
            few = few[np.isfinite(few).all(axis=1)]
        if not len(few):
            if self._cloud is not None:
                self._cloud.visible = False
        elif self._cloud is None:
            size = 0.003 * self.size  # two pixels
            self._cloud = self.api.add_point_cloud(
                "/depth points/cloud", few, DEPTH, point_size=size, precision="float32", point_shape="circle"
            )
        else:
            self._cloud.points = few
            self._cloud.visible = True


class Body:
    """Links, strings, springs, masses, carts and pivots of one pose.

    All are solids that are moved and turned: the page does that in one frame, while points of lines come frames later.
    """

    def __init__(self, api: viser.SceneApi, name: str, shape: Skeleton, size: float, look: Look) -> None:
        color, wire = look.line, look.wire
        self.pairs = np.array([*shape.links, *shape.strings, *shape.springs], dtype=int).reshape(-1, 2)
        widths = np.array([0.006] * len(shape.links) + [0.0025] * len(shape.strings) + [0.004] * len(shape.springs))
        widths = np.minimum(widths, WIRE) if wire else widths
        self.rods = [
            api.add_cylinder(f"/{name}/rod{k}", w * size, 1.0, color, radial_segments=12, visible=False)
            for k, w in enumerate(widths)
        ]
        self.lengths = np.ones(len(self.rods))
        self.solids: list[tuple[Solid, int]] = []
        heaviest = max((mass for _, mass in shape.masses), default=1.0)
        for index, mass in shape.masses:
            if index not in shape.carts:
                radius = BALL * size * look.swell * max(float(np.cbrt(mass / heaviest)), 0.3)
                fine = 1 if wire else 3
                ball = api.add_icosphere(
                    f"/{name}/mass{index}", radius, look.color, wireframe=wire, subdivisions=fine, visible=False
                )
                self.solids.append((ball, index))
        for index in shape.carts:
            side = 0.055 * size * look.swell
            box = api.add_box(f"/{name}/cart{index}", color, (side, side, side), wireframe=wire, visible=False)
            self.solids.append((box, index))
        for index in () if wire else shape.pivots:
            pin = api.add_icosphere(f"/{name}/pivot{index}", 0.015 * size, color, visible=False)
            self.solids.append((pin, index))

    def move(self, positions: Array | None) -> None:
        for solid, index in self.solids:
            _place(solid, None if positions is None else positions[index])
        if positions is None:
            for rod in self.rods:
                _place(rod, None)
            return
        ends = positions[self.pairs]  # rod, end, axis
        along = ends[:, 1] - ends[:, 0]
        lengths = np.linalg.norm(along, axis=1)
        for k, (rod, middle, turn) in enumerate(zip(self.rods, ends.mean(axis=1), turns(along), strict=True)):
            _place(rod, middle)
            rod.wxyz = turn
            if abs(lengths[k] - self.lengths[k]) > 0.002 * self.lengths[k]:
                self.lengths[k] = lengths[k]
                rod.scale = (1.0, 1.0, max(float(lengths[k]), 1e-6))


def linear(colors: Array) -> Array:
    """Colours of a screen (0 to 255) as viser wants those of single points: in proportion to light (IEC 61966-2-1)."""
    part = colors / 255.0
    light = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    return np.round(255.0 * light)


def turns(along: Array) -> Array:
    """Unit quaternions (n, 4) that turn z into directions (n, 3)."""
    unit = along / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-12)
    q = np.stack([1 + unit[:, 2], -unit[:, 1], unit[:, 0], np.zeros(len(unit))], axis=1)
    q[q[:, 0] < 1e-9] = (0.0, 1.0, 0.0, 0.0)  # upside down: about any horizontal axis
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    return q


def _place(part: Solid, position: Array | None) -> None:
    if position is not None:
        part.position = position
    _show(part, position is not None)


def _show(part: Solid, visible: bool) -> None:
    if part.visible != visible:
        part.visible = visible


def _tips(shape: Skeleton) -> list[int]:
    """Ends of links that no other link begins at."""
    begun = {a for a, _ in shape.links}
    return [b for _, b in shape.links if b not in begun]


def _chains(positions: Array) -> Array:
    """Segments (n, 2, 3) of the paths of several points, (N, point, 3)."""
    pairs = np.stack([positions[:-1], positions[1:]], axis=2)
    return pairs.reshape(-1, 2, 3).astype(np.float32)


def _look(server: viser.ViserServer, system: System, shown: Array, middle: Array, size: float) -> Framing:
    """A camera in front of the mechanism, a little to the side and above."""
    seen = view.choose(system, shown)
    away = 0.72 * size / np.tan(FIELD / 2)
    server.scene.configure_environment_map(None)  # takes seconds to prepare without a graphics processor
    server.scene.add_light_ambient("/light", intensity=2.5)
    server.scene.set_up_direction(tuple(upward(system)))
    camera = server.initial_camera
    camera.position = middle + away * (seen.toward + 0.25 * seen.right + 0.12 * seen.top)
    camera.look_at = middle
    camera.fov = FIELD
    axes = np.stack([seen.right, seen.top, seen.toward])
    half = np.abs((shown.reshape(-1, 3) - middle) @ axes.T).max(axis=0) + 0.04 * size
    return Framing(middle, seen.toward, seen.right, seen.top, half)


def _floor(api: viser.SceneApi, up: Array, low: Array, high: Array, size: float) -> None:
    axis = int(np.argmax(np.abs(up)))
    planes: tuple[Literal["yz", "xz", "xy"], ...] = ("yz", "xz", "xy")
    position = (low + high) / 2
    position[axis] = low[axis] - 0.12 * size if up[axis] > 0 else high[axis] + 0.12 * size
    cell = 10.0 ** np.floor(np.log10(size / 2))
    api.add_grid(
        "/floor",
        3 * size,
        3 * size,
        plane=planes[axis],
        cell_size=cell,
        section_size=5 * cell,
        cell_color=GRID,
        section_color=GRID,
        cell_thickness=0.4,
        section_thickness=0.8,
        position=position,
    )


def _rails(api: viser.SceneApi, system: System, shape: Skeleton, size: float) -> None:
    """Lines along which carts with one axis slide, as far as their coordinates go."""
    ends = [pair for index in shape.carts if (pair := _rail(system, system.frames[index])) is not None]
    if ends:
        api.add_line_segments("/rails", np.array(ends, dtype=np.float32), RAIL, thickness=0.012 * size)


def _rail(system: System, frame: Frame) -> Array | None:
    slides = []
    at: Frame | None = frame
    while at is not None:
        if at.motion is not None and at.motion.coordinate is not None:
            slides.append(at.motion.coordinate)
        at = at.parent
    only = slides[0] if len(slides) == 1 else None
    if not isinstance(only, Coordinate) or only.low is None or only.high is None:
        return None
    ends = [system.configuration({only.name: end}) for end in (only.low, only.high)]
    return system.positions(np.array(ends))[:, frame.index]

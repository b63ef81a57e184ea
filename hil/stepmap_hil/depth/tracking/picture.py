"""A depth frame with what the tracker found drawn over it."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from stepmap.arrays import Array
from stepmap.plots.style import blank, styled
from stepmap_hil.depth.camera import Camera
from stepmap_hil.depth.scene import Scene
from stepmap_hil.depth.tracking.tracker import Reading

BALL, ROBOT, NOTHING = "#D6006C", "#D55E00", "#2b2f36"
AROUND = 36  # pixels on each side of the ball in the close-up


def draw(frame: Array, reading: Reading, camera: Camera, scene: Scene) -> Figure:
    """The frame as depth, dark where there is no data, beside a close-up of the ball if it was found."""
    with styled():
        figure = blank(9.2, 4.4)
        found = bool(np.isfinite(reading.ball).all())
        whole, *close = figure.subplots(1, 2 if found else 1, squeeze=False, width_ratios=(1.5, 1.0)[: 1 + found])[0]
        depth = np.ma.masked_invalid(camera.depth(frame))
        image = _show(whole, depth, reading, camera, scene)
        whole.set_title("Depth frame, and what was found in it")
        figure.colorbar(image, ax=whole, label="depth [m]", location="bottom", shrink=0.6, aspect=40)
        if found:
            u, v, z = camera.pixels(camera.to_camera(reading.ball))
            near = _show(close[0], depth, reading, camera, scene)
            near.set_clim(z - 1.3 * scene.radius, z + scene.radius)
            reach = max(AROUND, 1.5 * camera.fx * scene.radius / z)
            close[0].set_xlim(u - reach, u + reach)
            close[0].set_ylim(v + reach, v - reach)
            sigma = 1e3 * np.sqrt(reading.variance)
            places = [f"{n} = {reading.z[i]:.3f} m ± {sigma[i]:.1f} mm" for i, n in enumerate("xy")]
            close[0].set_title("The ball")
            close[0].set_xlabel("\n".join(places))
        return figure


def _show(axes: Axes, depth: Array, reading: Reading, camera: Camera, scene: Scene) -> AxesImage:
    image = axes.imshow(depth, cmap="viridis_r", interpolation="nearest")
    axes.set_facecolor(NOTHING)
    axes.grid(visible=False)
    axes.set_xticks([])
    axes.set_yticks([])
    lines = [(_ring(reading.ball, camera, scene.radius), BALL), (_face(reading.robot, scene), ROBOT)]
    lines.append((np.array([reading.robot, reading.ball]), BALL))
    for points, color in lines:
        if np.isfinite(points).all():
            u, v, _ = camera.pixels(camera.to_camera(points)).T
            axes.plot(u, v, color=color, linewidth=1.4 if len(points) > 2 else 0.7, scalex=False, scaley=False)
    return image


def _ring(ball: Array, camera: Camera, radius: float) -> Array:
    """The outline of the ball, seen from the camera."""
    turn = np.linspace(0, 2 * np.pi, 60)[:, None]
    return np.asarray(ball + radius * (np.cos(turn) * camera.turn[:, 0] + np.sin(turn) * camera.turn[:, 1]))


def _face(robot: Array, scene: Scene) -> Array:
    """The corners of the robot's face."""
    width, height, _ = scene.box
    corners = np.array([(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0), (-1, -1, 0)]) / 2
    return np.asarray(robot + scene.face + corners * (width, height, 0.0))

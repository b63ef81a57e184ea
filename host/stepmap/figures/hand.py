"""Murphey & Johnson, Fig. 5: a tendon hand holds a ball; here the ball is pushed, and no tendon is asked to push."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stepmap import systems
from stepmap.arrays import Array
from stepmap.errors import ConvergenceError
from stepmap.figures.published import Progress, Published
from stepmap.optimal.controllability import Controllability, controllability
from stepmap.optimal.grasps import Grip, GripForces, Held, co_contract, grip_forces
from stepmap.optimal.lqr import regulate
from stepmap.steps import Trajectory, VariationalStep, discretize

DT, STEPS = 0.005, 200
PUSH = 0.1  # m/s of the ball, along x
FRICTION, PLANNED = 0.8, 0.5  # of rubber on a ball, and what the grasp is planned with
LEAST = 3.0  # N that every tendon pulls with at rest
LOST = 0.1  # m from its place: the ball has left the hand
ASSUMPTIONS = (
    "the paper prints neither masses nor sizes: links of 90 mm and 70 mm, 80 g and 50 g; "
    "a ball of 200 g, 45 mm in radius",
    "fifteen tendons over via-points, five per finger; fingertips stick to the ball, nine constraint forces",
    f"friction {FRICTION}, the grasp at rest planned with {PLANNED}; every tendon pulls with at least "
    f"{LEAST:g} N there",
    "gains of an infinite-horizon regulator at 200 Hz with full state: Q = 100 for coordinates, 1000 for momenta, "
    "R = 0.01",
    "push: ball and fingers at t = 0 move as the contacts let them, the ball's centre with 0.1 m/s along x",
)


@dataclass(frozen=True, eq=False)
class Answer:
    """The hand at rest, what it can reach, and what follows a push: under feedback, and with constant tensions."""

    step: VariationalStep
    held: Held
    reach: Controllability
    closed: Trajectory
    open: Array  # places of the ball (times, 3), until it has left the hand
    grips: GripForces

    @property
    def moved(self) -> Array:
        """Distance of the ball from its place [m], under feedback."""
        out: Array = np.linalg.norm(self.closed.x[:, :3] - self.held.x[:3], axis=1)
        return out


def contacts(friction: float) -> list[Grip]:
    """The three contacts with a coefficient of friction."""
    return [Grip(f"grip{i}", "ball", friction) for i in (1, 2, 3)]


def answer(least: float = LEAST) -> Answer:
    """What the hand does when the ball is pushed, with tendons that pull with ``least`` at rest."""
    step = discretize(systems.get("tendon_hand"), DT)
    held = co_contract(step, {}, low=least, grips=contacts(PLANNED))
    parts = step.layout.tangent_slices
    weights = np.zeros(step.ndx)
    weights[parts["q"]], weights[parts["p"]] = 100.0, 1000.0
    law = regulate(step, held.x, held.u, np.diag(weights), 0.01 * np.eye(step.nu))
    pushed = np.array(held.x)  # with the momenta of its rest, so that contacts carry what they carried
    pushed[step.layout["p"]] += step.from_velocity(held.x[: step.nd], pushed_velocity(step, held.x), instant=True)[
        step.layout["p"]
    ]
    t = DT * np.arange(STEPS + 1)
    wanted = Trajectory(t, np.tile(held.x, (STEPS + 1, 1)), np.tile(held.u, (STEPS, 1)))
    closed = step.follow(pushed, wanted, np.tile(law.K, (STEPS, 1, 1)))
    reach = controllability(step, held.x, held.u)
    return Answer(step, held, reach, closed, _left(step, pushed, held), grip_forces(step, closed, contacts(FRICTION)))


def pushed_velocity(step: VariationalStep, x: Array) -> dict[str, float]:
    """Velocities that the constraints allow, the ball's PUSH along x without a turn."""
    D = step.system.residuals_slope(step.layout.pose(x))
    ball = np.array([PUSH, 0.0, 0.0, 0.0, 0.0, 0.0])
    fingers = np.linalg.solve(D[:, 6:], -D[:, :6] @ ball)
    names = [c.name for c in step.system.coordinates]
    return dict(zip(names, np.concatenate([ball, fingers]).tolist(), strict=True))


def _left(step: VariationalStep, x: Array, held: Held) -> Array:
    """Places of the ball with constant tensions."""
    places = [x[:3]]
    try:
        while len(places) <= STEPS and np.linalg.norm(places[-1] - held.x[:3]) < LOST:
            x = step.step(x, held.u).x
            places.append(x[:3])
    except ConvergenceError:
        pass  # a finger is stretched: the ball is about to leave
    return np.array(places)


def make(progress: Progress) -> Published:
    """The figure."""
    progress(0.1, "compiling the hand")
    lax = answer(0.0)
    progress(0.5, "pushing")
    found = answer()
    progress(0.9, "drawing")
    u, used = found.closed.u, found.grips
    open_end = float(np.linalg.norm(found.open[-1] - found.held.x[:3]))
    values = found.reach.singular_values
    return Published(
        title="A hand of fifteen tendons holds a ball",
        source="Murphey & Johnson, Fig. 5",
        caption="The hand, with its tendons in blue, and its answer to a push of the ball: the ball's way, tensions "
        "of all tendons, and the part of their friction cones that the contact forces use.",
        figure=_draw(found),
        rows=_rows(found),
        key_figures=[
            ("reachable", f"{found.reach}, rank {found.reach.rank} of {found.reach.dimension}"),
            ("singular values", f"{values.min():.2g} to {values.max():.2g}"),
            (
                "ball under feedback",
                f"{1e3 * found.moved.max():.2g} mm at most, {1e3 * found.moved[-1]:.1g} mm after 1 s",
            ),
            ("ball with constant tensions", f"{1e3 * open_end:.0f} mm after {DT * (len(found.open) - 1):.2f} s"),
            ("tensions", f"{u.min():.2f} N to {u.max():.1f} N"),
            ("the same without co-contraction", f"feedback asks for {lax.closed.u.min():.2f} N"),
            ("contact forces", f"{used.normal.min():.2f} N to {used.normal.max():.2f} N along the normals"),
            ("of the friction cones", f"{used.used.max():.0%} used at most, at friction {FRICTION}"),
        ],
        assumptions=ASSUMPTIONS,
    )


def _rows(found: Answer) -> list[dict[str, Any]]:
    names = found.step.input_names
    return [
        {
            "t": float(found.closed.t[k]),
            "moved_mm": 1e3 * float(found.moved[k]),
            **{name: float(value) for name, value in zip(names, found.closed.u[k], strict=True)},
            **{f"normal{i + 1}": float(found.grips.normal[k, i]) for i in range(3)},
            **{f"used{i + 1}": float(found.grips.used[k, i]) for i in range(3)},
        }
        for k in range(found.closed.steps)
    ]


def _draw(found: Answer) -> Any:
    from stepmap.plots.style import COLORS, FAINT, INK, blank, styled

    t = 1e3 * found.closed.t[:-1]
    with styled():
        figure = blank(9.4, 5.2)
        halves: Any = figure.subfigures(1, 2, width_ratios=(1.1, 1))
        _draw_hand(halves[0], found)
        rows = halves[1].subplots(3, 1, sharex=True)
        rows[0].plot(1e3 * found.closed.t, 1e3 * found.moved, color=COLORS[0], label="feedback")
        off = 1e3 * np.linalg.norm(found.open - found.held.x[:3], axis=1)
        rows[0].plot(1e3 * DT * np.arange(len(off)), off, color=COLORS[1], linestyle="--", label="constant tensions")
        rows[0].set_ylim(0, 3 * 1e3 * float(found.moved.max()))
        rows[0].set_ylabel("ball moved [mm]")
        rows[0].legend(loc="upper right")
        rows[1].plot(t, found.closed.u, color=COLORS[0], linewidth=0.8)
        rows[1].axhline(0, color=INK, linewidth=0.8)
        rows[1].set_ylabel("tensions [N]")
        rows[2].plot(t, found.grips.used, color=COLORS[2])
        rows[2].axhline(1, color=FAINT, linestyle="--", linewidth=0.9)
        rows[2].set_ylim(0, 1.1)
        rows[2].set_ylabel("of the friction cone")
        rows[2].set_xlabel("time after the push [ms]")
        rows[2].set_xlim(0, 400)
    return figure


def _draw_hand(figure: Any, found: Answer) -> None:
    from stepmap.plots import space
    from stepmap.plots.style import COLORS, INK
    from stepmap.systems.limbs.tendon_hand import TENDONS

    system = found.step.system
    at = dict(zip(system.frame_names, system.positions(found.step.layout.pose(found.held.x)), strict=True))
    radius = float(system.parameter_values[[p.name for p in system.parameters].index("radius")])
    lines = [np.array([at[f"{name}{i}"] for name in ("palm", "knuckle", "tip")]) for i in (1, 2, 3)]
    points = np.concatenate([*lines, at["ball"] + radius * np.array([[1.0, 1, 1], [-1, -1, -1]])])
    axes: Any = space.add_axes(figure, 111, points, np.array([0.0, 0.0, 1.0]))
    a, b = np.meshgrid(np.linspace(0, 2 * np.pi, 37), np.linspace(0, np.pi, 19))
    ball = [np.cos(a) * np.sin(b), np.sin(a) * np.sin(b), np.cos(b)]
    axes.plot_surface(
        *(c + radius * part for c, part in zip(at["ball"], ball, strict=True)), color=COLORS[5], alpha=0.35
    )
    palm = np.array([at[f"palm{i}"] for i in (1, 2, 3, 1)])
    axes.plot(*palm.T, color=INK, linewidth=1.2)
    for i, line in enumerate(lines, start=1):
        axes.plot(*line.T, "o-", color=INK, linewidth=2.6, markersize=4, markerfacecolor="white")
        for name, guides in TENDONS.items():
            path = np.array([at[f"{name}{i}_{j}"] for j in range(len(guides))])
            axes.plot(*path.T, color=COLORS[0], linewidth=1.0)

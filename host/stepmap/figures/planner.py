"""Johnson & Murphey, Fig. 4: an expansive-space tree takes a marionette's arm from pose to pose around an obstacle."""

from __future__ import annotations

from stepmap import systems
from stepmap.figures.published import Progress, Published
from stepmap.geometry import Sphere
from stepmap.optimal.planner import PlannedMotion, plan
from stepmap.steps import discretize

DT, SEED = 0.02, 1
GOAL = {"yaw": 0.9, "pitch": -0.1, "elbow": -1.7}
LINKS = [("upper", "elbow_joint"), ("elbow_joint", "hand")]
RADIUS, BALL = 0.03, Sphere((0.24, 0.11, -0.3), 0.06)
ASSUMPTIONS = (
    "arm: 0.3 kg on 0.3 m, 0.2 kg on 0.25 m, damping 0.02 N m s, shoulder of three angles; the paper gives no numbers",
    "the string is a wire whose tension has to stay above 0: what holds for it then holds for a string",
    "extensions of 10 steps of 0.02 s with speeds that are drawn at random, up to 0.6 m/s; nodes near the goal are "
    "preferred with the fourth power of their distance",
    "goal: yaw 0.9, pitch −0.1, elbow −1.7 rad, each to 0.1 rad; links are capsules of 30 mm, and a ball of 60 mm "
    "is on the way",
)


def make(progress: Progress) -> Published:
    """The figure."""
    from stepmap.plots.tree import Grown, ends, tree

    found = motion(progress)
    progress(0.9, "drawing")
    step, smooth = found.task.step, found.plan.trajectory
    pose = step.layout.pose
    drawn = Grown(step, found.nodes, found.trajectory, smooth, ends(step.system, LINKS), (BALL,))
    names = [c.name for c in step.system.coordinates]
    assert smooth.multipliers is not None  # the map has a constraint
    return Published(
        title="A planned motion of a marionette's arm",
        source="Johnson & Murphey, Fig. 4",
        caption="Dots: places of the hand at the tree's nodes. Lines: the path in the tree, and the smoothed motion.",
        figure=tree(drawn),
        rows=[
            {"t": float(t), **dict(zip(names, map(float, q), strict=True))}
            for t, q in zip(smooth.t, pose(smooth.x), strict=True)
        ],
        key_figures=[
            ("tree", f"{found.tree.count} nodes of {found.extensions} extensions, seed {found.seed}"),
            ("distance from the goal", f"{float(found.task.distances(smooth.x[-1])):.3f} rad"),
            ("least distance from the ball", f"{1e3 * found.room:.1f} mm"),
            ("tension of the string", f"{smooth.multipliers.min():.2f} N to {smooth.multipliers.max():.2f} N"),
        ],
        assumptions=ASSUMPTIONS,
    )


def motion(progress: Progress) -> PlannedMotion:
    """The plan."""
    step = discretize(systems.get("puppet_arm"), DT)

    def told(nodes: int, distance: float, extensions: int) -> None:
        progress(min(0.8, nodes / 2000), f"{nodes} nodes, {distance:.3g} rad from the goal")

    start, _ = step.equilibrium({})
    found = plan(step, start, GOAL, links=LINKS, radius=RADIUS, obstacles=[BALL], rate=0.6, seed=SEED, progress=told)
    return found.require()

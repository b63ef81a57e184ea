"""Kobilarov et al., Fig. 2: a helicopter's path through a canyon."""

from __future__ import annotations

from stepmap.figures.canyon._canyon import ASSUMPTIONS, flight
from stepmap.figures.published import Progress, Published


def make(progress: Progress) -> Published:
    """The figure."""
    from stepmap.plots import motion
    from stepmap.simulation import Simulation

    found = flight(progress)
    simulation = Simulation(found.solution.step, found.solution.trajectory)
    names = ("x", "y", "z", "qw", "qx", "qy", "qz")
    return Published(
        title="A helicopter flies through a canyon",
        source="Kobilarov et al., Fig. 2",
        caption="The helicopter at thirteen times, with the path of its centre of mass.",
        figure=motion(simulation, [found.rock]),
        rows=[
            {"t": float(t), **dict(zip(names, map(float, pose), strict=True))}
            for t, pose in zip(found.t, found.poses, strict=True)
        ],
        key_figures=found.key_figures,
        assumptions=ASSUMPTIONS,
    )

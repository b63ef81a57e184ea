"""Writes tests/data/sample_model: headers as the generator makes them, for compiling the runtime in tools/check_c.sh.

    python tools/sample_model.py        after a change of the generator or of what the runtime expects of it

One folder a runtime unit and variant: ``full`` has every kind of size, ``free`` has neither constraints nor kinematic
coordinates nor forces, ``relaxed`` has a gap, ``balls`` turn freely; ``_curvature`` adds second derivatives.
"""

from __future__ import annotations

import math
from pathlib import Path

import casadi as ca

import stepmap as sm
from stepmap.estimate.runs import CompiledFilter
from stepmap.graph.library import Order, Recipe, write_sources
from stepmap.optimal.direct.nlp.block import Block
from stepmap.optimal.terms.squares import Squares
from stepmap.steps.events.step import EventStep
from stepmap.steps.kernels.compiled import CompiledKernel
from stepmap.steps.relaxed import RelaxedStep

FOLDER = Path(__file__).parents[1] / "tests" / "data" / "sample_model"


def full(*, slack: bool = False) -> sm.System:
    """A driven pendulum under a trolley on a wire or string: L depends on one kinematic coordinate, h on another."""
    b = sm.Builder("full")
    length, trolley = (b.coordinate(name, kinematic=True, start=1.0) for name in ("length", "trolley"))
    theta, height = b.coordinate("theta"), b.coordinate("height")
    bob = b.world.tx(trolley).rz(theta).ty(height, name="bob")
    b.mass(bob, 1.0, inertia=(0, 0, 1.0))
    b.damping(theta, 0.1)
    b.drive(theta, b.input("torque"))
    (b.string if slack else b.distance)(bob, b.world, length)
    return b.build()


def gaps() -> sm.System:
    """The same on a string, above a floor it sticks to and beside a wall."""
    b = sm.Builder("gaps")
    length, trolley = (b.coordinate(name, kinematic=True, start=1.0) for name in ("length", "trolley"))
    theta, height = b.coordinate("theta"), b.coordinate("height")
    bob = b.world.tx(trolley).rz(theta).ty(height, name="bob")
    b.mass(bob, 1.0, inertia=(0, 0, 1.0))
    b.drive(theta, b.input("torque"))
    b.point_on_plane(b.world, bob, normal=(0, 0, 1))
    b.string(bob, b.world, length)
    b.contact(bob, b.world.ty(-2.0).rx(-math.pi / 2), friction=math.inf)
    b.contact(bob, b.world.tx(-2.0).ry(math.pi / 2), restitution=0.5)
    return b.build()


def balls() -> sm.System:
    """A free body on a wire of a kinematic length, with a ball on it."""
    b = sm.Builder("balls")
    length = b.coordinate("length", kinematic=True, start=1.0)
    body = b.world.free("body")
    b.mass(body, 1.0, inertia=(1.0, 1.0, 1.0))
    arm = body.tz(0.5).ball("arm")
    b.mass(arm, 1.0, inertia=(1.0, 1.0, 1.0))
    b.drive(arm, [b.input(f"torque_{axis}") for axis in "xyz"])
    b.distance(arm, b.world, length)
    return b.build()


def tumbling() -> sm.System:
    """A free body on a string of a kinematic length, above a floor it sticks to, with a ball on it."""
    b = sm.Builder("tumbling")
    length = b.coordinate("length", kinematic=True, start=1.0)
    body = b.world.free("body")
    b.mass(body, 1.0, inertia=(1.0, 1.0, 1.0))
    arm = body.tz(0.5).ball("arm")
    b.mass(arm, 1.0, inertia=(1.0, 1.0, 1.0))
    b.drive(arm, [b.input(f"torque_{axis}") for axis in "xyz"])
    b.string(arm, b.world, length)
    b.contact(body, b.world.tz(-2.0), friction=math.inf)
    b.contact(arm.tx(0.1), b.world.tz(-1.5), restitution=0.5)
    return b.build()


def headers() -> dict[str, str]:
    """Text of every header by its path."""
    out = {}
    for name, system in (("full", full()), ("free", sm.systems.get("pendulum_chain", n=1))):
        for step in (sm.VariationalStep(system, 0.1), sm.EulerStep(system, 0.1)):
            recipe = recipe_of(step)
            own = [("_extended", Order.EXTENDED)] if isinstance(step, sm.VariationalStep) else []  # others need none
            for suffix, order in (("", Order.FIRST), ("_curvature", Order.SECOND), *own):
                path = f"{Path(recipe.runtime).stem}/{name}{suffix}/model.h"
                out[path] = write_sources(recipe, order)["model.h"]
            if recipe.many is not None:
                path = f"{Path(recipe.many.runtime).stem}/{name}/model.h"
                out[path] = write_sources(recipe.many, Order.FIRST)["model.h"]
    for name in ("suspended_mass", "pendulum"):  # with a constraint, and without
        filtered = CompiledFilter.of(sm.VariationalStep(sm.systems.get(name), 0.1))
        assert filtered is not None, "needs a C compiler"
        out[f"filter_lanes/{name}/model.h"] = write_sources(filtered.recipe, Order.FIRST)["model.h"]
    for name, system in (("balls", balls()), ("ball", sm.systems.get("satellite"))):
        recipe = recipe_of(sm.VariationalStep(system, 0.1))
        for suffix, order in (("", Order.FIRST), ("_curvature", Order.SECOND)):
            out[f"midpoint/{name}{suffix}/model.h"] = write_sources(recipe, order)["model.h"]
    events, relaxed = recipe_of(EventStep(gaps(), 0.1)), recipe_of(RelaxedStep(full(slack=True), 0.1))
    for suffix, order in (("", Order.FIRST), ("_curvature", Order.SECOND)):
        out[f"events/full{suffix}/model.h"] = write_sources(events, order)["model.h"]
        out[f"implicit/relaxed{suffix}/model.h"] = write_sources(relaxed, order)["model.h"]
    out["events/balls/model.h"] = write_sources(recipe_of(EventStep(tumbling(), 0.1)), Order.FIRST)["model.h"]
    step = sm.VariationalStep(full(), 0.1)
    term = sm.Expression(["theta*torque + distance0*t", "sin(height)"]).on(step)
    assert isinstance(term, Squares)
    for suffix, order in (("", Order.FIRST), ("_curvature", Order.SECOND)):
        out[f"pointwise/full{suffix}/model.h"] = write_sources(term.residual.recipe, order)["model.h"]
    y, c = ca.SX.sym("y", 2), ca.SX.sym("c", 1)
    blocks = {
        "full": Block(y, c, y[0] * y[1] - c, ca.sin(y[0])),
        "cost": Block(y, c, ca.SX(0, 1), y[0] ** 2),
        "linear": Block(y, c, y[0] - y[1]),
    }
    for name, block in blocks.items():
        out[f"externals/{name}/model.h"] = write_sources(block.recipe, Order.SECOND)["model.h"]
    return out


def recipe_of(step: sm.VariationalStep | sm.EulerStep) -> Recipe:
    kernel = step.kernel
    assert isinstance(kernel, CompiledKernel), "needs a C compiler"
    return kernel.recipe


def main() -> None:
    for path, text in headers().items():
        target = FOLDER / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

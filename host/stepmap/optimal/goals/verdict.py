"""Will it work? What a plan's numbers say before a board runs it, each with what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.mechanics.constraints import Distance, Row
from stepmap.optimal.events.kinks import at_node
from stepmap.optimal.goals.room import LITTLE, LITTLE_OF_MASSES, WRONG, room, room_of_masses
from stepmap.optimal.goals.singular import nearly_singular
from stepmap.optimal.goals.standing import standing
from stepmap.optimal.plan import Plan, held_input
from stepmap.steps.limits import InputBounds
from stepmap.steps.variational import VariationalStep

FAR = 0.05  # of the way from the start to the task: an end farther off has not reached it
AWAY = 1e-3  # m or rad from an equilibrium, above which an end is none
ROUNDED = 1e-9  # by which a coordinate may be beyond its range
REST = "Set rest = true in [end]."
SLOWER = "Weigh q less or p more, or go slower: a string cannot push."


@dataclass(frozen=True)
class Finding:
    """One answer: what was looked at, what was found, whether it is well, and what to do if it is not."""

    name: str
    text: str
    ok: bool = True
    remedy: str = ""


@dataclass(frozen=True)
class Verdict:
    """What a plan's numbers promise. ``ok`` where nothing speaks against it."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return all(finding.ok for finding in self.findings)

    def rows(self) -> list[tuple[str, str]]:
        """(name, text), the remedy after the text, as tables print them."""
        return [(f.name, f.text if f.ok or not f.remedy else f"{f.text}. {f.remedy}") for f in self.findings]

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Verdict:
        """The verdict of what ``data`` returned; raises KeyError, TypeError or ValueError where it is none."""
        findings = [Finding(one["name"], one["text"], one["ok"], one["remedy"]) for one in data["findings"]]
        for one in findings:
            if not (isinstance(one.ok, bool) and all(isinstance(t, str) for t in (one.name, one.text, one.remedy))):
                raise TypeError(f"a finding is three texts and ok, got {one}")
        return cls(tuple(findings))

    def data(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"ok": self.ok, "findings": [asdict(finding) for finding in self.findings]}


def judge(
    step: VariationalStep,
    plan: Plan,
    planned: InputBounds | None = None,
    motor: InputBounds | None = None,
    weighed: Array | None = None,
    rest: str = REST,
    slower: str = SLOWER,
) -> Verdict:
    """The verdict on a plan. ``planned`` are the limits it was made within, ``motor`` those that its law will have.

    ``weighed`` says of each coordinate whether the task cares where it ends, (nq̄); all of them where None. ``rest``
    says how to ask for an end at rest, ``slower`` how to ask for strings that pull.
    """
    findings = [_end(step, plan, weighed), _rest(step, plan, rest), _hold(step, plan)]
    findings += _ranges(step, plan)
    findings += _inputs(step, plan, planned)
    if motor is not None and step.layout.plain:
        findings += _room(step, plan, motor)
    findings += _tension(step, plan, slower)
    findings += _singular(step, plan)
    findings += _events(step, plan)
    return Verdict(tuple(findings))


def _ranges(step: VariationalStep, plan: Plan) -> Iterator[Finding]:
    """Coordinates that leave the range they are declared with, which code is generated for."""
    system = step.system
    poses = step.layout.pose(plan.trajectory.x)
    for i, c in enumerate((*system.dynamic, *system.kinematic) if step.layout.plain else ()):
        low, high = -np.inf if c.low is None else c.low, np.inf if c.high is None else c.high
        farthest = max((poses[:, i].min(), poses[:, i].max()), key=lambda value: max(low - value, value - high))
        if not low - ROUNDED <= farthest <= high + ROUNDED:
            text = f"{c.name} goes to {farthest:.4g} {c.unit}".rstrip() + f", and its range is {low:g} to {high:g}"
            yield Finding("range", text, False, "Limit it in [limits], or widen low and high where it is declared.")


def _tension(step: VariationalStep, plan: Plan, remedy: str) -> Iterator[Finding]:
    """Forces of the constraints that may be strings: distances."""
    forces = plan.trajectory.multipliers
    kinds = [isinstance(c, Distance) and row is Row.EQUALITY for c in step.system.constraints for row in c.rows]
    if forces is None or forces.shape[1] != len(kinds) or not any(kinds):
        return
    low, high = float(forces[:, kinds].min()), float(forces[:, kinds].max())
    yield Finding(
        "tension",
        f"{low:.3g} to {high:.3g} N{_pushing(step, plan.trajectory.t, np.where(kinds, forces, 0.0))}",
        low >= 0,
        remedy,
    )


def _pushing(step: VariationalStep, t: Array, pushes: Array) -> str:
    """Which strings would have to push: the one that does so most, when, how much and for how long, and the others."""
    worst = np.flatnonzero(pushes.min(axis=0, initial=0.0) < 0)
    if not len(worst):
        return ""
    first = worst[np.argmin(pushes[:, worst].min(axis=0))]
    k = int(np.argmin(pushes[:, first]))
    names = step.system.constraint_names
    others = [names[i] for i in worst if i != first]
    more = f"; {', '.join(others)} too" if others else ""
    lasting = float(np.diff(t)[pushes[:, first] < 0].sum())
    return (
        f"; {names[first]} is slack: it would have to push, with {-pushes[k, first]:.3g} N at {t[k]:.3g} s, "
        f"for {lasting:.2g} s in all{more}"
    )


def _singular(step: VariationalStep, plan: Plan) -> Iterator[Finding]:
    """Constraints whose forces mean nothing where they are nearly singular."""
    found = nearly_singular(step, plan.trajectory)
    if found:
        more = "".join(f"; {one}" for one in found[1:3])
        remedy = "Forces grow without bound there: start and go elsewhere, as with a string that is led from aside."
        yield Finding("constraints", f"{found[0]}{more}", False, remedy)


def _events(step: VariationalStep, plan: Plan) -> Iterator[Finding]:
    """Impacts and releases, how long gaps are open, and impacts at the border between two steps."""
    path, names = plan.trajectory, step.system.gap_names
    if not names or len(path.modes) != path.steps:
        return
    counts = [_counted(sum(event.kind == kind for event in plan.events), kind) for kind in ("impact", "release")]
    parts = [sum(name not in mode for mode in path.modes) / path.steps for name in names]
    worst = int(np.argmax(parts))
    text = f"{' and '.join(counts)}; {names[worst]} is open {parts[worst]:.0%} of the time"
    hard = max((event for event in plan.events if event.kind == "impact"), key=lambda e: e.impulse, default=None)
    if hard is not None:
        text += f"; the hardest impact, of {hard.name} at {hard.time:.3g} s, gives {hard.impulse:.2g} N s"
    edge = next((e for e in plan.events if e.kind == "impact" and at_node(path, e)), None)
    if edge is not None:
        text += (
            f"; that of {edge.name} at {edge.time:.4g} s is on a kink, between two steps: gains there are of one side"
        )
    yield Finding("events", text)


def _end(step: VariationalStep, plan: Plan, weighed: Array | None) -> Finding:
    """How far the end is from where the task has it, beside the way there."""
    pose, tangent = step.layout.pose, step.system.tangent
    units, apart = [unit for _, unit in tangent.entries], tangent.difference
    wanted = pose(plan.reference.x)
    off = np.abs(apart(wanted[-1], pose(plan.trajectory.x[-1])))
    way = np.abs(apart(pose(plan.trajectory.x[0]), wanted)).max(axis=0)
    size = {unit: max(float(way[i]) for i in range(len(way)) if units[i] == unit) for unit in units[: len(way)]}
    parts = np.array([off[i] / (size[units[i]] or 1.0) for i in range(len(off))])
    if weighed is not None and np.any(weighed):
        parts = np.where(weighed, parts, 0.0)
    i = int(parts.argmax())
    text = f"{_shown(off[i], units[i])} from the task ({tangent.entries[i][0]})"
    remedy = "The weights prefer to stay away, or the time is too short: leave out [weights] for natural ones. " + REST
    return Finding("end", text, bool(parts[i] <= FAR), remedy)


def _rest(step: VariationalStep, plan: Plan, remedy: str) -> Finding:
    """Whether the end stays where it is under the input that holds it."""
    x, layout = plan.trajectory.x[-1], step.layout
    after = step.step(x, held_input(step, x, plan.trajectory.u[-1])).x
    entries, apart = step.system.tangent.entries, step.system.tangent.difference
    moved = np.abs(apart(layout.pose(x), layout.pose(after)))
    i = int(moved.argmax())
    try:
        at = standing(step, layout.pose(x), near=np.inf)
    except (ConvergenceError, ModelError):
        at = None
    motion = f"it moves {_shown(moved[i], entries[i][1])} per tick ({entries[i][0]})"
    if at is None:
        return Finding(
            "rest", f"the end is no equilibrium, and none is near: {motion}", False, "End where it can stand."
        )
    off = np.abs(apart(layout.pose(x), layout.pose(at.x)))
    j = int(off.argmax())
    if off[j] <= AWAY and moved[i] <= AWAY:
        return Finding("rest", f"the end is an equilibrium: {motion}")
    place = f", the nearest one is {_shown(off[j], entries[j][1])} away ({entries[j][0]})" if off[j] > AWAY else ""
    return Finding("rest", f"the end is no equilibrium: {motion}{place}", False, remedy)


def _hold(step: VariationalStep, plan: Plan) -> Finding:
    """Whether the last gain, which a board keeps, holds the end."""
    x = plan.trajectory.x[-1]
    at = step.linearize(x, held_input(step, x, plan.trajectory.u[-1]))
    radius = float(np.abs(np.linalg.eigvals(at.A - at.B @ plan.gains[-1])).max())
    if plan.fading:
        text = f"{plan.fading}; the last gain leaves {radius:.3f} per tick"
        return Finding("hold", text, False, "Weigh every coordinate, and look whether the inputs can move what falls.")
    if radius <= 1.0 + 1e-6:
        slow = "" if radius < 1.0 - 1e-6 else ", what does not decay has no weight"
        return Finding("hold", f"the last gain holds the end: {radius:.3f} per tick{slow}")
    return Finding("hold", f"the last gain does not hold the end: {radius:.3f} per tick", False, "Weigh what grows.")


def _inputs(step: VariationalStep, plan: Plan, planned: InputBounds | None) -> Iterator[Finding]:
    """Ticks at the limits that the plan keeps."""
    if planned is None:
        return
    u = plan.trajectory.u
    held = planned.at_limit(plan.trajectory.x[:-1], u) != 0
    for i in np.flatnonzero(np.isfinite(planned.span)):
        part = float(held[:, i].mean())
        most = f"{np.abs(u[:, i]).max():.4g} at most"
        text = f"at its limit in {part:.0%} of ticks, {most}" if part else f"never at its limit, {most}"
        yield Finding(step.input_names[i], text)


def _room(step: VariationalStep, plan: Plan, motor: InputBounds) -> Iterator[Finding]:
    """Whether the law keeps off the motors' limits when they give more or less than told; of forces alone."""
    excess = room(step, plan, motor)
    if excess is None:
        return
    remedy = "Plan with less of the limits: use = 0.75 in [limits], or less."
    masses = room_of_masses(step, plan, motor)
    if excess <= 0:
        text = f"enough for motors that give {WRONG:.0%} more or less than told"
        yield Finding("room", text if masses is None else f"{text}, not for other masses")
    else:
        some = "little: " if excess <= LITTLE else ""
        text = f"{some}with motors {WRONG:.0%} off the law wants {excess:.0%} more than there is"
        yield Finding("room", text, excess <= LITTLE, remedy)
    if masses is not None and excess <= LITTLE:  # beyond, it says the same once more
        some = "little: " if masses.part <= LITTLE_OF_MASSES else ""
        text = f"{some}with {masses.what} the law wants {masses.part:.0%} more than there is"
        yield Finding("room", text, masses.part <= LITTLE_OF_MASSES, remedy)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count or 'no'} {what}s"


def _shown(value: float, unit: str) -> str:
    """A length or an angle, small ones in thousandths."""
    if unit in ("m", "rad") and abs(value) < 0.1:
        return f"{1e3 * value:.2g} m{unit}" if abs(value) >= 1e-6 else f"less than 0.001 m{unit}"
    return f"{value:.3g} {unit}".rstrip()

"""A job of kind "imitate", and how it is solved."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.jobs.job import TrackingJob
from stepmap.jobs.weights import Weights
from stepmap.mocap.rehearsal import Manner, Rehearsal
from stepmap.mocap.retarget import Targets
from stepmap.optimal import Problem, Solution, optimize
from stepmap.optimal.composite import Cost
from stepmap.optimal.projection import Monitor
from stepmap.optimal.terms import Expression, Frames, SpeedChange, Tension
from stepmap.simulation import Simulation
from stepmap.steps import Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from stepmap.jobs.imitate.pictures import Pair

GENTLER = "Make response longer or tempo slower, or ask for a tension in [imitate.tension]"
SLACK, PULL = 0.3, 0.004  # of the least force at the start; its weight [1/N²] beside a distance of 1 m
SCALE = 1000.0  # of the cost: J is in thousandths of m² s


@dataclass(frozen=True, eq=False)
class ImitationJob(TrackingJob):
    """A recorded motion for a mechanism, read and retargeted; the start is its equilibrium nearest to ``pose``."""

    kind: ClassVar[str] = "imitate"
    remedies: ClassVar[dict[str, str]] = {
        "rest": "The recording ends in motion: choose an end at which the dancer stands still.",
        "slower": f"{GENTLER}: a string cannot push.",
    }
    targets: Targets | None = None
    rehearsal: Rehearsal | None = None
    manner: Manner = field(default_factory=Manner)
    frame_weights: tuple[float, ...] = ()
    tension: Tension | None = None
    effort: float = 1e-3  # of forces [1/N²] beside a distance of 1 m
    regulator_weights: Weights | None = None

    @property
    def _rehearsal(self) -> Rehearsal:
        assert self.rehearsal is not None
        return self.rehearsal

    @property
    def regulator(self) -> Any:
        """Weights of the gains along the motion."""
        assert self.own_weights is not None
        return super().regulator or self.own_weights.matrices

    def imitation(self) -> Cost:
        """½ ∫ w |places − targets|² + w T⁴ |accelerations of robots|² dt, with T the response time, as terms."""
        made, T = self._rehearsal, self.manner.response
        weights = SCALE * self.dt * np.array(self.frame_weights)
        terms: list[Any] = [Frames(made.names, made.places, weights=self._seen(weights))]
        if self.step.nk:
            terms.append(SpeedChange(SCALE * T**4 / self.dt))
        if self.system.inputs:
            names = [i.name for i in self.system.inputs]
            terms.append(Expression(names, SCALE * self.dt * self.effort))
        if self.tension is not None:
            terms.append(replace(self.tension, weight=np.asarray(self.tension.weight, dtype=float) * self.dt))
        return Cost(self.step, *terms)

    def _seen(self, weights: Array) -> Array:
        """Weights per frame and axis: none along axes that a planar mechanism cannot move in."""
        poses = np.random.default_rng(2).uniform(-1.0, 1.0, (4, len(self.system.coordinates)))
        where = self.system.positions(poses)
        moves = np.ptp(where.reshape(-1, 3), axis=0) > 1e-9
        seen: Array = weights[:, None] * moves
        return seen

    def problem(self, part: float = 1.0) -> Problem:
        """The optimization problem, from the poses of the rehearsal where robots can lead through them."""
        return Problem(self.step, self.imitation(), self.start, self._guess(), self.regulator)

    def _guess(self) -> Trajectory:
        step, poses = self.step, self._rehearsal.poses
        forces = np.zeros((self.steps, len(self.system.inputs)))
        try:
            return step.rollout(self.start, step.layout.hold(poses[1:], forces))
        except ConvergenceError:  # on the way a wire would have to be longer than the limb on it reaches
            return Trajectory(self.t, np.tile(self.start, (self.steps + 1, 1)), np.tile(self.held, (self.steps, 1)))

    def solve(self, monitor: Monitor | None = None, guess: Trajectory | None = None) -> Solution:
        """The motion nearest to the dancer's, from the rehearsal or from a guess."""
        problem, s = self.problem(), self.solver
        if guess is not None:
            problem = replace(problem, guess=guess)
        first = problem.first_guess()
        size = float(problem.cost.value(first))
        limit = s.tolerance * (size if np.isfinite(size) else 1.0)
        options: dict[str, Any] = {"method": s.method, "tolerance": limit, "monitor": monitor}
        try:
            found = optimize(problem, max_iterations=s.max_iterations, **options)
            left = s.max_iterations - len(found.history)
            if self.tension is None and found.status.ok and left > 0 and self._pushes(found):
                pulled = replace(self, tension=self._pulling).problem()
                more = optimize(replace(pulled, guess=found.trajectory), max_iterations=left, **options)
                found = replace(more, history=found.history + more.history)
            return found
        except ModelError as error:  # of the regulator: where wires are nearly singular, slopes have no size
            raise ConvergenceError(
                f"the motion comes to poses in which wires are nearly singular ({error})",
                iterations=0,
                residual=np.inf,
                x=self.start,
                hint=f"{GENTLER}.",
            ) from None

    def _pushes(self, found: Solution) -> bool:
        return bool(self.step.nc and Simulation(self.step, found.trajectory).multipliers.min() < 0)

    @property
    def _pulling(self) -> Tension:
        """A soft limit for wires that would push, at a part of what the slackest has at the start."""
        at_rest = self.step.step(self.start, self.held).multipliers
        assert at_rest is not None
        return Tension(low=SLACK * float(at_rest.min()), weight=SCALE * PULL)

    def drawn(self, solution: Solution) -> dict[str, Figure]:
        """Pictures by name: those of every motion, and the dancer beside the mechanism."""
        from stepmap import plots  # matplotlib takes longer to load than most jobs take to solve
        from stepmap.jobs.imitate import pictures

        plan = solution.plan
        simulation = Simulation(self.step, plan.trajectory)
        return {
            "imitation": pictures.strip(self.pair(solution)),
            "path": plots.path(simulation, plan.reference.x),
            "tracking": plots.tracking(simulation, plan.reference.x),
            "inputs": plots.commands(simulation, plan.reference.u),
            **({"tension": plots.forces(simulation)} if self.step.nc else {}),
        }

    def animated(self, solution: Solution) -> dict[str, bytes]:
        """Moving pictures by the names of their files."""
        from stepmap.jobs.imitate import pictures

        return {"dance.gif": pictures.animation(self.pair(solution))}

    def pair(self, solution: Solution) -> Pair:
        """The dancer and the mechanism, to be drawn."""
        from stepmap.jobs.imitate.pictures import Pair

        path = solution.trajectory
        return Pair.of(self.system, self._rehearsal, path.t, self.step.layout.pose(path.x))

    def told(self, solution: Solution) -> dict[str, Any]:
        """What its summary has beside that of other kinds: how near each marker came, and every tension."""
        made, system = self._rehearsal, self.system
        found = system.positions(self.step.layout.pose(solution.trajectory.x))
        found = found[:, [system.frame_names.index(name) for name in made.names]]
        by_dancer, by_reach = (np.linalg.norm(found - wanted, axis=2) for wanted in (made.dancer, made.places))
        forces = Simulation(self.step, solution.trajectory).multipliers
        return {
            "imitation": {
                "tempo": made.tempo,
                "scale": 1.0 if self.targets is None else self.targets.scale,
                "path_damping": 1.0 if self.targets is None else self.targets.damping,
                "marker_rms": _rms(by_dancer),
                "marker_rms_within_reach": _rms(by_reach),
                "markers": {
                    name: {"rms": _rms(by_dancer[:, i]), "rms_within_reach": _rms(by_reach[:, i])}
                    for i, name in enumerate(made.names)
                },
                "tensions": {
                    name: {"low": float(forces[:, i].min()), "high": float(forces[:, i].max())}
                    for i, name in enumerate(system.constraint_names)
                },
            }
        }


def _rms(distances: Array) -> float:
    return float(np.sqrt(np.mean(distances**2)))

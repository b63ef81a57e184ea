"""A program handed to its solver, iterate by iterate: progress, Ctrl-C, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.optimal.direct.nlp.program import Program
from stepmap.optimal.problem import Status

Watch: TypeAlias = Callable[[float, float, Array], None]
"""Called with objective, infeasibility and variables of every iterate."""

FEASIBLE = 1e-6  # violation of rows and bounds up to which an iterate may be kept
CUT_OFF = "Maximum_Iterations_Exceeded"
HANDED = "length of the step"  # label of rows that hand it on
GOOD = {"Solve_Succeeded", "Solved_To_Acceptable_Level"}


@dataclass(frozen=True, eq=False)
class Settings:
    """Of a solver."""

    solver: str = "ipopt"
    max_iterations: int = 1000
    tolerance: float = 1e-9
    mu: float | None = None  # barrier parameter to begin with, where a guess is near
    multipliers: tuple[Array, Array] | None = None  # of rows and variables, of a solution that is near


@dataclass(frozen=True, eq=False)
class Found:
    """What a solver ended with; rows and multipliers too."""

    w: Array
    cost: float
    status: Status
    said: str
    iterations: int
    infeasibility: float
    worst: str  # what is violated most
    rows: Array  # multipliers of rows and of bounds
    variables: Array
    cpu_s: float


class _Iterates(ca.Callback):
    """CasADi's callback: keeps the best iterate, tells progress, and stops at Ctrl-C."""

    def __init__(self, program: Program, box: tuple[Array, Array], watch: Watch | None) -> None:
        ca.Callback.__init__(self)
        self.sizes = {"x": program.size, "f": 1, "g": len(program.bounds[0]), "lam_x": program.size}
        self.sizes |= {"lam_g": len(program.bounds[0]), "lam_p": 0}
        self.bounds, self.box, self.watch = program.bounds, box, watch
        self.best: tuple[tuple[bool, float], Array, float, float] | None = None
        self.count, self.interrupted = -1, False
        self.construct("iterates", {})

    def get_n_in(self) -> int:
        return int(ca.nlpsol_n_out())

    def get_n_out(self) -> int:
        return 1

    def get_name_in(self, i: int) -> str:
        return str(ca.nlpsol_out(i))

    def get_name_out(self, i: int) -> str:
        return "stop"

    def get_sparsity_in(self, i: int) -> Any:
        return ca.Sparsity.dense(self.sizes.get(ca.nlpsol_out(i), 0), 1)

    def eval(self, arguments: Any) -> list[int]:
        try:
            self._keep(*(np.asarray(arguments[i]).ravel() for i in range(3)))
        except KeyboardInterrupt:
            self.interrupted = True
        return [int(self.interrupted)]

    def _keep(self, x: Array, f: Array, g: Array) -> None:
        self.count += 1
        beyond = max(_beyond(g, *self.bounds), _beyond(x, *self.box))
        cost = float(f[0])
        rank = (beyond > FEASIBLE, beyond if beyond > FEASIBLE else cost)
        if self.best is None or rank < self.best[0]:
            self.best = rank, x.copy(), cost, beyond
        if self.watch is not None:
            self.watch(cost, beyond, x)


def _beyond(values: Array, low: Array, high: Array) -> float:
    return float(np.maximum(low - values, values - high).max(initial=0.0))


def solve(program: Program, box: tuple[Array, Array], w0: Array, settings: Settings, watch: Watch | None) -> Found:
    """The solver's result from a first iterate; Ctrl-C ends it with the best iterate so far."""
    iterates = _Iterates(program, box, watch)
    solver = _solver(program, settings, iterates)
    low, high = program.bounds
    begin = time.process_time()
    made: dict[str, Any] | None = None
    try:
        given = {"x0": np.clip(w0, *box), "lbx": box[0], "ubx": box[1], "lbg": low, "ubg": high}
        if settings.multipliers is not None:
            given |= {"lam_g0": settings.multipliers[0], "lam_x0": settings.multipliers[1]}
        made = solver(**given)
    except KeyboardInterrupt:
        iterates.interrupted = True
    except RuntimeError as error:
        if not iterates.interrupted:
            raise ModelError(f"solver: {settings.solver} refused the program: {_first_line(error)}") from error
    cpu = time.process_time() - begin
    if made is None or iterates.interrupted:
        return _interrupted(program, iterates, w0, cpu)
    stats = solver.stats()
    said = str(stats.get("return_status", ""))
    w, g = (np.asarray(made[key]).ravel() for key in ("x", "g"))
    beyond = np.maximum(low - g, g - high)
    infeasibility = max(float(beyond.max(initial=0.0)), _beyond(w, *box))
    label, place = _worst(program, beyond)
    return Found(
        w,
        float(made["f"]),
        _status(said, bool(stats.get("success")), infeasibility),
        said,
        int(stats.get("iter_count", iterates.count)),
        infeasibility,
        f"{label} at step {place}",
        np.asarray(made["lam_g"]).ravel(),
        np.asarray(made["lam_x"]).ravel(),
        cpu,
    )


def _worst(program: Program, beyond: Array) -> tuple[str, int]:
    """What is violated most; rows that only hand a value on from stage to stage say nothing, and come last."""
    for row in np.argsort(-beyond)[: len(beyond) if beyond.size and beyond.max() > FEASIBLE else 1]:
        label, place = program.label(int(row))
        if label != HANDED or beyond[row] <= FEASIBLE:
            return label, place
    return HANDED, 0


def _solver(program: Program, settings: Settings, iterates: _Iterates) -> ca.Function:
    if settings.solver != "ipopt":
        own = {"print_level": 0, "max_iter": settings.max_iterations, "tol": settings.tolerance}
        return program.solver(settings.solver, {settings.solver: own})
    options: dict[str, Any] = {
        "print_level": 0,
        "sb": "yes",
        "max_iter": settings.max_iterations,
        "tol": settings.tolerance,
        "constr_viol_tol": min(1e-9, 1e-3 * settings.tolerance),  # an error of q counts as M/h of it in momenta
        "acceptable_iter": 0,  # what is not solved to the tolerance is not called solved
        "bound_relax_factor": 1e-10,
        "honor_original_bounds": "yes",
    }
    if settings.mu is not None:
        options["mu_init"] = settings.mu
    if settings.multipliers is not None:
        pushes = ("bound_push", "bound_frac", "slack_bound_push", "slack_bound_frac", "mult_bound_push")
        options |= {"warm_start_init_point": "yes", **{f"warm_start_{push}": 1e-8 for push in pushes}}
    return program.solver("ipopt", {"ipopt": options, "iteration_callback": iterates})


def _status(said: str, success: bool, infeasibility: float) -> Status:
    if said in GOOD or success:
        return Status.CONVERGED
    if said == "User_Requested_Stop":
        return Status.INTERRUPTED
    if infeasibility > FEASIBLE:
        return Status.UNMET
    return Status.ITERATIONS if said == CUT_OFF else Status.STALLED


def _interrupted(program: Program, iterates: _Iterates, w0: Array, cpu: float) -> Found:
    _, w, cost, beyond = iterates.best or ((True, np.inf), w0, np.nan, np.inf)
    none = np.zeros(len(program.bounds[0])), np.zeros(program.size)
    return Found(w, cost, Status.INTERRUPTED, "interrupted", max(iterates.count, 0), beyond, "", *none, cpu)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__

"""Direct optimal control: the motion of any mechanism as a nonlinear program, solved by IPOPT or fatrop."""

from __future__ import annotations

from typing import Unpack

from stepmap.mechanics.system import System
from stepmap.optimal.direct.formulation import Formulation
from stepmap.optimal.direct.guess import require_guess
from stepmap.optimal.direct.search import Monitor, search
from stepmap.optimal.direct.solution import DirectSolution
from stepmap.optimal.direct.task import Options, Phase, Task

__all__ = ["DirectSolution", "Phase", "direct"]


def direct(system: System, *, monitor: Monitor | None = None, **options: Unpack[Options]) -> DirectSolution:
    """The motion of least cost ∫ running dt + terminal, within limits, from ``start`` to ``goal``.

    Nodes are states of the midpoint map, so the result is a trajectory of ``sm.discretize(system, solution.step.dt)``.

    steps, time     steps of equal length; time [s], or a range (low, high) in which it is found
    start, goal     poses by name, and velocities v_name; what a start does not name has its own start and is at rest,
                    what a goal does not name is free; velocities at a goal are zero, None frees one
    running         cost per second, a formula of the middle of a step: coordinates, v_name, p_name, inputs, forces of
                    constraints, parameters, axes of frames (bob.x), t, h; or a function of a mapping of these names
    terminal        cost of the end: coordinates, p_name, t
    limits          {name: (low, high)} or {name: {"low", "high", "rate"}} of coordinates, v_name, p_name, inputs; low
                    and high of the system hold where nothing else is said
    path, boundary  {formula: (low, high) or value}; at all nodes, or in the middle of steps where it knows of inputs;
                    of both ends as start.name and end.name
    clear           clearances to keep, sm.Clearance(...), at nodes and in the middle of steps
    guess           a trajectory, solution or plan to begin with; without one, the straight way
    starts, seed    begins at so many disturbed guesses, on the coarsest grid, and keeps the best
    change          largest change of a coordinate in one step; 0.5 with constraints, which hold at nodes alone
    solver          "ipopt", with compiled functions, or "fatrop", on CasADi's virtual machine
    weights         (Q, R) of the plan's gains; natural ones by default
    rest            adds one step under the forces that hold the end, where any do: a board keeps the last input

    Kinematic coordinates that enter through the mean of a step only have a free zigzag: price their speed v_name in
    ``running``. A search that stops early, also by Ctrl-C, returns its best motion and a status that says what to do.
    """
    task = Task(system=system, **options)
    require_guess(task)
    return DirectSolution(task, search(Formulation(task), monitor))

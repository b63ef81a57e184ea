"""The controller of a large model in floating point: the same filter, with loops for its linear algebra.

Straight-line are what differs from entry to entry: the map's equations, their derivatives, what sensors see. They fill
matrices, and loops solve, multiply and add these (model/loops.py). The covariance is whole, a packed triangle.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from stepmap.errors import ModelError
from stepmap.steps.kernels.equations import entries
from stepmap.steps.variational import VariationalStep
from stepmap_codegen.lower.blocks import Sketch
from stepmap_codegen.lower.controller import Lowering
from stepmap_codegen.lower.parts import FilterParts, Model
from stepmap_codegen.lower.plant import Plant
from stepmap_codegen.lower.step import LoweredStep, bound_rows
from stepmap_codegen.lower.step_graph import StepGraph
from stepmap_codegen.model.loops import Add, Call, Multiply, Observe, Solve, Span, Spread, Step, Zero
from stepmap_codegen.model.program import Block, BlockRole, Field, Program, Role


def require(plant: Plant) -> None:
    """Raises ModelError where loops do not know what a plant has."""
    step, what = plant.step, ""
    if not isinstance(step, VariationalStep) or not step.layout.plain:
        what = "ball joints, or another step than the variational one"
    elif step.system.gap_names:
        what = "gaps"
    elif plant.gait is not None:
        what = "contacts to walk on"
    elif plant.settings.filter != "ekf":
        what = f"the filter {plant.settings.filter!r}"
    elif np.count_nonzero(plant.noise.process - np.diag(np.diagonal(plant.noise.process))):
        what = "process noise with correlations"
    if what:
        raise ModelError(f"form: no loops are written for {what}; leave it out, or write straight")


def lower(plant: Plant) -> Program:
    """The controller's program."""
    require(plant)
    return _Loops(plant).program()


class _Model(Model):
    """The model without its map: that is solved by loops."""

    def __init__(self, step: VariationalStep, graph: StepGraph) -> None:
        self.step, self.system, self.layout = step, step.system, step.layout
        x, u = ca.SX.sym("x", step.nx), ca.SX.sym("u", step.nu)
        nd, nk, nf = graph.nd, graph.nk, graph.nf
        rho = entries(u, nf, nf + nk)
        after = ca.vertcat(ca.SX.sym("q", nd), rho, ca.SX.sym("p", nd), (rho - x[nd : nd + nk]) / step.dt)
        constraints = bound_rows(graph.con(x[: graph.nq]), nd) if graph.nc else None
        chart = step.equations
        none = ca.SX(step.ndx, step.ndx)
        self.map = LoweredStep(step.layout, x, u, after, none, constraints, chart.retract, chart.difference)
        self.x, self.u, self.gaps, self.landing = x, u, None, None
        self.nx, self.ndx, self.nu, self.nz = step.nx, step.ndx, step.nu, len(self.system.sensor_channels)
        self.h, self.H = self._sensors()


class _Loops(Lowering):
    def __init__(self, plant: Plant) -> None:
        self.plant, self.step = plant, plant.step
        self.graph = StepGraph(plant.step, plant.settings.newton)
        self.model = _Model(plant.step, self.graph)
        n = self.model.ndx
        names = self.model.layout.tangent_names
        places = [(i, j) for i in range(n) for j in range(i + 1)]
        covariance = [
            Field(f"P_{i}_{j}", Role.COVARIANCE, label=f"cov({names[i]}, {names[j]})", place=(i, j)) for i, j in places
        ]
        health = tuple((f"e_{channel}", f"s_{channel}") for channel in self.model.channels)
        self.filter = FilterParts(tuple(covariance), (), (), (), health)
        self.state = list(self.model.estimate)
        self.used_gains = self.gains_in_use()
        self.work: list[Field] = []

    def program(self) -> Program:
        known = self.fields()
        self.places = {field.name: i for i, field in enumerate(known)}
        self.base = len(known)
        updates = [self._update(k) for k in range(self.model.nz)]
        others = [sketch.block(self.places) for sketch in (*self._projection(), self._state_feedback())]
        blocks = (*updates, *others, self._step())
        return Program(self.model.system.name, self.step.dt, (*known, *self.work), blocks)

    # matrices ---------------------------------------------------------------------------------------------------

    def _room(self, name: str, rows: int, columns: int = 1) -> Span:
        """A matrix of its own."""
        made = Span(self.base + len(self.work), rows, columns)
        self.work += [
            Field(f"{name}_{i}_{j}", Role.WORK, label=name, place=(i, j)) for i in range(rows) for j in range(columns)
        ]
        return made

    def _entries(self, span: Span, matrix: ca.SX) -> list[tuple[str, ca.SX]]:
        """Entries of a matrix that are not always 0, with their fields."""
        rows, columns = matrix.sparsity().get_triplet()
        return [
            (self.work[span.first - self.base + i * span.columns + j].name, matrix[i, j])
            for i, j in zip(rows, columns, strict=True)
        ]

    def _tape(
        self,
        name: str,
        role: BlockRole,
        summary: str,
        inputs: Sequence[tuple[str, ca.SX]],
        outputs: list[tuple[str, ca.SX]],
    ) -> Call:
        places = self.places | {field.name: self.base + i for i, field in enumerate(self.work)}
        return Call(Sketch(name, role, summary, inputs, outputs).block(places))

    # blocks -----------------------------------------------------------------------------------------------------

    def _update(self, k: int) -> Block:
        m, channel = self.model, self.model.channels[k]
        z = ca.SX.sym("z")
        row = m.H[k, :]
        columns = tuple(row.sparsity().get_triplet()[1])
        if k == 0:
            self.line = self._room("line", m.ndx)
            self.error = self._room("error", 1)
            self.slope = self._room("slope", m.ndx)
        slope = Span(self.slope.first, len(columns))
        told = [(f"{self.work[self.error.first - self.base].name}", z - m.h[k])]
        told += self._entries(slope, ca.vertcat(*(ca.SX(row[j]) for j in columns)))
        inputs = [*m.estimate, (f"z_{channel}", z)]
        sense = self._tape(f"sense_{channel}", BlockRole.UPDATE, f"what {channel} should be", inputs, told)
        gate, noise = self.plant.settings.gate, float(self.plant.noise.measurement[k])
        observe = Observe(
            self.places[m.x_fields[0]],
            self.places["P_0_0"],
            m.ndx,
            slope,
            columns,
            self.error.first,
            noise,
            None if gate is None else gate**2,
            self.line,
            self.places[f"e_{channel}"],
            self.places[f"s_{channel}"],
        )
        summary = f"updates the filter with {channel}"
        return Block(f"update_{channel}", BlockRole.UPDATE, summary, (), (), channel=k, steps=(sense, observe))

    def _step(self) -> Block:
        m, g = self.model, self.graph
        nd, nk, nc, wide = g.nd, g.nk, g.nc, g.nq + g.nd
        n = nd + nc
        z = ca.SX.sym("z", n)
        found, right = self._room("solution", n), self._room("residual", n)
        matrix, left = self._room("matrix", n, n), self._room("momentum", nd, nd)
        slope = self._room("slopes", nk + nd + n, wide)  # of v, p, q and the constraint forces
        self.momentum = Span(slope.first + nk * wide, nd, wide)
        solved = Span(self.momentum.first + nd * wide, n, wide)
        q2, lam = z[:nd], entries(z, nd, n)
        inputs = [*m.estimate, *zip(m.u_fields, ca.vertsplit(m.u), strict=True), *self._entries(found, z)]
        first = self._entries(found, ca.vertcat(m.x[:nd], ca.SX.zeros(nc, 1)))

        def tape(name: str, summary: str, outputs: list[tuple[str, ca.SX]]) -> Call:
            return self._tape(name, BlockRole.PREDICT, summary, inputs, outputs)

        jacobian = g.con(m.x[: g.nq])[1][:, :nd] if nc else ca.SX(0, nd)
        newton_matrix, residual = g.newton_step(m.x, m.u, q2, lam, jacobian)
        turn: tuple[Step, ...] = (
            Zero(matrix),
            Zero(right),
            tape(
                "newton_step", "Newton's step", [*self._entries(matrix, newton_matrix), *self._entries(right, residual)]
            ),
            Solve(matrix, right),
            Add(found, right),
        )
        after, q2b = g.after(m.x, m.u, q2)
        sides = g.slopes(m.x, m.u, q2b, lam)
        constant = ca.horzcat(ca.SX(nk, nd), -ca.SX.eye(nk) / self.step.dt, ca.SX(nk, nd))
        spans = (matrix, solved, left, self.momentum)
        filled = [
            entry for span, side in zip(spans, sides, strict=True) for entry in self._entries(span, ca.sparsify(side))
        ]
        filled += self._entries(Span(slope.first, nk, wide), constant)
        next_x = list(zip(m.x_fields, ca.vertsplit(after), strict=True))
        steps: tuple[Step, ...] = (
            tape("first_guess", "where the search begins", first),
            *(turn * (g.newton + 1)),
            *(Zero(span) for span in (matrix, slope, left)),
            tape("linearize", "the next state, and equations of its slopes", [*filled, *next_x]),
            Solve(matrix, solved),
            Multiply(self.momentum, left, Span(solved.first, nd, wide)),
            self._spread(slope, nk, nd, wide),
        )
        summary = "one step of the map, and the covariance through its linearization"
        return Block("predict", BlockRole.PREDICT, summary, (), (), steps=steps)

    def _spread(self, slope: Span, nk: int, nd: int, wide: int) -> Spread:
        """The covariance after the step; ``slope`` has rows of v, p and q, and behind them what is no state."""
        live = nk + 2 * nd
        nq = nk + nd
        rows = (*range(nq + nd, nq + nd + nk), *range(nq, nq + nd), *range(nd))
        noise = tuple(float(value) for value in np.diagonal(self.plant.noise.process))
        room = (
            self._room("square", wide, wide),
            self._room("row", wide),
            self._room("next", live * (live + 1) // 2),
        )
        used = Span(slope.first, live, wide)
        return Spread(self.places["P_0_0"], used, rows, tuple(range(wide)), noise, *room)

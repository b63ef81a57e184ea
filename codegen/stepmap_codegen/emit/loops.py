"""Floating point by loops: functions for matrices, and blocks that call them (model/loops.py)."""

from __future__ import annotations

from collections.abc import Sequence

from stepmap_codegen.emit.c_text import field_order, float_literal, wrapped
from stepmap_codegen.emit.floating import TapeWriter
from stepmap_codegen.model.loops import Add, Call, Loop, Multiply, Observe, Solve, Span, Spread, Step, Zero
from stepmap_codegen.model.program import Block, Program
from stepmap_codegen.model.scalar import Scalar


class LoopsWriter:
    """Prints the functions of blocks with steps."""

    def __init__(self, program: Program, scalar: Scalar) -> None:
        self.program, self.scalar = program, scalar
        self.place = {i: k for k, i in enumerate(field_order(program))}

    def prelude(self) -> list[str]:
        """What blocks call: loops over matrices, and tapes."""
        kinds = {type(step) for block in self.program.blocks for step in block.steps}
        loops = [text for kind, text in FUNCTIONS.items() if kind in kinds]
        shared = [PACKED] if kinds & {Spread, Observe} else []
        tapes = [TapeWriter(self.program, tape, self.scalar).functions() for tape in self.program.tapes]
        return [*shared, *loops, *tapes]

    def text(self, block: Block) -> str:
        """The function of a block."""
        tables: list[str] = []
        calls = [self._call(step, tables) for step in block.steps]
        if not block.may_refuse:
            body, result = [f"{call};" for call in calls], "void"
        else:  # an update: its last step is the one that may refuse
            body, result = [*(f"{call};" for call in calls[:-1]), f"return {calls[-1]};"], "int"
            assert isinstance(block.steps[-1], Observe)
        inner = "\n  ".join([*tables, *body])
        return f"{result} sm_{block.name}(sm_controller *c) {{\n  {inner}\n}}\n"

    def _call(self, step: Step, tables: list[str]) -> str:
        if isinstance(step, Call):
            return f"{step.tape.name}(c)"
        return f"{type(step).__name__.lower()}({', '.join(self._arguments(step, tables))})"

    def _arguments(self, step: Loop, tables: list[str]) -> list[str]:
        if isinstance(step, Zero):
            return [self._at(step.to), f"{step.to.size}U"]
        if isinstance(step, Add):
            return [self._at(step.to), self._at(step.of), f"{step.to.size}U"]
        if isinstance(step, Multiply):
            sizes = (step.to.rows, step.left.columns, step.to.columns)
            return [*map(self._at, (step.to, step.left, step.right)), *(f"{size}U" for size in sizes)]
        if isinstance(step, Solve):
            return [self._at(step.matrix), self._at(step.right), f"{step.matrix.rows}U", f"{step.right.columns}U"]
        return self._spread(step, tables) if isinstance(step, Spread) else self._observe(step, tables)

    def _spread(self, step: Spread, tables: list[str]) -> list[str]:
        tables += [_table("rows", step.rows), _table("columns", step.columns)]
        tables.append(f"static const sm_real noise[] = {{\n{wrapped(list(map(self._number, step.noise)))}\n  }};")
        rooms = map(self._at, (step.slope, step.square, step.line, step.after))
        sizes = (len(step.rows), len(step.columns), len(step.noise))
        return [self._field(step.P), *rooms, "rows", "columns", "noise", *(f"{size}U" for size in sizes)]

    def _observe(self, step: Observe, tables: list[str]) -> list[str]:
        tables.append(_table("columns", step.columns))
        own = (step.x, step.P, step.line.first, step.slope.first, step.error, step.innovation, step.variance)
        gate = "0, 0" if step.gate is None else f"1, {self._number(step.gate)}"
        sizes = (step.size, len(step.columns))
        return [*map(self._field, own), "columns", *(f"{size}U" for size in sizes), self._number(step.noise), gate]

    def _number(self, value: float) -> str:
        return float_literal(value, self.scalar)

    def _field(self, field: int) -> str:
        return f"c->all + {self.place[field]}"

    def _at(self, span: Span) -> str:
        return self._field(span.first)


def _table(name: str, values: Sequence[int]) -> str:
    return f"static const uint8_t {name}[] = {{\n{wrapped(list(map(str, values)))}\n  }};"


PACKED = """/* The place of an entry in a packed lower triangle. */
static unsigned packed(unsigned i, unsigned j) { return i >= j ? i * (i + 1U) / 2U + j : j * (j + 1U) / 2U + i; }
"""
FUNCTIONS: dict[type[Loop], str] = {
    Zero: """static void zero(sm_real *to, unsigned size) {
  for (unsigned i = 0; i < size; i++) {
    to[i] = 0;
  }
}
""",
    Add: """/* to += of */
static void add(sm_real *to, const sm_real *of, unsigned size) {
  for (unsigned i = 0; i < size; i++) {
    to[i] += of[i];
  }
}
""",
    Multiply: """/* to (n, m) += left (n, k) right (k, m) */
static void multiply(sm_real *to, const sm_real *left, const sm_real *right, unsigned n, unsigned k, unsigned m) {
  for (unsigned i = 0; i < n; i++) {
    for (unsigned j = 0; j < k; j++) {
      const sm_real factor = left[i * k + j];
      for (unsigned at = 0; at < m; at++) {
        to[i * m + at] += factor * right[j * m + at];
      }
    }
  }
}
""",
    Solve: """/* b (n, m) becomes a^-1 b, by elimination in the given order without pivoting; nothing is left of a. */
static void solve(sm_real *a, sm_real *b, unsigned n, unsigned m) {
  for (unsigned k = 0; k < n; k++) {
    const sm_real inverse = 1 / a[k * n + k];
    a[k * n + k] = inverse;
    for (unsigned i = k + 1U; i < n; i++) {
      const sm_real factor = a[i * n + k] * inverse;
      for (unsigned j = k + 1U; j < n; j++) {
        a[i * n + j] -= factor * a[k * n + j];
      }
      for (unsigned j = 0; j < m; j++) {
        b[i * m + j] -= factor * b[k * m + j];
      }
    }
  }
  for (unsigned k = n; k-- > 0U;) {
    for (unsigned i = k + 1U; i < n; i++) {
      const sm_real factor = a[k * n + i];
      for (unsigned j = 0; j < m; j++) {
        b[k * m + j] -= factor * b[i * m + j];
      }
    }
    for (unsigned j = 0; j < m; j++) {
      b[k * m + j] *= a[k * n + k];
    }
  }
}
""",
    Spread: """/* P becomes A P A^T + Q. A has the given rows and columns, and 0 elsewhere; Q is a diagonal. */
static void spread(sm_real *P, const sm_real *a, sm_real *square, sm_real *line, sm_real *after, const uint8_t *rows,
                   const uint8_t *columns, const sm_real *noise, unsigned n, unsigned m, unsigned size) {
  for (unsigned i = 0; i < m; i++) {
    for (unsigned j = 0; j < m; j++) {
      square[i * m + j] = P[packed(columns[i], columns[j])];
    }
  }
  for (unsigned i = 0; i < n; i++) {
    zero(line, m);
    for (unsigned k = 0; k < m; k++) {
      const sm_real factor = a[i * m + k];
      for (unsigned j = 0; j < m && factor != 0; j++) {
        line[j] += factor * square[k * m + j];
      }
    }
    for (unsigned r = 0; r <= i; r++) {
      sm_real sum = 0;
      for (unsigned j = 0; j < m; j++) {
        sum += line[j] * a[r * m + j];
      }
      after[packed(i, r)] = sum;
    }
  }
  zero(P, size * (size + 1U) / 2U);
  for (unsigned i = 0; i < n; i++) {
    for (unsigned r = 0; r <= i; r++) {
      P[packed(rows[i], rows[r])] = after[packed(i, r)];
    }
  }
  for (unsigned i = 0; i < size; i++) {
    P[packed(i, i)] += noise[i];
  }
}
""",
    Observe: """/* Kalman update of x and P with one channel: 1, or 0 where its innovation is outside of the gate. */
static int observe(sm_real *x, sm_real *P, sm_real *line, const sm_real *slope, const sm_real *error,
                   sm_real *innovation, sm_real *variance, const uint8_t *columns, unsigned size, unsigned count,
                   sm_real noise, int has_gate, sm_real gate) {
  for (unsigned i = 0; i < size; i++) {
    sm_real sum = 0;
    for (unsigned j = 0; j < count; j++) {
      sum += P[packed(i, columns[j])] * slope[j];
    }
    line[i] = sum;
  }
  sm_real s = noise;
  for (unsigned j = 0; j < count; j++) {
    s += slope[j] * line[columns[j]];
  }
  const sm_real e = *error;
  if (has_gate && !(e * e <= gate * s)) { /* a NaN is outside */
    return 0;
  }
  const sm_real inverse = 1 / s;
  for (unsigned i = 0; i < size; i++) {
    const sm_real gain = line[i] * inverse;
    x[i] += gain * e;
    for (unsigned j = 0; j <= i; j++) {
      P[packed(i, j)] -= gain * line[j];
    }
  }
  *innovation = e;
  *variance = s;
  return 1;
}
""",
}

"""Formulas of time, as text: ``0.1*sin(3*t)``. Nothing of Python can be reached from one.

A formula holds numbers, ``t``, ``pi``, ``+ - * / **``, parentheses and the functions in FUNCTIONS. Its text comes from
a command line or a job file, so every mistake is answered with the position it was made at.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.errors import ModelError

Formula: TypeAlias = Callable[[ArrayLike], Array]
_Node: TypeAlias = Callable[[Array], Any]

HYPHEN = "·"  # stands for it within names, as long as it
LONGEST, DEEPEST = 1000, 100  # characters and levels; keeps far from Python's recursion limit

# name: function, fewest and most arguments
FUNCTIONS: dict[str, tuple[Callable[..., Any], int, int]] = {
    "sin": (np.sin, 1, 1),
    "cos": (np.cos, 1, 1),
    "tan": (np.tan, 1, 1),
    "exp": (np.exp, 1, 1),
    "sqrt": (np.sqrt, 1, 1),
    "tanh": (np.tanh, 1, 1),
    "abs": (np.abs, 1, 1),
    "min": (lambda *values: np.minimum.reduce(np.broadcast_arrays(*values)), 2, 99),
    "max": (lambda *values: np.maximum.reduce(np.broadcast_arrays(*values)), 2, 99),
}
OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
}
# The same for symbols of an expression graph, which numpy's functions do not take.
SYMBOLIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
KNOWN = f"numbers, t, pi, + - * / ** ( ) and {', '.join(FUNCTIONS)}"


class FormulaError(ModelError):
    """A text that is no formula of time, or one without a value; ``position`` counts characters from 1."""

    def __init__(self, reason: str, text: str, position: int | None = None) -> None:
        where = f"position {position} of " if position is not None else ""
        super().__init__(f"{reason} ({where}{_shortened(text)!r})")
        self.text = text
        self.position = position


def parse(text: str, known: Mapping[str, Formula] | None = None) -> Formula:
    """The formula as a function of times [s]; it returns an array of the times' shape and raises where not finite.

    ``known`` are formulas it may use by name.
    """
    node = _Reader(text, known or {}).read()

    def formula(t: ArrayLike) -> Array:
        times = np.asarray(t, dtype=float)
        with np.errstate(all="ignore"):
            values: Array = np.array(np.broadcast_to(node(times), times.shape), dtype=float)
        bad = ~np.isfinite(values)
        if bad.any():
            raise FormulaError(f"the formula has no finite value at t = {times[bad].flat[0]:g} s", text)
        return values

    return formula


def express(text: str, symbols: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
    """The value of a formula whose names stand for symbols, ``t`` among them; ``functions`` are those in FUNCTIONS."""
    known = {name: (lambda t, symbol=symbol: symbol) for name, symbol in symbols.items()}
    reader = _Reader(text, known)
    reader.operators = SYMBOLIC
    reader.functions = {name: (functions[name], *counts) for name, (_, *counts) in FUNCTIONS.items()}  # type: ignore[misc]
    return reader.read()(symbols["t"])


class _Reader:
    """Turns one text into nested functions of t; anything that is not on the lists above is refused."""

    operators = OPERATORS
    functions = FUNCTIONS

    def __init__(self, text: str, known: Mapping[str, Callable[[Any], Any]]) -> None:
        self.text = text
        self.known = known
        # Formulas may be broken over lines in a file; a blank for each line end keeps positions.
        self.line = text.replace("\r", " ").replace("\n", " ")
        # A name with a hyphen, written without blanks, is no difference: Python reads it with a middle dot.
        for name in sorted((one for one in known if "-" in one), key=len, reverse=True):
            self.line = re.sub(rf"(?<![\w.·]){re.escape(name)}(?![\w.·])", name.replace("-", HYPHEN), self.line)
        self.indent = len(self.line) - len(self.line.lstrip())
        self.depth = 0

    def read(self) -> _Node:
        if not self.line.strip():
            raise FormulaError("the formula is empty; write for example 0.1*sin(3*t)", self.text)
        if len(self.line) > LONGEST:
            raise FormulaError(f"the formula is longer than {LONGEST} characters", self.text)
        for sign, advice in (
            ("#", "a formula holds no comments"),
            ("^", "a power is written **"),
            ("\0", "a formula is plain text"),
        ):
            if sign in self.line:
                raise FormulaError(f"unexpected {sign!r}; {advice}", self.text, self.line.index(sign) + 1)
        return self._node(self._tree())

    def _tree(self) -> ast.expr:
        line = self.line.lstrip()
        try:
            return ast.parse(line, mode="eval").body
        except SyntaxError as error:
            if error.lineno != 1 or not error.offset:  # Python points behind the text
                raise FormulaError("the formula ends too early", self.text, len(self.text.rstrip()) + 1) from None
            reason = error.msg.split(". ")[0]
            raise FormulaError(reason, self.text, self._position(error.offset - 1)) from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise FormulaError(str(error) or "the formula is nested too deeply", self.text) from None

    def _node(self, node: ast.expr) -> _Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._refusal("the formula is nested too deeply", node)
        made = self._made(node)
        self.depth -= 1
        return made

    def _made(self, node: ast.expr) -> _Node:
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return self._dotted(node, f"{node.value.id}.{node.attr}".replace(HYPHEN, "-"))
        if isinstance(node, ast.BinOp) and type(node.op) in self.operators:
            return self._operation(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
            operand = self._node(node.operand)
            return operand if isinstance(node.op, ast.UAdd) else lambda t: -operand(t)
        if isinstance(node, ast.Call):
            return self._call(node)
        raise self._refusal(f"not part of a formula of time, which holds {KNOWN}", node)

    def _constant(self, node: ast.Constant) -> _Node:
        if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
            raise self._refusal(f"{node.value!r} is not a number", node)
        try:
            value = float(node.value)  # integers would grow without bound under **
        except OverflowError:
            value = float("inf")
        if not np.isfinite(value):
            raise self._refusal("a number too large to compute with", node)
        return lambda t: value

    def _name(self, node: ast.Name) -> _Node:
        if node.id == "t":
            return lambda t: t
        if node.id == "pi":
            return lambda t: np.pi
        name = node.id.replace(HYPHEN, "-")
        if name in self.known:
            return self.known[name]
        if node.id in FUNCTIONS:
            raise self._refusal(f"{node.id} is a function: write {node.id}(...)", node)
        also = f"; and here {', '.join(self.known)}" if self.known else ""
        raise self._refusal(f"unknown name {node.id!r}; a formula of time knows {KNOWN}{also}", node)

    def _dotted(self, node: ast.Attribute, name: str) -> _Node:
        """A name with a dot, such as an axis of a frame, where such names are known."""
        if name in self.known:
            return self.known[name]
        dotted = [one for one in self.known if "." in one]
        if not dotted:
            raise self._refusal(f"not part of a formula of time, which holds {KNOWN}", node)
        raise self._refusal(f"unknown name {name!r}; there are {', '.join(dotted)}", node)

    def _operation(self, node: ast.BinOp) -> _Node:
        function = self.operators[type(node.op)]
        left, right = self._node(node.left), self._node(node.right)
        return lambda t: function(left(t), right(t))

    def _call(self, node: ast.Call) -> _Node:
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
            raise self._refusal(f"unknown function; there are {', '.join(FUNCTIONS)}", node)
        name = node.func.id
        function, fewest, most = self.functions[name]
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            raise self._refusal(f"{name} takes plain arguments only", node)
        if not fewest <= len(node.args) <= most:
            wanted = "one argument" if most == 1 else f"{fewest} or more arguments"
            raise self._refusal(f"{name} takes {wanted}, got {len(node.args)}", node)
        arguments = [self._node(argument) for argument in node.args]
        return lambda t: function(*(argument(t) for argument in arguments))

    def _refusal(self, reason: str, node: ast.expr) -> FormulaError:
        # ast counts bytes of UTF-8
        before = self.line.lstrip().encode()[: node.col_offset].decode(errors="ignore")
        return FormulaError(reason, self.text, self._position(len(before)))

    def _position(self, index: int) -> int:
        return min(self.indent + index, len(self.text)) + 1


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."

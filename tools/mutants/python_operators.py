"""Mutants of Python, made from its syntax tree: relations, arithmetic, logic, constants, conditions, statements."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tools.mutants.mutant import Mutant

RELATIONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<",)),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">",)),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
LOGIC: dict[type[ast.boolop], tuple[str, str]] = {ast.And: ("and", "or"), ast.Or: ("or", "and")}
LEFT_ALONE = (ast.Raise, ast.Import, ast.ImportFrom, ast.Assert)


def mutants(file: str, text: str) -> Iterator[Mutant]:
    """Every mutant within the functions of a file; texts of errors, annotations and docstrings are left alone."""
    found: list[Mutant] = []
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    raw = text.splitlines()

    def place(line: int, column: int) -> int:
        """Columns of the tree are bytes."""
        return starts[line - 1] + len(raw[line - 1].encode()[:column].decode())

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        return place(node.lineno, node.col_offset), place(node.end_lineno or 0, node.end_col_offset or 0)

    def add(kind: str, line: int, start: int, end: int, after: str) -> None:
        found.append(Mutant(file, line, kind, start, end, text[start:end], after))

    def between(kind: str, left: ast.expr, right: ast.expr, before: str, after: str) -> None:
        """The sign between two operands, where nothing else stands but brackets and spaces."""
        begin, end = span(left)[1], span(right)[0]
        gap = text[begin:end]
        if gap.count(before) == 1 and "#" not in gap:
            at = begin + gap.index(before)
            add(kind, left.end_lineno or left.lineno, at, at + len(before), after)

    def visit(node: ast.AST) -> None:
        if isinstance(node, LEFT_ALONE):
            return
        if isinstance(node, ast.FunctionDef):
            for inner in node.body:
                visit(inner)
            return
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                visit(node.value)
            return
        _expression(node, between, add, span)
        _statement(node, add, span, text)
        for child in ast.iter_child_nodes(node):
            visit(child)

    for top in ast.walk(ast.parse(text)):
        if isinstance(top, ast.FunctionDef) and top.name != "__repr__":
            visit(top)
    yield from sorted(dict.fromkeys(found), key=lambda m: (m.start, m.after))


def _expression(node, between, add, span) -> None:  # type: ignore[no-untyped-def]
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        before, others = RELATIONS[type(node.ops[0])]
        for after in others:
            between("relation", node.left, node.comparators[0], before, after)
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        before, after = ARITHMETIC[type(node.op)]
        between("arithmetic", node.left, node.right, before, after)
    elif isinstance(node, ast.BoolOp):
        before, after = LOGIC[type(node.op)]
        between("logic", node.values[0], node.values[1], before, after)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        start, _ = span(node)
        add("logic", node.lineno, start, span(node.operand)[0], "")
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        _constant(node, add, span)


def _constant(node, add, span) -> None:  # type: ignore[no-untyped-def]
    start, end = span(node)
    value = node.value
    if isinstance(value, bool):
        others = [str(not value)]
    elif isinstance(value, int):
        others = [str(value + 1)] + ([str(value - 1)] if value else [])
    else:
        others = [repr(1.5 * value if value else 1.0)]
    for after in others:
        add("constant", node.lineno, start, end, after)


def _statement(node, add, span, text) -> None:  # type: ignore[no-untyped-def]
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        start, end = span(node.test)
        add("condition", node.lineno, start, end, f"(not ({text[start:end]}))")
    call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    stored = isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name | ast.Tuple)
    if call or stored or isinstance(node, ast.AugAssign):
        start, end = span(node)
        add("statement", node.lineno, start, end, "pass")

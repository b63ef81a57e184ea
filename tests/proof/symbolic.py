"""Functions of C as formulas for z3: what they return and store, and what must hold for it to be defined.

The text is that of the compiler's preprocessor, so it is the real one. A path is followed to each return. Integers
alone, calls, pointers to single variables; no loops. A product of two numbers of 32 bits is any number within bounds of
such products, the same one wherever the factors are the same: what holds for any number there holds for the product,
and z3 need not multiply.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path

import z3
from pycparser import c_ast, c_parser

FAKE = Path(__file__).parent / "models" / "stdint"
TYPES = {"int8_t": (8, True), "uint8_t": (8, False), "int16_t": (16, True), "uint16_t": (16, False)}
TYPES |= {"int32_t": (32, True), "uint32_t": (32, False), "int64_t": (64, True), "uint64_t": (64, False)}
TYPES |= {"int": (32, True), "unsigned": (32, False), "unsigned int": (32, False), "long long": (64, True)}
DEFINED = {
    "+": lambda a, b: z3.And(z3.BVAddNoOverflow(a, b, True), z3.BVAddNoUnderflow(a, b)),
    "-": lambda a, b: z3.And(z3.BVSubNoOverflow(a, b), z3.BVSubNoUnderflow(a, b, True)),
    "*": lambda a, b: z3.And(z3.BVMulNoOverflow(a, b, True), z3.BVMulNoUnderflow(a, b)),
}
COMPARED = {
    "<": (z3.ULT, lambda a, b: a < b),
    "<=": (z3.ULE, lambda a, b: a <= b),
    ">": (z3.UGT, lambda a, b: a > b),
    ">=": (z3.UGE, lambda a, b: a >= b),
    "==": (lambda a, b: a == b,) * 2,
    "!=": (lambda a, b: a != b,) * 2,
}


@dataclass(frozen=True)
class Number:
    """A value of C: its bits, and whether they are signed."""

    bits: z3.BitVecRef
    signed: bool
    short: z3.BitVecRef | None = None  # what it was made of, where it was a shorter signed number

    @property
    def size(self) -> int:
        return self.bits.size()


@dataclass(frozen=True)
class Pointer:
    """The address of a single variable."""

    cell: str


@dataclass(frozen=True)
class Place:
    """Where execution is: what had to be true to come here, and what variables hold."""

    taken: z3.BoolRef
    cells: dict[str, Number | Pointer]


@dataclass
class Program:
    """Functions of a preprocessed file, and what came up while they were followed."""

    functions: dict[str, c_ast.FuncDef]
    duties: list[tuple[str, z3.BoolRef]] = field(default_factory=list)  # must hold, or behaviour is undefined
    narrowed: list[z3.BoolRef] = field(
        default_factory=list
    )  # where no conversion to a shorter signed number loses bits
    known: list[z3.BoolRef] = field(default_factory=list)  # bounds of products
    products: dict[str, z3.BitVecRef] = field(default_factory=dict)
    calls: int = 0

    def forget(self) -> None:
        """Before another question."""
        self.duties, self.narrowed, self.known, self.products = [], [], [], {}


def parse(header: Path, include: Sequence[Path] = ()) -> Program:
    """The functions of a header and of what it includes, without anything written for one compiler or core."""
    flags = ["-DSM_PLAIN", "-D__attribute__(x)=", "-D_Static_assert(x,y)=", "-nostdinc", f"-I{FAKE}"]
    flags += [f"-I{folder}" for folder in include]
    text = subprocess.run(["gcc", "-E", "-P", *flags, str(header)], check=True, capture_output=True, text=True).stdout
    tree = c_parser.CParser().parse(text)
    return Program({node.decl.name: node for node in tree.ext if isinstance(node, c_ast.FuncDef)})


def call(program: Program, name: str, arguments: Sequence[Number | Pointer], path: Place) -> tuple[Number, Place]:
    """What a function returns, and where execution is after it: its paths meet again there."""
    definition = program.functions[name]
    program.calls += 1
    scope = f"{program.calls}:"
    cells = dict(path.cells)
    for parameter, value in zip(definition.decl.type.args.params, arguments, strict=True):
        cells[scope + parameter.name] = (
            value if isinstance(value, Pointer) else _converted(program, value, parameter, path)
        )
    ends: list[tuple[Number | None, Place]] = []
    rest = _Function(program, scope, ends).block(definition.body.block_items or [], replace(path, cells=cells))
    ends += [(None, left) for left in rest]
    kind = _kind(definition.decl.type)
    merged = _meet([end for _, end in ends], path.cells)
    if kind is None:
        return Number(z3.BitVecVal(0, 32), True), merged
    values = [(end.taken, _cast(program, value, *kind, end)) for value, end in ends if value is not None]
    value = reduce(lambda rest, one: z3.If(one[0], one[1].bits, rest), values[:-1], values[-1][1].bits)
    return Number(z3.simplify(value), kind[1]), merged


def _meet(paths: Sequence[Place], cells: dict[str, Number | Pointer]) -> Place:
    """Where paths meet, with the variables that were there before they parted."""
    first, *others = paths
    held: dict[str, Number | Pointer] = {}
    for name in cells:
        value = first.cells[name]
        for other in others:
            new = other.cells[name]
            if new is not value and isinstance(value, Number) and isinstance(new, Number):
                value = Number(z3.If(other.taken, new.bits, value.bits), value.signed)
        held[name] = value
    return Place(z3.simplify(z3.Or(*(path.taken for path in paths))), held)


def _kind(node: c_ast.Node) -> tuple[int, bool] | None:
    """Bits and sign of a declaration's or cast's type; none for void and pointers."""
    while not isinstance(node, c_ast.IdentifierType):
        if isinstance(node, c_ast.PtrDecl):
            return None
        node = node.type
    return TYPES.get(" ".join(node.names))


def _converted(program: Program, value: Number, node: c_ast.Node, path: Place) -> Number:
    kind = _kind(node)
    assert kind is not None
    return _cast(program, value, *kind, path)


def _cast(program: Program, value: Number, size: int, signed: bool, path: Place) -> Number:
    """The value as another type: modulo 2^size, as gcc does it for signed types, too."""
    if size > value.size:
        wider = z3.SignExt if value.signed else z3.ZeroExt
        return Number(wider(size - value.size, value.bits), signed, value.bits if value.signed else None)
    if size == value.size and signed == value.signed:
        return value
    cut = value.bits if size == value.size else z3.Extract(size - 1, 0, value.bits)
    if signed and size < value.size:
        back = z3.SignExt(value.size - size, cut)
        program.narrowed.append(z3.Implies(path.taken, back == value.bits))
    return Number(cut, signed)


def _usual(program: Program, a: Number, b: Number, path: Place) -> tuple[Number, Number]:
    """Both as the type that C computes with."""
    size = max(32, a.size, b.size)
    signed = all(n.signed or n.size < size for n in (a, b))
    return _cast(program, a, size, signed, path), _cast(program, b, size, signed, path)


def _truth(value: Number) -> z3.BoolRef:
    return z3.simplify(value.bits != 0)


def _number(condition: z3.BoolRef) -> Number:
    return Number(z3.If(condition, z3.BitVecVal(1, 32), z3.BitVecVal(0, 32)), True)


@dataclass
class _Function:
    """Follows one call; names of its variables begin with ``scope``."""

    program: Program
    scope: str
    ends: list[tuple[Number | None, Place]]

    def block(self, items: Sequence[c_ast.Node], path: Place) -> list[Place]:
        """Paths that reach the end of statements; those that return are among ``ends``."""
        paths = [path]
        for item in items:
            paths = [after for one in paths for after in self.statement(item, one)]
        return paths

    def statement(self, node: c_ast.Node, path: Place) -> list[Place]:
        if isinstance(node, c_ast.Return):
            value, path = self.value(node.expr, path) if node.expr else (None, path)
            self.ends.append((value, path))
            return []
        if isinstance(node, c_ast.If):
            value, path = self.value(node.cond, path)
            yes, no = self._parted(path, _truth(value))
            after = [] if yes is None else self.statement(node.iftrue, yes)
            if no is not None:
                after += [no] if node.iffalse is None else self.statement(node.iffalse, no)
            return after
        if isinstance(node, c_ast.Compound):
            return self.block(node.block_items or [], path)
        if isinstance(node, c_ast.Decl):
            return [self._declared(node, path)]
        return [self.value(node, path)[1]]

    def _parted(self, path: Place, condition: z3.BoolRef) -> list[Place | None]:
        both = (condition, z3.Not(condition))
        ways = [replace(path, taken=z3.simplify(z3.And(path.taken, way))) for way in both]
        return [None if z3.is_false(way.taken) else way for way in ways]

    def _declared(self, node: c_ast.Decl, path: Place) -> Place:
        kind = _kind(node.type)
        assert kind is not None, node.name
        value: Number = Number(z3.FreshConst(z3.BitVecSort(kind[0])), kind[1])  # without a value, any
        if node.init is not None:
            found, path = self.value(node.init, path)
            value = _cast(self.program, found, *kind, path)
        return replace(path, cells=path.cells | {self.scope + node.name: value})

    def value(self, node: c_ast.Node, path: Place) -> tuple[Number, Place]:
        """What an expression is, and where execution is after it."""
        found: Callable[..., tuple[Number, Place]] = getattr(self, f"_{type(node).__name__.lower()}")
        return found(node, path)

    def _constant(self, node: c_ast.Constant, path: Place) -> tuple[Number, Place]:
        text = node.value.lower()
        digits = text.rstrip("ul")
        number, suffix = int(digits, 0), text[len(digits) :]
        unsigned = "u" in suffix
        size = 64 if "ll" in suffix or number >= 1 << (32 if unsigned or digits.startswith("0x") else 31) else 32
        return Number(z3.BitVecVal(number, size), not unsigned and number < 1 << (size - 1)), path

    def _id(self, node: c_ast.ID, path: Place) -> tuple[Number, Place]:
        return path.cells[self.scope + node.name], path  # type: ignore[return-value]

    def _cast(self, node: c_ast.Cast, path: Place) -> tuple[Number, Place]:
        value, path = self.value(node.expr, path)
        kind = _kind(node.to_type)
        return (value if kind is None else _cast(self.program, value, *kind, path)), path

    def _unaryop(self, node: c_ast.UnaryOp, path: Place) -> tuple[Number, Place]:
        if node.op == "&":
            return Pointer(self.scope + node.expr.name), path  # type: ignore[return-value]
        if node.op == "*":
            return path.cells[self._cell(node, path)], path  # type: ignore[return-value]
        value, path = self.value(node.expr, path)
        if node.op == "!":
            return _number(z3.Not(_truth(value))), path
        value, zero = _usual(self.program, value, Number(z3.BitVecVal(0, 32), True), path)
        if node.op == "-":
            return self._computed("-", zero, value, path), path
        assert node.op == "~", node.op
        return Number(~value.bits, value.signed), path

    def _cell(self, node: c_ast.UnaryOp, path: Place) -> str:
        pointer = path.cells[self.scope + node.expr.name]
        assert isinstance(pointer, Pointer)
        return pointer.cell

    def _assignment(self, node: c_ast.Assignment, path: Place) -> tuple[Number, Place]:
        target = node.lvalue
        cell = self._cell(target, path) if isinstance(target, c_ast.UnaryOp) else self.scope + target.name
        value, path = self.value(node.rvalue, path)
        old = path.cells[cell]
        assert isinstance(old, Number)
        if node.op != "=":
            value = self._computed(node.op[:-1], *_usual(self.program, old, value, path), path)
        value = _cast(self.program, value, old.size, old.signed, path)
        return value, replace(path, cells=path.cells | {cell: value})

    def _ternaryop(self, node: c_ast.TernaryOp, path: Place) -> tuple[Number, Place]:
        value, path = self.value(node.cond, path)
        yes, no = self._parted(path, _truth(value))
        if yes is None or no is None:
            return self.value(node.iftrue if no is None else node.iffalse, path)
        first, yes = self.value(node.iftrue, yes)
        second, no = self.value(node.iffalse, no)
        first, second = _usual(self.program, first, second, path)
        return Number(z3.If(yes.taken, first.bits, second.bits), first.signed), _meet([no, yes], path.cells)

    def _binaryop(self, node: c_ast.BinaryOp, path: Place) -> tuple[Number, Place]:
        a, path = self.value(node.left, path)
        if node.op in ("&&", "||"):
            yes, no = self._parted(path, _truth(a))
            further = yes if node.op == "&&" else no
            if further is None:
                return _number(_truth(a)), path
            b, _ = self.value(node.right, further)
            return _number((z3.And if node.op == "&&" else z3.Or)(_truth(a), _truth(b))), path
        b, path = self.value(node.right, path)
        if node.op in ("<<", ">>"):
            return self._shifted(node.op, a, b, path), path
        return self._computed(node.op, *_usual(self.program, a, b, path), path), path

    def _shifted(self, op: str, a: Number, b: Number, path: Place) -> Number:
        a, _ = _usual(self.program, a, a, path)
        by = z3.simplify(_cast(self.program, b, a.size, b.signed, path).bits)
        self._must("shift", z3.ULT(by, a.size), path)
        if op == ">>":
            return Number(a.bits >> by if a.signed else z3.LShR(a.bits, by), a.signed)
        if a.signed:  # what is shifted out must be zeros, and so the sign
            self._must("left shift", z3.And(a.bits >= 0, z3.LShR(a.bits << by, by) == a.bits, a.bits << by >= 0), path)
        return Number(a.bits << by, a.signed)

    def _computed(self, op: str, a: Number, b: Number, path: Place) -> Number:
        x, y = z3.simplify(a.bits), z3.simplify(b.bits)
        if op in COMPARED:
            return _number(COMPARED[op][a.signed](x, y))
        if op in "&|^":
            return Number({"&": x & y, "|": x | y, "^": x ^ y}[op], a.signed)
        if op == "*" and a.signed and a.size == 64 and (a.short is not None or b.short is not None):
            factors = [_factor(a), _factor(b)]
            if all(factor is not None for factor in factors):
                return Number(self._product(*factors), True)
        if op in DEFINED:
            if a.signed:
                self._must(f"overflow of {op}", DEFINED[op](x, y), path)
            return Number({"+": x + y, "-": x - y, "*": x * y}[op], a.signed)
        assert op in "/%", op
        assert not a.signed, op
        self._must("division by zero", y != 0, path)
        return Number(z3.UDiv(x, y) if op == "/" else z3.URem(x, y), False)

    def _product(self, x: z3.BitVecRef, y: z3.BitVecRef) -> z3.BitVecRef:
        """x * y of at most 32 bits each; what is known of it are its bounds."""
        key = " * ".join(sorted((x.sexpr(), y.sexpr())))
        if key not in self.program.products:
            made = z3.BitVec(f"product {key}", 64)
            self.program.products[key] = made
            ends = [_ends(x), _ends(y)]
            corners = [p * q for p in ends[0] for q in ends[1]]
            self.program.known += [made >= min(corners), made <= max(corners)]
        return self.program.products[key]

    def _must(self, what: str, condition: z3.BoolRef, path: Place) -> None:
        self.program.duties.append((what, z3.Implies(path.taken, condition)))

    def _funccall(self, node: c_ast.FuncCall, path: Place) -> tuple[Number, Place]:
        name = node.name.name
        arguments = []
        for one in node.args.exprs if node.args else []:
            value, path = self.value(one, path)
            arguments.append(value)
        if name == "__builtin_expect":
            return arguments[0], path
        if name in ("__builtin_add_overflow", "__builtin_sub_overflow"):
            return self._checked(name, arguments, path)
        return call(self.program, name, arguments, path)

    def _checked(self, name: str, arguments: Sequence[Number | Pointer], path: Place) -> tuple[Number, Place]:
        """As gcc's manual has it: the sum of unlimited numbers, stored modulo 2^32; whether that lost something."""
        a, b, pointer = arguments
        assert isinstance(a, Number)
        assert isinstance(b, Number)
        assert isinstance(pointer, Pointer)
        x, y = z3.SignExt(1, a.bits), z3.SignExt(1, b.bits)
        exact = x + y if name == "__builtin_add_overflow" else x - y
        low = z3.Extract(31, 0, exact)
        return _number(z3.SignExt(1, low) != exact), replace(path, cells=path.cells | {pointer.cell: Number(low, True)})


def _factor(value: Number) -> z3.BitVecRef | None:
    """The number of at most 32 bits that a wider one is; none where it may be larger, or is a power of two."""
    if value.short is not None:
        return z3.simplify(value.short)
    constant = z3.simplify(value.bits)
    if not z3.is_bv_value(constant):
        return None
    size = abs(constant.as_signed_long())
    return constant if size < 1 << 31 and size & (size - 1) else None  # z3 shifts by powers of two


def _ends(term: z3.BitVecRef) -> tuple[int, int]:
    """The least and the largest that a number can be."""
    if z3.is_bv_value(term):
        return (term.as_signed_long(),) * 2
    return -(1 << (term.size() - 1)), (1 << (term.size() - 1)) - 1

"""A model's functions compiled together with the C runtime, loaded from the cache where they were built before."""

from __future__ import annotations

import ctypes
import hashlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

import casadi as ca

from stepmap.graph import cache, compiler
from stepmap.graph.emit import calls, emit
from stepmap.graph.function import GraphFunction
from stepmap.graph.tape import record

SOURCES = ("function.py", "tape.py", "emit.py", "compiler.py", "library.py")
UNIT_LINES = 4000  # generated lines a C file


class Order(Enum):
    """How much a library offers.

    First derivatives, contracted second ones, those in dt and of the forces, too, or first ones by the parameters.
    """

    FIRST = "first"
    SECOND = "second"
    EXTENDED = "extended"
    PARAMETERS = "parameters"

    @property
    def defines(self) -> dict[str, object]:
        """What tells the runtime."""
        flags = {
            Order.FIRST: (),
            Order.SECOND: ("SM_CURVATURE",),
            Order.EXTENDED: ("SM_CURVATURE", "SM_EXTENDED"),
            Order.PARAMETERS: ("SM_PARAMETERS",),
        }
        return dict.fromkeys(flags[self], 1)


class FunctionSet(Protocol):
    """Generated functions of a model. Modules that derivatives are written in besides its own are its FORMULAS."""

    @property
    def model(self) -> ca.Function:
        """All that they are made of, before anything is differentiated."""

    def of(self, order: Order) -> tuple[GraphFunction, ...]:
        """Those that a library of this order needs."""


@dataclass(frozen=True)
class Recipe:
    """What a library is made of. Functions are differentiated only when it has to be built."""

    runtime: str  # a file of graph/runtime
    functions: FunctionSet
    defines: Mapping[str, object]
    in_lanes: str | None = None  # the file that does the same for many points at once, where there is one
    lanes: bool = False  # whether numbers are vectors

    @property
    def many(self) -> Recipe | None:
        """That of the library for many points at once."""
        return None if self.in_lanes is None else Recipe(self.in_lanes, self.functions, self.defines, lanes=True)


def load(recipe: Recipe, order: Order) -> ctypes.CDLL:
    """The model's library, from the cache or built now. Raises ToolchainError without a compiler."""
    return ctypes.CDLL(str(built(recipe, order)))


def built(recipe: Recipe, order: Order) -> Path:
    """The file of the model's library in the cache, built now where it is not there; raises as ``load``."""
    path = cache.folder() / f"{digest(recipe, order)}.so"
    if not cache.valid(path):
        with cache.only_one(path):
            if not cache.valid(path):
                compiler.build(write_sources(recipe, order), path, unit=recipe.runtime)
    return path


def digest(recipe: Recipe, order: Order) -> str:
    """Names the library: the model's expressions, the generator, the runtime and the machine."""
    total = hashlib.sha256(recipe.functions.model.serialize({"debug": False}).encode())
    for text in (
        recipe.runtime,
        repr(recipe.defines),
        str(recipe.lanes),
        order.value,
        ca.CasadiMeta.version(),
        compiler.identity(),
    ):
        total.update(text.encode())
    here = Path(__file__).parent
    made_by = [type(recipe.functions), *getattr(recipe.functions, "FORMULAS", ())]
    runtime = (source for source in sorted(compiler.RUNTIME.iterdir()) if not source.name.startswith("lq"))
    modules = (Path(inspect.getfile(made)) for made in made_by)
    for source in [*modules, *(here / name for name in SOURCES), *runtime]:  # recursions have no model in them
        total.update(source.read_bytes())
    return total.hexdigest()[:32]


def write_sources(recipe: Recipe, order: Order) -> dict[str, str]:
    """All C files of a model by name; the unit of the runtime itself is its own file and not among them."""
    first = {function.name for function in recipe.functions.of(Order.FIRST)}
    own: tuple[list[str], list[str]] = ([], [])  # of first derivatives, whose files are those of every order, and more
    heads: list[str] = []
    scratch, functions = 0, False
    for function in recipe.functions.of(order):
        tape = record(function.sparse)
        functions |= calls(tape)
        code = emit(tape, "sm_")
        own[function.name not in first].extend(code.chunks)
        heads.append(code.head)
        scratch = max(scratch, code.scratch)
    defines = {**recipe.defines, "SM_SCRATCH": scratch, **order.defines, **({"SM_FUNCTIONS": 1} if functions else {})}
    header = "".join(f"#define {name} {value}\n" for name, value in defines.items())
    real = "#define SM_IN_LANES\n" * recipe.lanes + '#include "real.h"\n'
    files = {"model.h": "#ifndef SM_MODEL_H\n#define SM_MODEL_H\n" + real + header + "".join(heads) + "#endif\n"}
    for i, text in enumerate(unit for chunks in own if chunks for unit in _units(chunks)):
        files[f"generated_{i}.c"] = real + text
    return files


def _units(chunks: Sequence[str]) -> list[str]:
    """Chunks gathered into files of about UNIT_LINES lines."""
    units: list[list[str]] = [[]]
    lines = 0
    for chunk in chunks:
        if lines > UNIT_LINES:
            units.append([])
            lines = 0
        units[-1].append(chunk)
        lines += chunk.count("\n")
    return ["".join(unit) for unit in units]

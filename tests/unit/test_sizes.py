"""Sizes of modules, functions and folders: limits above which nobody finds their way (CONTRIBUTING.md, style)."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

from tests.pages import ROOT

PACKAGES = [ROOT / "host" / "stepmap", ROOT / "codegen" / "stepmap_codegen", ROOT / "hil" / "stepmap_hil"]
MODULE_LINES, MEDIAN_LINES, FUNCTION_LINES, MODULES_PER_FOLDER, PARAMETERS = 350, 110, 50, 15, 8
COMMANDS = {"commands", "commands.py"}  # a parameter there is an option of the command line

Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> list[Path]:
    return [path for package in PACKAGES for path in sorted(package.rglob("*.py"))]


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def functions() -> Iterator[tuple[Path, Function]]:
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, Function):
                yield path, node


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parameters(function: Function) -> int:
    """All but self and cls."""
    a = function.args
    positional = [*a.posonlyargs, *a.args]
    own = bool(positional) and positional[0].arg in ("self", "cls")
    return len(positional) - own + len(a.kwonlyargs) + (a.vararg is not None) + (a.kwarg is not None)


def test_modules_are_short() -> None:
    assert {named(path): lines(path) for path in modules() if lines(path) > MODULE_LINES} == {}
    assert statistics.median(map(lines, modules())) <= MEDIAN_LINES


def test_functions_are_short() -> None:
    long = {
        f"{named(path)}: {f.name}": size
        for path, f in functions()
        if (size := (f.end_lineno or f.lineno) - f.lineno + 1) > FUNCTION_LINES
    }
    assert long == {}


SEARCHES = ("script", "direct", "plan", "identify")
"""Of the public API: their arguments, all by name, are the keys of a job."""


def test_functions_take_few_parameters() -> None:
    many = {
        f"{named(path)}: {f.name}": parameters(f)
        for path, f in functions()
        if parameters(f) > PARAMETERS and not COMMANDS & set(path.parts) and f.name not in SEARCHES
    }
    assert many == {}


def test_folders_hold_few_modules() -> None:
    folders = {path.parent for path in modules()}
    counts = {named(f): sum(p.name != "__init__.py" for p in f.glob("*.py")) for f in folders}
    assert {name: count for name, count in counts.items() if count > MODULES_PER_FOLDER} == {}


def test_packages_say_what_they_are_for() -> None:
    silent = [named(path) for path in modules() if path.name == "__init__.py" and not ast.get_docstring(_tree(path))]
    assert silent == []


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())

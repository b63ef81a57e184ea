"""Options of the form NAME=VALUE."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from stepmap import systems
from stepmap.cli.output import complain
from stepmap.descriptions import read as descriptions
from stepmap.errors import ModelError
from stepmap.formula import Formula, FormulaError, parse

T = TypeVar("T")
WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def pairs(option: str, given: Sequence[str], example: str) -> dict[str, str]:
    """NAME=VALUE texts as a dictionary; ``option`` and ``example`` are for the message where one is not."""
    found: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        name, value = name.strip(), value.strip()
        if not (name and sign and value):
            raise ModelError(f"{option} takes NAME=VALUE, for example {option} {example}; got {text!r}")
        if name in found:
            raise ModelError(f"{option} {name} is given twice; leave out one")
        found[name] = value
    return found


def maker(system: str) -> systems.Maker:
    """The function that makes a system of the catalog, or that of a Python file, a URDF or an MJCF."""
    if system.lower().endswith((".urdf", ".xml")):
        return descriptions.from_file(system)
    return systems.from_file(system) if system.endswith(".py") else systems.maker(system)


def arguments(system: str, given: Sequence[str]) -> dict[str, Any]:
    """``--set``: arguments of a system, each of the type its default has."""
    known = inspect.signature(maker(system)).parameters
    made: dict[str, Any] = {}
    for name, text in pairs("--set", given, "mass=0.2").items():
        if name not in known:
            raise ModelError(f"--set {name}: system {system!r} takes {', '.join(known) or 'no arguments'}")
        made[name] = convert(f"--set {name}", text, known[name].default)
    return made


def convert(option: str, text: str, like: object) -> object:
    """The text as a bool, an int or a float, whichever ``like`` is."""
    if isinstance(like, bool):
        if text.lower() not in WORDS:
            raise ModelError(f"{option} is true or false, got {text!r}")
        return WORDS[text.lower()]
    if isinstance(like, int):
        try:
            return int(text)
        except ValueError:
            raise ModelError(f"{option} takes a whole number, got {text!r}") from None
    return number(option, text)


def number(option: str, text: str) -> float:
    """The text as a number; an expression like pi/2 is one too."""
    try:
        early, late = parse(text)(np.array([0.0, 1.0]))
    except FormulaError:
        raise ModelError(f"{option} takes a number, got {text!r}") from None
    if early != late:
        raise ModelError(f"{option} takes a number, and {text!r} changes with t")
    return float(early)


def numbers(option: str, given: Sequence[str], example: str) -> dict[str, float]:
    """NAME=NUMBER texts as a dictionary."""
    return {name: number(f"{option} {name}", text) for name, text in pairs(option, given, example).items()}


def formulas(option: str, given: Mapping[str, str]) -> dict[str, Formula]:
    """Formulas of time by name; a mistake names the option, the formula's name and the position."""
    made: dict[str, Formula] = {}
    for name, text in given.items():
        try:
            made[name] = _named(f"{option} {name}", parse(text))
        except FormulaError as error:
            raise ModelError(f"{option} {name}: {error}") from None
    return made


def _named(option: str, formula: Formula) -> Formula:
    def named(t: Any) -> Any:
        try:
            return formula(t)
        except FormulaError as error:
            raise ModelError(f"{option}: {error}") from None

    return named


def renamed(old: str, given: T | None, new: str, value: T | None) -> T | None:
    """The value of an option that has a new name; the old one is taken for one more release, with a hint."""
    if given is None:
        return value
    if value is not None:
        raise ModelError(f"{old} is the old name of {new}; give {new} alone")
    complain(f"{old} is now called {new}; the old name goes with the next release", kind="hint")
    return given


def picture_format(option: str, path: Path, known: Sequence[str]) -> str:
    """The format that a file's extension asks for."""
    form = path.suffix.lstrip(".").lower()
    if form not in known:
        raise ModelError(f"{option} {path}: end the name with {' or '.join('.' + e for e in known)}")
    return form

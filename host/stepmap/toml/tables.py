"""Tables of a job file: values of the kind that is wanted, or a JobError that names the file, the line and the key."""

from __future__ import annotations

import re
import tomllib
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from stepmap.errors import JobError
from stepmap.formula import FormulaError, parse
from stepmap.text import nearest, nearest_word
from stepmap.toml.lines import Key, find_depth, find_lines

T = TypeVar("T")
PLAIN = re.compile(r"[A-Za-z0-9_-]+")
LARGEST = 1024 * 1024  # bytes of a file
DEEPEST = 50  # parts of a key, with those of what it is within
KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a table",
}


class RenamedKeyWarning(FutureWarning):
    """A key by the name it had in the last release; the text has the file, the line and the new name."""


_told: dict[Any, Any] = {}  # so that a table that is read twice warns once, as ``warnings`` keeps it


@dataclass(frozen=True)
class Table:
    """A table and where it stands; ``lines`` holds the line of every key of the file, ``source`` the file's content.

    A table names files relative to its own. One that came from elsewhere names none of this computer: its files are
    those ``attached`` to it. Files that are ``known`` were read before, perhaps on another computer, and are not again.
    """

    file: str
    lines: Mapping[Key, int]
    path: Key
    entries: Mapping[str, Any]
    attached: Mapping[str, bytes] | None = None
    source: bytes = b""
    known: Mapping[str, bytes] | None = None

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def error(self, message: str, *names: str | int, cause: str = "", hint: str = "") -> JobError:
        """A JobError at one of its keys, or at the table itself."""
        path: Key = (*self.path, *names)
        at = path
        while at not in self.lines:
            at = at[:-1]
        said = f"{dotted(path)}: {message}" if path else message
        return JobError(said, file=self.file, line=self.lines[at], cause=cause, hint=hint)

    def only(self, known: Collection[str], what: str = "key") -> None:
        """Raises at the first key that is not among the known ones."""
        for name in self.entries:
            if name not in known:
                raise self.error(f"no {what} is called {name!r}", name, hint=nearest(name, known))

    def need(self, name: str, hint: str) -> None:
        """Raises where a key is missing; the hint says what to write."""
        if name not in self.entries:
            raise self.error(f"{name!r} is missing", hint=hint)

    def renamed(self, new_of: Mapping[str, str]) -> Table:
        """The table with old names of keys replaced by new ones, each with a warning; raises where both are given."""
        entries, lines = dict(self.entries), dict(self.lines)
        for old, new in new_of.items():
            if old not in entries:
                continue
            if new in entries:
                raise self.error(f"give {new!r} alone: it is the new name of {old!r}, and both are here", old)
            said = self.error(f"is called {new!r} now; the next release does not take {old!r} any more", old)
            warnings.warn_explicit(str(said), RenamedKeyWarning, self.file, said.line or 0, registry=_told)
            entries[new] = entries.pop(old)
            for path, line in self.lines.items():
                if path[: len(self.path) + 1] == (*self.path, old):
                    lines[(*self.path, new, *path[len(self.path) + 1 :])] = line
        return replace(self, entries=entries, lines=lines)

    # values -----------------------------------------------------------------------------------------------------

    def table(self, name: str) -> Table:
        """A table within; empty where there is none."""
        entries = self._kind(name, self.entries.get(name, {}), dict)
        return replace(self, path=(*self.path, name), entries=entries)

    def tables(self, name: str) -> list[Table]:
        """An array of tables."""
        made = []
        for i, entries in enumerate(self._kind(name, self.entries.get(name, []), list)):
            if not isinstance(entries, dict):
                raise self.error(f"expected a table, got {entries!r}", name, i)
            made.append(replace(self, path=(*self.path, name, i), entries=entries))
        return made

    def number(self, name: str, default: float | None = None, *, unit: str = "") -> float:
        """A finite number; arithmetic as text, like "1/30" or "pi/2", is one too."""
        if name not in self.entries and default is not None:
            return default
        return self._number(self.entries[name], unit, name)

    def numbers(self, name: str, default: Sequence[float]) -> tuple[float, ...]:
        """A list of finite numbers."""
        given = self._kind(name, self.entries.get(name, list(default)), list)
        return tuple(self._number(value, "", name, i) for i, value in enumerate(given))

    def rows(self, name: str, width: int) -> list[tuple[float, ...]]:
        """A list of lists of ``width`` finite numbers, one at least."""
        given = self._kind(name, self.entries[name], list)
        if not given or not all(isinstance(row, list) and len(row) == width for row in given):
            raise self.error(f"expected a list of lists of {width} numbers each", name)
        return [
            tuple(self._number(value, "", name, i, k) for k, value in enumerate(row)) for i, row in enumerate(given)
        ]

    def whole(self, name: str, default: int | None = None) -> int:
        """A whole number."""
        if name not in self.entries and default is not None:
            return default
        return self._kind(name, self.entries[name], int)

    def flag(self, name: str, default: bool = False) -> bool:
        return self._kind(name, self.entries.get(name, default), bool)

    def text(self, name: str) -> str:
        return self._kind(name, self.entries[name], str)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        given = self._kind(name, self.entries[name], list)
        for i, value in enumerate(given):
            if not isinstance(value, str):
                raise self.error(f"expected a text, got {shown(value)}", name, i)
        return tuple(given)

    def content(self, name: str) -> tuple[str, bytes]:
        """The name of the file that a key names, for messages, and its content."""
        given = self.text(name)
        if self.attached is not None:
            if given not in self.attached:
                raise self.error(f"no file {given!r} came with it", name)
            return given, self.attached[given]
        path = Path(self.file).parent / given
        if self.known is not None and given in self.known:
            return str(path), self.known[given]
        try:
            return str(path), path.read_bytes()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise self.error(f"{path} cannot be read: {reason}", name) from None

    def choice(self, name: str, known: Sequence[str], default: str | None = None) -> str:
        """One of some words."""
        if name not in self.entries and default is not None:
            return default
        word = self.text(name)
        if word not in known:
            raise self.error(f"no choice is called {word!r}", name, hint=nearest(word, known))
        return word

    def like(self, name: str, pattern: object) -> Any:
        """A value of the type of ``pattern``."""
        if isinstance(pattern, bool):
            return self.flag(name)
        if isinstance(pattern, int):
            return self.whole(name)
        return self.text(name) if isinstance(pattern, str) else self.number(name)

    def _kind(self, name: str, value: object, kind: type[T]) -> T:
        # bool is an int to Python and not to a reader.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.error(f"expected {KINDS[kind]}, got {shown(value)}", name)
        return value

    def _number(self, value: object, unit: str, *names: str | int) -> float:
        wanted = f"a number of {unit}" if unit else "a number"
        if isinstance(value, str):
            value = self._arithmetic(value, wanted, *names)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(f"expected {wanted}, got {shown(value)}", *names)
        try:
            made = float(value)
        except OverflowError:
            made = float("inf")
        if not isfinite(made):
            raise self.error(f"must be finite, got {value}", *names)
        return made

    def _arithmetic(self, text: str, wanted: str, *names: str | int) -> float:
        try:
            early, late = parse(text)(np.array([0.0, 1.0]))
        except FormulaError as error:
            raise self.error(f"expected {wanted}, got {text!r}: {error}", *names) from None
        if early != late:
            raise self.error(f"expected {wanted}, and {text!r} changes with t", *names)
        return float(early)


def read(path: Path) -> Table:
    """The outermost table of a TOML file."""
    file = str(path)
    try:
        with path.open("rb") as stream:  # a pipe, too; of what has no end, no more than is taken
            content = stream.read(LARGEST + 1)
    except OSError as error:
        raise JobError(f"cannot be read: {error.strerror}", file=file, hint=_neighbour(path)) from None
    return parse_text(content, file)


def _neighbour(path: Path) -> str:
    """The hint for a file that is not there: one beside it whose name is like it."""
    near = None
    with suppress(OSError):
        if not path.exists():
            near = nearest_word(path.name, [file.name for file in path.parent.glob("*.toml")])
    return "" if near is None else f"Did you mean {str(path.with_name(near))!r}?"


def parse_text(content: bytes, file: str, attached: Mapping[str, bytes] | None = None) -> Table:
    """The outermost table of a TOML document; with ``attached`` files it came from elsewhere."""
    try:
        return _parse(content, file, attached)
    except RecursionError:
        raise JobError("is nested too deeply to be read", file=file) from None


def _parse(content: bytes, file: str, attached: Mapping[str, bytes] | None) -> Table:
    if len(content) > LARGEST:
        raise JobError(f"has more than {LARGEST} bytes, which no such file needs", file=file)
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise JobError(f"is not UTF-8 text: {error.reason}", file=file, line=line) from None
    deep = find_depth(text, DEEPEST)
    if deep is not None:  # tomllib would take the square of it in time and memory
        raise JobError(
            f"is nested too deeply: more than {DEEPEST} names and brackets within each other", file=file, line=deep
        )
    try:
        entries = tomllib.loads(text)
    except ValueError as error:  # also of a number with too many digits
        raise _syntax(str(error), file, text) from None
    table = Table(file, find_lines(text), (), entries, attached, content)
    for path, value in _floats(entries):
        if not isfinite(value):
            raise table.error(f"must be finite, got {value}", *path)
    return table


def _floats(value: Any, path: Key = ()) -> Iterator[tuple[Key, float]]:
    """All floating-point numbers of a document, and where they are."""
    if isinstance(value, float):
        yield path, value
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _floats(inner, (*path, key))


def _syntax(message: str, file: str, text: str) -> JobError:
    """tomllib's message ends in "(at line 3, column 7)" or "(at end of document)"."""
    reason, _, where = message.partition(" (at ")
    found = re.match(r"line (\d+), column (\d+)", where)
    end = text.count("\n") + 1 if where else None  # what Python itself says has no place
    line = int(found.group(1)) if found else end
    column = f" (column {found.group(2)})" if found else ""
    return JobError(f"is not valid TOML: {reason}{column}", file=file, line=line)


def dotted(path: Key) -> str:
    """A path as one would write it, places in arrays from 1: reference.points[2].xm."""
    said = ""
    for name in path:
        if isinstance(name, int):
            said += f"[{name + 1}]"
        else:
            said += ("." if said else "") + (name if PLAIN.fullmatch(name) else repr(name))
    return said


def shown(value: object) -> str:
    """A value for a message, not too long, as a kind where it is a table or a list."""
    for kind in (dict, list):
        if isinstance(value, kind):
            return KINDS[kind]
    text = repr(value) if not isinstance(value, bool) else str(value).lower()
    return text if len(text) <= 60 else text[:57] + "..."

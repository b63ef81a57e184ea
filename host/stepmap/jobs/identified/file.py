"""What ``stepmap identify`` has found, as a file that a job takes by a line before its tables.

    identified = "identified.toml"

Its numbers go over those of the job: arguments of the system, ``sensor_delay`` of the board, standard deviations of the
noise. The table [identified] says how sure they are, for people; a job does not read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stepmap.errors import ModelError
from stepmap.toml.tables import Table, parse_text

KEY = "identified"
NOISE = ("process", "measurement")
SECTIONS = ("system", "board", "noise", KEY)


def merged(root: Table) -> tuple[Table, dict[str, bytes]]:
    """The outermost table of a job with what its file of found values says, and that file's content by its name."""
    if KEY not in root:
        return root, {}
    shown, content = root.content(KEY)
    found = _read(content, shown)
    entries = {name: value for name, value in root.entries.items() if name != KEY}
    for section, values in found.items():
        given = root.table(section)  # raises where it is no table
        if section == "noise":
            inner = {part: {**given.table(part).entries, **more} for part, more in values.items()}
            entries[section] = {**given.entries, **inner}
        else:
            entries[section] = {**given.entries, **values}
    return replace(root, entries=entries), {root.text(KEY): content}


def values_in(root: Table) -> dict[str, dict[str, Any]]:
    """What a job already takes from such a file, so that a new one can keep it; empty where it names none."""
    original = parse_text(root.source, root.file, root.attached) if root.source else root
    if KEY not in original:
        return {}
    shown, content = original.content(KEY)
    return _read(content, shown)


def _read(content: bytes, shown: str) -> dict[str, dict[str, Any]]:
    """The checked sections that a job takes."""
    table = parse_text(content, shown)
    table.only(SECTIONS, "table")
    system, board, noise = (table.table(name) for name in SECTIONS[:3])
    board.only(("sensor_delay",))
    noise.only(NOISE, "table")
    made: dict[str, dict[str, Any]] = {}
    for name, section in (("system", system), ("board", board)):
        if section.entries:
            made[name] = _numbers(section)
    if noise.entries:
        made["noise"] = {part: _numbers(noise.table(part)) for part in noise}
    return made


def _numbers(table: Table) -> dict[str, float]:
    return {name: table.number(name) for name in table}


def write(values: Mapping[str, Mapping[str, Any]], remarks: Mapping[tuple[str, ...], str], about: str) -> str:
    """The text of such a file; ``remarks`` go behind the keys they belong to, ``about`` before all."""
    lines = [f"# {line}".rstrip() for line in about.splitlines()]

    def section(path: tuple[str, ...], entries: Mapping[str, Any]) -> None:
        plain = {name: value for name, value in entries.items() if not isinstance(value, Mapping)}
        if plain:
            lines.extend(["", f"[{'.'.join(path)}]"])
        for name, value in plain.items():
            remark = remarks.get((*path, name), "")
            lines.append(f"{_key(name)} = {_value(value)}" + (f"  # {remark}" if remark else ""))
        for name, value in entries.items():
            if isinstance(value, Mapping):
                section((*path, name), value)

    for name in SECTIONS:
        if name in values:
            section((name,), values[name])
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else f'"{name}"'


def _value(value: Any) -> str:
    if isinstance(value, str):
        if any(c in value for c in '"\\\n'):
            raise ModelError(f"{value!r} cannot be written into a file of found values")
        return f'"{value}"'
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return f"{float(value):.8g}"

"""Every key that job, rig and fault files may have, as their readers ask for them.

The readers are run on all examples while each question they ask of a table is noted: which keys it may have, of which
kind a value must be, what stands for one that is left out. Sentences come from the tables of docs/, by the key's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from stepmap.jobs import load
from stepmap.toml.tables import Table, read
from stepmap_hil.commands import check
from stepmap_hil.faults.spec import read_faults
from stepmap_hil.rig.file import read_rig
from tools.site import ROOT

KINDS = {
    "flag": "true or false",
    "number": "number",
    "numbers": "numbers",
    "rows": "rows of numbers",
    "whole": "whole number",
    "text": "text",
    "texts": "texts",
    "content": "file",
    "choice": "word",
    "table": "table",
    "tables": "tables",
}
PAGES = {
    "jobs.md": "",
    "gaits.md": "",
    "imitation.md": "imitate",
    "rigs.md": "",
}  # and the table of rows under other headings
SHARED = ("job", "system", "codegen", "board", "bench", "stream", "filter", "noise")  # tables that all kinds have
Place = tuple[str, ...]


@dataclass
class Key:
    """What readers asked of a key."""

    kind: str = ""
    default: str = ""


@dataclass
class Keys:
    """Tables by their path: keys, and of which sort of name the others are."""

    tables: dict[Place, dict[str, Key]] = field(default_factory=dict)
    others: dict[Place, str] = field(default_factory=dict)

    def general(self) -> Keys:
        """The same with what is named by the job, such as coordinates, under one name for all."""
        made = Keys()
        for path, entries in self.tables.items():
            place = self.place(path)
            known = made.tables.setdefault(place, {})
            for name, key in entries.items():
                if path not in self.others or place == ("system",):
                    known.setdefault(name, key)
        made.others = {self.place(path): what for path, what in self.others.items()}
        return made

    def place(self, path: Place) -> Place:
        return tuple(
            self.others[path[:i]].upper().partition(" ")[0] if path[:i] in self.others and i else part
            for i, part in enumerate(path)
        )

    def at(self, table: Table) -> dict[str, Key]:
        path = tuple("[]" if isinstance(part, int) else part for part in table.path)
        return self.tables.setdefault(path, {})

    def note(self, table: Table, name: str, kind: str, default: Any) -> None:
        key = self.at(table).setdefault(name, Key())
        key.kind = key.kind or kind
        if default is not None and default != () and not key.default:
            key.default = str(default).lower() if isinstance(default, bool) else f"{default}"


@contextmanager
def noted(keys: Keys) -> Iterator[None]:
    """Within, what is asked of tables is noted."""

    def asking(name: str) -> Callable[..., Any]:
        method = getattr(Table, name)

        def ask(table: Table, key: str, *more: Any, **options: Any) -> Any:
            default = options.get("default", more[-1] if more else None)
            told = KINDS[name]
            if name == "choice":
                told = " or ".join(f"`{word}`" for word in more[0]) if len(more[0]) <= 8 else "word"
                default = options.get("default", more[1] if len(more) > 1 else None)
            elif name in ("rows", "content", "text", "texts", "table", "tables"):
                default = None
            keys.note(table, key, told, default)
            return method(table, key, *more, **options)

        return ask

    only = Table.only

    def ask_only(table: Table, known: Any, what: str = "key") -> None:
        if what in ("key", "table"):
            for key in known:
                keys.note(table, str(key), "table" if what == "table" else "", None)
        else:
            keys.at(table)
            keys.others[tuple("[]" if isinstance(p, int) else p for p in table.path)] = what
        only(table, known, what)

    changed = {name: asking(name) for name in KINDS} | {"only": ask_only}
    with patch.multiple(Table, **changed):
        yield


def job_files() -> Mapping[str, Keys]:
    """Keys of job files by the kind of job."""
    found: dict[str, Keys] = {}
    for path in sorted((ROOT / "examples").rglob("*.toml")):
        entries = read(path).entries
        if "system" not in entries:
            continue
        kind = entries.get("job", {}).get("kind", "track")
        with noted(found.setdefault(kind, Keys())):
            first, *_ = check.examine(path, "native", ROOT / "build")  # also the tables of later stages
            if first.state == check.WRONG:  # a job for no board
                load(path)
    return {kind: keys.general() for kind, keys in found.items()}


def others() -> Mapping[str, Keys]:
    """Keys of rig and fault files."""
    rig, faults = Keys(), Keys()
    with noted(rig):
        for path in sorted((ROOT / "examples" / "rigs").glob("*.toml")):
            read_rig(path, calibrated=False)
    with noted(faults):
        for path in sorted((ROOT / "examples" / "faults").glob("*.toml")):
            read_faults(path)
    return {"Rig files": rig.general(), "Fault files": faults.general()}


def meanings() -> dict[tuple[str, str], str]:
    """What docs/ says of a key, by table and key: under a heading that names the table, or in a row that does."""
    found: dict[tuple[str, str], str] = {}
    for name, usual in PAGES.items():
        table = usual
        for line in (ROOT / "docs" / name).read_text().splitlines():
            if heading := re.match(r"#+ .*?`\[+([\w.]+)\]+`", line):
                table = heading[1]
            elif line.startswith("#"):
                table = usual
            elif line.startswith("| "):
                *names, told = [part.strip() for part in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
                for inner in re.findall(r"^`\[+([\w.]+)\]+`", names[0]) if names else ():
                    table = inner if len(names) > 1 and name == "rigs.md" else table
                    outer, _, key = inner.rpartition(".")
                    found.setdefault((outer, key), told)
                for cell in names[:1] if name != "rigs.md" else names[1:2]:
                    for key in re.findall(r"`(?:\[\w.]+\] )?(\w+)`", cell):
                        found.setdefault((table, key), told)
    return found


def page() -> str:
    said = meanings()
    lines = ["# Every key that is read", "", __doc__.partition("\n\n")[2].replace("\n", " ").strip(), ""]
    lines += ["[jobs.md](../jobs.md), [rigs.md](../rigs.md) and [bench.md](../bench.md#faults) say more of each.", ""]
    found = job_files()
    shared = common(found)
    lines += ["## All jobs", "", "Tables that jobs of every kind may have.", "", *tables(shared, said)]
    for kind, keys in found.items():
        own = Keys({p: k for p, k in keys.tables.items() if p[:1] not in {(name,) for name in SHARED}}, keys.others)
        lines += [f"## Jobs of kind {kind}", "", *tables(own, said)]
    for title, keys in others().items():
        lines += [f"## {title}", "", *tables(keys, said)]
    return "\n".join(lines)


def common(found: Mapping[str, Keys]) -> Keys:
    """Tables of the later stages, which all kinds share, merged."""
    merged = Keys()
    for keys in found.values():
        for path, entries in keys.tables.items():
            if path and path[0] in SHARED:
                merged.tables.setdefault(path, {})
                for name, key in entries.items():
                    if path != ("system",) or key.kind or name in ("urdf", "mjcf", "file", "name", "function"):
                        merged.tables.setdefault(path, {}).setdefault(name, key)
                if path in keys.others:
                    merged.others[path] = keys.others[path]
    return merged


def tables(keys: Keys, said: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """A section per table."""
    for path, entries in keys.tables.items():
        named = ".".join(part for part in path if part != "[]")
        if not path:
            yield from ("Tables: " + ", ".join(f"`[{name}]`" for name in entries) + ".", "")
            continue
        title = f"[[{named}]]" if path[-1] == "[]" else f"[{named}]"
        if not entries and path not in keys.others:
            continue
        yield from (f"### `{title}`", "")
        if path in keys.others:
            yield from (f"One entry per {keys.others[path]}.", "")
        if entries:
            yield from ("| key | value | default | |", "|---|---|---|---|")
            for name, key in entries.items():
                told = said.get((named, name), "")
                default = f"`{key.default}`" if key.default else ""
                yield f"| `{name}` | {key.kind} | {default} | {linked(told)} |"
            yield ""


def linked(text: str) -> str:
    """A cell of a page in docs/ with its links as seen from the folder of this page."""
    return re.sub(
        r"\]\((?!\.\./|https?:)([\w./-]*)(#[\w-]+)?\)", lambda m: f"](../{m[1] or 'jobs.md'}{m[2] or ''})", text
    )

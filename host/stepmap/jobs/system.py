"""The table [system] of a job: a system of the catalog by its name, or a Python file of the user; and its arguments."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from stepmap import systems
from stepmap.descriptions import mjcf, saved, urdf
from stepmap.descriptions.assemble import assemble
from stepmap.descriptions.read import left_out
from stepmap.errors import JobError, ModelError, TrustError
from stepmap.jobs.task import Job
from stepmap.mechanics import System
from stepmap.systems import Maker, files
from stepmap.text import nearest
from stepmap.toml.tables import Table

NAMES = ("name", "file", "function")  # keys of [system] that are no arguments
DESCRIBED = {"urdf": ("floating", "motors", "meshes", "gravity"), "mjcf": ()}
"""Keys that name a robot's description, and those that go with each."""


class LeftOutWarning(UserWarning):
    """What a robot's description says and the system that was made of it does not have."""


@dataclass(frozen=True)
class SystemSource:
    """Where a system comes from, and the arguments it is made with; plain data, which another process can have."""

    name: str  # in the catalog, or the file's in messages
    arguments: Mapping[str, Any] = field(default_factory=dict)
    code: bytes | None = None  # of a file, which may be run
    function: str | None = None  # of that file
    foreign: bool = False  # whether a file from elsewhere names these
    described: bytes | None = None  # the model of a robot's description, as data

    @property
    def maker(self) -> Maker:
        """The function that makes the system."""
        if self.described is not None:
            return partial(_assembled, self.described, self.name)
        if self.code is None:
            return systems.maker(self.name)
        return files.maker(self.code, self.name, self.function, foreign=self.foreign)

    def make(self, **others: Any) -> System:
        """The system, with other arguments over its own, or other values of its parameters."""
        known = inspect.signature(self.maker).parameters
        arguments = {**self.arguments, **{name: value for name, value in others.items() if name in known}}
        own = self.code is None and self.described is None
        made = systems.get(self.name, **arguments) if own else self.maker(**arguments)
        values = {name: value for name, value in others.items() if name not in known}
        return made.with_parameters(**values) if values else made

    def content(self) -> bytes | None:
        """What decides the system besides stepmap itself: its file, or the package it comes from."""
        if self.described is not None:
            return self.described
        return systems.source(self.name) if self.code is None else self.code


def source_of(job: Job) -> SystemSource:
    """The source of a job's system, as it was when the job was read."""
    return read_source(job.root.table("system"), job.files)


def read_source(table: Table, read: Mapping[str, bytes] | None = None) -> SystemSource:
    """The source that [system] names; raises JobError, and TrustError where it is code from elsewhere.

    ``read`` are contents of files that were read before, which are not read again.
    """
    there = {**(table.known or {}), **(read or {})}
    described = next((kind for kind in DESCRIBED if kind in table), None)
    if described is not None:
        return _described(table, described, there)
    source = _file(table, there) if "file" in table else _named(table)
    known = inspect.signature(source.maker).parameters
    used = ("file", "function") if "file" in table else ("name",)
    for name in used:
        if name in known:
            raise table.error(f"{source.name}: an argument of a system cannot be called {name!r}; rename it", used[0])
    table.only((*used, *known), "argument")
    arguments = {key: table.like(key, known[key].default) for key in table if key not in used}
    try:
        files.require_arguments(source.maker, arguments, f"{source.maker.__name__}()")
    except ModelError as error:
        raise table.error(str(error), hint=error.hint) from None
    return replace(source, arguments=arguments)


def _assembled(described: bytes, shown: str) -> System:
    return assemble(saved.load(described, shown))


def _described(table: Table, kind: str, read: Mapping[str, bytes]) -> SystemSource:
    """A system of a URDF or MJCF. What was imported is kept as data, which recordings hold in place of the file."""
    table.only((kind, *DESCRIBED[kind]))
    given = table.text(kind)
    if table.attached is not None:
        shown, content = table.content(kind)
        return SystemSource(shown, described=content, foreign=True)
    path = Path(table.file).parent / given
    if given in read:
        return SystemSource(str(path), described=read[given])
    if not path.is_file():
        near = nearest(given, sorted(p.name for p in Path(table.file).parent.glob(f"*{path.suffix}")))
        raise table.error(f"there is no file {path}", kind, hint=near)
    try:
        if kind == "mjcf":
            model = mjcf.read(path)
        else:
            model = urdf.read(
                path,
                floating=table.flag("floating"),
                motors=table.texts("motors") if "motors" in table else None,
                meshes=table.flag("meshes", True),
                gravity=table.number("gravity", 9.81),
            )
    except ModelError as error:
        raise table.error(str(error), kind, cause=error.cause, hint=error.hint) from None
    return SystemSource(str(path), described=saved.dump(model))


def _named(table: Table) -> SystemSource:
    known = systems.names()
    table.need("name", f'Name one of {", ".join(known)}, or your own: file = "my_system.py".')
    name = table.text("name")
    if name not in known:
        raise table.error(f"no system is called {name!r}", "name", hint=_meant(table, name, known))
    return SystemSource(name)


def _meant(table: Table, name: str, known: list[str]) -> str:
    """The hint for a name that is not in the catalog: a Python file beside the job may be what was meant."""
    wanted = name if name.endswith(".py") else f"{name}.py"
    if table.attached is None and (Path(table.file).parent / wanted).is_file():
        return f'Did you mean file = "{wanted}"?'
    return nearest(name, known)


def _file(table: Table, read: Mapping[str, bytes]) -> SystemSource:
    if "name" in table:
        raise table.error("give either name, of a system in the catalog, or file, of your own", "name")
    given = table.text("file")
    function = table.text("function") if "function" in table else None
    if table.attached is not None:
        shown, code = table.content("file")
        if not files.is_approved(code):
            raise TrustError(
                f"{table.file}: the system is code, {given}, which came with it and is not run",
                hint="Read it. If it is yours, name your own copy: --system-file FILE.",
            )
        return SystemSource(shown, {}, code, function, foreign=True)
    if not given.endswith(".py"):
        raise table.error(f"expected the name of a Python file, got {given!r}", "file")
    path = Path(table.file).parent / given
    if given in read:
        return SystemSource(str(path), {}, read[given], function)
    if not path.is_file():
        near = nearest(given, sorted(p.name for p in Path(table.file).parent.glob("*.py")))
        raise table.error(f"there is no file {path}", "file", hint=near)
    return SystemSource(str(path), {}, files.read(path), function)


def read_system(table: Table, used: dict[str, bytes] | None = None, *, moved: bool = True) -> System:
    """The system that [system] names, with its arguments; ``used`` collects the contents of the files it names.

    It has an input to be ``moved`` by, or need not have one.
    """
    source = read_source(table)
    if used is not None and source.code is not None:
        used[table.text("file")] = source.code
    if used is not None and source.described is not None:
        used[table.text("urdf" if "urdf" in table else "mjcf")] = source.described
    try:
        system = source.make()
    except JobError:
        raise
    except ModelError as error:
        raise table.error(str(error), cause=error.cause, hint=error.hint) from None
    if system.left_out and table.attached is None:
        warnings.warn(LeftOutWarning(left_out(source.name, system)), stacklevel=2)
    if moved and not (system.inputs or system.kinematic):
        raise table.error(f"{system.name!r} has no force input and no kinematic coordinate to be moved by")
    return system

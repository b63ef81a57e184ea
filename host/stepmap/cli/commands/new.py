"""``stepmap new``: a project to begin with."""

from __future__ import annotations

import keyword
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from stepmap.cli.output import console, figures
from stepmap.errors import ModelError
from stepmap.files import write_whole

TEMPLATES = {"{}.py": "system.py.in", "{}.toml": "job.toml.in", "README.md": "README.md.in", "test_{}.py": "test.py.in"}
TAKEN = ("stepmap", "stepmap_codegen", "stepmap_hil", "numpy", "test", "tests", "conftest")
WHAT = {"{}.py": "the mechanism", "{}.toml": "its job", "README.md": "what to do next", "test_{}.py": "its tests"}


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the system, its files and its function: crane.")],
    dir_: Annotated[
        Path, typer.Option("--dir", metavar="FOLDER", help="Where the files go; made if it is not there.")
    ] = Path(),
) -> None:
    """Write a project that works at once: a mechanism, its job, a README and a test, with comments to change them by.

    Nothing that is there is replaced.
    """
    _require_name(name)
    if dir_.exists() and not dir_.is_dir():
        raise ModelError(f"--dir: {dir_} is not a folder", hint="Name a folder; one that is not there is made.")
    written = {dir_ / file.format(name): template for file, template in TEMPLATES.items()}
    there = [path.name for path in written if path.exists() or path.is_symlink()]
    if there:
        raise ModelError(
            f"{', '.join(there)} in {dir_.resolve()} would be replaced",
            hint=f"Give another folder: stepmap new {name} --dir {name}.",
        )
    for path, template in written.items():
        write_whole(path, _filled(template, name))
    rows = [(str(dir_ / file.format(name)), what) for file, what in WHAT.items()]
    console().print(figures(rows))
    console().print(f"\nnext: stepmap check {dir_ / f'{name}.toml'}", soft_wrap=True)


def _require_name(name: str) -> None:
    """Raises where a name cannot be that of a Python module and of a function."""
    if not name.isascii() or not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        raise ModelError(f"{name!r} cannot be the name of a system", hint="Take letters, digits and _, as in my_crane.")
    if name in TAKEN or name.startswith("test_"):
        raise ModelError(f"{name!r} is the name of something else", hint=f"Take another, such as my_{name}.")


def _filled(template: str, name: str) -> str:
    text = (resources.files("stepmap.cli") / "project" / template).read_text(encoding="utf-8")
    title = name.replace("_", " ")
    return text.replace("{{title}}", title[0].upper() + title[1:]).replace("{{name}}", name)

"""Options that several commands have."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from stepmap_codegen import boards

BoardName = Enum("BoardName", {name: name for name in boards.catalog()}, type=str)  # type: ignore[misc]
JobFile = Annotated[Path, typer.Argument(metavar="JOB", help="A job file (TOML); docs/jobs.md describes it.")]
BoardOption = Annotated[BoardName, typer.Option(help="The board; docs/boards.md describes them.")]
Build = Annotated[Path, typer.Option(metavar="FOLDER", help="Where build folders go.")]
KeyOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The key of the board. [default: the one that stepmap key made]")
]
SystemOption = Annotated[
    int, typer.Option(metavar="ID", min=1, max=254, help="MAVLink system id of the board, 1 to 254.")
]
RegistryOption = Annotated[bool, typer.Option("--registry", help="Use PlatformIO's own platforms, which it downloads.")]
PortOption = Annotated[
    str, typer.Option(metavar="PORT", help="A serial device, a pseudo terminal, or socket://HOST:NUMBER.")
]
RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run: its name, its folder, a recording (.mcap), or latest.")
]
SystemFileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Your copy of the recorded system's Python file. Code of a recording that you have not run yourself is "
        "never run.",
    ),
]
TIMEOUT_S = 5.0  # for an answer

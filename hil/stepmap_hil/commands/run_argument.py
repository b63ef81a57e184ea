"""The argument that names a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run: its name, its folder, a recording (.mcap), or latest.")
]

"""``stepmap key``: the key that a host and its boards share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stepmap.cli.output import console
from stepmap_hil.wire import key as keys


def key(
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the key is, or is to be. [default: in your settings]")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Say which key there is; make none.")] = False,
) -> None:
    """Make the key that a host and its boards share, in a file that only you can read.

    Never replaces one: boards that were built with it would not obey any more. The name that is shown tells keys apart
    and gives nothing away.
    """
    place = keys.default_path() if file is None else file
    found = keys.read(place) if show else keys.create(place)
    console().print(f"{'key' if show else 'made key'} {found.name}: {place}", soft_wrap=True)

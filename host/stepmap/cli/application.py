"""The application, and the options that stand before its commands; root.py finds these."""

from __future__ import annotations

from typing import Annotated

import typer

import stepmap
from stepmap.cli.root import Root

app = typer.Typer(
    name="stepmap",
    cls=Root,
    add_completion=False,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"stepmap {stepmap.__version__}")
        raise typer.Exit


@app.callback()
def _before(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """From a mechanical system to its one-step variational map."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)

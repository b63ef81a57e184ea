"""The application: its commands, and the options that stand before them."""

from __future__ import annotations

from typing import Annotated

import typer

import stepmap
from stepmap.cli.commands.catalog import systems
from stepmap.cli.commands.demo import demo
from stepmap.cli.commands.doctor import doctor
from stepmap.cli.commands.figure import figure
from stepmap.cli.commands.new import new
from stepmap.cli.commands.optimize import optimize
from stepmap.cli.commands.simulate import simulate
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


app.command()(new)
app.command()(systems)
app.command()(simulate)
app.command()(optimize)
app.command()(figure)
app.command()(demo)
app.command()(doctor)

"""``stepmap doctor``: what this machine has and lacks."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer
from rich.text import Text

from stepmap import doctor as checks
from stepmap.cli.output import console, grid, working

MARKS = {name: Text(name, style) for name, style in {"ok": "green", "missing": "yellow", "broken": "red"}.items()}


def doctor(json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False) -> None:
    """Say what this machine can do, what is missing for the rest and how to get it.

    Fails only if simulation cannot work.
    """
    with working("looking around"):
        findings = checks.examine()
    if json_:
        typer.echo(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2, ensure_ascii=False))
    else:
        out = console()
        out.print(grid(("this machine can", "", "for that it lacks"), map(_ability, checks.abilities(findings))))
        for ability in checks.ABILITIES:
            rows = [_row(finding) for finding in findings if finding.use == ability]
            out.print()
            out.print(grid((ability, "", "found", "remedy"), rows))
    if any(finding.fatal for finding in findings):
        raise typer.Exit(1)


def _ability(ability: checks.Ability) -> tuple[str, Text, str]:
    styles = {"yes": "green", "slowly": "yellow", "no": "red"}
    return ability.name, Text(ability.state, styles[ability.state]), ", ".join(one.name for one in ability.lacking)


def _row(finding: checks.Finding) -> tuple[str, Text, str, str]:
    remedy = "" if finding.state == "ok" else finding.remedy
    return finding.name, MARKS[finding.state], finding.detail, remedy

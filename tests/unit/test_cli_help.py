"""The help of every command, at three widths: nothing cut, nothing lost, every command in its panel."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

import pytest
import typer
from rich.cells import cell_len
from typer.testing import CliRunner

from stepmap.cli import app
from stepmap.cli.help import OTHER, PANELS, choices

ROOT = typer.main.get_command(app)
CONTEXT = typer.Context(ROOT, info_name="stepmap")
COMMANDS = ROOT.list_commands(CONTEXT)
WIDTHS = (60, 80, 140)
FRAME = "╭─╮│╰╯"
HELD = ("[s]", "[m]", "[solver]", "[camera]", "[codegen]")


@cache
def shown(width: int, *command: str) -> str:
    result = CliRunner(env={"COLUMNS": str(width), "NO_COLOR": "1"}).invoke(app, [*command, "--help"])
    assert result.exit_code == 0, result.output
    return result.stdout


def words(text: str) -> str:
    """The text without frames and line ends."""
    return " ".join("".join(" " if c in FRAME else c for c in text).split())


def panels(text: str) -> dict[str, list[str]]:
    """Names of the commands in each panel."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if title := re.match(r"╭─ (\w+) ─", line):
            entries = found.setdefault(title[1], [])
        elif row := re.match(r"│ ([a-z][a-z_-]*)  ", line):
            entries.append(row[1])
    return found


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_no_line_is_longer_than_the_terminal(command: str, width: int) -> None:
    for line in shown(width, *filter(None, [command])).splitlines():
        assert cell_len(line) <= width


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_and_its_whole_text_are_shown(command: str, width: int) -> None:
    made = ROOT.get_command(CONTEXT, command)
    text = shown(width, command)
    for param in made.params:
        if getattr(param, "hidden", False):
            continue
        if param.param_type_name == "option":
            assert all(re.search(rf"{option}\b", text) for option in (*param.opts, *param.secondary_opts))
        else:
            assert param.metavar in text
    assert "{" not in text.split("\n\n")[0]  # JOB, not {JOB}
    assert "[[" not in text
    assert not re.search(r"\w…", text)  # cut off
    for artefact in ("<bool>", "int range", "float range", "Usually", "\\["):
        assert artefact not in text


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("command", COMMANDS)
def test_brackets_are_kept(command: str, width: int) -> None:
    """What is in brackets in the source of a help text is in what is shown."""
    made, text = ROOT.get_command(CONTEXT, command), shown(width, command)
    texts = [made.help, *(param.help for param in made.params if not getattr(param, "hidden", False))]
    columns = words(text)
    for held in re.findall(r"\\(\[[^\]]*\])", " ".join(texts)):
        # In the column of help a text is broken by the columns beside it: its words stay.
        assert all(re.search(re.escape(word), columns) for word in held.split()), held


def test_units_and_tables_that_are_named_in_help() -> None:
    everything = " ".join(words(shown(140, command)) for command in COMMANDS)
    for held in HELD:
        assert held in everything


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("command", COMMANDS)
def test_paragraphs_are_wrapped_by_the_terminal(command: str, width: int) -> None:
    """No line of a paragraph ends where the next word would have fitted."""
    prose = shown(width, command).partition("╭")[0]
    for paragraph in re.split(r"\n\s*\n", prose):
        lines = [line.strip() for line in paragraph.splitlines() if line.strip()]
        for line, after in pairwise(lines):
            assert len(line) + 1 + len(after.split()[0]) > width - 2


@pytest.mark.parametrize("width", WIDTHS)
def test_every_command_is_in_its_panel(width: int) -> None:
    found = panels(shown(width))
    assert {title: tuple(names) for title, names in found.items() if title not in ("Options", OTHER)} == PANELS
    assert sorted(name for title, names in found.items() if title != "Options" for name in names) == sorted(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_choices_are_whole_words(command: str) -> None:
    """At 80 columns names of boards are not cut in two."""
    made, text = ROOT.get_command(CONTEXT, command), words(shown(80, command))
    for param in made.params:
        if not getattr(param, "hidden", False):
            assert all(re.search(rf"\b{choice}\b", text) for choice in choices(param))

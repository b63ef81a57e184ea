"""Messages on stderr: an error, its cause and a hint, wrapped at words for a terminal only."""

from __future__ import annotations

import os
import pickle
import pty
import subprocess
import sys

import pytest

from stepmap.cli.output import complain, wrapped
from stepmap.cli.root import explain
from stepmap.errors import LinkError, ModelError, StepmapError

LONG = "no pose near the given one satisfies the constraints: the string is longer than the robot can reach " * 3


@pytest.mark.parametrize(("kind", "code"), [(StepmapError, 1), (LinkError, 1), (ModelError, 2)])
def test_an_error_may_carry_its_cause_and_a_hint(
    kind: type[StepmapError], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    error = kind("the run ended", cause="five deadlines were missed", hint="Close other programs.")
    assert str(error) == "the run ended"
    assert explain(error) == code
    said = "error: the run ended\ncause: five deadlines were missed\nhint: Close other programs.\n"
    assert capsys.readouterr().err == said


def test_causes_and_hints_reach_other_processes() -> None:
    error = pickle.loads(pickle.dumps(LinkError("text", cause="cause", hint="hint")))
    assert (str(error), error.cause, error.hint) == ("text", "cause", "hint")


def test_without_a_terminal_nothing_is_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    complain(LONG.strip())
    assert capsys.readouterr().err == f"error: {LONG.strip()}\n"


def test_lines_break_at_words_only() -> None:
    path = "/" + "long-name/" * 12
    lines = wrapped(f"error: {path} cannot be read, and-this-is-not-broken either", 40)
    assert all(len(line) <= 40 or line.strip() == path for line in lines)
    assert " ".join(line.strip() for line in lines).split() == lines_of(path)


def lines_of(path: str) -> list[str]:
    return f"error: {path} cannot be read, and-this-is-not-broken either".split()


@pytest.mark.parametrize("columns", [40, 80])
def test_a_terminal_gets_lines_of_its_width(columns: int) -> None:
    code = (
        "import sys; from stepmap.cli.output import complain; complain(sys.argv[1], hint='Move it ' + 'nearer ' * 20)"
    )
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns)}
    subprocess.run([sys.executable, "-c", code, LONG], stderr=theirs, env=environment, check=True, timeout=600)
    os.close(theirs)
    said = os.read(ours, 65536).decode()
    os.close(ours)
    lines = said.splitlines()
    assert len(lines) > 300 / columns
    assert max(map(len, lines)) <= columns
    assert lines[0].startswith("error: no pose")
    assert sum(line.startswith("hint: Move it") for line in lines) == 1
    assert " ".join(said.split()).startswith(f"error: {LONG.strip()}")

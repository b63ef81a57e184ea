"""docs/troubleshooting.md: every message is printed by the command above it, and reasons of boards have the words that
commands print."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from tests.hil.commands import call
from tests.pages import ROOT, consoles, files
from tests.undrawn import STEPMAP
from tools.site.reference import messages

PAGE = ROOT / "docs" / "troubleshooting.md"


def test_messages_are_printed_by_the_commands_above_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    shutil.copy(ROOT / "examples" / "suspended_mass.toml", tmp_path)
    for name, content in files(PAGE).items():
        (tmp_path / name).write_text(content)
    asked = consoles(PAGE)
    assert len(asked) >= 10
    for command, lines in asked:
        code, _, complaints = call([*STEPMAP, *shlex.split(command)[1:]], tmp_path)
        assert code in (1, 2), command
        said = complaints.splitlines()
        for line in lines:  # a page may leave out the end of a line
            assert any(one.startswith(line) for one in said), (
                f"$ {command}\nshows {line!r}, and it prints\n{complaints}"
            )


def test_reasons_have_the_words_that_commands_print() -> None:
    text = PAGE.read_text()
    assert messages.filled(text) == text, "run python -m tools.site.reference.messages"
    assert text.count("| `motor_following` |") == 1

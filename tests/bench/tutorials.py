"""``make tutorials``: those that take longer than a test may, as a newcomer goes through them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import ROOT
from tests.tutorials import Workplace


@pytest.mark.parametrize("page", ["tutorial-imitation.md", "tutorial-biped.md"])
def test_a_tutorial_prints_what_it_shows(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert Workplace(tmp_path).walk(ROOT / "docs" / page) >= 2

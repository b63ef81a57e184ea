"""The other tutorials, each as a newcomer goes through it; docs/tutorial.md has a module of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.pages import ROOT
from tests.tutorials import Workplace

DOCS = ROOT / "docs"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*not carried over")  # the page says so
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_from_a_urdf_to_gains_on_your_own_firmware(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert Workplace(tmp_path).walk(DOCS / "tutorial-urdf.md") == 5
    assert (tmp_path / "arm" / "stepmap.json").exists()

"""CITATION.cff: this version, and the five papers."""

from __future__ import annotations

import re
from typing import Any

import pytest

import stepmap as sm
from tests.pages import ROOT

FILE = ROOT / "CITATION.cff"
FAMILIES = {"Schultz", "Murphey", "Johnson", "Kobilarov", "Desbrun", "Marsden", "Sukhatme", "Pekarek"}


def test_it_cites_this_version() -> None:
    assert re.search(r"^version: (.+)$", FILE.read_text(), re.MULTILINE)[1] == sm.__version__  # type: ignore[index]


def test_it_is_what_readers_of_such_files_expect() -> None:
    yaml = pytest.importorskip("yaml", reason="no reader of YAML is among the locked packages")
    cited: dict[str, Any] = yaml.safe_load(FILE.read_text())
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(cited)
    assert len(cited["references"]) == 5
    for paper in cited["references"]:
        assert {"type", "title", "authors"} <= set(paper)
    assert {author["family-names"] for paper in cited["references"] for author in paper["authors"]} == FAMILIES

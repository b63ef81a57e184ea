"""CITATION.cff: this version, and the five papers."""

from __future__ import annotations

import re

import pytest

import stepmap as sm
from tests import cff
from tests.pages import ROOT

FILE = ROOT / "CITATION.cff"
FAMILIES = {"Schultz", "Murphey", "Johnson", "Kobilarov", "Desbrun", "Marsden", "Sukhatme", "Pekarek"}


def test_it_cites_this_version() -> None:
    assert re.search(r"^version: (.+)$", FILE.read_text(), re.MULTILINE)[1] == sm.__version__  # type: ignore[index]


def test_it_is_what_readers_of_such_files_expect() -> None:
    cited = cff.read(FILE.read_text())
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(cited)
    assert len(cited["references"]) == 5
    for paper in cited["references"]:
        assert {"type", "title", "authors"} <= set(paper)
    assert {author["family-names"] for paper in cited["references"] for author in paper["authors"]} == FAMILIES


@pytest.mark.parametrize(
    "wrong", ["a: 1\na: 2", "a: b: c", "a:\n   b: 1", "a:\n- b", "\ta: 1", "a: 'b'", "a: 1\n  b: 2", "a", "a: &b c"]
)
def test_its_reader_is_strict(wrong: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  whatever it says
        cff.read(wrong)

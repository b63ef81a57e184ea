"""docs/architecture.md against the code: files and functions it names are there, its pictures are those of today."""

from __future__ import annotations

import re

import pytest

from tests.pages import ROOT
from tools.pictures.__main__ import IMAGES, drawn
from tools.pictures.tick import STEPS

PAGE = ROOT / "docs" / "architecture.md"
FILE = re.compile(r"`((?:host|codegen|hil|firmware)/[\w/.]+\.(?:py|c|h))`")


def named() -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """(files, functions) of every row of a table that names both."""
    found = []
    for row in re.findall(r"^\| .* \|$", PAGE.read_text(), re.MULTILINE):
        *_, place, functions = row.strip("| ").split(" | ")
        if "`: `" in functions:
            place, functions = functions.split(": ")
        files, words = tuple(FILE.findall(place)), tuple(re.findall(r"`(\w+)`", functions))
        if files:
            found.append((files, words))
    return found


def defined(function: str, text: str) -> bool:
    python = rf"^\s*def {function}\("
    c = rf"^[a-z][\w \*]*\b{function}\([^;]*$"
    return re.search(rf"{python}|{c}", text, re.MULTILINE) is not None


def test_many_rows_are_checked() -> None:
    assert len(named()) > 30


@pytest.mark.parametrize(("files", "functions"), named(), ids=lambda value: "-".join(value))
def test_functions_are_where_the_page_says(files: tuple[str, ...], functions: tuple[str, ...]) -> None:
    texts = [(ROOT / file).read_text() for file in files]
    assert functions
    for function in functions:
        assert any(defined(function, text) for text in texts), f"{function} is in none of {', '.join(files)}"


def test_functions_of_the_sequence_exist() -> None:
    sources = [
        *ROOT.glob("hil/**/*.py"),
        *ROOT.glob("firmware/core/*.c"),
        *ROOT.glob("firmware/generated/*/controller.c"),
    ]
    everything = "\n".join(path.read_text() for path in sources)
    for step in STEPS:
        assert defined(step.code.rpartition(".")[2], everything), step.code


def test_pictures_are_those_of_today() -> None:
    for name, content in drawn().items():
        assert (IMAGES / name).read_text() == content, f"{name} is stale: python -m tools.pictures"

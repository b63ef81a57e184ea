"""Every promise of docs/security.md names tests, and each of them exists."""

from __future__ import annotations

import ast
import re

import pytest

from tests.pages import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
PROMISED = PAGE.split("## What is promised")[1].split("## What is not promised")[0]
ROWS = [line for line in PROMISED.splitlines() if line.startswith("|") and not line.startswith(("|---", "| promise"))]
NAMED = sorted({name for row in ROWS for name in re.findall(r"`(tests/[^`]+)`", row)})


def test_every_promise_names_a_test() -> None:
    assert len(ROWS) > 15
    for row in ROWS:
        promise, tests = row.strip("|").split("|")
        assert promise.strip()
        assert re.search(r"`tests/[^`]+`", tests), f"no test holds: {promise}"


@pytest.mark.parametrize("name", NAMED)
def test_each_of_them_exists(name: str) -> None:
    file, _, function = name.partition("::")
    path = ROOT / file
    assert path.is_file(), file
    if function:
        made = {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}
        assert function in made, name
    elif path.name.startswith("test_"):
        assert re.search(r"^def test_", path.read_text(), re.MULTILINE), f"{file} has no tests"

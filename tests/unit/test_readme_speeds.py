"""Speeds in the README stand there as the benchmark writes them."""

from __future__ import annotations

import re

import pytest

from tests.bench import readme
from tests.pages import ROOT

PEERS = {"MuJoCo Euler": 7.4, "MuJoCo implicit": 12.9, "MuJoCo mjd_transitionFD": 1025.0, "Pinocchio aba": 4.9}


def core() -> list[readme.Row]:
    works = (*readme.WORK, "linearize_along", "curvature_along", "build_cached")
    return [
        {"system": system, "work": work, "us": 3.21, "reference_us": 18327.0, "peers": PEERS}
        for system in readme.SYSTEMS
        for work in works
    ]


def optimal() -> list[readme.Row]:
    row = {"iterations": 7, "cpu_s": 0.0046, "reference_cpu_s": 0.807, "cost": 1.0, "reference_cost": 1.0 + 3e-15}
    return [{"problem": problem, **row} for problem in readme.PROBLEMS]


COMMANDS = [{"what": "marionette, cold build", "cpu_s": 7.5}]


def without_figures(text: str) -> list[str]:
    """Its lines with # for numbers; of rows what they are about."""
    lines = [re.sub(r"\d[\d.]*", "#", line) for line in text.strip().splitlines()]
    return [line.split("|")[1] if line.startswith("|") else line for line in lines]


def test_the_readme_has_what_the_benchmark_writes() -> None:
    page = (ROOT / "README.md").read_text()
    shown = page.partition(readme.BEGIN)[2].partition(readme.END)[0]
    made = readme.text(core(), optimal(), COMMANDS)
    assert "| 3.2 µs (18 327) |" in made
    assert "| 7 | 4.6 ms | 0.81 s (IPOPT), the same cost to 3e-15 |" in made
    assert without_figures(shown) == without_figures(made)


def test_what_was_not_measured_is_an_error() -> None:
    with pytest.raises(KeyError, match="marionette_tracking"):
        readme.text(core(), optimal()[:-1], COMMANDS)
    bare = [{**row, "peers": None} for row in core()]
    with pytest.raises(KeyError, match="MuJoCo Euler"):
        readme.text(bare, optimal(), COMMANDS)

"""Reports are one file, hold what they say and ask nothing of the network."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser

import pytest

import stepmap as sm
from stepmap.formula import parse
from stepmap.report import Section, key_figures, page, section
from stepmap.simulation import simulate, start_pose
from tests import machines


class Reader(HTMLParser):
    """Collects what a browser would fetch, checks that tags are closed in order, keeps the text."""

    VOID = ("meta", "img", "br", "link")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def report() -> str:
    step = sm.discretize(sm.systems.get("suspended_mass"), 0.01)
    moves = {"xr": "0.1*sin(3*t)"}
    formulas = {name: parse(text) for name, text in moves.items()}
    simulation = simulate(step, 60, start_pose(step.system, {"xm": 0.6}, moves=formulas), formulas)
    return page("A <title> & more", [section("Robot", "Drives.", simulation, moves)], "Introduction")


def test_nothing_is_fetched(report: str) -> None:
    reader = Reader(report)
    assert len(reader.addresses) == 4  # motion, coordinates, energy, tension
    assert all(address.startswith("data:image/svg+xml;base64,") for address in reader.addresses)
    assert not re.search(r"""(src|href)\s*=\s*["']?https?://""", report)
    assert "@import" not in report
    assert "url(" not in report


def test_pictures_fetch_nothing_either(report: str) -> None:
    for address in Reader(report).addresses:
        svg = base64.b64decode(address.partition(",")[2]).decode()
        assert svg.startswith("<?xml")
        references = re.findall(r"""(?:xlink:)?href\s*=\s*["']([^"']*)""", svg)
        assert all(reference.startswith("#") for reference in references)


def test_holds_what_it_is_about(report: str) -> None:
    text = Reader(report).text
    for part in ("A <title> & more", "Introduction", "Robot", "Drives.", "largest constraint gap", "= 0.1*sin(3*t)"):
        assert part in text
    assert "<title>A &lt;title&gt; &amp; more</title>" in report
    assert f"stepmap {sm.__version__}" in text


def test_markup_in_a_name_stays_text() -> None:
    attack = "<script>alert(1)</script>"
    made = page(attack, [Section(attack, attack, [(attack, attack)], [], [(attack, attack)])], attack)
    assert "<script" not in made
    assert Reader(made).text.count(attack) == 9


def test_key_figures_tell_drift_from_work() -> None:
    free = sm.discretize(sm.systems.get("pendulum"), 0.01)
    assert dict(key_figures(simulate(free, 50, [2.0]))).keys() == {"simulated", "energy drift", "computing time"}
    driven = simulate(free, 50, [2.0], {"torque": parse("1")})
    assert "do work" in dict(key_figures(driven))["energy change"]


def test_a_string_that_would_be_slack_is_named() -> None:
    step = sm.discretize(sm.systems.get("suspended_mass"), 0.01)
    falls = {"r": parse("1 + 10*t**2")}  # 20 m/s² downward, faster than the mass falls
    simulation = simulate(step, 20, start_pose(step.system, {}, moves=falls), falls)
    assert dict(key_figures(simulation))["constraint forces"].endswith("a string would be slack: string")


def test_a_joint_that_pushes_is_no_slack_string() -> None:
    step = sm.discretize(machines.four_bar(), 0.01)
    simulation = simulate(step, 20, start_pose(step.system, {"a": 1.0}))
    assert simulation.multipliers.min() < 0
    assert "slack" not in dict(key_figures(simulation))["constraint forces"]

"""Campaigns that tests run: a small filter study, and a kind whose trials do what tests want."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepmap.campaigns import Base, Campaign, Column, Row, Trial, Varied, load
from stepmap.campaigns.study import each
from stepmap.errors import ModelError
from stepmap.toml.tables import parse_text

JOB = """
[system]
name = "pendulum"
damping = 0.1
[time]
dt = 0.05
steps = 20
[start]
theta = 0.3
[reference]
kind = "expressions"
of = { theta = "0.3" }
[weights]
state = { theta = 1, p = 0.1 }
input = { torque = 0.5 }
[noise]
process = { theta = 0.001, p = 0.01 }
start = { theta = 0.02, p = 0.05 }
measurement = { theta = 0.02 }
"""

FILTER = """
[campaign]
kind = "filter"
job = "pendulum.toml"
trials = {trials}
seed = 7
chunk = {chunk}
[grid]
noise.process.p = [0.01, 0.02]
"""


def written(folder: Path, text: str = FILTER, *, name: str = "study", trials: int = 30, chunk: int = 7) -> Path:
    """A campaign file in a folder, with its job beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pendulum.toml").write_text(JOB)
    path = folder / f"{name}.toml"
    path.write_text(text.replace("{trials}", str(trials)).replace("{chunk}", str(chunk)))
    return path


@dataclass(frozen=True, eq=False)
class Scripted:
    """A kind of tests: trials do what their value says."""

    chunk = 1
    preload: tuple[str, ...] = ()
    columns = (Column("square", "of the number", shown=True),)

    def inputs(self) -> dict[str, str]:
        return {}

    def check(self, name: str, value: Any) -> None:
        """Everything goes."""

    def prepared(self, varied: Varied, build: Path) -> Scripted:
        return self

    def run(self, trials: Sequence[Trial]) -> list[Row]:
        return each(trials, _act)

    def tells(self, columns: Mapping[str, Any]) -> list[tuple[str, str]]:
        return []


def _act(trial: Trial) -> Row:
    deed = trial.values["deed"]
    if deed == "die":
        os._exit(9)
    if deed == "fail":
        raise ModelError(f"trial {trial.number} was told to fail")
    if deed == "divide":
        return {"square": 1.0 / 0.0}
    if deed == "no memory":
        raise MemoryError
    return {"square": float(trial.number**2)}


def scripted(folder: Path, deeds: Sequence[str], chunk: int = 1) -> Campaign:
    """A campaign whose trials do these deeds, one after the other."""
    path = written(folder)
    varied = Varied({"deed": tuple(deeds)}, {}, {}, 1, 1)
    root = parse_text(f"[campaign]\ndeeds = {list(deeds)}\n".encode(), "scripted")
    return Campaign("scripted", "scripted", root, Base.load(path.with_name("pendulum.toml")), Scripted(), varied, chunk)


def rows(campaign: Campaign, build: Path, **given: Any) -> list[dict[str, Any]]:
    """All rows of a campaign that is run now."""
    made: list[dict[str, Any]] = campaign.run(build=build, **given).table.to_pylist()
    return made


__all__ = ["FILTER", "JOB", "Scripted", "load", "rows", "scripted", "written"]

"""The catalog: found by name, built with arguments, errors that list what there is."""

from __future__ import annotations

from pathlib import Path

import pytest

import stepmap as sm


def test_names_are_the_files() -> None:
    folder = Path(sm.systems.__file__).parent
    assert sm.systems.names() == sorted(path.stem for path in folder.glob("[!_]*.py"))
    assert {"cart_pendulum", "double_pendulum", "suspended_mass", "planar_arm", "marionette"} <= set(sm.systems.names())


@pytest.mark.parametrize("name", sm.systems.names())
def test_every_system_says_what_it_is_and_has_a_pose_to_start_from(name: str) -> None:
    assert sm.systems.maker(name).__doc__
    system = sm.systems.get(name)
    known = {c.name for c in system.coordinates}
    assert set(sm.systems.example(name)) <= known
    system.require_on_constraints(system.configuration({}))


@pytest.mark.parametrize("name", ["pendulums", "", "_registry", "../setup", None])
def test_unknown_systems_are_refused_with_the_list(name: str) -> None:
    with pytest.raises(sm.ModelError, match=r"no system is called.*cart_pendulum"):
        sm.systems.get(name)


def test_unknown_arguments_are_refused_with_the_list() -> None:
    with pytest.raises(sm.ModelError, match="takes no 'weight'; it takes mass, length"):
        sm.systems.get("pendulum", weight=2.0)


def test_arguments_reach_the_system() -> None:
    assert len(sm.systems.get("pendulum_chain", n=3).dynamic) == 3
    assert len(sm.systems.get("double_pendulum", actuated=False).inputs) == 0
    with pytest.raises(sm.ModelError, match="n must be a whole number"):
        sm.systems.get("pendulum_chain", n=0)

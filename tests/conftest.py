"""Fixtures of all tests. Steps are built once a process; libraries come from the user's cache where they are there."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import stepmap as sm
from tests import order, turns
from tests.mechanisms import Case, case, cataloged

# The same examples in every run: a failure is a failure for everyone, and compiled libraries are found in the cache.
settings.register_profile(
    "repeatable", deadline=None, derandomize=True, max_examples=20, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")


# Nobody debugs the firmwares that tests build, and a compiler takes a fifth less without what a debugger needs.
os.environ.setdefault("PLATFORMIO_BUILD_FLAGS", "-g0")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-generated", action="store_true", help="write firmware/generated anew instead of comparing with it"
    )
    parser.addoption(
        "--update-public-api", action="store_true", help="write tests/data/public_api.txt anew before comparing with it"
    )


def is_alone(item: pytest.Item | None) -> bool:
    return item is not None and item.get_closest_marker("realtime") is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In several processes what takes longest begins first; in one the order is that of the files."""
    if hasattr(config, "workerinput"):
        items[:] = order.dealt(
            items,
            config.workerinput["workercount"],
            lambda item: item.path.relative_to(Path(__file__).parent).as_posix(),
            is_alone,
            lambda item: item.get_closest_marker("prepares") is not None,
        )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Thousands of tests that stay are not looked at again with every collection of garbage."""
    gc.collect()
    gc.freeze()


TURNS = pytest.StashKey[turns.Turns]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[object]:
    """A test of real time has the machine to itself: the other processes of this run wait with their next test."""
    if not hasattr(item.config, "workerinput"):  # there are no others
        return (yield)
    if TURNS not in item.config.stash:
        shared = item.config._tmp_path_factory.getbasetemp().parent  # type: ignore[attr-defined]
        item.config.stash[TURNS] = turns.Turns(shared)
    with item.config.stash[TURNS].turn(alone=is_alone(item), next_alone=is_alone(nextitem)):
        return (yield)


APART = ("marionette_balls",)  # CasADi would differentiate its equations for minutes; test_balls.py has it
SMOOTH = [name for name in sm.systems.names() if not cataloged(name).gap_names and name not in APART]


@pytest.fixture(scope="session", params=SMOOTH)
def catalog(request: pytest.FixtureRequest) -> Case:
    """Every system of the catalog without gaps, as it is found there; those with gaps are in test_event_steps.py."""
    return case(request.param)


@pytest.fixture(scope="session", params=[name for name in SMOOTH if cataloged(name).constraints])
def constrained(request: pytest.FixtureRequest) -> Case:
    """Those of the catalog with constraints."""
    return case(request.param)

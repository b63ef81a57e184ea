"""Without a C compiler, and with one that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap.errors import ToolchainError
from stepmap.graph import compiler
from stepmap.steps.kernels import compiled as kernel
from stepmap.steps.kernels.compiled import CompiledKernel

POINT = ([0.6, 0.2, 0.0, 1.0, 0.01, -0.04, 0.0, 0.0], [0.01, 0.99])
WARNING = "no C compiler found.*CC"


@pytest.fixture
def no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/nonexistent/cc")
    monkeypatch.setenv("STEPMAP_CACHE", str(tmp_path))
    kernel.say_once.cache_clear()


@pytest.mark.usefixtures("no_compiler")
@pytest.mark.parametrize("factory", [sm.discretize, sm.euler])
def test_without_a_compiler_results_are_the_same(factory: type, monkeypatch: pytest.MonkeyPatch) -> None:
    system = sm.systems.get("suspended_mass")
    with pytest.warns(UserWarning, match=WARNING):
        slow = factory(system, 0.01)
    assert not isinstance(slow.kernel, CompiledKernel)
    monkeypatch.undo()
    fast = factory(system, 0.01)
    assert isinstance(fast.kernel, CompiledKernel)
    x, u = POINT
    z = np.arange(1.0, 9.0)
    # Values of order 1 to 100; both solve to rounding.
    for ours, theirs in zip(
        (*slow.step(x, u)[:2], *slow.linearize(x, u), *slow.curvature(x, u, z), slow.rollout(x, [u] * 5).x),
        (*fast.step(x, u)[:2], *fast.linearize(x, u), *fast.curvature(x, u, z), fast.rollout(x, [u] * 5).x),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11)


@pytest.mark.usefixtures("no_compiler")
@pytest.mark.parametrize("factory", [sm.discretize, sm.euler])
def test_without_a_compiler_errors_are_the_same(factory: type) -> None:
    with pytest.warns(UserWarning, match=WARNING):
        step = factory(sm.systems.get("suspended_mass"), 0.01)
    x, u = POINT
    for call in (step.step, step.linearize):
        with pytest.raises(sm.ShapeError, match=r"entry \[1\] is not a finite number"):
            call([0.0, np.nan, *x[2:]], u)
    with pytest.raises(sm.ShapeError, match="z: expected 8"):
        step.curvature(x, u, [1.0])


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_steps_that_cannot_be_solved_are_reported() -> None:
    system = sm.systems.get("planar_arm")
    with pytest.warns(UserWarning, match=WARNING):
        step = sm.discretize(system, 0.01)
    x = step.rest(system.configuration({}))
    with pytest.raises(sm.ConvergenceError) as caught:
        step.step(x, [0.5, 0.1])
    assert caught.value.iterations > 0
    with pytest.raises(sm.ConvergenceError, match="step 1 of the rollout"):
        step.rollout(x, [[0.5, 1.0], [0.5, 0.1]])


def test_the_missing_compiler_is_mentioned_once(tmp_path: Path) -> None:
    script = """
import stepmap as sm
for name in ("pendulum", "cart_pendulum", "suspended_mass"):
    sm.discretize(sm.systems.get(name), 0.01)
"""
    environment = os.environ | {"CC": "/nonexistent/cc", "STEPMAP_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr.count("no C compiler found") == 1


def test_a_compiler_that_fails_is_an_error_with_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho 'cannot do that today' >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    monkeypatch.setenv("STEPMAP_CACHE", str(tmp_path / "cache"))
    with pytest.raises(sm.ToolchainError, match="failed with exit code 3") as caught:
        sm.discretize(sm.systems.get("pendulum"), 0.01)
    assert "cannot do that today" in caught.value.log
    assert caught.value.command.startswith(str(broken))
    assert "install a C compiler" in caught.value.remedy
    assert not list((tmp_path / "cache").glob("*.so"))


def test_the_environment_may_name_a_compiler_with_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "sh -c")
    assert compiler.find() == ["sh", "-c"]
    monkeypatch.setenv("CC", "/nonexistent/cc -O2")
    assert compiler.find() is None
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert compiler.find() is None


def test_curvature_survives_a_compiler_that_went_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPMAP_CACHE", str(tmp_path))
    step = sm.discretize(sm.systems.get("suspended_mass"), 0.01)
    monkeypatch.setenv("CC", "/nonexistent/cc")
    kernel.say_once.cache_clear()
    x, u = POINT
    z = np.arange(1.0, 9.0)
    with pytest.warns(UserWarning, match=WARNING):
        slow = step.curvature(x, u, z)
    monkeypatch.undo()
    fast = sm.discretize(sm.systems.get("suspended_mass"), 0.01).curvature(x, u, z)
    np.testing.assert_allclose(slow.xx, fast.xx, rtol=1e-9, atol=1e-9)


def test_a_tool_that_does_not_come_to_an_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "LONGEST", 0.2)
    with pytest.raises(ToolchainError, match=r"sleep was still at work after 0\.2 s and was ended"):
        compiler.finished(["sleep", "600"])

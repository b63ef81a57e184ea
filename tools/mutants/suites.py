"""Which files get mutants, and which quick tests should notice them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass


def _nothing() -> None:
    """Of suites that prepare nothing."""


@dataclass(frozen=True)
class Suite:
    """Files, and the tests of them, the quickest first. ``share``: of the sample, beside the shares of the others;
    ``preload``: modules that no mutant of it changes; ``warm`` makes once what no mutant changes either."""

    name: str
    share: int
    files: tuple[str, ...]
    tests: tuple[str, ...]
    preload: tuple[str, ...] = ()
    warm: Callable[[], None] = _nothing


OUTSIDE = ("numpy", "casadi", "scipy.optimize", "scipy.sparse", "pytest")
WHOLE = (
    *OUTSIDE,
    "tests.mechanisms",
    "stepmap.api",
    "stepmap.jobs",
    "stepmap_codegen.generate",
    "stepmap_hil.wire.upload",
)


def _core(
    name: str, share: int, *tests: str, files: tuple[str, ...] = (), warm: Callable[[], None] = _nothing
) -> Suite:
    made = tuple(f"firmware/core/{file}" for file in (files or (f"sm_{name}.c",)))
    return Suite(name, share, made, _paths(tests), WHOLE, warm)


def _python(name: str, share: int, files: tuple[str, ...], *tests: str) -> Suite:
    return Suite(name, share, files, _paths(tests), OUTSIDE)


def _paths(tests: tuple[str, ...]) -> tuple[str, ...]:
    """Files, or tests of a file behind "::"."""
    return tuple("tests/" + test.replace("::", ".py::") + ("" if "::" in test else ".py") for test in tests)


def _controllers() -> None:
    """Those that loops are compiled with: their design takes longer than all else."""
    kinds = importlib.import_module("tests.firmware.loop_kinds")
    for name in kinds.KINDS:
        kinds.controller(name)


HOST, LOWER = "host/stepmap", "codegen/stepmap_codegen/lower"
GAITS = "unit/test_gaits::test_"

SUITES = (
    _core("supervisor", 45, "firmware/test_small_numbers", "firmware/test_supervisor"),
    _core("motor", 40, "firmware/test_small_numbers", "firmware/test_motor"),
    _core("sha256", 12, "firmware/test_sha256"),
    _core("schedule", 25, "unit/test_schedule"),
    _core("fixed", 15, "sil/test_fixed_point", "sil/test_primitives", files=("sm_fixed.c", "sm_fixed.h")),
    _core(
        "link",
        30,
        *("firmware/test_decisions", "firmware/test_link", "firmware/test_security", "firmware/test_loop_numbers"),
    ),
    _core(
        "store",
        35,
        "firmware/test_decisions",
        "firmware/test_worn_flash",
        "firmware/test_upload",
        files=("sm_store.c", "sm_upload.c"),
    ),
    _core(
        "loop",
        45,
        "firmware/test_rows",
        "firmware/test_numbers",
        "firmware/test_loop_numbers",
        "firmware/test_select",
        "firmware/test_alarms",
        "firmware/test_loop",
        "firmware/test_loop_guards",
        "firmware/test_turns",
        files=("sm_loop.c", "sm_tick.c", "sm_axes.c", "sm_host.c", "sm_report.c", "sm_select.c", "sm_numbers.c",
               "sm_clock.c", "sm_rows.c"),
        warm=_controllers,
    ),
    _core(
        "robots",
        30,
        "firmware/test_follow",
        "firmware/test_walk",
        "firmware/test_loop_kinds",
        files=("sm_follow.c", "sm_stream.c", "sm_gait.c", "sm_walk.c"),
        warm=_controllers,
    ),
    _python("gaps", 15, (f"{HOST}/mechanics/gaps.py",), "unit/test_rigid_numbers", "unit/test_gaps", "unit/test_kinks"),
    _python("cone", 20, (f"{HOST}/steps/events/cone.py",), "unit/test_cone"),
    _python(
        "balls",
        40,
        (f"{HOST}/steps/layout.py", f"{HOST}/steps/rotations/maps.py", f"{HOST}/mechanics/poses/quaternion.py",
         f"{HOST}/mechanics/poses/tangent.py", f"{HOST}/mechanics/bodies.py"),
        "unit/test_rigid_numbers",
        "unit/test_manifolds",
        "unit/test_bodies",
        "contract/test_manifold_kinds",
    ),
    _python(
        "lower",
        25,
        tuple(f"{LOWER}/{name}.py" for name in ("gaps", "slack_test", "selections", "blocks")),
        "unit/test_lower",
        "sil/test_strings",
    ),
    _python(
        "walkers",
        30,
        tuple(f"{HOST}/optimal/gaits/{name}.py" for name in ("renaming", "names", "modes", "cycle", "jump")),
        "unit/test_renaming",
        "unit/test_gait_modes",
        f"{GAITS}renamings_that_do_not_fit_are_refused",
        f"{GAITS}modes_that_cannot_be_are_refused",
        f"{GAITS}a_hopper_s_two_phases_have_the_multipliers_of_their_maps",
        f"{GAITS}the_compass_s_multipliers_by_phases",
    ),
    _python(
        "following",
        15,
        ("codegen/stepmap_codegen/stream/follower.py", "codegen/stepmap_codegen/model/nearest.py"),
        "unit/test_stream",
        "firmware/test_follow",
        "firmware/test_walk",
    ),
)  # fmt: skip

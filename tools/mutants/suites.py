"""Which files get mutants, and which quick tests should notice them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Suite:
    """Files, and the tests of them, the quickest first. ``share``: of the sample, beside the shares of the others;
    ``preload``: modules that no mutant of it changes."""

    name: str
    share: int
    files: tuple[str, ...]
    tests: tuple[str, ...]
    preload: tuple[str, ...] = ()


OUTSIDE = ("numpy", "casadi", "scipy.optimize", "scipy.sparse", "pytest")
WHOLE = (
    *OUTSIDE,
    "tests.mechanisms",
    "stepmap.api",
    "stepmap.jobs",
    "stepmap_codegen.generate",
    "stepmap_hil.wire.upload",
)


def _core(name: str, share: int, *tests: str, files: tuple[str, ...] = ()) -> Suite:
    made = tuple(f"firmware/core/{file}" for file in (files or (f"sm_{name}.c",)))
    return Suite(name, share, made, tuple(f"tests/{test}.py" for test in tests), WHOLE)


def _python(name: str, share: int, files: tuple[str, ...], *tests: str) -> Suite:
    return Suite(name, share, files, tuple(f"tests/{test}.py" for test in tests), OUTSIDE)


HOST, LOWER = "host/stepmap", "codegen/stepmap_codegen/lower"

SUITES = (
    _core("supervisor", 100, "firmware/test_small_numbers", "firmware/test_supervisor"),
    _core("motor", 60, "firmware/test_small_numbers", "firmware/test_motor"),
    _core("sha256", 25, "firmware/test_sha256"),
    _core("schedule", 45, "unit/test_schedule"),
    _core("fixed", 12, "sil/test_fixed_point", "sil/test_primitives", files=("sm_fixed.c", "sm_fixed.h")),
    _core("link", 45, "firmware/test_link", "firmware/test_security"),
    _core("store", 60, "firmware/test_worn_flash", "firmware/test_upload", files=("sm_store.c", "sm_upload.c")),
    _core(
        "loop",
        25,
        "firmware/test_loop",
        "firmware/test_loop_guards",
        "firmware/test_turns",
        "firmware/test_rows",
        files=("sm_loop.c", "sm_tick.c", "sm_axes.c", "sm_host.c", "sm_report.c", "sm_select.c", "sm_numbers.c",
               "sm_clock.c", "sm_rows.c"),
    ),
    _python("gaps", 25, (f"{HOST}/mechanics/gaps.py",), "unit/test_rigid_numbers", "unit/test_gaps", "unit/test_kinks"),
    _python("cone", 25, (f"{HOST}/steps/events/cone.py",), "unit/test_cone"),
    _python(
        "balls",
        50,
        (f"{HOST}/steps/layout.py", f"{HOST}/steps/rotations/maps.py", f"{HOST}/mechanics/poses/quaternion.py",
         f"{HOST}/mechanics/poses/tangent.py", f"{HOST}/mechanics/bodies.py"),
        "unit/test_rigid_numbers",
        "unit/test_manifolds",
        "unit/test_bodies",
        "contract/test_manifold_kinds",
    ),
    _python(
        "lower",
        30,
        tuple(f"{LOWER}/{name}.py" for name in ("gaps", "slack_test", "selections", "blocks")),
        "unit/test_lower",
        "sil/test_strings",
    ),
    _python(
        "walkers",
        20,
        (f"{HOST}/optimal/gaits/renaming.py", f"{HOST}/optimal/gaits/names.py"),
        "unit/test_gaits",
    ),
)  # fmt: skip

"""Sizes that are estimated before anything is compiled: near what the compiler makes; and advice where none fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepmap.errors import ModelError, RangeError
from stepmap_codegen import Controller, Form, Scalar, boards
from stepmap_codegen.boards import BoardSpec, Runs
from stepmap_codegen.emit import size as sizes
from stepmap_codegen.toolchain import TARGETS, Built, build
from tests.sil.controllers import CORE, holding, rewritten

M3 = TARGETS["cortex-m3"]
needs_compiler = pytest.mark.skipif(bool(M3.missing()), reason=f"{', '.join(M3.missing())} not installed")
DRIVER = """
#include "controller.h"
static sm_controller c;
int app(void) {
  int result = sm_self_test(&c);
  result |= (int)sm_update(&c, 0xFFFFU);
  sm_state_feedback(&c);
  sm_predict(&c);
  return result;
}
"""
NOTHING = "int app(void) { return 0; }\n"
# Small and large, with and without sines, strings and kinematic coordinates.
NAMES = ("pendulum", "cart_pendulum", "suspended_mass", "planar_arm")
KINDS = [
    (Scalar.FIXED32, Form.STRAIGHT),
    (Scalar.FIXED32, Form.ROWS),
    (Scalar.FLOAT32, Form.STRAIGHT),
    (Scalar.FLOAT64, Form.STRAIGHT),
]


def written(name: str, scalar: Scalar, form: Form) -> Controller:
    return rewritten(holding(name)[0], scalar, form)


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Bytes of a program that does nothing."""
    folder = tmp_path_factory.mktemp("nothing")
    (folder / "nothing.c").write_text(NOTHING)
    return build(M3, [folder / "nothing.c"], [], folder).text_bytes


def compiled(made: Controller, folder: Path) -> Built:
    (folder / "driver.c").write_text(DRIVER)
    for name in ("controller.h", "controller.c"):
        (folder / name).write_bytes(made.files()[name])
    core = [CORE / f"{name}.c" for name in ("sm_fixed", "sm_rows", "sm_schedule")]
    return build(M3, [folder / "controller.c", folder / "driver.c", *core], [folder, CORE], folder / "built")


@needs_compiler
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("scalar", "form"), KINDS, ids=[f"{s.value}-{f.value}" for s, f in KINDS])
def test_estimates_are_near_what_is_compiled(
    name: str, scalar: Scalar, form: Form, around: int, tmp_path: Path
) -> None:
    """Code with all it calls, at -Os on a Cortex-M3, within 20 % (measured: −3 to +12 %); stack within 30 %.

    A budget that is wrong by more would promise what does not fit, or refuse what does.
    """
    made = written(name, scalar, form)
    found = sizes.estimate(made.program, made.formats, scalar, form, rows=100)
    built = compiled(made, tmp_path)
    assert built.text_bytes - around == pytest.approx(found.code, rel=0.2)
    stack = max(built.worst_stack(f"sm_{function}") for function in ("update", "state_feedback", "predict"))
    assert stack == pytest.approx(found.stack, rel=0.3)
    assert built.bss_bytes >= found.ram
    assert len(made.schedule.pack()) <= 8 * len(made.schedule.rows) * made.schedule.rows.shape[1] + 200


def test_the_schedule_is_counted() -> None:
    for scalar, width in ((Scalar.FIXED32, 4), (Scalar.FLOAT64, 8)):
        made = written("cart_pendulum", scalar, Form.STRAIGHT)
        rows, entries = made.schedule.rows.shape
        found = sizes.estimate(made.program, made.formats, scalar, Form.STRAIGHT, rows)
        assert found.schedule == pytest.approx(rows * entries * width, rel=0.05)


def choose(name: str, rows: int, board: str | None, form: Form | None = None) -> Form:
    made, _ = holding(name)
    return sizes.choose(made.program, made.formats, Scalar.FIXED32, form, rows, board)[0]


def test_tables_are_chosen_where_straight_line_code_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A board whose flash is between what both forms need, as where straight-line code takes twice as much."""
    made, _ = holding("planar_arm")
    monkeypatch.setattr(sizes, "STRAIGHT", {op: 2 * count for op, count in sizes.STRAIGHT.items()})
    found = [
        sizes.estimate(made.program, made.formats, Scalar.FIXED32, form, 10) for form in (Form.STRAIGHT, Form.ROWS)
    ]
    assert found[1].code < found[0].code
    flash = [sizes.needs(s, boards.STM32F100)[0] for s in found]
    monkeypatch.setattr(boards, "REGISTERED", {})
    boards.register(BoardSpec("small", sum(flash) // 2, 8 * boards.KIB, Runs.SERIAL))
    assert choose("planar_arm", 10, None) is Form.STRAIGHT
    assert choose("planar_arm", 10, "stm32f100") is Form.STRAIGHT
    assert choose("planar_arm", 10, "small") is Form.ROWS
    with pytest.raises(
        RangeError, match=r"hint: Use tables instead of straight-line code \(--form rows\), or a larger board"
    ):
        choose("planar_arm", 10, "small", Form.STRAIGHT)


@pytest.mark.parametrize(
    ("rows", "board", "advice"),
    [
        (
            3000,
            "stm32f100",
            r"there are 126 and 8\.\nhint: Use a shorter horizon .*, or a larger board \(stm32f405\)\.$",
        ),
        (3000, "esp32", r"a bank of 64 for the schedule\.\nhint: Use a shorter .*, or a larger board \(stm32f405\)\.$"),
        (10**6, "stm32f405", r"hint: Use a shorter horizon or a longer time step \(fewer rows in the schedule\)\.$"),
    ],
)
def test_advice_where_nothing_fits(rows: int, board: str, advice: str) -> None:
    with pytest.raises(RangeError, match=advice) as raised:
        choose("cart_pendulum", rows, board)
    assert str(raised.value) == f"cart_pendulum does not fit {board}"
    assert raised.value.cause.startswith("It needs about ")
    assert "--form rows" not in raised.value.hint  # they would not fit either


def test_forms() -> None:
    assert sizes.forms(Scalar.FIXED32, 32, None) == [Form.STRAIGHT, Form.ROWS]
    assert sizes.forms(Scalar.FIXED32, 24, None) == [Form.STRAIGHT]
    assert sizes.forms(Scalar.FLOAT32, 32, Form.STRAIGHT) == [Form.STRAIGHT]
    for scalar, word in ((Scalar.FIXED32, 24), (Scalar.FLOAT32, 32), (Scalar.FLOAT64, 32)):
        with pytest.raises(ModelError, match="rows are for fixed32 with words of 32 bits"):
            sizes.forms(scalar, word, Form.ROWS)


def test_an_unknown_board() -> None:
    with pytest.raises(RangeError, match="there is no 'uno'\nhint: There are stm32f100"):
        choose("pendulum", 10, "uno")

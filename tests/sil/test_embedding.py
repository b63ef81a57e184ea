"""The generated controller in a program of somebody else: example.c, units.h, from C and from C++."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from stepmap_codegen import Controller, Form, IntegerMachine, Role, Scalar
from stepmap_codegen.emit.embed import TICKS, needed
from stepmap_codegen.model.integer_machine import decode, encode
from tests.sil.controllers import CORE, STRICT, holding, rewritten

NAME = "cart_pendulum"


def unpacked(made: Controller, folder: Path) -> list[Path]:
    """Only what example.c says that it needs; the C files to compile with it."""
    files = made.files()
    told = files["example.c"].decode().partition("#ifdef")[0]
    for name in re.findall(r"(?:controller|schedule|units)\.[ch]", told):
        (folder / name).write_bytes(files[name])
    (folder / "example.c").write_bytes(files["example.c"])
    for name in sorted(set(re.findall(r"sm_\w+\.c", told))):
        shutil.copy(CORE / name, folder)
        shutil.copy((CORE / name).with_suffix(".h"), folder)
    assert sorted(path.name for path in folder.glob("sm_*.c")) == sorted(needed(made.output))
    return [path for path in sorted(folder.glob("*.c")) if path.name != "example.c"]


def call(*words: object) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def commands(made: Controller) -> np.ndarray:
    """What the integer model commands in the same ticks, in SI units."""
    program, formats = made.program, made.formats
    assert formats is not None
    told = re.findall(r"SM_SET\(c, \w+, (\S+)\);", made.files()["example.c"].decode())
    fields = np.array(made.output.start)
    fields[program.of(Role.MEASUREMENT)] = [float(value) for value in told]
    machine = IntegerMachine(program, formats, encode(fields[:, None], formats.fields, formats.word))
    rows = []
    for k in range(TICKS):
        machine.fields[program.of(Role.SCHEDULE), 0] = made.schedule.rows[k]
        for number in range(len(program.blocks)):
            machine.run(number)
            if program.blocks[number].name == "state_feedback":
                rows.append(decode(machine.fields, formats.fields)[program.of(Role.COMMAND), 0])
    return np.array(rows)


def printed(text: str) -> np.ndarray:
    return np.array([[float(word) for word in line.split()[1:]] for line in text.splitlines()])


def test_the_example_computes_what_the_model_does(tmp_path: Path) -> None:
    made, _ = holding(NAME)
    sources = unpacked(made, tmp_path)
    pedantic = [*STRICT, "-Wpedantic", "-DSM_EXAMPLE", f"-I{tmp_path}"]
    call("gcc", *pedantic, tmp_path / "example.c", *sources, "-lm", "-o", tmp_path / "example")
    shown = printed(call(tmp_path / "example"))
    np.testing.assert_allclose(shown, commands(made), rtol=1e-9)
    assert shown.shape == (TICKS, 1)
    assert np.abs(shown).max() > 0.0
    empty = [*STRICT, "-Wpedantic", "-c", tmp_path / "example.c", "-o", tmp_path / "empty.o"]
    call("gcc", *empty)  # as a firmware compiles it
    assert "main" not in call("nm", tmp_path / "empty.o")
    check_from_cpp(tmp_path, sources, shown)
    check_prefix(tmp_path)


def check_from_cpp(folder: Path, sources: Sequence[Path], shown: np.ndarray) -> None:
    """A program in C++ that links what a C compiler made."""
    objects = []
    for source in sources:
        objects.append(source.with_suffix(".o"))
        call("gcc", "-O1", f"-I{folder}", "-c", source, "-o", objects[-1])
    main = folder / "example.cpp"
    main.write_text((folder / "example.c").read_text(encoding="utf-8"), encoding="utf-8")
    call("g++", "-Wall", "-DSM_EXAMPLE", f"-I{folder}", main, *objects, "-lm", "-o", folder / "example_cpp")
    assert (printed(call(folder / "example_cpp")) == shown).all()


def check_prefix(folder: Path) -> None:
    """Where there are several controllers, none of their functions has the same name."""
    made = folder / "arm.o"
    call("gcc", f"-I{folder}", "-DSM_PREFIX=arm_", "-c", folder / "controller.c", "-o", made)
    defined = [line.split()[2] for line in call("nm", made).splitlines() if " T " in line]
    assert {"arm_start", "arm_update", "arm_self_test", "arm_state_feedback", "arm_predict"} <= {*defined}
    assert not [name for name in defined if name.startswith("sm_")]


@pytest.mark.parametrize(("scalar", "form"), [(Scalar.FLOAT32, Form.STRAIGHT), (Scalar.FIXED32, Form.ROWS)])
def test_other_scalars_and_forms_have_their_example(scalar: Scalar, form: Form, tmp_path: Path) -> None:
    original, _ = holding(NAME)
    sources = unpacked(rewritten(original, scalar, form), tmp_path)
    call("gcc", *STRICT, "-DSM_EXAMPLE", f"-I{tmp_path}", tmp_path / "example.c", *sources, "-lm", "-o", tmp_path / "x")
    if form is Form.ROWS:  # the schedule of the other is still that of fixed point
        np.testing.assert_allclose(printed(call(tmp_path / "x")), commands(original), rtol=1e-9)


@pytest.mark.parametrize(("value", "raw"), [(1e9, 2**31 - 1), (-1e9, 1 - 2**31), (0.3, None), (-0.3, None)])
def test_numbers_are_rounded_and_limited(value: float, raw: int | None, tmp_path: Path) -> None:
    made, _ = holding(NAME)
    assert made.formats is not None
    unpacked(made, tmp_path)
    field = made.program.of(Role.MEASUREMENT)[0]
    if raw is None:
        raw = int(encode(np.array([value]), [made.formats.fields[field]], 32)[0])
    name = made.program.fields[field].name
    (tmp_path / "one.c").write_text(
        f'#include <stdio.h>\n#include "units.h"\nint main(void) {{ sm_controller c; SM_SET(&c, {name}, {value});\n'
        f'  printf("%ld %.12g", (long)c.{name}, SM_GET(&c, {name})); return 0; }}\n',
        encoding="utf-8",
    )
    call("gcc", f"-I{tmp_path}", tmp_path / "one.c", "-o", tmp_path / "one")
    shown, back = call(tmp_path / "one").split()
    assert int(shown) == raw
    assert float(back) == pytest.approx(raw * 2.0 ** -made.formats.fields[field])

"""Generated libraries in programs of others: on chips, this machine and in WebAssembly they have the model's bits."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import wasmtime

import stepmap as sm
from stepmap_codegen import Controller, Form, Options, Role, Scalar
from stepmap_codegen.emit.schedule import make_schedule
from stepmap_codegen.toolchain import TARGETS
from stepmap_codegen.toolchain.wasm import build_wasm
from tests.sil.controllers import STRICT, holding, on_a_string, rewritten, streaming, suspended_mass
from tests.sil.libraries import (
    SET_POINT_BIT,
    Answers,
    Drive,
    build_libraries,
    drive,
    in_c,
    in_model,
    require_same,
    streamed,
    write,
)

TICKS = 200


@cache
def both() -> list[tuple[str, Controller, Drive, Answers]]:
    """Two controllers, positions and a force, with their ticks and what the model makes of them."""
    found = []
    for seed, (prefix, (made, path)) in enumerate((("crane", suspended_mass()), ("cart", holding("cart_pendulum")))):
        driven = drive(made, path, TICKS, seed)
        found.append((prefix, made, driven, in_model(made, driven)))
    return found


@pytest.mark.parametrize("target", ["host", "cortex-m3", "cortex-m0plus"])
def test_two_libraries_in_one_image_have_the_model_s_bits(target: str, tmp_path: Path) -> None:
    folders = [(prefix, write(made, tmp_path / prefix, prefix)) for prefix, made, _, _ in both()]
    built = build_libraries(folders, TARGETS[target], tmp_path / "image", ("-Os",))
    answers = in_c(built, [made for _, made, _, _ in both()], [driven for _, _, driven, _ in both()])
    for found, (_, made, driven, expected) in zip(answers, both(), strict=True):
        require_same(made, found, expected)
        assert (found.accepted != driven.valid).any()  # some were outside the gate
        assert len(np.unique(found.commands, axis=0)) > TICKS // 2


def in_wasm(module: Path, made: Controller, driven: Drive) -> Answers:
    """The same ticks in WebAssembly."""
    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    instance = wasmtime.Instance(store, wasmtime.Module.from_file(engine, str(module)), [])
    exports = instance.exports(store)

    def call(name: str, *words: float) -> int:
        result: int = exports[name](store, *words)  # type: ignore[operator]
        return result

    assert call("self_test") == 0
    assert call("start") == 0
    assert [call(name) for name in ("states", "measurements", "commands")] == [
        len(made.program.of(role)) for role in (Role.STATE, Role.MEASUREMENT, Role.COMMAND)
    ]
    rows = []
    for hold, valid, raw in zip(driven.holds, driven.valid, driven.raw, strict=True):
        for channel, word in enumerate(raw):
            if valid >> channel & 1:
                assert call("measure_raw", channel, int(word)) == 0
        accepted = call("update")
        call("hold" if hold else "law")
        commands = [call("command_raw", i) for i in range(call("commands"))]
        call("predict")
        fields = [call("field", i) for i in range(call("fields"))]
        rows.append((accepted, call("overflows"), commands, fields))
    return Answers(*(np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)))


def test_webassembly_has_the_model_s_bits(tmp_path: Path) -> None:
    for prefix, made, driven, expected in both():
        module = build_wasm(write(made, tmp_path / prefix, prefix), tmp_path / f"{prefix}.wasm")
        require_same(made, in_wasm(module, made, driven), expected)


def call(*words: object) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def delayed() -> tuple[Controller, sm.Trajectory]:
    """Measurements that arrive two periods late."""
    made, path = suspended_mass()
    return replace(made, sensor_delay=2 * made.program.period), path


KINDS: dict[str, Callable[[], tuple[Controller, sm.Trajectory]]] = {
    "delayed": delayed,
    "string": lambda: on_a_string("suspended_mass_string"),
    "rows": lambda: (rewritten(suspended_mass()[0], Scalar.FIXED32, Form.ROWS), suspended_mass()[1]),
    "short words": lambda: suspended_mass(Options(word=24, study=True)),
    "no commands": lambda: holding("double_pendulum"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_controller_has_the_model_s_bits(kind: str, tmp_path: Path) -> None:
    made, path = KINDS[kind]()
    folder = write(made, tmp_path / "crane", "crane")
    built = build_libraries([("crane", folder)], TARGETS["host"], tmp_path / "image", ("-O2", "-Wpedantic"))
    driven = drive(made, path, 120, seed=3)
    (found,) = in_c(built, [made], [driven])
    require_same(made, found, in_model(made, driven))


@pytest.mark.parametrize("target", ["host", "cortex-m0plus"])
def test_a_library_follows_set_points_with_the_model_s_bits(target: str, tmp_path: Path) -> None:
    made, path = streaming()
    folder = write(made, tmp_path / "cart", "cart")
    built = build_libraries([("cart", folder)], TARGETS[target], tmp_path / "image", ("-Os", "-Wpedantic"))
    driven = streamed(made, path, 300, seed=4)
    (found,) = in_c(built, [made], [driven])
    expected = in_model(made, driven)
    require_same(made, found, expected)
    plain = in_model(made, replace(driven, valid=driven.valid & ~(1 << SET_POINT_BIT)))
    assert (found.commands[:60] == plain.commands[:60]).all()  # of the schedule
    assert (found.commands[90:] != plain.commands[90:]).mean() > 0.9


def compiled(folder: Path, prefix: str, out: Path) -> list[Path]:
    """Objects of a library's sources, compiled as C11 with every warning an error."""
    objects = []
    for source in sorted((folder / "src").glob("*.c")):
        objects.append(out / f"{source.stem}.o")
        call("gcc", *STRICT, "-Wpedantic", f"-I{folder / 'src'}", "-c", source, "-o", objects[-1])
    return objects


def in_scalar(made: Controller, scalar: Scalar) -> Controller:
    """The controller in another scalar, with its schedule."""
    if scalar is Scalar.FIXED32:
        return made
    values = made.schedule.values()
    schedule = make_schedule(made.program, None, scalar, made.digest, values, [made.schedule.all_values()[-1]])
    return replace(rewritten(made, scalar), schedule=schedule)


CPP = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wpedantic", "-Werror"]


@pytest.mark.parametrize("scalar", list(Scalar))
def test_programs_in_c_and_cpp_call_two_of_them(scalar: Scalar, tmp_path: Path) -> None:
    """Both examples of each, and one program in C++ that includes the headers of both; nothing has a name twice."""
    objects: list[Path] = []
    for prefix, (made, _) in {"crane": suspended_mass(), "cart": holding("cart_pendulum")}.items():
        folder = write(in_scalar(made, scalar), tmp_path / prefix, prefix)
        own = compiled(folder, prefix, tmp_path)
        include = f"-I{folder / 'src'}"
        call("gcc", *STRICT, include, folder / "examples/c/main.c", *own, "-lm", "-o", tmp_path / "c")
        call("g++", *CPP, include, folder / "examples/cpp/main.cpp", *own, "-lm", "-o", tmp_path / "cpp")
        shown = call(tmp_path / "c")
        assert len(shown.splitlines()) == 5
        assert call(tmp_path / "cpp") == shown
        check_names(own, folder, prefix)
        objects += own
    (tmp_path / "both.cpp").write_text(BOTH)
    includes = [f"-I{tmp_path / prefix / 'src'}" for prefix in ("crane", "cart")]
    call("g++", *CPP, *includes, tmp_path / "both.cpp", *objects, "-lm", "-o", tmp_path / "both")
    call(tmp_path / "both")


BOTH = """\
#include "cart.h"
#include "crane.h"

int main() {
  static crane_controller crane;
  static cart_controller cart;
  const bool good = crane_self_test(&crane) == 0 && cart_self_test(&cart) == 0 && crane_start(&crane) == 0 &&
                    cart_start(&cart) == 0 && CRANE_PERIOD_US != CART_PERIOD_US;
  return good ? 0 : 1;
}
"""


def check_names(objects: list[Path], folder: Path, prefix: str) -> None:
    """Whatever a linker or another header sees begins with the prefix."""
    symbols = [line.split() for line in call("nm", "--extern-only", "--defined-only", *objects).splitlines()]
    names = {words[2] for words in symbols if len(words) == 3}
    assert f"{prefix}_predict" in names
    assert {name for name in names if not name.startswith(f"{prefix}_")} == set()
    for header in (folder / "src").glob("*.h"):
        assert header.name.startswith((f"{prefix}.", f"{prefix}_"))
        text = header.read_text(encoding="utf-8")
        defined = set(re.findall(r"#\s*(?:define|ifndef) (\w+)", text)) - {"__cplusplus"}
        tags = set(re.findall(r"^} (\w+);", text, re.MULTILINE)) | set(re.findall(r"^typedef \w+ (\w+);", text))
        wrong = {name for name in defined | tags if not name.startswith((f"{prefix}_", f"{prefix.upper()}_"))}
        assert wrong == set(), header.name


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    """Channels and indices out of range, NaN, other schedules; rows and numbers that are too large are limited."""
    made, _ = delayed()
    folder = write(made, tmp_path / "crane", "crane")
    (tmp_path / "wrong.c").write_text(WRONG)
    objects = compiled(folder, "crane", tmp_path)
    call("gcc", *STRICT, f"-I{folder / 'src'}", tmp_path / "wrong.c", *objects, "-o", tmp_path / "wrong")
    done = subprocess.run([str(tmp_path / "wrong")], check=False)
    assert done.returncode == 0, f"line {done.returncode} of WRONG"


WRONG = """\
#include <string.h>
#include "crane.h"
#include "crane_sm_schedule_image.h"
#define REQUIRE(condition) \\
  if (!(condition)) { \\
    return __LINE__; \\
  }
int main(void) {
  static crane_controller c, far;
  static uint32_t other[CRANE_SM_SCHEDULE_BYTES / 4U];
  crane_controller before;
  REQUIRE(crane_start(&c) == 0);
  before = c;
  REQUIRE(crane_measure(&c, CRANE_MEASUREMENTS, 0) == CRANE_NO_SUCH_SIGNAL);
  REQUIRE(crane_measure_si(&c, CRANE_MEASUREMENTS, 0.0) == CRANE_NO_SUCH_SIGNAL);
  REQUIRE(crane_measure_si(&c, 0, __builtin_nan("")) == CRANE_NOT_A_NUMBER);
  REQUIRE(crane_applied(&c, CRANE_COMMANDS, 0) == CRANE_NO_SUCH_SIGNAL);
  REQUIRE(crane_command(&c, CRANE_COMMANDS) == 0 && crane_estimate(&c, CRANE_STATES) == 0);
  REQUIRE(crane_use_schedule(&c, NULL, 0) == CRANE_SCHEDULE_NONE);
  memcpy(other, crane_sm_schedule_image, sizeof other);
  other[2] ^= 1U;
  REQUIRE(crane_use_schedule(&c, other, sizeof other) == CRANE_SCHEDULE_MODEL);
  other[2] ^= 1U;
  other[40] ^= 1U;
  REQUIRE(crane_use_schedule(&c, other, sizeof other) == CRANE_SCHEDULE_CHECKSUM);
  other[40] ^= 1U;
  REQUIRE(crane_use_schedule(&c, (const char *)other + 1, sizeof other - 8U) == CRANE_SCHEDULE_SIZE);
  REQUIRE(memcmp(&before, &c, sizeof c) == 0);
  crane_set_row(&c, 7);
  REQUIRE(crane_row(&c) == 7U);
  REQUIRE(crane_use_schedule(&c, other, sizeof other) == 0 && crane_row(&c) == 0U);
  crane_set_row(&c, 1000000000U);
  crane_law(&c);
  crane_predict(&c);
  REQUIRE(crane_row(&c) + 1U == crane_rows(&c));
  REQUIRE(crane_start(&c) == 0 && crane_start(&far) == 0);
  crane_set_row(&c, crane_rows(&c));
  crane_set_row(&far, UINT32_MAX);
  crane_law(&c);
  crane_law(&far);
  for (unsigned i = 0; i < CRANE_COMMANDS; i++) {
    REQUIRE(crane_command(&far, i) == crane_command(&c, i));
  }
  REQUIRE(crane_z_raw(0, 1e30) == CRANE_RAW_MAX && crane_z_raw(0, -1e30) == -CRANE_RAW_MAX);
  REQUIRE(crane_z_raw(0, 0.25) == (crane_real)(0.25 * (1 << 29)) && crane_z_si(0, 1 << 28) == 0.5);
  REQUIRE(crane_x_raw(0, __builtin_nan("")) == 0 && crane_u_si(CRANE_COMMANDS, 5) == 0.0);
  return 0;
}
"""

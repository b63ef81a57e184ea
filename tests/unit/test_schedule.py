"""The schedule blob: what is written is read, in Python and in C; what is damaged is refused, by both alike."""

from __future__ import annotations

import ctypes
import functools
import struct
import subprocess
import tempfile
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepmap.errors import RangeError, ShapeError
from stepmap_codegen import Scalar
from stepmap_codegen.emit.schedule import HEAD, SCALARS, Schedule, emit_schedule, make_schedule, same, unpack
from tests.sil.controllers import CORE, STRICT, TRAP, holding

NONE, VERSION, MODEL, SHAPE, CHECKSUM, SIZE = -1, -2, -3, -4, -5, -6  # sm_schedule.h


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    scalar = draw(st.sampled_from(Scalar))
    word = draw(st.integers(16, 32)) if scalar is Scalar.FIXED32 else 32
    rows, entries = draw(st.integers(1, 12)), draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    fractions = (0,) * entries
    if scalar is Scalar.FIXED32:
        top = 2 ** (word - 1)
        values = rng.integers(-top, top, (rows, entries))
        fractions = tuple(int(f) for f in rng.integers(-30, 61, entries))
    else:
        values = (rng.standard_normal((rows, entries)) * 10.0 ** rng.integers(-30, 30)).astype(SCALARS[scalar][1])
    model = draw(st.binary(min_size=8, max_size=8)).hex()
    return Schedule(model, scalar, word, draw(st.integers(1, 2**32 - 1)), fractions, values)


def example(scalar: Scalar = Scalar.FIXED32) -> Schedule:
    """Five rows of three entries."""
    rows = np.arange(15).reshape(5, 3) - 7
    return Schedule("0123456789abcdef", scalar, 32, 33333, (30, 2, -1), rows)


# Python -------------------------------------------------------------------------------------------------------------


@given(schedules())
@settings(max_examples=60)
def test_what_is_packed_is_unpacked(made: Schedule) -> None:
    blob = made.pack()
    assert len(blob) % 8 == 0
    found = unpack(blob)
    for name in ("model", "scalar", "word", "period_us", "fractions"):
        assert getattr(found, name) == getattr(made, name)
    np.testing.assert_array_equal(found.rows, made.rows)
    np.testing.assert_array_equal(found.values(), made.values())
    assert found.pack() == blob
    assert same(found, made)


def test_the_layout() -> None:
    """Byte by byte, as docs/schedule.md and sm_schedule.h have it; the CRC is zlib's, which is Ethernet's."""
    blob = example().pack()
    assert blob[:4] == b"SMS1"
    assert struct.unpack_from("<HH", blob, 4) == (1, 40)
    assert blob[8:16].hex() == "0123456789abcdef"
    assert struct.unpack_from("<IHBBII", blob, 16) == (5, 3, 0, 32, 33333, 0)
    assert struct.unpack_from("<3b5x", blob, 32) == (30, 2, -1)
    assert struct.unpack_from("<15i", blob, 40) == tuple(range(-7, 8))
    assert struct.unpack_from("<I", blob, 100) == (zlib.crc32(blob[:100]),)
    assert len(blob) == 104


def test_a_robot_that_walks_has_rows_of_a_step() -> None:
    made = replace(example(), gait=3)
    blob = made.pack()
    assert struct.unpack_from("<H", blob, 4) == (2,)
    assert struct.unpack_from("<HH", blob, 28) == (0, 3)
    found = unpack(blob)
    assert (found.gait, found.streams) == (3, 0)
    assert same(found, made)
    assert not same(found, example())
    assert opened(blob)[0] == 0


def test_values_are_in_si_units() -> None:
    np.testing.assert_array_equal(example().values()[0], [-7 * 2.0**-30, -6 * 0.25, -5 * 2.0])
    np.testing.assert_array_equal(example(Scalar.FLOAT64).values()[0], [-7.0, -6.0, -5.0])


def changed(blob: bytes, at: int, form: str, *values: int) -> bytes:
    """A blob with other bytes and a CRC that is right again."""
    body = bytearray(blob[:-4])
    struct.pack_into(form, body, at, *values)
    return bytes(body) + struct.pack("<I", zlib.crc32(body))


DAMAGE = {
    "nothing": (lambda blob: b"", "does not begin with 'SMS1'", NONE),
    "another file": (lambda blob: b"RIFF" + blob[4:], "does not begin with 'SMS1'", NONE),
    "a part of the head": (lambda blob: blob[:20], "20 bytes, and its head alone has 32", NONE),
    "another version": (lambda blob: changed(blob, 4, "<H", 3), "version 3, this program reads 1 and 2", VERSION),
    "a step of no rows": (lambda blob: changed(blob, 4, "<H", 2), "0 of its 5 rows are a step", SIZE),
    "a step of all rows": (lambda blob: changed(changed(blob, 4, "<H", 2), 30, "<H", 5), "5 of its 5 rows", SIZE),
    "another kind of scalar": (lambda blob: changed(blob, 22, "<B", 7), "of an unknown kind, 7", SHAPE),
    "no rows": (lambda blob: changed(blob, 16, "<I", 0), "empty: 0 rows of 3", SIZE),
    "the end is missing": (lambda blob: blob[:-8], "96 bytes do not hold 5 rows of 3", SIZE),
    "more than there should be": (lambda blob: blob + bytes(8), "112 bytes do not hold 5 rows of 3", SIZE),
    "more rows than bytes": (lambda blob: changed(blob, 16, "<I", 2**32 - 1), "do not hold 4294967295 rows", SIZE),
    "rows begin elsewhere": (lambda blob: changed(blob, 6, "<H", 48), "do not hold 5 rows of 3", SIZE),
    "a bit of a row": (lambda blob: blob[:50] + bytes([blob[50] ^ 4]) + blob[51:], "CRC is wrong", CHECKSUM),
    "a bit of the CRC": (lambda blob: blob[:-1] + bytes([blob[-1] ^ 128]), "CRC is wrong", CHECKSUM),
}


@pytest.mark.parametrize(("damage", "message", "code"), DAMAGE.values(), ids=DAMAGE.keys())
def test_every_damage_has_its_message(damage: object, message: str, code: int) -> None:
    assert callable(damage)
    blob = damage(example().pack())
    with pytest.raises(ShapeError, match=message):
        unpack(blob)
    assert opened(blob)[0] == code


def test_a_schedule_that_does_not_fit_its_formats_is_refused() -> None:
    made, _ = holding("cart_pendulum")
    assert made.formats is not None
    values = made.schedule.values().copy()
    again = make_schedule(made.program, made.formats, Scalar.FIXED32, made.digest, values)
    np.testing.assert_array_equal(again.rows, made.schedule.rows)
    values[3, 0] = 4.0  # x has limits of ±2 m, and a format of ±4
    with pytest.raises(
        RangeError, match=r"'xr_x' \(reference of x\): 4 in row 3 does not fit its format of ±4"
    ) as caught:
        make_schedule(made.program, made.formats, Scalar.FIXED32, made.digest, values)
    assert (caught.value.signal, caught.value.value, caught.value.format) == ("xr_x", 4.0, "±4")


def test_the_same_within_a_unit() -> None:
    one, rows = example(), example().rows
    for change, alike in ((0, True), (1, True), (2, False)):
        moved = rows.copy()
        moved[4, 2] -= change
        assert same(one, Schedule(one.model, one.scalar, 32, 33333, one.fractions, moved)) == alike
    assert not same(one, Schedule("ff" * 8, one.scalar, 32, 33333, one.fractions, rows))
    assert not same(one, Schedule(one.model, one.scalar, 32, 33333, one.fractions, rows[:4]))
    whole = example(Scalar.FLOAT32)
    assert same(whole, Schedule(whole.model, whole.scalar, 32, 33333, whole.fractions, rows * (1 + 1e-7)))
    assert not same(whole, Schedule(whole.model, whole.scalar, 32, 33333, whole.fractions, rows * (1 + 1e-6)))


# C ------------------------------------------------------------------------------------------------------------------


class Kind(ctypes.Structure):
    _fields_ = [
        ("model", ctypes.c_uint8 * 8),
        ("entries", ctypes.c_uint16),
        ("scalar", ctypes.c_uint8),
        ("period_us", ctypes.c_uint32),
    ]


class Opened(ctypes.Structure):
    _fields_ = [
        ("rows", ctypes.c_void_p),
        ("count", ctypes.c_uint32),
        ("row_bytes", ctypes.c_uint32),
        ("has_hold", ctypes.c_bool),
        ("streams", ctypes.c_uint16),
    ]


@functools.cache
def reader() -> ctypes.CDLL:
    """sm_schedule.c on this machine, undefined behaviour trapped."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "schedule.so"
        command = ["gcc", *STRICT, *TRAP, "-shared", "-fPIC", "-o", str(built), str(CORE / "sm_schedule.c")]
        subprocess.run(command, check=True)
        loaded = ctypes.CDLL(str(built))
    loaded.sm_crc32.restype = ctypes.c_uint32
    loaded.sm_crc32.argtypes = [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t]
    return loaded


def kind_of(made: Schedule) -> Kind:
    model = (ctypes.c_uint8 * 8)(*bytes.fromhex(made.model))
    return Kind(model, made.rows.shape[1], SCALARS[made.scalar][0], made.period_us)


def opened(blob: bytes, kind: Kind | None = None) -> tuple[int, Opened, ctypes.Array[ctypes.c_char]]:
    """Result and reader of a blob, and the memory it lives in."""
    found = Opened(None, 77, 78)
    memory = ctypes.create_string_buffer(blob, max(len(blob), 1))
    wanted = kind_of(example()) if kind is None else kind
    result = reader().sm_schedule_open(ctypes.byref(found), memory, ctypes.c_size_t(len(blob)), ctypes.byref(wanted))
    if result:
        assert (found.rows, found.count, found.row_bytes) == (None, 77, 78)  # untouched
    return result, found, memory


@given(schedules())
def test_c_reads_the_same_rows(made: Schedule) -> None:
    result, found, _memory = opened(made.pack(), kind_of(made))
    assert result == 0
    assert found.count == len(made.rows)
    row = ctypes.create_string_buffer(found.row_bytes)
    for k in (*range(found.count), found.count, 2**32 - 1):  # after the last row the last one again
        reader().sm_schedule_row(ctypes.byref(found), ctypes.c_uint32(k), row)
        wanted = made.rows[min(k, found.count - 1)].astype(SCALARS[made.scalar][1])
        assert row.raw == wanted.tobytes()


@given(st.binary(max_size=300), st.integers(0, 300))
def test_c_has_the_same_crc(content: bytes, cut: int) -> None:
    """Also in two parts."""
    crc = reader().sm_crc32
    assert crc(0, content, len(content)) == zlib.crc32(content)
    assert crc(crc(0, content[:cut], len(content[:cut])), content[cut:], len(content[cut:])) == zlib.crc32(content)


def test_c_refuses_what_is_for_another_controller() -> None:
    made = example()
    blob = made.pack()
    assert opened(blob)[0] == 0
    for change, code in (
        ({"model": (ctypes.c_uint8 * 8)(1)}, MODEL),
        ({"entries": 4}, SHAPE),
        ({"scalar": 1}, SHAPE),
        ({"period_us": 33334}, SHAPE),
    ):
        kind = kind_of(made)
        for name, value in change.items():
            setattr(kind, name, value)
        assert opened(blob, kind)[0] == code, change


@pytest.mark.parametrize("scalar", Scalar)
def test_a_blob_that_was_cut_is_refused_at_every_length(scalar: Scalar) -> None:
    """By both readers; what is left of a blob never looks whole."""
    made = example(scalar)
    blob = made.pack()
    for size in range(len(blob)):
        assert opened(blob[:size], kind_of(made))[0] == (NONE if size < HEAD.size + 4 else SIZE), size
        with pytest.raises(ShapeError):
            unpack(blob[:size])


def test_a_bit_anywhere_is_noticed() -> None:
    """By both readers, at each of the blob's 832 bits."""
    blob = example().pack()
    for bit in range(8 * len(blob)):
        wrong = bytearray(blob)
        wrong[bit // 8] ^= 1 << bit % 8
        assert opened(bytes(wrong))[0] < 0, bit
        with pytest.raises(ShapeError):
            unpack(bytes(wrong))


HARNESS = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sm_schedule.h"

/* Reads kinds and blobs, each in memory of its own size, and prints what the reader says and a CRC of all rows. */
int main(void) {
  sm_schedule_kind kind;
  uint32_t size;
  while (fread(&kind, sizeof kind, 1, stdin) == 1 && fread(&size, sizeof size, 1, stdin) == 1) {
    uint8_t *blob = malloc(size ? size : 1U);
    if (fread(blob, 1, size, stdin) != size) return 1;
    sm_schedule s;
    const int result = sm_schedule_open(&s, blob, size, &kind);
    uint32_t crc = 0;
    if (result == 0) {
      uint8_t *row = malloc(s.row_bytes);
      for (uint32_t k = 0; k <= s.count; k++) {
        sm_schedule_row(&s, k, row);
        crc = sm_crc32(crc, row, s.row_bytes);
      }
      free(row);
    }
    printf("%d %u\\n", result, crc);
    free(blob);
  }
  return 0;
}
"""


def test_bytes_that_nobody_wrote_never_crash_the_reader(tmp_path: Path) -> None:
    """Blobs with random bytes, lengths and heads, CRCs right or wrong, under address and undefined-behaviour checks.

    Where Python reads a blob, C reads the same; where Python does not, neither does C.
    """
    (tmp_path / "harness.c").write_text(HARNESS)
    program, checks = tmp_path / "harness", ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command = ["gcc", *STRICT, "-g", *checks, f"-I{CORE}", "-o", program, tmp_path / "harness.c"]
    subprocess.run([*map(str, command), str(CORE / "sm_schedule.c")], check=True)
    rng = np.random.default_rng(0)
    cases = [_fuzzed(rng) for _ in range(4000)]
    given = b"".join(bytes(kind) + struct.pack("<I", len(blob)) + blob for kind, blob in cases)
    done = subprocess.run([str(program)], input=given, capture_output=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr.decode()
    answers = [line.split() for line in done.stdout.decode().splitlines()]
    assert len(answers) == len(cases)
    read = 0
    for (kind, blob), (result, crc) in zip(cases, answers, strict=True):
        wanted = _in_python(kind, blob)
        assert (int(result) == 0) == (wanted is not None)
        if wanted is not None:
            read += 1
            assert int(crc) == zlib.crc32(wanted)
    assert read > 500


def _fuzzed(rng: np.random.Generator) -> tuple[Kind, bytes]:
    scalar = list(Scalar)[rng.integers(3)]
    rows = rng.integers(-100, 100, (rng.integers(1, 6), rng.integers(1, 12)))
    slopes = None if rng.random() < 0.7 else rng.integers(-100, 100, (2 * rng.integers(1, 3), rows.shape[1]))
    period, bits = int(rng.integers(1, 10**6)), (1,) * rows.shape[1]
    made = Schedule(rng.bytes(8).hex(), scalar, 32, period, bits, rows, tangent=slopes)
    blob = bytearray(made.pack())
    for _ in range(rng.integers(0, 4)):
        at = rng.integers(4, len(blob)) if rng.random() < 0.5 else rng.integers(4, 32)
        blob[at] = rng.integers(256) if rng.random() < 0.5 else rng.choice([0, 1, 2, 127, 128, 255])
    if rng.random() < 0.2:
        blob = blob[: rng.integers(len(blob))]
    if rng.random() < 0.2:
        blob += rng.bytes(int(rng.integers(1, 40)))
    if len(blob) > 36 and rng.random() < 0.8:
        blob[-4:] = struct.pack("<I", zlib.crc32(blob[:-4]))
    return kind_of(made), bytes(blob)


def _in_python(kind: Kind, blob: bytes) -> bytes | None:
    """All rows and the last one once more, where the blob is one for that controller."""
    try:
        found = unpack(blob)
    except ShapeError:
        return None
    expected = (bytes(kind.model).hex(), kind.entries, kind.scalar, kind.period_us)
    code, form = SCALARS[found.scalar]
    if (found.model, found.rows.shape[1], code, found.period_us) != expected:
        return None
    return np.concatenate([found.rows, found.rows[-1:]]).astype(form).tobytes()


def test_the_blob_as_const_c(tmp_path: Path) -> None:
    """The image that is compiled in is the blob, byte by byte."""
    blob = example().pack()
    for name, text in emit_schedule(blob).items():
        (tmp_path / name).write_text(text)
    built = tmp_path / "schedule.so"
    subprocess.run(
        ["gcc", *STRICT, "-shared", "-fPIC", "-o", str(built), str(tmp_path / "schedule.c")], check=True, cwd=tmp_path
    )
    image = (ctypes.c_char * len(blob)).in_dll(ctypes.CDLL(str(built)), "sm_schedule_image")
    assert bytes(image) == blob

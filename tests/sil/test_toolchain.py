"""Programs built for every target and run there: bytes in, bytes out, what they cost, and how they fail."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from stepmap.errors import ToolchainError
from stepmap_codegen.toolchain import RUNTIME, TARGETS, Built, Target, build, run
from tests.processes import PATIENCE, handles, heed_signals, wait_for


@dataclass(frozen=True)
class Assembly:
    """What tests write by hand, for one instruction set."""

    loop: str  # a register becomes 2^{} in two instructions, then there are two a turn
    clobbers: str
    sled: str  # a function of 101 instructions, two bytes each
    move: str  # register, stack pointer
    frames: tuple[str, str, str]  # take 24 bytes of stack and 8 more, then give them back and return
    first: int = 2  # bytes of the first of these


NAKED = '__attribute__((naked)) void sled(void) {{ __asm__(".rept 100; nop; .endr; {}"); }}'
THUMB = Assembly(
    loop="movs r0, #1; lsls r0, r0, #{}; 1: subs r0, r0, #1; bne 1b",
    clobbers='"r0", "cc"',
    sled=NAKED.format("bx lr"),
    move="mov %0, sp",
    frames=("sub sp, #24", "sub sp, #8", "add sp, #32; bx lr"),
)
RISCV = Assembly(
    loop="li a0, 1; slli a0, a0, {}; 1: addi a0, a0, -1; bnez a0, 1b",
    clobbers='"a0"',
    sled=NAKED.format("ret"),
    move="mv %0, sp",
    frames=("addi sp, sp, -24", "addi sp, sp, -8", "addi sp, sp, 32; ret"),
)
XTENSA = Assembly(
    loop="movi a8, 1; slli a8, a8, {}; 1: addi a8, a8, -1; bnez a8, 1b",
    clobbers='"a8"',
    # A function of its own, not a naked one, which this gcc does not have.
    sled='void sled(void); __asm__(".section .text.sled, \\"ax\\"; .balign 4; .global sled; .type sled, @function; "'
    ' "sled: .rept 100; nop.n; .endr; ret.n; .size sled, . - sled; .text");',
    move="mov %0, a1",
    frames=("addi a1, a1, -24", "addi a1, a1, -8", "addi a1, a1, 32; ret"),
    first=3,
)
ASSEMBLY = {
    "cortex-m0plus": THUMB,
    "cortex-m3": THUMB,
    "cortex-m4f": THUMB,
    "rv32imc": RISCV,
    "xtensa-lx106": XTENSA,
}
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
Make = Callable[..., Built]


def needing_tools(names: list[str]) -> list[object]:
    """Targets as parameters, skipped where their tools are not installed."""
    missing = {name: TARGETS[name].missing() for name in names}
    return [
        pytest.param(TARGETS[name], id=name, marks=pytest.mark.skipif(bool(lack), reason=f"not installed: {lack}"))
        for name, lack in missing.items()
    ]


on_all = pytest.mark.parametrize("target", needing_tools(list(TARGETS)))
on_guests = pytest.mark.parametrize("target", needing_tools([t.name for t in TARGETS.values() if t.memory]))
on_floats = pytest.mark.parametrize("target", needing_tools([t.name for t in TARGETS.values() if t.floats]))
on_host = pytest.mark.parametrize("target", needing_tools(["host"]))
on_dividing = pytest.mark.parametrize("target", needing_tools(["cortex-m3", "cortex-m4f"]))


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Builds a program from its C."""

    def made(
        target: Target, code: str, options: tuple[str, ...] = ("-Os",), defines: Mapping[str, int | str] = {}
    ) -> Built:
        source = tmp_path / "app.c"
        source.write_text('#include "sm_bench.h"\n' + code)
        return build(target, [source], [], tmp_path / "out", (*options, *WARNINGS), defines)

    return made


def words(data: bytes) -> list[int]:
    return [int(word) for word in np.frombuffer(data, "<u4")]


def test_the_targets_are_there() -> None:
    assert set(TARGETS) == {"host", "cortex-m0plus", "cortex-m3", "cortex-m4f", "rv32imc", "xtensa-lx106"}


# Bytes in, bytes out.

ECHO = """
static char chunk[CHUNK];
int app(void) {
  int n;
  while ((n = io_read(chunk, sizeof chunk)) > 0) {
    io_write(chunk, (unsigned)n);
  }
  return 0;
}
"""


@on_all
@pytest.mark.parametrize(("size", "chunk"), [(0, 64), (1, 64), (64, 64), (3_000_000, 1024), (40_000, 4)])
def test_bytes_come_back(target: Target, size: int, chunk: int, make: Make) -> None:
    data = np.random.default_rng(1).bytes(size)
    built = make(target, ECHO, defines={"CHUNK": chunk})
    assert run(built, data) == data


ARITHMETIC = """
int app(void) {
  int32_t v[4];
  while (io_read(v, sizeof v) == sizeof v) {
    const int64_t product = (int64_t)v[0] * v[1];
    const int64_t shifted = (int64_t)((uint64_t)product >> (v[3] & 63));
    const int64_t out[] = {(product + 0x4000) >> 15, product / v[2], product % v[2], shifted};
    io_write(out, sizeof out);
  }
  return 0;
}
"""


@on_all
@pytest.mark.parametrize("level", ["-O0", "-Os", "-O2"])
def test_integers_are_python_s(target: Target, level: str, make: Make) -> None:
    """64-bit products, divisions and shifts, by libgcc's helpers where the processor has none."""
    rng = np.random.default_rng(2)
    values = rng.integers(-(2**31), 2**31, (500, 4)).astype("<i4")
    values[:, 2] >>= rng.integers(0, 30, 500).astype("<i4")
    values[values[:, 2] == 0, 2] = 1
    expected = []
    for a, b, c, d in values.tolist():
        product = a * b
        quotient = abs(product) // abs(c) * (-1 if (product < 0) != (c < 0) else 1)  # C rounds toward zero
        shifted = (product % 2**64) >> (d % 64)
        expected += [(product + 0x4000) >> 15, quotient, product - quotient * c, shifted - (shifted >> 63 << 64)]
    done = run(make(target, ARITHMETIC, (level,)), values.tobytes())
    assert np.frombuffer(done, "<i8").tolist() == expected


FLOATS = """
int app(void) {
  float v[2];
  while (io_read(v, sizeof v) == sizeof v) {
    const float out[] = {v[0] + v[1], v[0] * v[1], v[0] / v[1]};
    io_write(out, sizeof out);
  }
  return 0;
}
"""


@on_floats
def test_floats_are_numpy_s(target: Target, make: Make) -> None:
    """IEEE 754 single precision: in the FPU, which the startup must have turned on, or in software."""
    x, y = np.random.default_rng(3).normal(size=(2, 200)).astype("<f4")
    built = make(target, FLOATS)
    done = np.frombuffer(run(built, np.stack([x, y], axis=1).tobytes()), "<f4").reshape(-1, 3)
    np.testing.assert_array_equal(done, np.stack([x + y, x * y, x / y], axis=1))
    in_software = any(name in built.symbols for name in ("__aeabi_fdiv", "__divsf3"))
    assert in_software == (target.name in ("cortex-m0plus", "cortex-m3", "rv32imc"))


@pytest.mark.parametrize("target", needing_tools([t.name for t in TARGETS.values() if not t.floats]))
def test_a_target_without_floats_says_so_when_linking(target: Target, make: Make) -> None:
    """Once its libgcc has them, Target.floats is out of date."""
    with pytest.raises(ToolchainError, match=r"undefined reference to `__(mul|add|div)sf3'"):
        make(target, FLOATS)


@on_all
def test_variables_begin_as_written(target: Target, make: Make) -> None:
    code = """
    static volatile uint32_t first[] = {7, 0xDEADBEEF, 9}, zero[300];
    static const volatile uint32_t constant = 11;
    int app(void) {
      uint32_t sum = 0;
      for (int i = 0; i < 300; ++i) {
        sum |= zero[i];
      }
      const uint32_t out[] = {first[0], first[1], first[2], sum, constant};
      io_write(out, sizeof out);
      return 0;
    }
    """
    assert words(run(make(target, code))) == [7, 0xDEADBEEF, 9, 0, 11]


# Instructions.

NOPS = [*range(40), 1000]


def counting(target: Target, bits: list[int], repeated: int = 1) -> str:
    """Intervals of NOPS, and of loops."""
    by_hand = ASSEMBLY[target.name]
    loop = f'__asm__ volatile("{by_hand.loop}" ::: {by_hand.clobbers});'
    # One by one: gcc takes what it can count for its length, and a Cortex-M0+ has short branches.
    bodies = [f'__asm__ volatile("{"nop;" * count}");' for count in NOPS] + [loop.format(n) for n in bits]
    intervals = "\n".join(f"count_begin(); {body} put(count_end());" for body in bodies)
    return f"""
    static void put(uint32_t count) {{ io_write(&count, sizeof count); }}
    int app(void) {{
      for (int i = 0; i < {repeated}; ++i) {{
        {intervals}
      }}
      return 0;
    }}
    """


@on_guests
@pytest.mark.parametrize("level", ["-Os", "-O2"])
def test_counts_are_exact(target: Target, level: str, make: Make) -> None:
    """Hand-written assembly of known length, from nothing to two million instructions, twice in one run and in two."""
    bits = [0, 10, 17, 20]
    expected = 2 * [*NOPS, *(2 + 2 * 2**n for n in bits)]
    built = make(target, counting(target, bits, repeated=2), (level,))
    assert words(run(built)) == expected
    assert words(run(built)) == expected


@pytest.mark.parametrize("target", needing_tools(["cortex-m0plus", "cortex-m3", "cortex-m4f", "xtensa-lx106"]))
def test_too_long_an_interval_is_an_error(target: Target, make: Make) -> None:
    """2^24 ticks of SysTick are 2.7 to 8.2 million instructions, 2^27 of CCOUNT 52 million."""
    with pytest.raises(ToolchainError, match="counted for too long"):
        run(make(target, counting(target, [25 if target.name == "xtensa-lx106" else 22])), timeout=60)


@pytest.mark.parametrize("target", needing_tools(["rv32imc", "xtensa-lx106"]))
def test_some_count_long_intervals(target: Target, make: Make) -> None:
    assert words(run(make(target, counting(target, [24]))))[-1] == 2 + 2 * 2**24


@on_host
def test_the_host_counts_nothing(target: Target, make: Make) -> None:
    code = "int app(void) { count_begin(); const uint32_t n = count_end(); io_write(&n, sizeof n); return 0; }"
    assert words(run(make(target, code))) == [0]
    assert [other.name for other in TARGETS.values() if not other.counts] == ["host"]


# Memory.

SIZED = """
static const uint8_t table[64 + TABLE] = {1};
static volatile uint32_t first[16 + FIRST] = {1};
static volatile uint32_t zero[16 + ZERO];
__attribute__((noinline)) int unused(int a) { return a * 12345 + table[a]; }
int app(void) { return (int)(table[zero[0]] + first[1] + zero[1]); }
"""


@on_all
def test_sizes_follow_the_source(target: Target, make: Make, tmp_path: Path) -> None:
    nothing = {"TABLE": 0, "FIRST": 0, "ZERO": 0}
    plain = make(target, SIZED, defines=nothing)
    source = tmp_path / "app.c"
    assert "unused" not in plain.symbols
    assert 0 < plain.symbols["app"] < plain.text_of(source) < plain.text_bytes
    more = make(target, SIZED, defines={"TABLE": 256, "FIRST": 100, "ZERO": 200})
    assert more.text_of(source) - plain.text_of(source) == 256
    assert more.text_bytes - plain.text_bytes == 256
    assert more.data_bytes - plain.data_bytes == 400
    assert more.bss_bytes - plain.bss_bytes == 800
    if target.memory:  # nothing but these and, of the runtime, a few words
        assert plain.data_bytes == 64
        assert plain.bss_bytes <= 64 + 16
    with pytest.raises(ValueError, match=r"other\.c"):
        plain.text_of(tmp_path / "other.c")


@on_guests
def test_function_sizes_are_those_of_the_assembly(target: Target, make: Make) -> None:
    code = ASSEMBLY[target.name].sled + "\nint app(void) { sled(); return 0; }\n"
    assert make(target, code).symbols["sled"] == 2 * 101


# Paints the stack below its own frame, calls, and looks how far down the paint is gone.
PAINTED = """
#define ROOM 1500
static volatile int64_t a = 123456789012345, b = -1234567;
__attribute__((always_inline)) static inline uint32_t paint(uintptr_t sp) {
  uint32_t *const low = (uint32_t *)(sp - ROOM);
  volatile uint32_t *at = low;
  while (at < (uint32_t *)sp && *at == 0x5A5A5A5A) {
    ++at;
  }
  const uintptr_t used = sp - (uintptr_t)at;
  for (at = low; at < (uint32_t *)sp; ++at) {
    *at = 0x5A5A5A5A;
  }
  return (uint32_t)used;
}
__attribute__((noinline)) static int leaf(int n) {
  volatile int room[25];
  for (int i = 0; i < 25; ++i) {
    room[i] = n;
  }
  return room[n];
}
__attribute__((noinline)) void chain(void) { a = leaf(3) + 2 * leaf(4); }
__attribute__((noinline)) void divide(void) { a = a / b; }
#if FLOATS
#include <math.h>
static volatile double x = 1e9, y = 3.5;
static volatile float z = 1e9F;
__attribute__((noinline)) void doubles(void) { x = x * y + x / y - (double)a; }
__attribute__((noinline)) void sine(void) { x = sin(x); }
__attribute__((noinline)) void single_sine(void) { z = sinf(z); }
#endif
#define MEASURE(function) function(); used[n++] = paint(sp)
int app(void) {
  uint32_t used[5];
  unsigned n = 0;
  uintptr_t sp;
  __asm__ volatile(MOVE : "=r"(sp));
  (void)paint(sp);
  MEASURE(chain);
  MEASURE(divide);
#if FLOATS
  MEASURE(doubles);
  MEASURE(sine);
  MEASURE(single_sine);
#endif
  io_write(used, n * sizeof used[0]);
  return 0;
}
"""


@on_guests
def test_worst_stack_bounds_what_is_used(target: Target, make: Make) -> None:
    """Frames of our own are exact but for padding to 16 bytes that nothing is written to."""
    built = make(target, PAINTED, defines={"MOVE": f'"{ASSEMBLY[target.name].move}"', "FLOATS": int(target.floats)})
    used = words(run(built))
    names = ("chain", "divide", *(("doubles", "sine", "single_sine") if target.floats else ()))
    worst = [built.worst_stack(name) for name in names]
    assert built.worst_stack("leaf") == built.stack["leaf"] >= 100
    assert worst[0] == built.stack["chain"] + built.stack["leaf"]
    assert worst[0] - 16 < used[0] <= worst[0]
    for measured, bound in zip(used[1:], worst[1:], strict=True):
        assert measured <= bound <= measured + 64


@on_guests
def test_assembly_runs_into_the_next_label(target: Target, tmp_path: Path) -> None:
    """As libgcc's does, and like it without saying where functions end."""
    source = tmp_path / "two.S"
    frames = ASSEMBLY[target.name].frames
    labels = [f".global {name}; .type {name}, %function; {name}:" for name in ("outer", "inner")]
    source.write_text(f".section .text.two\n.balign 4\n{labels[0]} {frames[0]}\n{labels[1]} {frames[1]}; {frames[2]}\n")
    calling = tmp_path / "calling.c"
    calling.write_text("void outer(void);\nint app(void) { outer(); return 0; }\n")
    built = build(target, [source, calling], [], tmp_path / "two")
    assert run(built) == b""
    assert (built.worst_stack("outer"), built.worst_stack("inner")) == (32, 8)
    assert built.symbols["outer"] == ASSEMBLY[target.name].first


UNBOUNDED = """
static int (*volatile pointer)(int);
static int known(int n) { return n + 1; }
__attribute__((noinline)) int recursive(int n) { return n < 2 ? 1 : recursive(n - 1) * n + recursive(n - 2); }
__attribute__((noinline)) int indirect(int n) { return pointer(n) + 1; }
__attribute__((noinline)) int variable(int n) { volatile char room[n]; room[n - 1] = 1; return room[0]; }
__attribute__((noinline)) int caller(int n) { return indirect(n) + 1; }
int app(void) { pointer = known; return recursive(3) + caller(2) + variable(2) - 3 - 4 - 1; }
"""


@on_all
def test_stacks_without_a_bound_are_errors(target: Target, make: Make) -> None:
    built = make(target, UNBOUNDED)
    for name, why in [
        ("recursive", "recursive calls itself"),
        ("caller", "indirect calls through a pointer"),
        ("variable", "depends on data"),
        ("nowhere", "nowhere is not known"),
    ]:
        with pytest.raises(ToolchainError, match=why):
            built.worst_stack(name)


# Failures.

BROKEN = "__attribute__((noinline)) int broken(int n) {{ {} }} int app(void) {{ return broken(1); }}"
TRAP = BROKEN.format("__builtin_trap(); return n;")
DIVISION = "static volatile int zero;" + BROKEN.format("return n / zero;")
OVERFLOW = "static volatile int one = 1;" + BROKEN.format(
    "volatile int room[64]; room[n & 63] = n; return one ? broken(n + 1) + room[3] : 0;"
)
HANG = "int app(void) { for (volatile int n = 0;; n = !n) { } }"


def failing(built: Built, timeout: float = PATIENCE) -> ToolchainError:
    with pytest.raises(ToolchainError) as caught:
        run(built, timeout=timeout)
    assert caught.value.remedy
    assert str(built.elf) in caught.value.command
    assert built.target.name in str(caught.value)
    assert processes(built) == []
    return caught.value


def processes(built: Built) -> list[str]:
    """Of this program, still running."""
    running = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            begins = (entry.parent / "comm").read_text().strip() == "setpriv"  # has the program in its arguments too
            running += [entry.parent.name] if bytes(built.elf) in entry.read_bytes() and not begins else []
        except OSError:  # ended meanwhile
            continue
    return running


@on_all
def test_an_error_of_the_program_is_reported(target: Target, make: Make) -> None:
    error = failing(make(target, "int app(void) { return -3; }"))
    assert "app() returned an error" in str(error)
    assert "0xfffffffd" in error.log


@on_guests
def test_a_crash_names_the_function(target: Target, make: Make) -> None:
    assert "the program crashed in broken" in str(failing(make(target, TRAP)))


@on_dividing
def test_a_division_by_zero_is_a_crash(target: Target, make: Make) -> None:
    assert "the program crashed in broken" in str(failing(make(target, DIVISION)))


@on_host
def test_a_crash_on_the_host_names_the_signal(target: Target, make: Make) -> None:
    assert "the program crashed: SIGILL" in str(failing(make(target, TRAP)))


@on_guests
@pytest.mark.parametrize("options", [("-Os",), ("-O0",)])
def test_a_stack_overflow_is_reported(target: Target, options: tuple[str, ...], make: Make) -> None:
    """Data above the stack does not hide it, and it is not taken for another crash."""
    assert "overflowed its stack" in str(failing(make(target, OVERFLOW, options)))


@on_all
def test_a_program_that_hangs_is_ended(target: Target, make: Make) -> None:
    built = make(target, HANG)
    begin = time.monotonic()
    assert "did not end within 0.5 s" in str(failing(built, timeout=0.5))
    assert time.monotonic() - begin >= 0.5


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="not installed: setpriv")
@pytest.mark.parametrize("target", needing_tools(["host", "cortex-m3"]))
@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_its_caller(target: Target, ended_by: signal.Signals, make: Make, tmp_path: Path) -> None:
    """Ctrl-C, and a caller that gets no chance to clean up."""
    built = make(target, HANG)
    code = (
        "import pickle, sys; from stepmap_codegen.toolchain import run; run(pickle.load(sys.stdin.buffer), timeout=600)"
    )
    caller = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        preexec_fn=heed_signals,
    )
    try:
        assert caller.stdin
        caller.stdin.write(pickle.dumps(built))
        caller.stdin.close()
        wait_for(lambda: processes(built) != [], "the program runs")
        caller.send_signal(ended_by)
        caller.wait(PATIENCE)
        wait_for(lambda: processes(built) == [], "the program has ended")
    finally:
        caller.kill()
        caller.wait()


@on_guests
def test_being_told_to_quit_is_not_success(target: Target, make: Make) -> None:
    """QEMU ends with 0 on SIGTERM."""
    built = make(target, HANG)

    def quit_soon() -> None:
        wait_for(lambda: any(handles(int(pid), signal.SIGTERM) for pid in processes(built)), "QEMU runs")
        for process in processes(built):
            os.kill(int(process), signal.SIGTERM)

    helper = threading.Thread(target=quit_soon)
    helper.start()
    error = failing(built)
    helper.join()
    assert "did not end" not in str(error)


@on_all
def test_a_compiler_s_error_is_shown(target: Target, make: Make) -> None:
    with pytest.raises(ToolchainError, match="'mistake' undeclared") as caught:
        make(target, "int app(void) { return mistake; }")
    assert caught.value.command.startswith(f"{target.prefix}gcc ")
    assert "apt-get install" in caught.value.remedy


@on_all
def test_a_program_without_app_is_an_error(target: Target, make: Make) -> None:
    with pytest.raises(ToolchainError, match="undefined reference to `app'"):
        make(target, "int other(void); int other(void) { return 0; }")


@on_guests
@pytest.mark.parametrize(("what", "region"), [("volatile char", "RAM"), ("const char", "FLASH")])
def test_what_does_not_fit_is_an_error(target: Target, what: str, region: str, make: Make) -> None:
    assert target.memory
    room = target.memory.flash_bytes if region == "FLASH" else target.memory.ram_bytes - target.memory.stack_bytes
    code = f"static {what} big[{room}] = {{0}}; static volatile int i; int app(void) {{ return big[i]; }}"
    with pytest.raises(ToolchainError, match=f"region `{region}' overflowed"):
        make(target, code)


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_missing_tools_are_named(target: Target, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match=f"{target.prefix}gcc.* not found") as caught:
        build(target, [], [], tmp_path)
    assert caught.value.remedy == f"apt-get install --no-install-recommends {' '.join(target.packages)}"
    assert target.missing()[-1] == (target.emulator[0] if target.emulator else "size")


@on_all
@pytest.mark.parametrize("level", ["-Os", "-O2"])
def test_the_runtime_has_no_warnings(target: Target, level: str, tmp_path: Path) -> None:
    for name in target.runtime:
        flags = [*target.flags, *target.runtime_flags, "-std=c11", level, *WARNINGS]
        subprocess.run([target.tool("gcc"), *flags, "-c", RUNTIME / name, "-o", tmp_path / "out.o"], check=True)

"""The whole firmware as a library in simulated time (harness_loop.c), and a link to it.

Where the environment names a folder in STEPMAP_COVERAGE, branches are counted there instead of trapped.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.key import Key
from stepmap_hil.wire.link import Link
from stepmap_hil.wire.raw_values import SignalCodec
from tests.firmware import loop_kinds
from tests.firmware.link_board import headers
from tests.firmware.native_core import CORE, COUNT, ROOT, TRAP, WARNINGS

HERE = Path(__file__).parent
GENERATED = ROOT / "firmware" / "generated"
KEY = Key(bytes(range(32)))
OTHER_KEY = Key(bytes(range(1, 33)))
BOARD = b"loop harness"  # its id
AXES = {"many": 9}  # motors and encoders of the port; else two
VIRTUAL = ("virtual_io", "virtual_time")


@functools.cache
def facts_of(axes: int) -> type[ctypes.Structure]:
    """loop_facts of the harness, of a port with so many motors."""

    class Facts(ctypes.Structure):
        _fields_ = [
            *((name, ctypes.c_uint32) for name in (
                "state", "reason", "motion", "calibrated", "transitions", "refused", "stale", "accepted", "saturated",
                "overruns", "gated_consecutive", "at_end", "nis_sum", "variance_ratio", "tick", "uploaded",
                "has_schedule", "faults", "ticking", "virtual_io", "virtual_time", "enabled", "restarts", "fed",
                "starved", "motors_late", "motor_longest", "forged", "disobeyed",
            )),
            *((name, ctypes.c_int32 * axes) for name in ("drives", "positions", "targets", "applied")),
        ]  # fmt: skip

    return Facts


@functools.cache
def _folder() -> Path:
    counted = os.environ.get("STEPMAP_COVERAGE")
    if counted:
        return Path(counted)
    made = Path(tempfile.mkdtemp(prefix="stepmap-loop-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@functools.cache
def generated(name: str) -> Path:
    """A folder with generated code: of the repository, or of a controller of loop_kinds."""
    if (GENERATED / name).is_dir():
        return GENERATED / name
    folder = _folder() / name
    folder.mkdir()
    for file_name, content in loop_kinds.controller(name).files().items():
        (folder / file_name).write_bytes(content)
    return folder


@functools.cache
def library(name: str) -> ctypes.CDLL:
    """The firmware of a job; every one has its own loop."""
    built = _folder() / f"loop_{name}.so"
    kind = COUNT if os.environ.get("STEPMAP_COVERAGE") else TRAP
    code = generated(name)
    sources = [HERE / "harness_loop.c", HERE / "flash.c", *sorted(CORE.glob("*.c")), *sorted(code.glob("*.c"))]
    include = [f"-I{CORE}", f"-I{code}", f"-I{HERE}", "-isystem", str(headers())]
    march = os.environ.get("STEPMAP_MARCH")
    command = [
        "gcc",
        *([f"-march={march}"] if march else []),
        "-std=c11",
        *WARNINGS,
        *kind,
        *([f"-DPORT_MOTORS={AXES[name]}U", f"-DPORT_ENCODERS={AXES[name]}U"] if name in AXES else []),
        "-shared",
        "-fPIC",
        "-Wl,--wrap=sm_update",
        *include,
        "-o",
        str(built),
    ]
    subprocess.run([*command, *map(str, sources), "-lm"], check=True, cwd=_folder())
    loaded = ctypes.CDLL(str(built))
    loaded.board_sent.restype = ctypes.c_size_t
    loaded.board_sent.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    loaded.board_feed.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    loaded.board_start.argtypes = [ctypes.c_char_p, ctypes.c_uint8]
    loaded.board_jam.argtypes = [ctypes.c_size_t]
    loaded.board_set.argtypes = [ctypes.c_uint32, ctypes.c_int32]
    loaded.board_slow.argtypes = [ctypes.c_uint32, ctypes.c_uint32]
    for function in ("pass", "slow_filter", "fail_flash", "overrun", "age", "alarm"):
        getattr(loaded, f"board_{function}").argtypes = [ctypes.c_uint32]
    loaded.board_clock.restype = ctypes.c_uint32
    loaded.board_encoder.argtypes = [ctypes.c_uint, ctypes.c_int32]
    loaded.board_facts.argtypes = [ctypes.c_void_p]
    return loaded


class LoopBoard:
    """The firmware at work. As a port it answers what is written at once; time passes in `run`, and while one waits."""

    def __init__(self, name: str = "suspended_mass", key: Key | None = KEY) -> None:
        self.core = library(name)
        self.words = SignalCodec.read(generated(name))
        self.key = key
        self.timeout: float | None = None
        self._out = bytearray()
        self.axes = AXES.get(name, 2)
        self.counts = [0] * self.axes  # of virtual motors
        self.sequence = self.stamp_us = self.token = 0
        self.core.board_init()
        self.start()
        self.link = Link(self, key, board_id=None if key is None else BOARD)

    def start(self, system: int = 1) -> None:
        """After a reset: memory that lasts is as it was."""
        self.core.board_start(self.key.secret if self.key else None, system)
        self._collect()

    # A port

    @property
    def in_waiting(self) -> int:
        return len(self._out)

    def write(self, data: bytes, /) -> int:
        self.core.board_feed(data, len(data))
        for _ in range(2 + len(data) // 64):
            self.turn()
        return len(data)

    def read(self, size: int = 1, /) -> bytes:
        """What was sent; where there is nothing, time passes."""
        if not self._out:
            self.run(0.005)
        taken = bytes(self._out[:size])
        del self._out[:size]
        return taken

    def close(self) -> None:
        self._out.clear()

    def turn(self) -> None:
        if self.core.board_turn():
            self.start()
        self._collect()

    def _collect(self) -> None:
        buffer = ctypes.create_string_buffer(65536)
        count = self.core.board_sent(buffer, len(buffer))
        self._out += buffer.raw[:count]

    # What tests do

    @property
    def facts(self) -> Any:
        found: Any = facts_of(self.axes)()
        self.core.board_facts(ctypes.byref(found))
        assert found.disobeyed == 0
        assert found.starved == 0
        return found

    @property
    def state(self) -> str:
        return dialect.word("STEPMAP_STATE", self.facts.state)

    @property
    def reason(self) -> str:
        return dialect.word("STEPMAP_REASON", self.facts.reason)

    def run(self, seconds: float) -> None:
        """Lets the board's own time pass."""
        begin = self.core.board_clock()
        while (self.core.board_clock() - begin) % 2**32 < round(seconds * 1e6):
            self.turn()

    def heard(self, *names: str) -> list[Message]:
        """All messages of these names that are there."""
        found = []
        while (message := self.link.poll(*names)) is not None:
            found.append(message)
        return found

    def command(self, command: str, *options: str) -> Message:
        """The answer, also where it is a refusal."""
        self.heard("COMMAND_ACK")
        bits = sum(dialect.value(f"STEPMAP_OPTION_{o.upper()}") for o in options)
        self.token += 1
        self.link.send(
            "COMMAND",
            token=1000 + self.token,
            options=bits,
            command=dialect.value(f"STEPMAP_COMMAND_{command.upper()}"),
        )
        [answer] = self.heard("COMMAND_ACK")
        return answer

    def measure(
        self,
        z: Sequence[float],
        valid: int | None = None,
        *,
        sequence: int | None = None,
        age: float = 0.0,
        on_its_way: float = 0.0,
    ) -> None:
        """Sends one that was seen ``age`` seconds before it was sent, and arrives ``on_its_way`` seconds later."""
        self.sequence = self.sequence + 1 if sequence is None else sequence
        encoded = self.words.encode("measurement", np.asarray(z, dtype=float))
        mask = (1 << len(encoded)) - 1 if valid is None else valid
        stamp = self.stamp_us if self.facts.virtual_time else self.clock_us(-on_its_way)
        fields = {"stamp_us": stamp, "sequence": self.sequence, "age_us": round(1e6 * age)}
        self.link.send("MEASUREMENT", z=encoded, valid=mask, **fields)

    def encoders(self, *counts: int, alarms: int = 0) -> Message | None:
        """The answer, if there is one."""
        self.heard("VIRTUAL_ACTUATOR")
        self.link.send("VIRTUAL_ENCODER", stamp_us=self.stamp_us, counts=counts, alarms=alarms)
        answers = self.heard("VIRTUAL_ACTUATOR")
        return answers[-1] if answers else None

    def clock_us(self, seconds: float = 0.0) -> int:
        """The host's clock, so many seconds from now; it is not the board's."""
        return (int(self.core.board_clock()) + 123_456_789 + round(1e6 * seconds)) % 2**32

    def pass_time(self, seconds: float) -> None:
        self.stamp_us = (self.stamp_us + round(seconds * 1e6)) % 2**32

    def ticks(self) -> list[Message]:
        return self.heard("TELEMETRY")

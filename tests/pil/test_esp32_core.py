"""The whole core as RV32IMC and on an Xtensa LX106, the instruction sets of ESP32-C3 and ESP32.

The same messages give the same bits as on the PC.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stepmap_codegen.toolchain import TARGETS, Target, build, run
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.link import Port
from tests.firmware.link_board import headers
from tests.pil.built import KEY, ROOT, board, solution
from tests.pil.robot import Robot, recorded

CORE = ROOT / "firmware" / "core"
HERE = Path(__file__).parent
STRICT = ("-Os", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
SETS = [TARGETS["rv32imc"], TARGETS["xtensa-lx106"]]
TICKS = 30


class Tap:
    """A port that remembers what was said."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.said = b""

    def __getattr__(self, name: str) -> object:
        return getattr(self.port, name)

    def write(self, data: bytes) -> int | None:
        self.said += data
        return self.port.write(data)


@pytest.fixture(scope="module")
def conversation() -> tuple[bytes, bytes, list[Message]]:
    """The id of a board on the PC, everything it was told in a run, and its answers to the ticks."""
    with board("native") as it:
        robot = Robot(it)
        tap, board_id = Tap(it.open()), robot.link.board_id
        robot.link.port = tap  # type: ignore[assignment]
        robot.prepare()
        robot.session.run()
        answers = [robot.tick(measured) for measured in recorded(TICKS)]
    assert board_id is not None
    return board_id, tap.said, answers


# Their tools are part of the set-up: without them these tests fail, they do not skip.
@pytest.mark.parametrize("target", [pytest.param(target, id=target.name) for target in SETS])
def test_the_core_runs_there(target: Target, conversation: tuple[bytes, bytes, list[Message]], tmp_path: Path) -> None:
    board_id, said, expected = conversation
    generated = solution()[2].folder
    sources = [*sorted(CORE.glob("*.c")), *sorted(generated.glob("*.c")), HERE / "port_stream.c"]
    options = (*STRICT, "-isystem", str(headers()))
    built = build(target, sources, [CORE, generated], tmp_path, options)
    answers = run(built, KEY.secret + board_id + said, timeout=600.0)
    framer = dialect.Framer(KEY.of_board(board_id).link)
    heard = [dialect.decode(frame) for frame in framer.feed(answers)]
    assert framer.damaged == framer.forged == 0
    first = next(m for m in heard if m.name == "HEARTBEAT")
    assert dialect.word("STEPMAP_REASON", first.reason) == "booted"  # the self-test passed
    told = [m for m in heard if m.name == "TELEMETRY"][-TICKS:]
    assert [same(m) for m in told] == [same(m) for m in expected]


def same(message: Message) -> dict[str, object]:
    """What does not depend on how fast a processor is."""
    return {name: value for name, value in message.fields.items() if name not in ("tick_us", "wait_us")}

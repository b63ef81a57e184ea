"""The whole core as RV32IMC, the instructions of an ESP32-C3: the same messages give the same bits as elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepmap_codegen.toolchain import TARGETS, build, run
from stepmap_hil import dialect
from stepmap_hil.dialect import Message
from stepmap_hil.link import Port
from tests.firmware.link_board import headers
from tests.pil.built import KEY, ROOT, board, solution
from tests.pil.robot import Robot, recorded

CORE = ROOT / "firmware" / "core"
HERE = Path(__file__).parent
STRICT = ("-Os", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
TARGET = TARGETS["rv32imc"]
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


@pytest.mark.skipif(bool(TARGET.missing()), reason=f"needs {TARGET.install}")
def test_the_core_runs_as_rv32imc(tmp_path: Path) -> None:
    with board("native") as it:
        robot = Robot(it)
        tap = Tap(it.open())
        robot.link.port = tap  # type: ignore[assignment]
        robot.prepare()
        robot.session.run()
        expected = [robot.tick(measured) for measured in recorded(TICKS)]
    generated = solution()[2].folder
    sources = [*sorted(CORE.glob("*.c")), *sorted(generated.glob("*.c")), HERE / "port_stream.c"]
    options = (*STRICT, "-isystem", str(headers()))
    built = build(TARGET, sources, [CORE, generated], tmp_path, options)
    answers = run(built, KEY.secret + tap.said, timeout=60.0)
    framer = dialect.Framer(KEY.link)
    heard = [dialect.decode(frame) for frame in framer.feed(answers)]
    assert framer.damaged == framer.forged == 0
    first = next(m for m in heard if m.name == "HEARTBEAT")
    assert dialect.word("STEPMAP_REASON", first.reason) == "booted"  # the self-test passed
    told = [m for m in heard if m.name == "TELEMETRY"][-TICKS:]
    assert [same(m) for m in told] == [same(m) for m in expected]


def same(message: Message) -> dict[str, object]:
    """What does not depend on how fast a processor is."""
    return {name: value for name, value in message.fields.items() if name not in ("tick_us", "wait_us")}

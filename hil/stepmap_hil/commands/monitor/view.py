"""The messages of a board, as a table: its state and why, the last tick, and how the link does."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stepmap.cli.output import PADDING
from stepmap.text import printable
from stepmap_hil.commands.monitor.history import LENGTH, History, sparkline
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.link import Link
from stepmap_hil.wire.raw_values import SignalCodec
from stepmap_hil.wire.reasons import explain

FLAGS = {
    "UPLOADED": ("uploaded", "compiled in"),
    "CALIBRATED": ("calibrated", "not calibrated"),
    "VIRTUAL_IO": ("virtual motors", "real motors"),
    "VIRTUAL_TIME": ("virtual time", "real time"),
    "TAKES_UPLOADS": ("takes uploads", "no memory for uploads"),
    "LASTING": ("memory lasts", "memory is lost at power off"),
    "HAS_KEY": ("has a key", "without a key"),
}
WARNINGS = {
    "SUPPLY_LOW": "the supply is too low to write flash: measure it while the motors pull",
    "NO_BROWNOUT": "the chip runs on below what its flash needs: set its brown-out level (docs/first-hardware.md)",
}
STARTS = ("power", "pin", "software", "watchdog", "brown-out", "unknown")
LOGS = 5
COLOURS = {"running": "bold green", "armed": "yellow", "holding": "bold yellow", "stopped": "red", "fault": "bold red"}
LOSS = 0.01  # of the messages, from which it is red


@dataclass
class Monitor:
    """Keeps the last message of each kind."""

    link: Link
    codec: SignalCodec | None = None
    heartbeat: Message | None = None
    tick: Message | None = None
    status: Message | None = None
    logs: list[str] = field(default_factory=list)
    heartbeats: int = 0
    ticks: int = 0
    history: History | None = None
    tick_us: deque[float] = field(default_factory=lambda: deque(maxlen=LENGTH))

    def __post_init__(self) -> None:
        if self.history is None and self.codec is not None:
            self.history = History(self.codec)

    def receive(self, seconds: float) -> list[str]:
        """Waits for messages at most so long; returns what is news, each in a line."""
        news: list[str] = []
        message = self.link.receive(timeout=seconds)
        while message is not None:
            news += self.take(message)
            message = self.link.poll()
        return news

    def take(self, message: Message) -> Iterator[str]:
        """Remembers a message that can be believed; what is news, each in a line."""
        if not self.link.believes(message):
            return
        if message.name == "HEARTBEAT":
            before, self.heartbeat = self.heartbeat, message
            self.heartbeats += 1
            if before is None or (before.state, before.reason) != (message.state, message.reason):
                yield f"{_state(message)}: {explain(message.reason)}"
            known = [] if before is None else list(_warnings(before))
            yield from (f"warning: {text}" for text in _warnings(message) if text not in known)
        elif message.name == "TELEMETRY":
            self.tick = message
            self.ticks += 1
            self.tick_us.append(float(message.tick_us))
            if self.history is not None:
                self.history.add(message)
        elif message.name == "LINK_STATUS":
            self.status = message
        elif message.name == "LOG":
            text = f"{dialect.word('STEPMAP_SEVERITY', message.severity)}: {message.text}"
            self.logs = [*self.logs, text][-LOGS:]
            yield text

    def table(self) -> RenderableType:
        """What is known, above the numbers of the last ticks."""
        made = Table(
            title=f"board {self.link.target}",
            title_justify="left",
            title_style="bold",
            show_header=False,
            box=None,
            padding=PADDING,
        )
        made.add_column(style="dim")
        made.add_column()
        for name, value in self.rows():
            made.add_row(name, value if isinstance(value, Text) else Text(printable(value)))
        if self.history is None or self.tick is None:
            return made
        return Group(made, "", self.history.columns())

    def rows(self) -> Iterator[tuple[str, str | Text]]:
        """Names and values."""
        if self.heartbeat is None:
            yield "state", "no heartbeat yet"
        else:
            yield from self._about(self.heartbeat)
        if self.tick is not None:
            yield from self._tick(self.tick)
        yield from self._link()
        if not self.link.signed:
            yield "trust", "none: without a key it only listens, and nothing it shows is checked"
        for text in self.logs:
            yield "log", text

    def _about(self, heartbeat: Message) -> Iterator[tuple[str, str | Text]]:
        meaning, _, remedy = explain(heartbeat.reason).partition("; ")
        yield "state", Text(_state(heartbeat), COLOURS.get(_state(heartbeat), ""))
        yield "why", meaning
        if remedy:
            yield "to do", remedy
        named = "" if self.codec is None else " (not this job's)" if bytes(heartbeat.model) != self.codec.model else ""
        yield "model", f"{bytes(heartbeat.model).hex()}{named}"
        schedule = bytes(heartbeat.schedule).hex() if any(heartbeat.schedule) else "none"
        bits = {name: bool(heartbeat.flags & dialect.value(f"STEPMAP_FLAG_{name}")) for name in FLAGS}
        texts = {name: pair[0] if bits[name] else pair[1] for name, pair in FLAGS.items()}
        yield "schedule", f"{schedule}, {texts.pop('UPLOADED')}"
        yield "board", ", ".join(texts.values())
        yield "id", bytes(heartbeat.board_id).hex()
        yield from (("warning", Text(text, "bold yellow")) for text in _warnings(heartbeat))
        start = STARTS[heartbeat.start] if heartbeat.start < len(STARTS) else str(heartbeat.start)
        yield "up", f"{heartbeat.uptime_ms / 1000:.1f} s since a reset by {start}"

    def _tick(self, tick: Message) -> Iterator[tuple[str, str]]:
        yield "tick", f"{tick.tick}, measurement {tick.sequence}, channels taken {tick.taken:b}"
        usual = max(1.0, float(np.median(self.tick_us)))
        line = sparkline(list(self.tick_us), 0.0, 2 * usual)
        yield "time", f"{tick.tick_us} µs per tick, {tick.wait_us} µs before it  {line}"
        yield "counted", f"{tick.gated} gated, {tick.saturations} saturations, {tick.faults} faults"

    def _link(self) -> Iterator[tuple[str, str | Text]]:
        counts = self.link.statistics
        share = counts.lost / max(1, counts.received + counts.lost)
        style = "red" if share >= LOSS else "yellow" if counts.lost else "green"
        yield "lost", Text(f"{100 * share:.2g} % of {counts.received + counts.lost} messages", style)
        troubles = ("lost", "damaged", "noise", "bare", "forged", "replayed")
        bad = [f"{getattr(counts, name)} {name}" for name in troubles if getattr(counts, name)]
        yield "received here", ", ".join([f"{counts.received} messages", *(bad or ["nothing lost"])])
        if counts.unsigned:
            yield "not believed", f"{counts.unsigned} heartbeats without a signature"
        if self.status is not None:
            s = self.status
            wrong = ("damaged", "noise", "bare", "forged", "replayed", "unsaved", "unsent", "overruns")
            bad = [f"{s.fields[name]} {name}" for name in wrong if s.fields[name]]
            yield "received there", ", ".join([f"{s.received} messages", *(bad or ["nothing lost"])])
            yield "flash", f"journals erased {s.erases} times"


def _state(heartbeat: Message) -> str:
    return dialect.word("STEPMAP_STATE", heartbeat.state)


def _warnings(heartbeat: Message) -> Iterator[str]:
    """What is wrong with the board, whatever its state."""
    for name, text in WARNINGS.items():
        if heartbeat.flags & dialect.value(f"STEPMAP_FLAG_{name}"):
            yield text

"""What the page is told of a run, and what it asks for: JSON over a websocket.

Everything that was said is kept, so a page that is opened late, or again, learns it all.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Callable, Mapping
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

PERIOD = 1 / 20  # s, between two batches to a page
MOST = 20_000  # ticks that are kept at least; of a longer run the first ones are dropped
LONGEST = 1000  # characters of a request

Order = Mapping[str, Any]


class Feed:
    """Says the same to all pages; ``hear`` is called with each of their requests, ``met`` with each new page."""

    def __init__(self, hear: Callable[[Order], None], met: Callable[[], None]) -> None:
        self._hear, self._met = hear, met
        self._lock = threading.Lock()
        self._lasting: list[str] = []  # of what is not in ``_said`` any more
        self._said: list[tuple[str, bool]] = []
        self._first = 0  # number of the first of ``_said``

    def say(self, kind: str, *, brief: bool = False, **content: Any) -> None:
        """One message more; those that are ``brief`` are dropped where there are too many of them."""
        text = json.dumps({"kind": kind, **content}, separators=(",", ":"), allow_nan=False)
        with self._lock:
            self._said.append((text, brief))
            if len(self._said) > 2 * MOST:
                gone, self._said = self._said[:MOST], self._said[MOST:]
                self._lasting += [old for old, was_brief in gone if not was_brief]
                self._first += MOST

    def since(self, number: int) -> tuple[str, int]:
        """A JSON array of what was said from a message on, "" where there is nothing, and the number of the next."""
        with self._lock:
            old = self._lasting if number == 0 else []
            fresh = [text for text, _ in self._said[max(number - self._first, 0) :]]
            end = self._first + len(self._said)
        return (f"[{','.join([*old, *fresh])}]" if old or fresh else ""), end

    async def talk(self, connection: ServerConnection) -> None:
        """With one page, until it leaves; in the thread of the server."""
        self._met()
        tasks = [asyncio.create_task(work) for work in (self._tell(connection), self._listen(connection))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _tell(self, connection: ServerConnection) -> None:
        number = 0
        while True:
            text, number = self.since(number)
            if text:
                try:
                    await connection.send(text)
                except ConnectionClosed:
                    return
            await asyncio.sleep(PERIOD)

    async def _listen(self, connection: ServerConnection) -> None:
        try:
            async for message in connection:
                order = _parsed(message)
                if order is not None:
                    self._hear(order)
        except ConnectionClosed:
            return


def _parsed(message: str | bytes) -> Order | None:
    """A request, or None where it is none."""
    if not isinstance(message, str) or len(message) > LONGEST:
        return None
    try:
        order = json.loads(message)
    except (ValueError, RecursionError):
        return None
    return order if isinstance(order, dict) else None


def short(value: float) -> float | None:
    """A number in six digits, which are enough for a chart; None where it is not finite: a gap."""
    return float(f"{value:.6g}") if math.isfinite(value) else None

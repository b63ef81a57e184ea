"""What every board is, wherever it runs."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from stepmap.errors import ToolchainError

if TYPE_CHECKING:
    from stepmap_hil.wire.link import Port


class BoardError(ToolchainError, OSError):
    """A board that cannot be started, or has ended; carries what ran, what it said and a remedy."""


class Board(Protocol):
    """A firmware that runs somewhere, and the serial port to it.

    `open` starts what has to be started; the port it returns stays the same until `close`, over every `reset`. As a
    context manager a board is open inside and closed at the end, however the end comes.
    """

    name: str

    def open(self) -> Port: ...

    def reset(self) -> None: ...

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

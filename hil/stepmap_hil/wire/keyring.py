"""The keys of the boards on a line: each follows from the board's id in its heartbeats."""

from __future__ import annotations

from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.key import BoardKey, Key

PROTOCOL = 3  # of the dialect


class Keyring:
    """Which board each system is, and its keys.

    Anyone can say to be a board; only that board, or a holder of the key, can sign it with the key that follows from
    its id. A heartbeat with a right signature is believed so far. It may have been recorded: a host that is answered
    knows better, and holds on to that board.
    """

    def __init__(self, key: Key, *, target: int, host: int, board_id: bytes | None = None) -> None:
        self._key = key
        self._target = target
        self._host = host
        self._keys: dict[int, tuple[bytes, BoardKey]] = {}
        self._held = board_id is not None
        self.protocol: int | None = None
        """Of the target, by its last heartbeat, which any sender may forge."""
        self.other_id: bytes | None = None
        """Of a heartbeat of another board than the one that is held, which any sender may forge."""
        if board_id is not None:
            self._keys[target] = (board_id, key.of_board(board_id))

    @property
    def board_id(self) -> bytes | None:
        """Of the target; None where it has not been heard."""
        known = self._keys.get(self._target)
        return None if known is None else known[0]

    @property
    def link(self) -> bytes | None:
        """Signs what is for the target."""
        return self._link(self._target)

    def key_of(self, frame: bytes) -> bytes | None:
        """What a signed frame must have been signed with, for a Framer."""
        sender = frame[5]
        if sender == self._host:
            return self.link
        if dialect.frame_id(frame) == dialect.value("MAVLINK_MSG_ID_HEARTBEAT"):
            return self._of_heartbeat(dialect.decode(frame))
        return self._link(sender)

    def learn(self, heartbeat: Message) -> None:
        """From a heartbeat whose signature is right."""
        if not (self._held and heartbeat.system == self._target):
            board_id = bytes(heartbeat.board_id)
            self._keys[heartbeat.system] = (board_id, self._key.of_board(board_id))

    def hold(self) -> None:
        """The target has answered: it is this board until the end."""
        self._held = True

    def _of_heartbeat(self, heartbeat: Message) -> bytes:
        board_id = bytes(heartbeat.board_id)
        if heartbeat.system != self._target:
            return self._key.of_board(board_id).link
        self.protocol = heartbeat.protocol
        known = self._keys.get(self._target)
        if known is not None and known[0] == board_id:
            return known[1].link
        if known is not None and self._held:
            self.other_id = board_id
            return known[1].link
        return self._key.of_board(board_id).link

    def _link(self, system: int) -> bytes | None:
        known = self._keys.get(system)
        return None if known is None else known[1].link

"""Messages too long for one frame of the usual kind, under the names that everything else knows (docs/wire.md).

What does not fit MEASUREMENT or VIRTUAL_ENCODER goes as WIDE_MEASUREMENT or WIDE_VIRTUAL_ENCODER, and comes back as
WIDE_VIRTUAL_ACTUATOR and as WIDE_TELEMETRY, in parts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message

PREFIX = "WIDE_"
OWN = ("part", "parts", "words")  # of one part of telemetry: all others are those of the tick


def fitting(name: str, fields: dict[str, Any]) -> str:
    """The name of the message that has room for these fields: ``name``, or the wide one where an array is longer."""
    wide = f"{PREFIX}{name}"
    if not dialect.known(wide):
        return name
    room = dialect.lengths(name)
    return wide if any(len(fields[array]) > most for array, most in room.items() if array in fields) else name


class Parts:
    """Puts parts together. A tick of which a part is missing, or comes twice or out of order, is left out."""

    def __init__(self) -> None:
        self._begun: Message | None = None  # the tick whose parts come, with the words so far

    def whole(self, message: Message) -> Message | None:
        """The message under its usual name, or the tick that it completes; None where more parts are to come."""
        name = message.name.removeprefix(PREFIX)
        if name == message.name:
            return message
        if name != "TELEMETRY":
            return replace(message, name=name)
        begun, self._begun = self._begun, None
        words: tuple[int, ...] = ()
        if message.part > 0:
            if begun is None or _kept(begun) != _kept(message) or len(begun.words) != message.part * len(message.words):
                return None
            words = begun.words
        fields = {**message.fields, "words": (*words, *message.words)}
        made = replace(message, name=name, fields=fields)
        if message.part + 1 < message.parts:
            self._begun = made
            return None
        return made if message.part + 1 == message.parts else None


def _kept(part: Message) -> tuple[Any, ...]:
    """What all parts of a tick have in common, and who sent them."""
    common = {field: value for field, value in part.fields.items() if field not in OWN}
    return common, part.fields["parts"], part.system, part.component, part.trusted

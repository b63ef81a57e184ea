"""Parts of telemetry: a tick is whole or is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.wide import Parts, fitting


def part(number: int, parts: int = 3, **other: Any) -> Message:
    fields = {"stamp_us": 7, "tick": 5, "sequence": 9, "states": 80, "channels": 18, "commands": 18}
    words = tuple(range(48 * number, 48 * number + 48))
    fields |= {"part": number, "parts": parts, "words": words, **other}
    return Message("WIDE_TELEMETRY", fields, system=1, component=1, trusted=True)


def test_parts_become_one_tick() -> None:
    parts = Parts()
    assert [parts.whole(part(k)) for k in (0, 1)] == [None, None]
    told = parts.whole(part(2))
    assert told is not None
    assert (told.name, told.tick, told.trusted) == ("TELEMETRY", 5, True)
    assert (*told.estimate, *told.innovation, *told.command) == tuple(range(116))
    assert parts.whole(part(0, parts=1)) is not None


@pytest.mark.parametrize(
    "heard",
    [
        [part(1), part(2)],
        [part(0), part(2)],
        [part(0), part(1), part(1), part(2)],
        [part(0), part(1), part(2, tick=6)],
        [part(0), part(1), part(2, parts=4)],
        [part(0), part(1), replace(part(2), system=2)],
        [part(0), part(1), replace(part(2), trusted=False)],
        [part(0), part(1, parts=2), part(2)],
        [part(5, parts=3)],
    ],
)
def test_a_tick_of_which_anything_is_missing_is_left_out(heard: list[Message]) -> None:
    parts = Parts()
    assert [parts.whole(one) for one in heard] == [None] * len(heard)
    assert [parts.whole(part(k)) is None for k in range(3)] == [True, True, False]  # the next one is whole


def test_other_messages_may_come_between_and_go_by_their_usual_names() -> None:
    parts, beat = Parts(), Message("HEARTBEAT", {"state": 1}, system=1, component=1)
    assert parts.whole(part(0, parts=2)) is None
    assert parts.whole(beat) is beat
    efforts = parts.whole(Message("WIDE_VIRTUAL_ACTUATOR", {"effort": (1,) * 18}, system=1, component=1))
    assert efforts is not None
    assert efforts.name == "VIRTUAL_ACTUATOR"
    assert parts.whole(part(1, parts=2)) is not None


def test_a_message_is_wide_where_it_has_to_be() -> None:
    assert fitting("MEASUREMENT", {"z": [0] * 12}) == "MEASUREMENT"
    assert fitting("MEASUREMENT", {"z": [0] * 13, "valid": 1}) == "WIDE_MEASUREMENT"
    assert fitting("VIRTUAL_ENCODER", {"counts": [0] * 9}) == "WIDE_VIRTUAL_ENCODER"
    assert fitting("PING", {"sequence": 1}) == "PING"
    assert fitting("MEASUREMENT", {}) == "MEASUREMENT"

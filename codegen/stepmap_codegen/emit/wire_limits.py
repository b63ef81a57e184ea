"""What messages between host and board can carry, as firmware/dialect/stepmap.xml says."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from stepmap.errors import ModelError
from stepmap.mechanics import System

PACKAGE = Path(__file__).resolve().parents[1]
XML = (
    PACKAGE / "data" / "stepmap.xml",
    PACKAGE.parents[1] / "firmware" / "dialect" / "stepmap.xml",
)  # installed, checkout
ENUM = "STEPMAP_LIMIT"
CONTACT_CHANNELS = 11  # beside the word that tells how old a contact is, in MEASUREMENT
MODE_WORDS = 2  # of a gap: whether it is closed, and the sum of its test


@dataclass(frozen=True)
class Limits:
    """The most that there can be of each."""

    states: int
    channels: int
    commands: int
    encoders: int


def source() -> Path:
    """The dialect's XML, of the installed package or of the checkout."""
    for path in XML:
        if path.exists():
            return path
    raise FileNotFoundError(f"stepmap.xml is neither at {XML[0]} nor at {XML[1]}")


@cache
def limits() -> Limits:
    entries = ElementTree.parse(source()).findall(f"./enums/enum[@name='{ENUM}']/entry")
    found = {entry.get("name", "").removeprefix(f"{ENUM}_").lower(): int(entry.get("value", "")) for entry in entries}
    return Limits(**found)


def require(system: System, *, walks: bool = False) -> None:
    """Raises ModelError where a controller of this system has more than messages can carry.

    ``walks``: of a robot whose contacts are a bit and a word of its measurements, which only the shorter ones have.
    """
    most = limits()
    measured = "the channels of its sensors"
    channels = (len(system.sensor_channels), most.channels, measured)
    if walks:
        channels = (len(system.sensor_channels), CONTACT_CHANNELS, f"{measured}, of a robot that walks")
    there = {
        "states": (2 * len(system.coordinates), most.states, "two per coordinate"),
        "measured values": channels,
        "commands": (commands(system), most.commands, "one per force and one per kinematic coordinate"),
    }
    words = most.states + most.channels + most.commands
    if system.gap_names:
        every = sum(count for count, _, _ in there.values()) + MODE_WORDS * len(system.gap_names)
        there["values in all"] = (every, words, f"with {MODE_WORDS} per gap")
    wrong = [
        f"{count} {name} ({what}), and messages carry {limit}"
        for name, (count, limit, what) in there.items()
        if count > limit
    ]
    if wrong:
        raise ModelError(
            f"system {system.name!r} is too large for the link to a board: it has {'; '.join(wrong)}. Use a system "
            "with fewer; docs/wire.md has the limits"
        )


def commands(system: System) -> int:
    return len(system.inputs) + len(system.kinematic)

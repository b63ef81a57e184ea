"""Counters of a link: messages and frames since it was opened."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Statistics:
    """Messages received and sent, and frames that were rejected or lost."""

    received: int = 0
    sent: int = 0
    noise: int = 0
    """Bytes that belonged to no frame."""
    damaged: int = 0
    """Frames with a wrong checksum."""
    lost: int = 0
    """Frames missing in the sequence of their sender."""
    bare: int = 0
    """Frames without a signature, heartbeats aside."""
    forged: int = 0
    """Frames signed with another key."""
    unknown: int = 0
    """Signed frames of boards whose id is not known yet."""
    unsigned: int = 0
    """Heartbeats without a signature, where there is a key."""
    replayed: int = 0
    """Frames with a timestamp not above that of an earlier frame."""
    behind: int = 0
    """Frames from before the link was opened, or of a board that has not received a message of this host yet."""
    elsewhere: int = 0
    """Frames for other systems, or of this host coming back."""
    dropped: int = 0
    """Messages that were not received in time."""

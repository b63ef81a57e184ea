"""Terms of costs, one per file. Other packages add theirs by entry points of the group ``stepmap.terms``.

An entry point loads to a class with ``on(step)`` (term.py) and ``example(step, steps)``, an instance that the contract
tests hold to the laws of terms.
"""

from __future__ import annotations

from typing import Any

from stepmap.optimal.terms.clearance import Clearance
from stepmap.optimal.terms.expression import Expression
from stepmap.optimal.terms.frames import Frames
from stepmap.optimal.terms.limits import Limits
from stepmap.optimal.terms.speed_change import SpeedChange
from stepmap.optimal.terms.tension import Tension
from stepmap.optimal.terms.term import BoundTerm, Expanded, Part, Term
from stepmap.optimal.terms.track import Track
from stepmap.registry import Registry

OWN: dict[str, Any] = {
    "clearance": Clearance,
    "expression": Expression,
    "frames": Frames,
    "limits": Limits,
    "speed_change": SpeedChange,
    "tension": Tension,
    "track": Track,
}
TERMS = Registry[Any].of("stepmap.terms", "term", OWN)

names, get = TERMS.names, TERMS.get

__all__ = [
    "BoundTerm",
    "Clearance",
    "Expanded",
    "Expression",
    "Frames",
    "Limits",
    "Part",
    "SpeedChange",
    "Tension",
    "Term",
    "Track",
    "get",
    "names",
]

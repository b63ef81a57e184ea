"""Terms of costs, one per file. Other packages add theirs by entry points of the group ``stepmap.terms``.

An entry point loads to a class with ``on(step)`` (term.py) and ``example(step, steps)``, an instance that the contract
tests hold to the laws of terms.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from stepmap.errors import ModelError
from stepmap.optimal.terms.expression import Expression
from stepmap.optimal.terms.frames import Frames
from stepmap.optimal.terms.limits import Limits
from stepmap.optimal.terms.speed_change import SpeedChange
from stepmap.optimal.terms.tension import Tension
from stepmap.optimal.terms.term import BoundTerm, Expanded, Part, Term
from stepmap.optimal.terms.track import Track
from stepmap.text import did_you_mean

GROUP = "stepmap.terms"
OWN: dict[str, Any] = {  # come first: no other package replaces them
    "expression": Expression,
    "frames": Frames,
    "limits": Limits,
    "speed_change": SpeedChange,
    "tension": Tension,
    "track": Track,
}


def names() -> list[str]:
    """Terms that are installed."""
    return sorted({*OWN, *(entry.name for entry in entry_points(group=GROUP))})


def get(name: str) -> Any:
    """The class of a term."""
    if name in OWN:
        return OWN[name]
    for entry in entry_points(group=GROUP, name=name):
        try:
            return entry.load()
        except Exception as error:  # whatever the code of another package raises
            raise ModelError(f"term {name!r} cannot be loaded from {entry.value!r}: {error}") from error
    raise ModelError(f"no term is called {name!r}; {did_you_mean(name, names())}there are {', '.join(names())}")


__all__ = [
    "BoundTerm",
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

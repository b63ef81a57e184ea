"""What a mutant is: one small change of one file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """The text from ``start`` to ``end`` of a file (characters) is replaced."""

    file: str
    line: int
    kind: str
    start: int
    end: int
    before: str
    after: str

    def applied(self, text: str) -> str:
        """The file with the fault in it."""
        return text[: self.start] + self.after + text[self.end :]

    def key(self, text: str) -> str:
        """The same for the same change at the same place of the same surroundings, wherever its line moves to."""
        begin = text.rfind("\n", 0, self.start) + 1
        stop = text.find("\n", self.end)
        around = text[begin : stop if stop >= 0 else len(text)]
        nth = text[:begin].count(around)
        told = "|".join((self.file, self.kind, around, str(nth), str(self.start - begin), self.before, self.after))
        return hashlib.sha256(told.encode()).hexdigest()[:12]

    def __str__(self) -> str:
        shown = [" ".join(part.split())[:60] for part in (self.before, self.after)]
        return f"{self.file}:{self.line}: {self.kind}: `{shown[0]}` becomes `{shown[1]}`"

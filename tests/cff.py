"""A strict reader of the part of YAML that CITATION.cff is written in; what it does not know is an error.

Mappings and lists by indentation of two blanks, texts plain, in double quotes or folded (`>-`). No reader of YAML is
among the locked packages, and one file does not need one.
"""

from __future__ import annotations

import json
import re
from typing import Any

KEY = re.compile(r"([a-z][a-z-]*):(?: (.+))?")
PLAIN = re.compile(r"[A-Za-z0-9][^:#\"'{}\[\]&*!|>%@`]*")


class Lines:
    """Lines that are not yet read, each with its indentation."""

    def __init__(self, text: str) -> None:
        self.rest = [(len(line) - len(line.lstrip(" ")), line.strip()) for line in text.splitlines()]
        if "\t" in text or not all(line for _, line in self.rest):
            raise ValueError("empty lines and tabs are not known")

    def block(self, indent: int) -> Any:
        """The mapping or list that begins at the next line."""
        return self._list(indent) if self.rest[0][1].startswith("- ") else self._mapping(indent)

    def _list(self, indent: int) -> list[Any]:
        made = []
        while self.rest and self.rest[0][0] == indent and self.rest[0][1].startswith("- "):
            item = self.rest[0][1][2:]
            if KEY.fullmatch(item):
                self.rest[0] = (indent + 2, item)
                made.append(self._mapping(indent + 2))
            else:
                self.rest.pop(0)
                made.append(scalar(item))
        return made

    def _mapping(self, indent: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        while self.rest and self.rest[0][0] == indent:
            found = KEY.fullmatch(self.rest.pop(0)[1])
            if found is None or found[1] in made:
                raise ValueError(f"expected a new key before {self.rest[:1]}")
            made[found[1]] = self._value(found[2], indent)
        if self.rest and self.rest[0][0] > indent:
            raise ValueError(f"unexpected indentation of {self.rest[0]}")
        return made

    def _value(self, written: str | None, indent: int) -> Any:
        if written is None:
            if not self.rest or self.rest[0][0] != indent + 2:
                raise ValueError(f"expected more, two blanks further in, before {self.rest[:1]}")
            return self.block(indent + 2)
        if written != ">-":
            return scalar(written)
        folded = []
        while self.rest and self.rest[0][0] > indent:
            folded.append(self.rest.pop(0)[1])
        return " ".join(folded)


def scalar(written: str) -> str | int:
    """A text or a whole number."""
    if written.startswith('"'):
        text: str = json.loads(written)
        return text
    if not PLAIN.fullmatch(written):
        raise ValueError(f"{written!r} wants double quotes")
    return int(written) if written.isdigit() else written


def read(text: str) -> dict[str, Any]:
    """The document; raises ValueError."""
    lines = Lines(text)
    made = lines.block(0)
    if lines.rest or not isinstance(made, dict):
        raise ValueError(f"cannot be read from {lines.rest[:1]} on")
    return made

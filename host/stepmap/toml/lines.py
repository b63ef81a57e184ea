"""Where each key of a TOML document stands; tomllib does not say. And whether it is too deep for tomllib.

For lines the text was read by tomllib before, so it is valid and nothing is checked a second time: the scanner only has
to find the keys, in tables, arrays of tables, inline tables and arrays, past comments and strings of all four kinds.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from typing import TypeAlias

Key: TypeAlias = tuple[str | int, ...]
"""A path into the document; numbers are places in arrays."""

BLANK = re.compile(r"[ \t\r\n]*(?:#[^\n]*[ \t\r\n]*)*")
NAME = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'""")
# Longest first: a string over lines may end in one or two quotes of its own.
STRING = re.compile(
    r'''"""(?:[^\\]|\\.)*?"""(?:"{0,2})|\'\'\'.*?\'\'\'(?:\'{0,2})|"(?:[^"\\]|\\.)*"|\'[^\']*\'''', re.DOTALL
)
PLAIN = re.compile(r"[^,\]}#\n]+")  # a number, a date or a bool, up to what ends it


# What decides how deep a place of a document is, and strings and comments, in which nothing does.
STRINGS = (
    r'"{3}(?:[^"\\]|\\.|"(?!""))*+"{3,5}',
    r"'{3}(?:[^']|'(?!''))*+'{3,5}",
    r"""["]{3}|'{3}""",
    r'"(?:[^"\\\n]|\\.)*+"',
    r"'[^'\n]*+'",
)
ENDLESS = ('"""', "'''", '"', "'")
TOKEN = re.compile("|".join((*STRINGS, r"#[^\n]*+", r"""[.,\n\[\]{}"']""")), re.DOTALL)


def find_depth(text: str, most: int) -> int | None:
    """The first line, from 1, with a key or value more than about ``most`` names and brackets deep; None where none is.

    In time that grows with the length of the text, which may be anything: where it is no TOML it is read up to there.
    """
    outer: list[tuple[int, int]] = []  # base and depth before each bracket that is open
    base = depth = 0  # depth of what is around this place, and with the names of its key
    for found in TOKEN.finditer(text):
        sign = found.group()
        if sign in ENDLESS:  # tomllib stops there; to look for the end of every one would take the square of the length
            return None
        if sign in "[{":
            outer.append((base, depth))
            base = depth = depth + 1
        elif sign in "]}" and outer:
            base, depth = outer.pop()
        elif sign == ".":
            depth += 1
        elif sign in ",\n":
            depth = base
        if depth > most:  # a point of a number counts, so that a key of so many names may have one
            return text.count("\n", 0, found.start()) + 1
    return None


def find_lines(text: str) -> dict[Key, int]:
    """The line, from 1, of every key, table and array entry of a valid TOML document; of () it is 1."""
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.ends = [found.start() for found in re.finditer("\n", text)]
        self.lines: dict[Key, int] = {(): 1}
        self.counts: dict[Key, int] = {}  # of arrays of tables

    def scan(self) -> dict[Key, int]:
        table: Key = ()
        self._skip()
        while self.at < len(self.text):
            if self._here("[["):
                table = self._entry(2)
            elif self._here("["):
                table = self._entry(1)
            else:
                self._pair(table)
            self._skip()
        return self.lines

    def _entry(self, brackets: int) -> Key:
        """A header; the table it opens."""
        line = self._line()
        self.at += brackets
        *parents, last = self._names()
        self.at += brackets
        path: Key = ()
        for name in parents:
            path = self._latest((*path, name))
            self.lines.setdefault(path, line)
        path = (*path, last)
        if brackets == 2:
            self.lines.setdefault(path, line)
            self.counts[path] = self.counts.get(path, 0) + 1
        path = self._latest(path)
        self.lines[path] = line  # even if [a.b] made a an earlier line, [a] is where to look
        return path

    def _latest(self, path: Key) -> Key:
        """The path itself, or of an array of tables its last entry."""
        return (*path, self.counts[path] - 1) if path in self.counts else path

    def _pair(self, table: Key) -> None:
        line = self._line()
        path = table
        for name in self._names():
            path = (*path, name)
            self.lines.setdefault(path, line)
        self._skip()
        self.at += 1  # =
        self._value(path)

    def _names(self) -> list[str]:
        """A key, dotted or not; the place after it is where the next sign is."""
        names: list[str] = []
        while True:
            self._skip()
            found = NAME.match(self.text, self.at)
            assert found is not None  # tomllib has read this text
            self.at = found.end()
            names.append(_unquoted(found.group()))
            self._skip()
            if not self._here("."):
                return names
            self.at += 1

    def _value(self, path: Key) -> None:
        self._skip()
        if self._here("["):
            self._array(path)
        elif self._here("{"):
            self._inline(path)
        else:
            kind = STRING if self.text[self.at] in "\"'" else PLAIN
            found = kind.match(self.text, self.at)
            assert found is not None
            self.at = found.end()

    def _array(self, path: Key) -> None:
        self.at += 1
        place = 0
        while not self._closes("]"):
            self.lines[(*path, place)] = self._line()
            self._value((*path, place))
            place += 1

    def _inline(self, path: Key) -> None:
        self.at += 1
        while not self._closes("}"):
            self._pair(path)

    def _closes(self, bracket: str) -> bool:
        """Goes past blanks and a comma; whether the bracket came, which is then passed too."""
        self._skip()
        if self._here(","):
            self.at += 1
            self._skip()
        if not self._here(bracket):
            return False
        self.at += 1
        return True

    def _skip(self) -> None:
        found = BLANK.match(self.text, self.at)
        assert found is not None  # it matches nothing, too
        self.at = found.end()

    def _here(self, sign: str) -> bool:
        return self.text.startswith(sign, self.at)

    def _line(self) -> int:
        return bisect_left(self.ends, self.at) + 1


def _unquoted(name: str) -> str:
    if name[0] not in "\"'":
        return name
    value = tomllib.loads(f"key = {name}")["key"]
    return str(value)

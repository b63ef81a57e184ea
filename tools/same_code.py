"""Whether two folders of C hold the same program but for comments, white space and names of identifiers.

``python -m tools.same_code OLD NEW`` compares the ``.c`` and ``.h`` files that both folders have by the same names.
Each identifier of OLD stands for exactly one of NEW, in all files. Prints the renamed ones; exit code 0 where the
programs are the same, 1 with the first difference where they are not, 2 where there is nothing to compare.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

TOKEN = re.compile(
    r"""(?P<skip>/\*.*?\*/|//[^\n]*|\\\n|[^\S\n]+)
    |(?P<newline>\n)
    |(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<name>[A-Za-z_]\w*)
    |(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
    |(?P<mark><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|[^\s\w])""",
    re.VERBOSE | re.DOTALL,
)
RESERVED = re.compile(
    r"""auto|break|case|char|const|continue|default|do|double|else|enum|extern|float|for|goto|if|inline|int|long|register
    |restrict|return|short|signed|sizeof|static|struct|switch|typedef|union|unsigned|void|volatile|while|bool|_[A-Z]\w+
    |define|defined|elif|endif|error|ifdef|ifndef|include|line|pragma|undef""",
    re.VERBOSE,
)
END = "end of directive"


@dataclass(frozen=True)
class Token:
    """A piece of C and where it stands."""

    text: str
    line: int
    is_name: bool = False


class DifferenceError(Exception):
    """Two programs that are not the same; the text says where they first differ."""


def tokens(source: str) -> Iterator[Token]:
    """Tokens of C without comments and white space; a directive of the preprocessor ends with a token of its own."""
    line, in_directive, at_start = 1, False, True
    for found in TOKEN.finditer(source):
        text = found.group()
        if found.lastgroup == "newline" and in_directive:
            yield Token(END, line)
        elif found.lastgroup not in ("skip", "newline"):
            in_directive = in_directive or (text == "#" and at_start)
            yield Token(text, line, found.lastgroup == "name" and not RESERVED.fullmatch(text))
        if found.lastgroup == "newline":
            in_directive, at_start = False, True
        elif found.lastgroup != "skip":
            at_start = False
        line += text.count("\n")
    if in_directive:
        yield Token(END, line)


class Renaming:
    """Identifiers of one program and what they are called in another, one to one."""

    def __init__(self) -> None:
        self.new_of: dict[str, str] = {}
        self.old_of: dict[str, str] = {}

    def compare(self, name: str, old: str, new: str) -> None:
        """Follows two files called ``name`` token by token; raises DifferenceError."""
        for a, b in zip_longest(tokens(old), tokens(new)):
            if a is None or b is None:
                longer, rest = ("OLD", a) if a else ("NEW", b)
                raise DifferenceError(f"{name}: only {longer} goes on, line {rest.line}: {rest.text}")
            where = f"{name}: line {a.line} has {a.text}, line {b.line} of NEW has {b.text}"
            if not (a.is_name and b.is_name):
                if (a.text, a.is_name) != (b.text, b.is_name):
                    raise DifferenceError(where)
                continue
            if self.new_of.setdefault(a.text, b.text) != b.text:
                raise DifferenceError(f"{where}, but {a.text} was {self.new_of[a.text]} before")
            if self.old_of.setdefault(b.text, a.text) != a.text:
                raise DifferenceError(f"{where}, but {b.text} was {self.old_of[b.text]} before")

    def changed(self) -> list[tuple[str, str]]:
        """Pairs of names that differ, in the order of their first appearance."""
        return [(old, new) for old, new in self.new_of.items() if old != new]


def compare(old: Path, new: Path) -> list[tuple[str, str]]:
    """Renamed identifiers of two folders that hold the same program; raises DifferenceError where they do not."""
    files = [{path.name for path in folder.iterdir() if path.suffix in (".c", ".h")} for folder in (old, new)]
    for name in sorted(files[0] ^ files[1]):
        raise DifferenceError(f"{name} is only in {'OLD' if name in files[0] else 'NEW'}")
    if not files[0]:
        raise FileNotFoundError(f"no .c or .h files in {old}")
    renaming = Renaming()
    for name in sorted(files[0]):
        renaming.compare(name, (old / name).read_text(encoding="utf-8"), (new / name).read_text(encoding="utf-8"))
    return renaming.changed()


def main(arguments: Sequence[str]) -> int:
    """Exit code."""
    if len(arguments) != 2:
        print("usage: python -m tools.same_code OLD NEW", file=sys.stderr)
        return 2
    try:
        changed = compare(*map(Path, arguments))
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except DifferenceError as difference:
        print(f"different: {difference}")
        return 1
    width = max((len(old) for old, _ in changed), default=0)
    print("\n".join(["same", *(f"  {old:<{width}}  {new}" for old, new in changed)]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

"""Pages of the documentation as data: their blocks of code, their files, and their numbers."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def near(shown: str, value: float) -> bool:
    """Whether a number as written stands for a value."""
    if 0 < abs(value) < 1e-9:
        return 0.1 <= abs(float(shown) / value) <= 10
    mantissa, _, exponent = shown.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    exact = "." not in mantissa and not exponent  # a count
    return abs(float(shown) - value) <= (1e-9 if exact and value == int(value) else unit)


def blocks(page: Path) -> list[tuple[int, str]]:
    """(line, code) of every Python block."""
    text = page.read_text()
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, match.start(1)) + 1, match.group(1)) for match in found]


def files(page: Path) -> dict[str, str]:
    """Contents of the files that a page shows: blocks with a title, by their titles."""
    return dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', page.read_text(), re.MULTILINE | re.DOTALL))


def excerpts(page: Path) -> list[tuple[str, str]]:
    """(file, some of its lines) of blocks that show parts of a file."""
    return re.findall(r'^```\w+ from="([^"]+)"\n(.*?)^```$', page.read_text(), re.MULTILINE | re.DOTALL)


def code_lines(text: str) -> list[str]:
    """Lines without comments behind them; blank ones are left out."""
    stripped = (re.sub(r"(^|  )#.*", "", line).rstrip() for line in text.splitlines())
    return [line for line in stripped if line]


def consoles(page: Path) -> list[tuple[str, list[str]]]:
    """(command, lines that are shown of what it prints), in order."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.splitlines()
            found.append((command, lines))
    return found

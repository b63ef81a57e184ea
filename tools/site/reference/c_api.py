"""The C interface, from the headers: what a generated controller offers, and what the firmware's parts do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tools.site import ROOT

CORE = ROOT / "firmware" / "core"
EXAMPLE = ROOT / "firmware" / "generated" / "suspended_mass" / "controller.h"
ORDER = ("port.h", "sm_fixed.h", "sm_schedule.h", "sm_supervisor.h")  # first; others by name
COMMENT = re.compile(r"/\*(.*?)\*/", re.DOTALL)


def page() -> str:
    lines = [
        "# C API",
        "",
        "From the headers, which are the manual of each part: its comment, then every function with its own.",
        "[fixed-point.md](../fixed-point.md) says how to call a controller from a program of your own, and",
        "[firmware.md](../firmware.md) how these parts make a robot's firmware.",
        "",
        "## A generated controller",
        "",
        "`controller.h` of `examples/suspended_mass.toml`. Numbers and names of signals are the job's; the functions",
        "are those of every job, with one `update` per channel.",
        "",
        *header(EXAMPLE),
    ]
    names = sorted((path.name for path in CORE.glob("*.h")), key=lambda n: (ORDER.index(n) if n in ORDER else 99, n))
    lines += ["## Parts of the firmware", ""]
    for name in names:
        lines += [f"### {name}", "", *header(CORE / name)]
    return "\n".join(lines) + "\n"


def header(path: Path) -> Iterator[str]:
    """The comment of a header, and its functions."""
    text = path.read_text()
    first = COMMENT.search(text)
    if first is not None:
        yield from (*prose(first[1]), "")
    rest = text[first.end() if first else 0 :]
    for comment, declaration in functions(rest):
        yield from ("```c", declaration, "```", "")
        if comment:
            yield from (*(f"{line}" for line in prose(comment)), "")


def functions(text: str) -> Iterator[tuple[str, str]]:
    """(comment, prototype) of every function that a header declares, in order; also of those it defines inline."""
    comment, declared, depth = "", "", 0
    for part in re.split(r"(/\*.*?\*/)", without_macros(text), flags=re.DOTALL):
        if part.startswith("/*"):
            if depth == 0 and not declared.strip():
                comment = part[2:-2]
            continue
        for token in re.split(r"([{};])", part):
            if token in ("{", ";") and depth == 0:
                if is_function(declared):
                    yield comment, " ".join(declared.replace("SM_INLINE ", "").split()) + ";"
                comment = declared = ""
            depth += (token == "{") - (token == "}")
            if depth == 0 and token not in ("{", "}", ";"):
                declared += token


def without_macros(text: str) -> str:
    """A header without its preprocessor's lines, and without what only C++ sees."""
    text = re.sub(r"^#.*(?:\\\n.*)*$", "", text, flags=re.MULTILINE)
    return text.replace('extern "C" {', "")


def is_function(declared: str) -> bool:
    return re.search(r"\b(?:sm|port)_\w+\s*\(", declared) is not None and "typedef" not in declared


def prose(comment: str) -> Iterator[str]:
    """A comment as Markdown: lines that are indented further than the text are code."""
    block: list[str] = []
    for line in comment.strip().splitlines():
        stripped = re.sub(r"^ ?\* ?", "", line)
        block.append(stripped.rstrip())
    for line in block:
        code = line.startswith("    ")
        yield line if code else re.sub(r"(?<!`)([<>*_])(?!`)", r"\\\1", line)

"""XML from elsewhere: of a bounded size, without entities, and read once; errors have the file and the line.

A description may come from anybody (docs/trust.md). A document type could name other files and addresses, or grow to
gigabytes by entities within entities; no description needs one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lxml import etree

from stepmap.descriptions.model import located
from stepmap.errors import ModelError
from stepmap.files import open_file

LARGEST = 32 * 1024 * 1024  # bytes; the largest of some 300 descriptions has 1.3 MB
UNVERSIONED = re.compile(rb"""\A(\s*<\?xml\s+version=["'])0\.0""")  # as many files of Bullet begin
MOST = 20_000  # links and joints


def read(path: Path) -> bytes:
    """The content of a description."""
    try:
        with open_file(path, links=True) as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > LARGEST:
        raise ModelError(f"{path}: has more than {LARGEST // 2**20} MiB, which no description needs")
    return UNVERSIONED.sub(rb"\g<1>1.0", content)


def parse(content: bytes, file: str, root: str) -> Any:
    """The root element of a description; raises ModelError for what is no XML, has a document type or another root."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        found = etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        raise ModelError(
            f"{located(file, f'line {error.lineno}')}: is not valid XML: {error.msg}",
            hint=_xacro(content) or "Correct it, or export it once more from the program it comes from.",
        ) from None
    if found.getroottree().docinfo.doctype or any(True for _ in found.iter(etree.Entity)):
        raise ModelError(
            f"{file}: has a document type or entities, which could name other files and grow without end",
            hint="Remove <!DOCTYPE …> and write out what its entities stand for.",
        )
    if found.tag != root:
        raise ModelError(
            f"{located(file, f'line {found.sourceline}')}: expected <{root}> as outermost element, got <{found.tag}>"
        )
    if any("xacro" in str(e.tag) for e in found.iter(etree.Element)):
        raise ModelError(f"{file}: holds xacro macros", hint=_xacro(content))
    return found


def _xacro(content: bytes) -> str:
    return "Expand its macros first: xacro robot.urdf.xacro > robot.urdf" if b"xacro" in content else ""


def fail(file: str, element: Any, message: str, hint: str = "") -> ModelError:
    """A ModelError at an element."""
    return ModelError(f"{located(file, f'line {element.sourceline}')}: {message}", hint=hint)


def called(element: Any) -> str:
    """<joint name="knee"> as words: joint 'knee'."""
    name = element.get("name")
    return f"<{element.tag}>" if name is None else f"{element.tag} {name!r}"


def numbers(file: str, element: Any, key: str, count: int) -> None:
    """Raises ModelError where an attribute that is there is not ``count`` finite numbers."""
    text = element.get(key)
    if text is None:
        return
    try:
        values = [float(e) for e in text.split()]
    except ValueError:
        values = []
    if len(values) != count or not all(map(math.isfinite, values)):
        wanted = "a finite number" if count == 1 else f"{count} finite numbers"
        raise fail(
            file, element, f"{key} of <{element.tag}> in {called(owner(element))}: expected {wanted}, got {text!r:.60}"
        )


def owner(element: Any) -> Any:
    """The link or joint that an element belongs to."""
    while element.get("name") is None and element.getparent() is not None:
        element = element.getparent()
    return element


def children(root: Any, *tags: str) -> Iterator[Any]:
    for element in root:
        if element.tag in tags:
            yield element

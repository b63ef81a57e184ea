"""Pages of docs/ and of the top folder as MkDocs wants them.

They are written for whoever reads the repository, where a link goes to any file and a dark picture is chosen by the
system. Here a link to a file outside of docs/ leads to a copy, and the picture follows the switch of the page.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tools.site import ROOT, STAGED

TOP = {  # of the top folder, by their names here; the home page stands in for the README
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "report-security.md",
    "CHANGELOG.md": "changelog.md",
}
PICTURE = re.compile(r"<picture>.*?</picture>", re.DOTALL)
DARK = "(prefers-color-scheme: dark)"
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=[)#])")
FENCE = re.compile(r"^(\s*)```")
ITEM = re.compile(r"(?:- |\d+\. )")
DECISIONS = "decisions"


def stage(made: dict[str, str]) -> None:
    """Everything that MkDocs reads; ``made`` are pages that were generated, by their names."""
    shutil.rmtree(STAGED, ignore_errors=True)
    shutil.copytree(ROOT / "docs" / "images", STAGED / "images")
    for page in sorted((ROOT / "docs").rglob("*.md")):
        name = page.relative_to(ROOT / "docs")
        write("contents.md" if str(name) == "index.md" else str(name), staged(page))
    for source, name in TOP.items():
        if source != "README.md":
            write(name, staged(ROOT / source))
    write(f"{DECISIONS}/index.md", decisions())
    for page in sorted((ROOT / "tools" / "site" / "pages").glob("*.md")):
        write(page.name, with_results(page.read_text()))
    for name, text in made.items():
        write(name, text)


def write(name: str, text: str) -> None:
    path = STAGED / name
    if path.exists():
        raise FileExistsError(f"two pages are called {name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def staged(page: Path) -> str:
    """The text of a page with its links, pictures, blocks and lists as MkDocs understands them."""
    text = PICTURE.sub(lambda found: pictures(found[0]), page.read_text())
    text = re.sub(r'^```(\w+) from="([^"]+)"$', r'```\1 title="\2, in part"', text, flags=re.MULTILINE)
    parts = []
    for inside, line in with_fences(text):
        parts.append(line if inside else LINK.sub(lambda found: target(found[1], page), line))
    return spaced_lists("\n".join(parts) + "\n")


def with_fences(text: str) -> Iterator[tuple[bool, str]]:
    """Each line, and whether it is one of a block of code."""
    inside = False
    for line in text.splitlines():
        fence = FENCE.match(line) is not None
        yield inside or fence, line
        inside ^= fence


def spaced_lists(text: str) -> str:
    """The text with an empty line before each list: Python-Markdown takes it for a paragraph otherwise."""
    lines: list[str] = []
    for inside, line in with_fences(text):
        before = lines[-1] if lines else ""
        if not inside and ITEM.match(line) and before and not ITEM.match(before) and not before.startswith(" "):
            lines.append("")
        lines.append(line)
    return "\n".join(lines) + "\n"


def target(link: str, page: Path) -> str:
    """Where a link of a page leads here."""
    path = (page.parent / link).resolve()
    inner = path.relative_to(ROOT)
    depth = len(page.relative_to(ROOT / "docs").parts) - 1 if page.is_relative_to(ROOT / "docs") else 0
    up = "../" * depth
    if inner.as_posix() in TOP:
        return up + TOP[inner.as_posix()]
    if inner.parts[0] == "docs":
        if path.is_dir():
            return f"{up}{PurePosixPath(*inner.parts[1:])}/index.md"
        return up + ("contents.md" if inner.parts[1:] == ("index.md",) else "/".join(inner.parts[1:]))
    copied = STAGED / "files" / inner
    copied.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, copied)
    return f"{up}files/{inner.as_posix()}"


def pictures(block: str) -> str:
    """A picture with a dark variant as two, of which the scheme of the page shows one; narrow variants stay."""
    image = re.search(r"<img [^>]*>", block)
    assert image is not None, block
    sources = re.findall(r'<source media="([^"]+)" srcset="([^"]+)">', block)
    dark_image = re.sub(r'src="[^"]+"', lambda _: f'src="{dict(sources)[DARK]}"', image[0])
    narrow = {DARK in media: (media.removesuffix(f" and {DARK}"), at) for media, at in sources if media != DARK}
    made = []
    for dark, shown in ((False, image[0]), (True, dark_image)):
        smaller = '<source media="{}" srcset="{}">'.format(*narrow[dark]) if dark in narrow else ""
        scheme = "dark" if dark else "light"
        made.append(f'<picture class="only-{scheme}">{smaller}{shown}</picture>')
    return "".join(made).replace("docs/images/", "images/")


def with_results(text: str) -> str:
    """A page of this site with the figures and the status that the README has."""
    readme = (ROOT / "README.md").read_text()
    rows = re.findall(r"^\| (tracking|work|size|the same bits) \| (.*) \|$", readme, re.MULTILINE)
    bold = [re.sub(r"\*\*(.*?)\*\*", r"<b>\1</b>", told) for _, told in rows]
    bold = [told if "<b>" in told else f"<b>{name}</b>{told}" for (name, _), told in zip(rows, bold, strict=True)]
    status = re.search(r"\*\*Status\.\*\* (.*?)\n\n", readme, re.DOTALL)
    assert len(rows) == 4
    assert status is not None
    text = text.replace("FACTS", "\n".join(f"<div>{told}</div>" for told in bold))
    return text.replace("STATUS", status[1])


def decisions() -> str:
    """The list of all decision records."""
    lines = ["# Design decisions", "", "Choices that would cost a day to undo, a page each.", ""]
    for page in sorted((ROOT / "docs" / DECISIONS).glob("*.md")):
        title = page.read_text().partition("\n")[0].lstrip("# ")
        lines.append(f"- [{title}]({page.name})")
    return "\n".join(lines) + "\n"

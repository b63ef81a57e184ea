"""Documentation that runs: the Python blocks of each page, in order, in one namespace."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WITH_CODE = {
    *("README.md", "systems.md", "notation.md", "cli.md", "jobs.md", "optimal.md", "estimation.md"),
    *("fixed-point.md", "schedule.md"),
}


def blocks(page: Path) -> list[tuple[int, str]]:
    """(line, code) of every Python block."""
    text = page.read_text()
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, match.start(1)) + 1, match.group(1)) for match in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_runs(page: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # pages name files of examples/
    namespace: dict[str, object] = {"__name__": page.name}
    for line, code in blocks(page):
        # Blank lines in front, so that a traceback shows the page's own line numbers.
        exec(compile("\n" * (line - 1) + code, str(page), "exec"), namespace)


def test_pages_with_code_are_found() -> None:
    assert {page.name for page in PAGES if blocks(page)} >= WITH_CODE


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_pictures_are_small() -> None:
    for picture in (ROOT / "docs" / "images").iterdir():
        assert picture.stat().st_size < 200_000


def test_every_builder_method_is_documented() -> None:
    from stepmap import Builder
    from stepmap.mechanics.frames import Frame

    text = (ROOT / "docs" / "systems.md").read_text()
    for name in (name for name in vars(Builder) if not name.startswith("_")):
        assert f"b.{name}(" in text, f"Builder.{name}"
    for name in ("fixed", "translate"):
        assert hasattr(Frame, name)
        assert f".{name}(" in text

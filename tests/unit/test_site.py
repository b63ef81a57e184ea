"""The site of the documentation, as far as it costs nothing: `make site` builds it, checks its links, looks at it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pages import ROOT
from tools.pictures import gallery
from tools.site import links, staging
from tools.site.reference import c_api, commands

NAV = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]


def test_every_page_of_docs_is_in_the_navigation_once() -> None:
    listed = re.findall(r": ([\w/-]+\.md)$", NAV, re.MULTILINE)
    assert len(listed) == len(set(listed))
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}  # contents.md there
    assert pages <= set(listed)
    assert {"contents.md", "reference/keys.md"} <= set(listed)


def test_pictures_follow_the_scheme_of_the_page() -> None:
    block = (
        "<picture>\n"
        '<source media="(max-width: 600px) and (prefers-color-scheme: dark)" srcset="images/a-narrow-dark.svg">\n'
        '<source media="(max-width: 600px)" srcset="images/a-narrow-light.svg">\n'
        '<source media="(prefers-color-scheme: dark)" srcset="images/a-dark.svg">\n'
        '<img alt="A" src="images/a-light.svg">\n</picture>'
    )
    made = staging.pictures(block)
    light, dark = re.findall(r'<picture class="only-(?:light|dark)">.*?</picture>', made)
    assert re.findall(r"images/a-[\w-]+", light) == ["images/a-narrow-light", "images/a-light"]
    assert re.findall(r"images/a-[\w-]+", dark) == ["images/a-narrow-dark", "images/a-dark"]


def test_lists_and_blocks_are_told_apart() -> None:
    text = "Words:\n- one\n- two\n\n```\nno list:\n- three\n```\n"
    assert staging.spaced_lists(text) == "Words:\n\n- one\n- two\n\n```\nno list:\n- three\n```\n"


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h2 id="here"></h2><a href="b.html#there"></a><a href="#here"></a><a href="https://example.org"></a>'
        '<a href="c.html"></a><a href="b.html#nowhere"></a><script src="https://example.org/x.js"></script>'
    )
    (tmp_path / "b.html").write_text('<h2 id="there"></h2>')
    assert links.broken(tmp_path) == [
        "a.html: c.html leads nowhere",
        "a.html: b.html#nowhere has no such place",
        "a.html: fetches https://example.org/x.js",
    ]


def test_functions_of_headers_are_found() -> None:
    page = c_api.page()
    for name in ("sm_start(sm_controller *c)", "port_micros(void)", "sm_supervisor_handle("):
        assert name in page
    assert "Returns the µs since the start" in page


def test_commands_have_their_options() -> None:
    page = commands.page()
    assert "## stepmap bench\n" in page
    assert re.search(r"\| `--board` \| .* \| .+ \|", page)


def test_the_gallery_is_small_and_its_jobs_are_there() -> None:
    images = sorted(path.stem for path in gallery.IMAGES.iterdir())
    assert sum(path.stat().st_size for path in gallery.IMAGES.iterdir()) <= gallery.ALL_BYTES
    assert images == sorted(one.name for one in gallery.EXHIBITS)
    text = gallery.PAGE.read_text()
    assert text == gallery.PLACE.sub(lambda found: found[1] + gallery.page() + found[2], text)
    for one in gallery.EXHIBITS:
        assert not one.job or (ROOT / "examples" / one.job).exists()


@pytest.mark.parametrize("word", ["unpkg.com", "fonts.googleapis", "cdn.jsdelivr"])
def test_sources_of_pages_name_no_delivery_network(word: str) -> None:
    files = [ROOT / "mkdocs.yml", *(ROOT / "tools" / "site").rglob("*.md"), *(ROOT / "tools" / "site").rglob("*.js")]
    assert all(word not in path.read_text() for path in files)

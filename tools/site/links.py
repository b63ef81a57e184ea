"""Links of built pages: each must lead to a file of the folder, to an id that is there, and none elsewhere
may be needed to show a page."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

NEEDED = {("img", "src"), ("script", "src"), ("source", "srcset"), ("iframe", "src"), ("video", "src")}


class Page(HTMLParser):
    """The ids of a page, and what it links to: (address, whether it is fetched to show the page)."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[tuple[str, bool]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        for name in ("href", "src", "srcset"):
            if name in given:
                fetched = (tag, name) in NEEDED or (tag == "link" and given.get("rel") != "canonical")
                self.links.append((given[name], fetched))


def broken(folder: Path) -> list[str]:
    """A line for each link that leads nowhere, and for each address elsewhere that a page would fetch."""
    pages = {path: Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue
        for link, fetched in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if fetched and parts.scheme != "data":
                    found.append(f"{path.relative_to(folder)}: fetches {link}")
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if there.is_dir():
                there /= "index.html"
            if not there.exists():
                found.append(f"{path.relative_to(folder)}: {link} leads nowhere")
            elif there in pages and not has_place(pages[there], unquote(parts.fragment)):
                found.append(f"{path.relative_to(folder)}: {link} has no such place")
    return found


def has_place(page: Page, fragment: str) -> bool:
    """Whether a page has an id; those of the theme's own parts begin with two lines."""
    return not fragment or fragment.startswith("__") or fragment in page.ids

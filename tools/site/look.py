"""``python -m tools.site.look``: every built page in a headless Chromium, from a server on this computer.

A page fails that has an error in its console, asks for anything from elsewhere, or is wider than the window of a phone.
Pictures of some, light and dark, wide and narrow, go to build/site/looks; the search has to find what is there.
"""

from __future__ import annotations

import functools
import http.server
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.hil.browser import Browser
from tools.site import BUILT, HTML

PICTURED = ("index", "tutorial", "reference/python", "gallery", "in-the-browser")
WIDTHS = (1440, 412)
CONTROLLER = "in-the-browser.html"
SETTLING = 90  # ticks, 3 s
SEARCHED = ("innovation gate", "estimation.html")  # words, and a page that has to be among what is found
READY = "document.readyState === 'complete' && location.pathname === {!r}"
DRAWN = """[...document.images].every(i => i.complete || i.loading === 'lazy') &&
  (!document.getElementById('controller') || window.controllerPage?.state.ticks > 40)"""
TOO_WIDE = """[...document.querySelectorAll('.md-content *')].filter(e => {
  const r = e.getBoundingClientRect();
  if (r.right <= innerWidth + 1 || !r.width) return false;
  const cut = p => ['auto', 'scroll', 'hidden'].includes(getComputedStyle(p).overflowX);
  for (let p = e; p; p = p.parentElement) if (cut(p)) return false;
  return true;
}).slice(0, 3).map(e => e.tagName + ' ' + e.innerText?.slice(0, 40))"""
TYPE = """(() => {
  const field = document.querySelector('input.md-search__input');
  field.focus(); field.value = %r;
  field.dispatchEvent(new Event('input', {bubbles: true})); field.dispatchEvent(new Event('keyup', {bubbles: true}));
})()"""
FOUND = "[...document.querySelectorAll('.md-search-result__link')].map(a => a.getAttribute('href')).join(' ')"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder on this computer."""
    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def show(browser: Browser, address: str, page: str) -> None:
    browser.open(f"{address}/{page}")
    browser.wait(READY.format(f"/{page}"), 60)


def complaints(browser: Browser, page: str) -> list[str]:
    """What is wrong with a page that is shown, and forgets it."""
    found = [f"{page}: {error}" for error in browser.errors]
    found += [f"{page}: asked {host}" for host in browser.hosts() if not host.startswith("127.0.0.1:")]
    wide = browser.value(TOO_WIDE)
    found += [f"{page}: wider than the window: {part}" for part in wide]
    browser.errors.clear()
    browser.requests.clear()
    return found


def search(browser: Browser, address: str) -> list[str]:
    words, page = SEARCHED
    show(browser, address, "index.html")
    browser.value(TYPE % words)
    try:
        browser.wait(f"({FOUND}).includes({page!r})", 60)
    except TimeoutError as error:
        return [f"search for {words!r}: {error}"]
    return complaints(browser, "search")


def controller(browser: Browser, address: str) -> list[str]:
    """The page with a controller: the load follows its plan, is pushed off it, and comes back; nothing overflows."""
    if not (HTML / CONTROLLER).exists():
        return []
    show(browser, address, CONTROLLER)
    browser.wait("window.controllerPage?.state.ticks >= 60", 300)
    wrong = complaints(browser, CONTROLLER)
    worst = browser.value("controllerPage.state.worst")
    browser.value("controllerPage.state.worst = 0")
    browser.click("Push the load")
    pushed = browser.wait("controllerPage.state.worst > 0.02 && controllerPage.state.worst", 300)
    begin = browser.value("controllerPage.state.ticks")
    browser.wait(f"controllerPage.state.ticks >= {begin} + {SETTLING}", 600)
    browser.value("controllerPage.state.worst = 0")
    browser.wait(f"controllerPage.state.ticks >= {begin} + {2 * SETTLING}", 600)
    after = browser.value("controllerPage.state.worst")
    overflows = browser.value("controllerPage.c.overflows()")
    print(f"{CONTROLLER}: {1e3 * worst:.1f} mm off at most, {1e3 * pushed:.0f} mm when pushed, then {1e3 * after:.1f}")
    if max(worst, after) > 0.02 or overflows:
        wrong.append(f"{CONTROLLER}: {worst:.3f} m off its plan, {after:.3f} after a push, {overflows} overflows")
    return wrong


def main() -> int:
    names = [path.relative_to(HTML).as_posix() for path in sorted(HTML.rglob("*.html")) if path.name != "404.html"]
    wrong = []
    with served(HTML) as address, Browser(412, 900) as browser:
        for name in names:
            show(browser, address, name)
            wrong += complaints(browser, name)
        browser.resize(1440, 900)
        wrong += search(browser, address)
        wrong += controller(browser, address)
        pictures(address)
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(names)} pages looked at, {len(wrong)} complaints; pictures in build/site/looks")
    return 1 if wrong else 0


def pictures(address: str) -> None:
    """A browser for each scheme: pages remember that of the first visit."""
    looks = BUILT / "looks"
    looks.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        with Browser(1440, 1000) as browser:
            browser.prefer(scheme)
            for width in WIDTHS:
                browser.resize(width, 1000)
                for page in PICTURED:
                    show(browser, address, f"{page}.html")
                    browser.wait(DRAWN, 300)
                    name = page.replace("/", "-")
                    (looks / f"{name}-{scheme}-{width}.png").write_bytes(browser.screenshot())


if __name__ == "__main__":
    sys.exit(main())

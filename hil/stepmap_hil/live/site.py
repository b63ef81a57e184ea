"""Files of the live page: its own, uPlot's, and those of the run's folder by a few names."""

from __future__ import annotations

import http
from functools import cache
from importlib.metadata import version
from pathlib import Path

from websockets.datastructures import Headers
from websockets.http11 import Response

from stepmap.report.document import asset

ASSETS = Path(__file__).with_name("assets")
OWN = {"/": "live.html", **{f"/{name}": name for name in ("live.css", "live.js", "charts.js", "replay.js")}}
LIBRARY = {"/uPlot.js": "uPlot.iife.min.js", "/uPlot.css": "uPlot.min.css", "/uPlot.LICENSE": "uPlot.LICENSE"}
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mcap": "application/octet-stream",
    ".LICENSE": "text/plain; charset=utf-8",
}
REPORT = ("report.html", "summary.json", "run.mcap")  # of the folder of a run
MOST = 256 << 20  # bytes of a file that is served
# The page asks this server alone. Styles: uPlot sets sizes of what it draws.
STRICT = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; "
STRICT += "form-action 'none'; frame-ancestors 'none'"
# A report may be another person's: its scripts run in an origin of their own, from which the gate hears nothing.
BOXED = "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
BOXED += "style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"


class Site:
    """Answers requests for files."""

    folder: Path | None = None  # of the run, once it has a report

    def answer(self, path: str) -> Response:
        """The file of a path, which names one of a few; else "not found"."""
        if path in OWN:
            return _made(_own(OWN[path]), Path(OWN[path]).suffix, STRICT)
        if path in LIBRARY:
            return _made(asset(LIBRARY[path]).encode(), Path(LIBRARY[path]).suffix, STRICT)
        name = path.removeprefix("/report/")
        content = self._of_run(name) if path.startswith("/report/") and name in REPORT else None
        return _missing() if content is None else _made(content, Path(name).suffix, BOXED)

    def _of_run(self, name: str) -> bytes | None:
        file = None if self.folder is None else self.folder / name
        try:
            if file is None or file.is_symlink() or not file.is_file() or file.stat().st_size > MOST:
                return None
            return file.read_bytes()
        except OSError:
            return None


@cache
def _own(name: str) -> bytes:
    return (ASSETS / name).read_bytes().replace(b"{version}", version("stepmap").encode())


def _made(content: bytes, suffix: str, policy: str) -> Response:
    headers = Headers()
    headers["Content-Type"] = TYPES.get(suffix, "text/plain; charset=utf-8")
    headers["Content-Length"] = str(len(content))
    headers["Content-Security-Policy"] = policy
    return Response(http.HTTPStatus.OK, "OK", headers, content)


def _missing() -> Response:
    headers = Headers({"Content-Type": "text/plain; charset=utf-8", "Content-Length": "10"})
    return Response(http.HTTPStatus.NOT_FOUND, "Not Found", headers, b"not found\n")

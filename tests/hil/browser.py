"""A headless Chromium for tests of pages."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.processes import PATIENCE, TIED

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--remote-debugging-port=0", "--hide-scrollbars", "--force-device-scale-factor=1"),
)
# A browser that gets little of a busy machine answers late, also to the questions whether it is still there.
SOCKET: dict[str, Any] = {"max_size": None, "proxy": None, "open_timeout": PATIENCE, "ping_interval": None}
CENTRE = "const r = b.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2];"


class Browser:
    """A headless Chromium with one page, driven through its debugging protocol.

    ``requests`` and ``sockets`` are the addresses that the page and its workers asked for, ``errors`` exceptions and
    errors in its console.
    """

    def __init__(self, width: int = 1280, height: int = 800) -> None:
        assert CHROMIUM is not None
        self.requests: list[str] = []
        self.sockets: list[str] = []
        self.errors: list[str] = []
        self._ids = itertools.count(1)
        self._folder = tempfile.TemporaryDirectory(prefix="chromium", ignore_cleanup_errors=True)
        profile = Path(self._folder.name)
        command = [CHROMIUM, *OPTIONS, f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"]
        self._process = subprocess.Popen([*TIED, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self._socket = self._connect(profile / "DevToolsActivePort")
        except BaseException:
            self._end()
            raise
        for domain in ("Network", "Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=True, flatten=True)
        self.resize(width, height)

    def _connect(self, file: Path) -> ClientConnection:
        """The socket of the page; Chromium writes its port to a file when it listens."""
        end = time.monotonic() + PATIENCE
        while not file.exists() or file.read_text().count("\n") < 1:
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{CHROMIUM} did not start")
            time.sleep(0.05)
        port, path = file.read_text().split("\n")[:2]
        with connect(f"ws://127.0.0.1:{port}{path}", **SOCKET) as browser:
            browser.send(json.dumps({"id": 0, "method": "Target.getTargets"}))
            while "id" not in (reply := json.loads(browser.recv(PATIENCE))):
                pass
        target = next(t["targetId"] for t in reply["result"]["targetInfos"] if t["type"] == "page")
        return connect(f"ws://127.0.0.1:{port}/devtools/page/{target}", **SOCKET)

    def call(self, method: str, **parameters: Any) -> Any:
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(PATIENCE))
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._note(message.get("method"), message.get("params", {}))

    def _note(self, method: str | None, said: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.sockets.append(said["url"])
        elif method == "Target.attachedToTarget":  # a worker, which may ask for things too
            for command in ("Network.enable", "Runtime.runIfWaitingForDebugger"):
                self._socket.send(
                    json.dumps({"id": next(self._ids), "method": command, "sessionId": said["sessionId"]})
                )
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(said["exceptionDetails"].get("exception", said["exceptionDetails"])))
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "assert"):
            self.errors.append(str(said["args"]))
        elif method == "Log.entryAdded" and said["entry"]["level"] == "error":
            self.errors.append(f"{said['entry']['text']} ({said['entry'].get('url')})")

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def prefer(self, scheme: str) -> None:
        """Light or dark, as systems say it."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def press_space(self) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=" ", code="Space", windowsVirtualKeyCode=32)

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives."""
        made = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in made:
            raise RuntimeError(f"{expression}: {made['exceptionDetails']['text']}")
        return made["result"].get("value")

    def wait(self, expression: str, seconds: float = PATIENCE) -> Any:
        """The first value of an expression that is true."""
        end = time.monotonic() + seconds
        while not (value := self.value(expression)):
            if time.monotonic() > end:
                raise TimeoutError(f"{expression} stays {value!r}")
            time.sleep(0.05)
        return value

    def click(self, button: str) -> None:
        """Presses and lets go of the button with this text, with the mouse."""
        find = f"[...document.querySelectorAll('button')].find(b => b.innerText.trim() === {json.dumps(button)})"
        x, y = self.wait(f"(b => {{ if (!b) return null; b.scrollIntoView({{block: 'center'}}); {CENTRE} }})({find})")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def text(self, part: str) -> str:
        """What stands in the element with this id; empty where there is none."""
        return str(self.value(f"document.getElementById({json.dumps(part)})?.innerText ?? ''"))

    def hosts(self) -> set[str]:
        """Who was asked for anything."""
        return {url.split("/")[2] for url in (*self.requests, *self.sockets) if "://" in url[:10]}

    def screenshot(self, **clip: float) -> bytes:
        more = {"clip": {**clip, "scale": 1}} if clip else {}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", **more)["data"])

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        self._end()

"""``stepmap bench --live`` with a real firmware, in a headless Chromium: buttons reach the board."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from stepmap_hil.bench.replay import _send_again
from stepmap_hil.boards import NativeBoard
from stepmap_hil.runs.mcap import read
from stepmap_hil.runs.recording import read_run
from stepmap_hil.wire import dialect
from stepmap_hil.wire.link import Link
from stepmap_hil.wire.raw_values import SignalCodec
from stepmap_hil.wire.session import Session
from stepmap_hil.wire.upload import upload
from tests.hil.browser import CHROMIUM, Browser
from tests.hil.commands import build_folder, command, running
from tests.pil.built import KEY, ROOT, firmware
from tests.processes import PATIENCE, TIED, heed_signals, wait_for
from tests.undrawn import STEPMAP

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")]

CHARTS = "[...document.querySelectorAll('.uplot canvas')].map(c => c.toDataURL())"
EVENTS = "!!document.getElementById('events')?.innerText.includes('fault by the operator: {}')"
STATE = "document.getElementById('state')?.innerText"
OVER = f"['done', 'stopped', 'fault', 'ended early'].includes({STATE})"


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_folder(tmp_path_factory.mktemp("build"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser(800, 600) as browser:  # small, as graphics come from the processor
        yield browser


@contextmanager
def running_bench(build: Path, browser: Browser) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command with its page opened, and the page's address; the process is gone at the end."""
    words = command(build, "--seconds", "3600", "--live", "--no-open-loop")
    process = subprocess.Popen(
        [*TIED, *words],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    browser.requests.clear()
    browser.sockets.clear()
    try:
        assert process.stderr is not None
        found = re.fullmatch(r"live page: (http://127\.0\.0\.1:\d+/[\w-]+/)\n", process.stderr.readline())
        assert found, process.communicate(timeout=PATIENCE)
        browser.open(found[1])
        yield process, found[1]
    finally:
        process.kill()
        process.communicate()


def until(browser: Browser, process: subprocess.Popen[str], expression: str) -> None:
    """Waits for the page."""
    try:
        browser.wait(f"{expression} || {OVER}", PATIENCE)
        if browser.value(expression):
            return
    except TimeoutError:
        if process.poll() is None:
            raise
    out, err = process.communicate(timeout=PATIENCE)
    pytest.fail(f"{expression} did not become true\n{out}{err}")


def ended(process: subprocess.Popen[str], build: Path) -> tuple[int, str, dict[str, Any], list[str]]:
    """Exit code, what was said, summary and events of a command that ends by itself."""
    out, err = process.communicate(timeout=PATIENCE)
    assert not running(str(build / "suspended_mass" / "build-native" / "program"))
    folder = build / "suspended_mass" / "bench"
    summary = json.loads((folder / "summary.json").read_text())
    events = [entry.content["text"] for entry in read(folder / "run.mcap").of("/event")]
    return process.returncode, out + err, summary, events


def seconds(browser: Browser) -> float:
    return float(browser.text("time").removesuffix(" s"))


def state_after(recording: Path) -> str:
    """In which state a board is when it has got everything that was sent in a recording."""
    told = read_run(recording)
    with NativeBoard(firmware("native").program) as board:
        link = Link(board.open(), KEY)
        link.connect()
        upload(link, told.controller.schedule.pack(), KEY)
        _send_again(told, link, board)
        return dialect.word(
            "STEPMAP_STATE", Session(link, SignalCodec.parse(told.controller.description())).state().state
        )


def test_a_run_is_watched_disturbed_and_stopped(build: Path, browser: Browser) -> None:
    with running_bench(build, browser) as (process, url):
        until(browser, process, f"{STATE} === 'running'")
        until(browser, process, "document.querySelectorAll('.uplot').length === 4")
        begun, drawn = seconds(browser), browser.value(CHARTS)
        until(browser, process, f"parseFloat(document.getElementById('time').innerText) > {begun + 0.3}")
        assert all(now != then for now, then in zip(browser.value(CHARTS), drawn, strict=True))

        browser.click("Inject fault")
        browser.click("sensor jump")
        until(browser, process, EVENTS.format("jump"))
        at = seconds(browser)
        until(browser, process, f"parseFloat(document.getElementById('time').innerText) > {at + 0.3}")
        assert browser.text("state") == "running"

        browser.click("STOP")
        until(
            browser, process, f"{STATE} === 'stopped' && document.getElementById('reason').innerText === 'by the user'"
        )
        code, said, summary, events = ended(process, build)
        assert browser.hosts() == {url.split("/")[2]}
        assert browser.errors == []
    assert code == 0, said
    assert summary["ended"] == "stopped by the user"
    assert 0 < summary["ticks"] < 3600 * 30
    assert events[:2] == ["armed", "running"]
    assert events[-2:] == ["fault by the operator: jump", "stopped"]
    (result,) = summary["fault_results"]
    assert result["by_hand"]
    assert "jump" in said
    assert state_after(build / "suspended_mass" / "bench" / "run.mcap") == "stopped"


def test_the_space_bar_stops_a_board(build: Path, browser: Browser) -> None:
    """Also where a button has the focus, which that key would press otherwise."""
    with running_bench(build, browser) as (process, _):
        until(browser, process, f"{STATE} === 'running'")
        browser.value("document.getElementById('drawer').focus()")
        browser.press_space()
        until(
            browser, process, f"{STATE} === 'stopped' && document.getElementById('reason').innerText === 'by the user'"
        )
        assert browser.value("document.getElementById('faults').hidden")
        code, said, summary, _ = ended(process, build)
    assert code == 0, said
    assert summary["ended"] == "stopped by the user"
    assert state_after(build / "suspended_mass" / "bench" / "run.mcap") == "stopped"


def test_a_fault_that_ends_the_run_is_shown(build: Path, browser: Browser) -> None:
    with running_bench(build, browser) as (process, _):
        until(browser, process, f"{STATE} === 'running'")
        browser.click("Inject fault")
        browser.click("encoder jump")
        until(browser, process, f"{STATE} === 'fault'")
        assert browser.text("reason").startswith("an encoder counted faster than its motor can turn")
        until(browser, process, EVENTS.format("encoder"))
        code, said, summary, events = ended(process, build)
    assert code == 0, said  # taken as it should be
    assert summary["ended"].startswith("fault: an encoder counted faster")
    (result,) = summary["fault_results"]
    assert (result["kind"], result["ok"], result["by_hand"]) == ("encoder", True, True)
    assert result["seen"].startswith("fault, motor_encoder")
    assert events[-1] == "stopped"


def without_emulators(folder: Path) -> str:
    """A search path with all programs of this one but QEMU."""
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(place).glob("[!q]*"):
            link = folder / program.name
            link.unlink(missing_ok=True)
            link.symlink_to(program)
    return str(folder)


def heard(feed: ClientConnection, kind: str) -> dict[str, Any]:
    """The next message of a kind."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for told in json.loads(feed.recv(PATIENCE)):
            if told["kind"] == kind:
                return dict(told)
    raise TimeoutError(kind)


def test_the_demo_at_a_terminal(tmp_path: Path) -> None:
    """It waits for a browser, can be stopped, shows the run again, and ends at Ctrl-C; without QEMU."""
    (tmp_path / "bin").mkdir()
    mine, other = pty.openpty()
    process = subprocess.Popen(
        [*TIED, *STEPMAP, "demo", "--live"],
        cwd=tmp_path,
        env=os.environ | {"PATH": without_emulators(tmp_path / "bin")},
        stdin=other,
        stdout=other,
        stderr=other,
        preexec_fn=heed_signals,
    )
    os.close(other)
    told = Terminal(mine)
    try:
        told.wait_for("open it to begin; Enter begins without it")
        url = told.wait_for(r"live page: (\S+)")[1]
        assert "note: stm32f405 runs in qemu-system-arm, which is not installed" in told.text.replace("\r\n", " ")
        with connect(f"{url.replace('http', 'ws')}feed", open_timeout=PATIENCE, proxy=None) as feed:
            assert heard(feed, "tick")["row"][0] == 0.0
            feed.send(json.dumps({"do": "stop"}))
            assert heard(feed, "over")["reason"] == "by the user"
            heard(feed, "report")
            told.wait_for("the page shows the run again; Ctrl-C or Enter closes it")
            process.send_signal(signal.SIGINT)
            heard(feed, "closed")
        assert process.wait(PATIENCE) == 0
        assert "STOPPED" in told.text
    finally:
        process.kill()
        process.wait()
        told.close()


class Terminal:
    """What a process writes to a terminal, read in a thread, as it would wait for that otherwise."""

    def __init__(self, descriptor: int) -> None:
        self.text = ""
        self._descriptor = descriptor
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(OSError):  # the last process that has it open has ended
            while more := os.read(self._descriptor, 65536):
                self.text += more.decode(errors="replace")

    def wait_for(self, pattern: str) -> re.Match[str]:
        wait_for(lambda: re.search(pattern, self.text) is not None, f"the terminal shows {pattern}")
        found = re.search(pattern, self.text)
        assert found is not None
        return found

    def close(self) -> None:
        self._thread.join(PATIENCE)
        os.close(self._descriptor)

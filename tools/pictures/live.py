"""docs/images/live-*.webp and live-*.png: the live page while "motor stuck" is pressed, and the robot stops.

``python -m tools.pictures.live`` runs the main job on an emulated STM32F405 in lock-step with a page, which two
headless Chromiums show, a light and a dark one, and keeps a picture of each every tenth of a second of the run. In
between the run is suspended, since a browser without a graphics processor draws slower than a run goes; its time is
that of messages, so it does not notice. The pointer is drawn by this program: browsers leave it out of their pictures.
"""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from itertools import pairwise

from PIL import Image

from tests.hil.browser import Browser
from tools.pictures.packages import ROOT

IMAGES = ROOT / "docs" / "images"
COMMAND = ("bench", "examples/suspended_mass.toml", "--board", "stm32f405", "--live", "--no-open-loop")
THEMES = ("light", "dark")
SIZE = (1040, 740)  # pixels
BEGIN, OPEN, PRESS, END = 1.0, 4.0, 5.0, 8.0  # s of the run
APART = 0.1  # s between two pictures
STUCK = "motor stuck"
TIME = "parseFloat(document.getElementById('time')?.innerText ?? '0')"
OVER = "!document.getElementById('player').hidden"
REPORT = "!document.getElementById('report').hidden"
WRITTEN = 300.0  # s, until the report is there
DRAWN = 0.35  # s, for the page to draw what it was told
TURN = 0.02  # s, for which the run goes on
LEAST = 20  # pictures
LAST_MS = 3000  # the end is shown for longer
QUALITY = 80
TONES = 200  # of a still picture
POINTER = """(() => {
  const made = document.createElement('div');
  made.id = 'pointer';
  made.style.cssText = 'position: fixed; z-index: 9; left: 60%; top: 60%; width: 22px; pointer-events: none';
  made.innerHTML = '<svg viewBox="0 0 22 30"><path d="M1 1v23l6-5 4 9 4-2-4-9h8z" fill="#111" stroke="#fff" ' +
    'stroke-width="1.6"/></svg>';
  document.body.append(made);
})()"""
AT = "[...document.querySelectorAll('button')].find(b => b.innerText.trim() === '{}')?.getBoundingClientRect()"
MOVE = """((r, part) => {{
  const pointer = document.getElementById('pointer'), here = pointer.getBoundingClientRect();
  if (!r || !r.width) return;
  pointer.style.left = `${{here.x + part * (r.x + 0.62 * r.width - here.x)}}px`;
  pointer.style.top = `${{here.y + part * (r.y + 0.5 * r.height - here.y)}}px`;
}})({}, {})"""

Shots = list[tuple[float, Image.Image]]
"""(time of the run, picture)."""


def picture(browser: Browser) -> Image.Image:
    return Image.open(io.BytesIO(browser.screenshot())).convert("RGB")


def settle(browsers: list[Browser]) -> None:
    """Lets pages draw what they were told."""
    end = time.monotonic() + DRAWN
    while time.monotonic() < end:
        for browser in browsers:
            browser.value("1")


def point(browsers: list[Browser], now: float) -> None:
    """Moves the pointer to the button that is pressed next: a third of what is left with each picture."""
    button = "Inject fault" if now < OPEN else STUCK
    if OPEN - 1.0 <= now <= PRESS + 0.4:
        for browser in browsers:
            browser.value(MOVE.format(AT.format(button), 1.0 if now >= PRESS else 0.35))


def watch(browsers: list[Browser], run: int) -> tuple[list[Shots], list[Image.Image]]:
    """Pictures of each browser until a moment after the fault has ended the run, and a still one of each before."""
    kept: list[Shots] = [[] for _ in browsers]
    still: list[Image.Image] = []
    opened = pressed = False
    while True:
        os.kill(run, signal.SIGSTOP)
        now, over = float(browsers[0].value(TIME)), all(bool(b.value(OVER)) for b in browsers)
        if now >= OPEN and not opened:
            opened = True
            for browser in browsers:
                browser.click("Inject fault")
                browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
        if now >= BEGIN and (over or not kept[0] or now >= kept[0][-1][0] + APART):
            point(browsers, now)
            settle(browsers)
            for shots, browser in zip(kept, browsers, strict=True):
                shots.append((now, picture(browser)))
        if now >= PRESS and not pressed:
            still = [shots[-1][1] for shots in kept]
            browsers[0].click(STUCK)
            pressed = True
        os.kill(run, signal.SIGCONT)
        if over or now > END:
            print(browsers[0].text("state"), browsers[0].text("reason"), f"at {now:.2f} s")
            for shots, browser in zip(kept, browsers, strict=True):
                browser.wait(REPORT, WRITTEN)
                browser.value("document.getElementById('pointer').remove()")
                settle(browsers)
                shots.append((now + APART, picture(browser)))
            return kept, still
        time.sleep(TURN)


def save(theme: str, shots: Shots, still: Image.Image) -> None:
    times = [at for at, _ in shots]
    lengths = [max(40, round(1000 * (b - a))) for a, b in pairwise(times)]
    first, *rest = [made for _, made in shots]
    moving, single = (IMAGES / f"live-{theme}.{form}" for form in ("webp", "png"))
    first.save(
        moving, save_all=True, append_images=rest, duration=[*lengths, LAST_MS], loop=0, quality=QUALITY, method=6
    )
    still.quantize(TONES, dither=Image.Dither.NONE).save(single, optimize=True)
    size = [f"{path.name} {path.stat().st_size / 1e3:.0f} kB" for path in (moving, single)]
    print(f"{len(shots)} pictures, {times[0]:.1f} to {times[-1]:.1f} s: {', '.join(size)}")


def address_of(run: subprocess.Popen[str]) -> str:
    """What the command prints as the page's address."""
    assert run.stderr is not None
    for line in run.stderr:
        sys.stderr.write(line)
        if found := re.fullmatch(r"live page: (\S+)\n", line):
            return found[1]
    sys.exit("the command ended without a live page")


def begin(stack: ExitStack, theme: str, address: str) -> Browser:
    """A browser that shows the page, with a pointer."""
    browser = stack.enter_context(Browser(*SIZE))
    browser.prefer(theme)
    browser.open(address)
    browser.wait("document.readyState === 'complete'")
    browser.value(POINTER)
    return browser


def main() -> None:
    words = [sys.executable, "-m", "stepmap.cli", *COMMAND]
    mine, other = pty.openpty()  # with a terminal the page stays after the run, and leads to its report
    run = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, stdin=other, text=True)
    try:
        address = address_of(run)
        with ExitStack() as stack:
            browsers = [begin(stack, theme, address) for theme in THEMES]
            for browser in browsers:
                browser.wait(f"{TIME} > 0 && document.getElementById('veil').hidden", 600)
            kept, still = watch(browsers, run.pid)
    finally:
        run.send_signal(signal.SIGCONT)
        run.terminate()
        run.communicate()
        for end in (mine, other):
            os.close(end)
    if len(kept[0]) < LEAST or not still:
        sys.exit(f"{len(kept[0])} pictures only: the run ended early, or this machine is too busy")
    for theme, shots, single in zip(THEMES, kept, still, strict=True):
        save(theme, shots, single)


if __name__ == "__main__":
    main()

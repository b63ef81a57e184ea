"""docs/images/live.webp: the live page while a run goes on, "motor stuck" is pressed, and the robot stops.

``python -m tools.pictures.live`` runs the main job in lock-step with a page, which a headless Chromium shows, and
keeps a picture of it every tenth of a second of the run. In between the run is suspended, since a browser without a
graphics processor draws slower than a run in lock-step goes; its time is that of messages, so it does not notice.
"""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time
from itertools import pairwise

from PIL import Image

from tests.hil.browser import Browser
from tools.pictures.packages import ROOT

COMMAND = (
    "bench",
    "examples/suspended_mass.toml",
    "--board",
    "native",
    "--sensor",
    "kinect",
    "--live",
    "--no-open-loop",
)
SIZE, SHOWN = (1040, 650), (800, 500)  # pixels of the page, of the picture
BEGIN, PRESS, END = 1.5, 5.0, 8.0  # s of the run
APART = 0.1  # s between two pictures
STUCK = "motor stuck"
NOTICES = "const s = document.createElement('style'); s.textContent = '[class*=Notifications-root] {display: none}'; "
NOTICES += "document.head.append(s)"  # hides that there is no graphics processor
TIME = "parseFloat(document.getElementById('time')?.innerText ?? '0')"
OVER = "['done', 'stopped', 'fault', 'ended early'].includes(document.getElementById('state')?.innerText)"
DRAWN = 0.3  # s, for the page to draw what it was told
TURN = 0.02  # s, for which the run goes on
LEAST = 20  # pictures
LAST_MS = 2000  # the end is shown for longer


def watch(browser: Browser, run: int) -> list[tuple[float, Image.Image]]:
    """(time of the run, picture), until a moment after the fault has ended it; ``run`` is the process."""
    kept: list[tuple[float, Image.Image]] = []
    pressed = False
    while True:
        os.kill(run, signal.SIGSTOP)
        now, over = float(browser.value(TIME)), bool(browser.value(OVER))
        if now >= BEGIN and (over or not kept or now >= kept[-1][0] + APART):
            time.sleep(DRAWN)
            picture = Image.open(io.BytesIO(browser.screenshot())).convert("RGB")
            kept.append((now, picture.resize(SHOWN, Image.Resampling.LANCZOS)))
        if over or now > END:
            print(browser.text("state"), browser.text("reason"), f"at {now:.2f} s")
            return kept
        if now >= PRESS and not pressed:
            browser.click(STUCK)
            pressed = True
        os.kill(run, signal.SIGCONT)
        time.sleep(TURN)


def main() -> None:
    run = subprocess.Popen(
        [sys.executable, "-m", "stepmap.cli", *COMMAND],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert run.stderr is not None
        address = None
        while address is None:
            line = run.stderr.readline()
            if not line:
                sys.exit("the command ended without a live page")
            sys.stderr.write(line)
            address = re.fullmatch(r"live page: (\S+)\n", line)
        with Browser(*SIZE) as browser:
            browser.open(address[1])
            browser.wait(f"{TIME} > 0", 600)
            browser.value(NOTICES)
            kept = watch(browser, run.pid)
    finally:
        run.send_signal(signal.SIGCONT)
        run.terminate()
        run.communicate()
    if len(kept) < LEAST:
        sys.exit(f"{len(kept)} pictures only: the run ended early, or this machine is too busy")
    times = [at for at, _ in kept]
    lengths = [max(40, round(1000 * (b - a))) for a, b in pairwise(times)]
    first, *rest = [picture for _, picture in kept]
    first.save(
        ROOT / "docs" / "images" / "live.webp",
        save_all=True,
        append_images=rest,
        duration=[*lengths, LAST_MS],
        loop=0,
        quality=75,
        method=6,
    )
    print(f"{len(kept)} pictures, {times[0]:.1f} to {times[-1]:.1f} s")


if __name__ == "__main__":
    main()

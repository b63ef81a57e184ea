"""From an empty folder to a mechanism that moves on the live page: how long a new user waits.

    python tests/bench/first_frame.py [--board native]

    stepmap new my; an edit of its mass; stepmap bench my.toml --live

and a client that opens the page's websocket and waits for the first frame in which the plant moves. Times are from the
start of `stepmap new`, wall time; beside them CPU time of all processes and the machine's load average, since a busy
machine answers later. Three times: with an empty cache (cold), in another folder with other numbers (warm), and in that
folder again after another edit. Writes build/bench/first_frame.json, a list of rows (case, seconds, cpu_seconds, load,
stages), and ends with exit code 1 where the first frame came later than LIMITS allow.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import viser
import zstandard
from websockets import Subprotocol
from websockets.sync.client import connect

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # a script finds only what is beside it

from stepmap.files import write_whole  # noqa: E402

LIMITS = {"cold": 90.0, "warm": 30.0, "edited": 30.0}  # s
PATIENCE = 600.0  # s for a frame
ADDRESS = re.compile(r"live page: http://127\.0\.0\.1:(\d+)(/\S+)")
STEPMAP = [sys.executable, "-m", "stepmap.cli"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--board", default="native")
    board, rows = parser.parse_args().board, []
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        environment = {**os.environ, "STEPMAP_CACHE": str(place / "cache"), "PYTHONUNBUFFERED": "1"}
        for case, folder, mass in (("cold", "first", 61), ("warm", "second", 62), ("edited", "second", 63)):
            rows.append({"case": case, "board": board, **measure(place / folder, mass, board, environment)})
            print(line(rows[-1]), flush=True)
    write_whole(ROOT / "build" / "bench" / "first_frame.json", (json.dumps(rows, indent=1) + "\n").encode())
    return 0 if all(row["seconds"] <= LIMITS[row["case"]] for row in rows) else 1


def measure(folder: Path, mass: int, board: str, environment: dict[str, str]) -> dict[str, Any]:
    """Seconds to the first frame of the plant, CPU seconds up to the end of the run, and what was printed till then."""
    before, begin = cpu(), time.monotonic()
    folder.mkdir(exist_ok=True)
    if not (folder / "my.toml").exists():
        subprocess.run([*STEPMAP, "new", "my"], cwd=folder, env=environment, check=True, capture_output=True)
    edit(folder / "my.toml", mass)
    words = [*STEPMAP, "bench", "my.toml", "--live", "--board", board]
    load = os.getloadavg()[0]
    with subprocess.Popen(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        assert run.stdout is not None
        told = []
        for text in run.stdout:
            told.append(text.rstrip())
            if found := ADDRESS.search(text):
                break
        else:
            raise SystemExit("\n".join(told))
        wait_for_plant(int(found[1]), found[2])
        seconds = time.monotonic() - begin
        run.stdout.read()
    return {"seconds": seconds, "cpu_seconds": cpu() - before, "load": load, "stages": told}


def edit(job: Path, mass: int) -> None:
    """What a user does first: other numbers. The model is another one then, so all of it is made anew."""
    text = re.sub(
        r'^file = "my.py"[^\n]*\n(mass = \S+\n)?', f'file = "my.py"\nmass = {mass}.0\n', job.read_text(), flags=re.M
    )
    job.write_text(text)


def wait_for_plant(port: int, path: str) -> None:
    """Returns at the first message that moves the plant, after those that describe the scene."""
    protocol, described = [Subprotocol(f"viser-v{viser.__version__}")], False
    address, limit = f"ws://127.0.0.1:{port}{path}scene", time.monotonic() + PATIENCE
    with connect(address, subprotocols=protocol, max_size=None, open_timeout=60) as page:
        while time.monotonic() < limit:
            for message in messages(page.recv(timeout=PATIENCE)):
                if message["type"] == "ReplayDoneMessage":
                    described = True
                elif described and message["type"] == "SetPositionMessage" and message["name"].startswith("/plant/"):
                    return
    raise SystemExit(f"no frame within {PATIENCE:g} s")


def messages(packed: str | bytes) -> Iterator[dict[str, Any]]:
    """Of a packet: two lengths, compressed msgpack, then arrays."""
    assert isinstance(packed, bytes)
    length = int.from_bytes(packed[8:16], "little")
    yield from msgspec.msgpack.decode(zstandard.decompress(packed[16 : 16 + length]))["messages"]


def cpu() -> float:
    """Of this process and all that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def line(row: dict[str, Any]) -> str:
    limit = LIMITS[row["case"]]
    mark = "" if row["seconds"] <= limit else "  TOO LATE"
    return (
        f"{row['case']:7} {row['seconds']:6.1f} s to the first frame (at most {limit:g}), "
        f"{row['cpu_seconds']:.1f} s of CPU time with the rest of the run, load average {row['load']:.1f}{mark}"
    )


if __name__ == "__main__":
    sys.exit(main())

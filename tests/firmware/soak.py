"""Hours of ticks of the whole firmware in simulated time, with random faults: `make soak HOURS=24`.

    python -m tests.firmware.soak [HOURS] [SEED]

Clocks, stamps and sequences begin a minute before they wrap. Prints how it went and a digest of all telemetry, the same
for one seed on every machine (`STEPMAP_MARCH` chooses what the firmware is compiled for). Ends with exit code 1 where
memory grows, a motor moves without power, the watchdog starves, or stamps did not wrap. Figures: build/bench/soak.json.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import time

from stepmap_hil.wire.dialect import Message
from tests.firmware.loop_board import ROOT, LoopBoard
from tests.firmware.loop_kit import CALIBRATIONS, PERIOD, START, VIRTUAL, commanded, view
from tests.hil.soak import resident

WRAP = 1 << 32
MINUTE_US = 60_000_000
GROWTH = 16 * 2**20  # bytes
JSON = ROOT / "build" / "bench" / "soak.json"
PARTS = 2  # encoder messages per tick


class Soak:
    """The board, and a host whose line and camera are bad."""

    def __init__(self, seed: int) -> None:
        self.rng, self.digest = random.Random(seed), hashlib.sha256()
        self.board = LoopBoard()
        self.board.core.board_init()
        self.board.core.board_pass(WRAP - MINUTE_US)
        self.board.start()
        self.board.core.board_age(WRAP - 60_000)
        self.board.stamp_us, self.board.sequence = WRAP - MINUTE_US, WRAP - 900
        self.ticks = self.runs = self.resets = self.stamp_wraps = 0
        self.states: dict[str, int] = {}

    def measure(self, z: tuple[float, ...], *, again: bool = False) -> None:
        self.board.sequence = (self.board.sequence + (not again)) % WRAP
        self.board.measure(z, sequence=self.board.sequence)

    def turn(self, seconds: float = PERIOD * 1e-6) -> None:
        """Motors that get to their commands while the time of the stamps passes."""
        board, before = self.board, self.board.stamp_us
        goal, begin = commanded(board), board.counts
        for part in range(1, PARTS + 1):
            board.pass_time(seconds / PARTS)
            board.counts = [b + (g - b) * part // PARTS for b, g in zip(begin, goal, strict=True)]
            board.encoders(*board.counts)
        self.stamp_wraps += board.stamp_us < before

    def begin(self) -> None:
        """From whatever state to a run, as an operator does it."""
        board = self.board
        board.link.send("PING", sequence=1)
        for command in ("stop", "reset_fault"):
            board.command(command, *VIRTUAL)
        board.counts = [0, 0]
        board.encoders(*board.counts)
        board.command("calibrate", *VIRTUAL)
        for _ in range(CALIBRATIONS):
            board.encoders(*board.counts)
            self.measure(START)
            board.pass_time(0.02)
        board.command("arm", *VIRTUAL)
        self.measure(START)
        self.turn()
        board.command("run")
        self.runs += 1

    def reset(self) -> None:
        """As by its pin; the host's timestamps go on behind what the board keeps."""
        self.board.start()
        self.board.link._timestamp += 2**27
        self.resets += 1

    def tick(self) -> None:
        board, chance = self.board, self.rng.random()
        z = view(board, all=self.rng.gauss(0.0, 0.002))
        if chance < 0.0005:
            self.reset()
        elif chance < 0.002:
            board.command("stop")
        elif chance < 0.01:
            board.core.board_feed(noise := self.rng.randbytes(40), len(noise))
        elif chance < 0.03:
            z = view(board, all=self.rng.gauss(0.0, 0.3))
        if chance < 0.03 or chance > 0.06:
            self.measure(z)
        if 0.06 < chance < 0.07:
            self.measure(z, again=True)
        self.turn()
        for told in board.ticks():
            self.take(told)

    def take(self, told: Message) -> None:
        names = ("tick", "sequence", "stamp_us", "state", "reason", "taken", "gated", "saturations", "words")
        self.digest.update(json.dumps([told.fields[name] for name in names]).encode())
        self.ticks += 1
        state = str(told.state)
        self.states[state] = self.states.get(state, 0) + 1


def main(hours: float = 1.0, seed: int = 1) -> int:
    soak, total = Soak(seed), round(hours * 3600e6 / PERIOD)
    begun, base = time.process_time(), 0
    while soak.ticks < total:
        soak.begin()
        for _ in range(400):
            soak.tick()
            if soak.board.state not in ("running", "holding", "armed"):
                break
        base = base or resident()
        if soak.runs % 50 == 0:
            print(f"{soak.ticks} of {total} ticks, {soak.runs} runs, {resident() >> 20} MB", flush=True)
    counted = {"ticks": soak.ticks, "runs": soak.runs, "resets": soak.resets, "stamp_wraps": soak.stamp_wraps}
    cost = {"memory_mb": [base >> 20, resident() >> 20], "cpu_s": round(time.process_time() - begun)}
    asked = {"hours": hours, "seed": seed, "march": os.environ.get("STEPMAP_MARCH", "")}
    told = {**asked, **counted, **cost, "states": soak.states, "digest": soak.digest.hexdigest()}
    print(json.dumps(told, indent=1))
    JSON.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(JSON.read_text()) if JSON.exists() else []
    JSON.write_text(json.dumps([*known, told], indent=1) + "\n")
    good = soak.stamp_wraps > 0 and resident() <= base + GROWTH
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*(kind(word) for kind, word in zip((float, int), sys.argv[1:], strict=False))))

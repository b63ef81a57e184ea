"""The whole fault matrix: every file of examples/faults on every board given, `python -m tests.hil.matrix native`.

Ends with exit code 1 where a fault is not taken as its file expects, or where boards differ.
"""

from __future__ import annotations

import sys
import time

from stepmap_hil.bench.execute import closed_loop
from tests.hil.rigs import FILES, quiet, rig

TICKS = 100


def main(boards: list[str]) -> int:
    bad, digests = 0, dict[str, set[str]]()
    for board in boards:
        for name in FILES:
            begun = time.monotonic()
            run = closed_loop(rig(board, faults=name, ticks=TICKS), None, quiet)
            digests.setdefault(name, set()).add(run.digest())
            for result in run.results:
                bad += not result.ok
                mark = "ok " if result.ok else "BAD"
                told = f"{result.seen}" if result.ok else f"{result.seen}; expected {result.expected}"
                print(f"{mark} {board:10} {name:18} {result.kind:15} {result.at:4.1f} s  {told}")
            print(f"    {board:10} {name:18} {time.monotonic() - begun:.1f} s, {run.ended or 'done'}", flush=True)
    different = [name for name, found in digests.items() if len(found) > 1]
    if different:
        print(f"boards differ: {', '.join(different)}")
    print(f"{len(FILES)} files on {', '.join(boards)}: {bad} not as expected")
    return 1 if bad or different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["native"]))
